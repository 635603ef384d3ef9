//! A call and the place in a program that makes it.

/// Declares the calls: constants and names.
macro_rules! calls {
    ($($constant:ident = $number:literal $name:literal,)*) => {
        /// The functions whose calls are counted, by their number in the file.
        pub mod calls {
            $(#[doc = concat!("`", $name, "`.")] pub const $constant: u8 = $number;)*
        }

        /// The name of a function.
        #[must_use]
        pub fn call_name(call: u8) -> Option<&'static str> {
            match call {
                $($number => Some($name),)*
                _ => None,
            }
        }
    };
}

calls! {
    NANOSLEEP = 1 "nanosleep",
    CLOCK_NANOSLEEP = 2 "clock_nanosleep",
    USLEEP = 3 "usleep",
    SLEEP = 4 "sleep",
    THRD_SLEEP = 5 "thrd_sleep",
    SCHED_YIELD = 6 "sched_yield",
    POLL = 7 "poll",
    PPOLL = 8 "ppoll",
    SELECT = 9 "select",
    PSELECT = 10 "pselect",
    EPOLL_WAIT = 11 "epoll_wait",
    EPOLL_PWAIT = 12 "epoll_pwait",
    EPOLL_PWAIT2 = 13 "epoll_pwait2",
    FUTEX = 14 "futex",
    COND_TIMEDWAIT = 15 "pthread_cond_timedwait",
    COND_CLOCKWAIT = 16 "pthread_cond_clockwait",
    SEM_TIMEDWAIT = 17 "sem_timedwait",
    SEM_CLOCKWAIT = 18 "sem_clockwait",
    MUTEX_TIMEDLOCK = 19 "pthread_mutex_timedlock",
    MTX_TIMEDLOCK = 20 "mtx_timedlock",
    CND_TIMEDWAIT = 21 "cnd_timedwait",
    MUTEX_CLOCKLOCK = 22 "pthread_mutex_clocklock",
}

/// Added to the number of a function: its calls that only look.
pub const LOOKS: u8 = 0x80;

/// Bytes of a program's name and of a file's path that are kept. Of a longer path the end is kept.
pub(super) const PROGRAM: usize = 32;
pub(super) const PATH: usize = 256;

/// A call site: where a function returns to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site<'a> {
    /// The function ([`calls`]), or the same with [`LOOKS`].
    pub call: u8,
    /// The program's name.
    pub program: &'a [u8],
    /// The mapped file; empty where the code is of no file.
    pub path: &'a [u8],
    /// The address in that file (its ELF virtual address); 0 where the code is of no file.
    pub offset: u64,
}

impl Site<'_> {
    /// A number that only this site has: FNV-1a of all of it, never 0.
    pub(super) fn key(&self) -> u64 {
        let numbers = self.offset.to_le_bytes().into_iter().chain([self.call]);
        let text = self.program.iter().chain(&[0]).chain(self.path).copied();
        let key = numbers
            .chain(text)
            .fold(0xcbf2_9ce4_8422_2325_u64, |key, byte| (key ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        key.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_site_tells() {
        let site = Site { call: calls::POLL, program: b"a", path: b"b", offset: 1 };
        let others = [
            Site { call: calls::PPOLL, ..site },
            Site { program: b"ab", path: b"", ..site },
            Site { path: b"c", ..site },
            Site { offset: 2, ..site },
        ];
        assert!(others.iter().all(|other| other.key() != site.key()));
        assert_eq!((call_name(calls::POLL), call_name(0), call_name(200)), (Some("poll"), None, None));
    }
}
