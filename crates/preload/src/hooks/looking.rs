//! A wait for events with a time limit: looks first, blocks with a margin, looks until the limit.

use libc::{c_int, sigset_t, timespec};
use punctual::margin::Aim;

use crate::now::{now_ns, timespec as timespec_of};
use crate::polling::{Polled, Waiter, poll_until};
use crate::settings::Settings;
use crate::{learn, next};

/// A call that waits for events.
pub(crate) trait Look {
    /// Looks without waiting: what the function returns.
    fn look(&mut self) -> c_int;
    /// Blocks for at least this long, without an event; without end where there is none.
    fn block(&mut self, limit: Option<&timespec>) -> c_int;
    /// Whether it can block for parts of a millisecond.
    fn is_exact(&self) -> bool {
        true
    }
    /// The signals that it blocks while it waits; null for the thread's.
    fn mask(&self) -> *const sigset_t {
        std::ptr::null()
    }
    /// Gives the program what the wait found, and returns that.
    fn finish(&mut self, found: c_int) -> c_int {
        found
    }
}

/// The wait. `limit_ns` is none where it has no end.
pub(crate) fn wait(settings: &Settings, limit_ns: Option<i64>, call: &mut impl Look) -> c_int {
    let found = poll_and_block(settings, limit_ns, call);
    call.finish(found)
}

fn poll_and_block(settings: &Settings, limit_ns: Option<i64>, call: &mut impl Look) -> c_int {
    let began_ns = now_ns();
    let deadline_ns = limit_ns.map(|limit| began_ns.saturating_add(limit));
    if settings.poll_first_ns > 0 {
        let until_ns = (began_ns + settings.poll_first_ns).min(deadline_ns.unwrap_or(i64::MAX));
        let waiter = Waiter { mask: call.mask(), ..Waiter::CANCELLED };
        match poll_until(until_ns, waiter, || false, || Some(call.look()).filter(|found| *found != 0)) {
            Polled::Found(found) => return found,
            Polled::Interrupted => return next::failed(libc::EINTR),
            Polled::Over => {}
        }
    }
    let Some(deadline_ns) = deadline_ns else { return call.block(None) };
    match settings.precise {
        Some(aim) if call.is_exact() => until(aim, deadline_ns, call),
        _ => call.block(Some(&timespec_of(deadline_ns - now_ns()))),
    }
}

fn until(aim: Aim, deadline_ns: i64, call: &mut impl Look) -> c_int {
    let now = now_ns();
    let wait_ns = deadline_ns - now;
    if let Some(margin_ns) = learn::margin_ns(aim, wait_ns).filter(|margin_ns| wait_ns > *margin_ns) {
        let target_ns = deadline_ns - margin_ns;
        let found = call.block(Some(&timespec_of(target_ns - now)));
        if found != 0 {
            return found;
        }
        learn::saw(aim, wait_ns, now_ns() - target_ns);
    }
    look_until(deadline_ns, call)
}

/// Looks at least once.
fn look_until(until_ns: i64, call: &mut impl Look) -> c_int {
    let errno = next::errno();
    loop {
        let found = call.look();
        if found != 0 {
            return found;
        }
        if now_ns() >= until_ns {
            next::set_errno(errno);
            return 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds something at the look or block with this number.
    struct Script {
        calls: Vec<Option<i64>>,
        finds_at: usize,
        /// How much longer it blocks, at least.
        late_ns: i64,
    }

    impl Script {
        fn answer(&mut self, limit: Option<i64>) -> c_int {
            self.calls.push(limit);
            c_int::from(self.calls.len() == self.finds_at)
        }
    }

    impl Look for Script {
        fn look(&mut self) -> c_int {
            self.answer(Some(0))
        }

        fn block(&mut self, limit: Option<&timespec>) -> c_int {
            if let Some(limit) = limit {
                std::thread::sleep(std::time::Duration::new(limit.tv_sec as u64, limit.tv_nsec as u32));
                crate::now::spin_until(now_ns() + self.late_ns);
            }
            self.answer(limit.map(|limit| limit.tv_nsec as i64))
        }
    }

    fn run(settings: Settings, limit_ns: Option<i64>, finds_at: usize) -> (c_int, Vec<Option<i64>>) {
        let mut script = Script { calls: Vec::new(), finds_at, late_ns: 0 };
        let began = now_ns();
        let found = wait(&settings, limit_ns, &mut script);
        if found == 0 {
            assert!(now_ns() - began >= limit_ns.unwrap(), "never early");
        }
        (found, script.calls)
    }

    #[test]
    fn what_is_there_at_the_first_look_does_not_block() {
        let settings = Settings { poll_first_ns: 1_000_000_000, ..Settings::default() };
        assert_eq!(run(settings, None, 1), (1, vec![Some(0)]));
        let (found, calls) = run(settings, None, 4);
        assert_eq!((found, calls.len()), (1, 4));
    }

    #[test]
    fn without_an_end_it_blocks_without_an_end() {
        assert_eq!(run(Settings::default(), None, 1), (1, vec![None]));
    }

    #[test]
    fn a_limit_is_kept_and_blocked_for_less() {
        let settings = Settings { precise: Some(Aim::default()), ..Settings::default() };
        for _ in 0..20 {
            let (found, calls) = run(settings, Some(2_000_000), usize::MAX);
            assert_eq!(found, 0);
            assert!(calls[0].unwrap() < 2_000_000, "{calls:?}");
        }
        assert_eq!(run(Settings::default(), Some(0), usize::MAX).0, 0);
    }

    #[test]
    fn a_block_that_ends_late_is_begun_with_a_margin() {
        let settings = Settings { precise: Some(Aim::default()), ..Settings::default() };
        let asked_ns = || {
            let mut script = Script { calls: Vec::new(), finds_at: usize::MAX, late_ns: 150_000 };
            wait(&settings, Some(1_000_000), &mut script);
            script.calls[0].unwrap()
        };
        // In a thread of its own, which has learned nothing. It may learn that looking is cheaper.
        let last_ns = std::thread::scope(|scope| {
            scope.spawn(|| (0..200).map(|_| asked_ns()).fold(None, |_, last_ns| Some(last_ns))).join()
        })
        .unwrap();
        assert!(last_ns.unwrap() < 900_000, "{last_ns:?}");
    }
}
