//! Since when a thread waits. A futex wait that times out and is repeated at once is one wait. The lock of CPython (GIL) waits
//! like this.

use punctual_linux::syscall_name;
use rustix::io::Errno;

/// Words of one lock lie this close. A `pthread_cond_t` of glibc takes 48 bytes, and the adjacent mutex is part of the same lock.
const NEAR: u64 = 64;
/// From the timeout to the next wait: the program only looks whether to go on.
const AT_ONCE_NS: u64 = 200_000;

/// The last wait of a thread, if it timed out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Repeat {
    last: Option<Wait>,
}

/// A wait for the futex at this address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) address: u64,
    /// When it began, with those that it repeats.
    pub(crate) since_ns: u64,
    /// When it ended.
    pub(crate) at_ns: u64,
}

impl Repeat {
    /// A call begins, with this first argument. Since when the thread waits, if it waits.
    pub(crate) fn since(&mut self, number: i64, address: u64, now_ns: u64) -> u64 {
        let Some(last) = self.last else { return now_ns };
        if !is_futex(number) || last.address.abs_diff(address) >= NEAR || now_ns - last.at_ns > AT_ONCE_NS {
            self.last = None;
            return now_ns;
        }
        last.since_ns
    }

    /// A call that blocked ended.
    pub(crate) fn ended(&mut self, number: i64, returned: i64, wait: Wait) {
        let timed_out = returned == -i64::from(Errno::TIMEDOUT.raw_os_error()) && is_futex(number);
        self.last = timed_out.then_some(wait);
    }
}

fn is_futex(number: i64) -> bool {
    syscall_name::name_of(number).starts_with("futex")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMED_OUT: i64 = -110;

    fn futex() -> i64 {
        (0..1000).find(|number| syscall_name::name_of(*number) == "futex").unwrap()
    }

    /// Since when the thread waits, if it calls this after a wait from 1 to 5 ms that returned this.
    fn since(returned: i64, (number, address, now_ns): (i64, u64, u64)) -> u64 {
        let mut repeat = Repeat::default();
        assert_eq!(repeat.since(futex(), 0x6f0, 1_000_000), 1_000_000);
        repeat.ended(futex(), returned, Wait { address: 0x6f0, since_ns: 1_000_000, at_ns: 5_000_000 });
        repeat.since(number, address, now_ns)
    }

    #[test]
    fn a_wait_that_times_out_and_is_repeated_is_one_wait() {
        assert_eq!(since(TIMED_OUT, (futex(), 0x6f8, 5_040_000)), 1_000_000);
    }

    #[test]
    fn another_wait_begins_anew() {
        for (returned, next) in [
            (0, (futex(), 0x6f0, 5_040_000)),
            (TIMED_OUT, (futex(), 0x7f0, 5_040_000)),
            (TIMED_OUT, (futex(), 0x6f0, 6_000_000)),
            (TIMED_OUT, (futex() + 1, 0x6f0, 5_040_000)),
        ] {
            assert_eq!(since(returned, next), next.2, "{returned} {next:?}");
        }
    }
}
