//! The entry of a call at a site: counters, sums, extremes and histograms.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets of the time asked: a quarter of those of other times.
pub(super) const ASKED: usize = bucket::COUNT.div_ceil(4);

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It looked without waiting and found nothing to do.
    Nothing,
    /// Its event came, or was there.
    Event,
    /// Its time was over.
    Expired,
    /// By a signal, or with an error.
    Failed,
}

/// The counters of a call at a site. Any bytes are valid.
#[repr(C)]
pub struct Entry {
    /// 0: free.
    key: AtomicU64,
    pub(super) call: AtomicU64,
    pub(super) offset: AtomicU64,
    /// Calls that began, in flight or ended.
    pub(super) calls: AtomicU64,
    /// Ended calls, by [`How`].
    pub(super) ended: [AtomicU64; 4],
    /// Time in calls that could block.
    pub(super) waited: AtomicU64,
    pub(super) late_sum: AtomicU64,
    pub(super) late: Extremes,
    pub(super) asked: Extremes,
    pub(super) took: Extremes,
    /// CPU time of the calls in which it was read, and how many these are.
    pub(super) cpu: AtomicU64,
    pub(super) cpu_read: AtomicU64,
    /// Yields after which another thread had run, and yields in which that was read.
    pub(super) let_run: AtomicU64,
    pub(super) let_run_read: AtomicU64,
    /// So that names begin at a line of the cache.
    _unused: [AtomicU64; 4],
    pub(super) program: [AtomicU64; PROGRAM / 8],
    pub(super) path: [AtomicU64; PATH / 8],
    pub(super) by_late: [AtomicU64; bucket::COUNT],
    pub(super) by_took: [AtomicU64; bucket::COUNT],
    pub(super) by_asked: [AtomicU64; ASKED],
}

/// The least and the most of some times. The least is kept as its complement, so that zero is none.
#[repr(C)]
pub(super) struct Extremes {
    least: AtomicU64,
    most: AtomicU64,
}

/// A call that could block and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// How it ended.
    pub how: How,
    /// The time from its beginning to its end.
    pub took_ns: u64,
    /// The time limit that it was given.
    pub asked_ns: Option<u64>,
    /// Its lateness, if its time was over.
    pub late_ns: Option<u64>,
}

fn add(word: &AtomicU64, by: u64) {
    word.fetch_add(by, Ordering::Relaxed);
}

impl Extremes {
    fn add(&self, ns: u64) {
        // Mostly nothing changes, and a load is cheaper than a locked instruction.
        if self.least.load(Ordering::Relaxed) < !ns {
            self.least.fetch_max(!ns, Ordering::Relaxed);
        }
        if self.most.load(Ordering::Relaxed) < ns {
            self.most.fetch_max(ns, Ordering::Relaxed);
        }
    }
}

impl Entry {
    /// Whether the entry is of this key, or free and now of it.
    pub(super) fn claim(&self, key: u64) -> bool {
        match self.key.load(Ordering::Acquire) {
            0 => match self.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => true,
                Err(taken) => taken == key,
            },
            taken => taken == key,
        }
    }

    /// Writes the site. Every process writes the same, so one that was killed meanwhile leaves no gap.
    pub(super) fn describe(&self, site: &Site<'_>) {
        self.call.store(site.call.into(), Ordering::Relaxed);
        self.offset.store(site.offset, Ordering::Relaxed);
        write(&self.program, &site.program[..site.program.len().min(PROGRAM)]);
        write(&self.path, &site.path[site.path.len().saturating_sub(PATH)..]);
    }

    /// A call begins. Returns how many began before it.
    #[inline]
    pub fn begin(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// A call ended that could not block.
    #[inline]
    pub fn looked(&self, how: How) {
        self.ended[how as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A call ended that could block.
    pub fn end(&self, ended: &Ended) {
        self.looked(ended.how);
        add(&self.waited, ended.took_ns);
        if let Some(asked_ns) = ended.asked_ns {
            self.asked.add(asked_ns);
            self.by_asked[bucket::number(asked_ns) / 4].fetch_add(1, Ordering::Relaxed);
        }
        if let Some(late_ns) = ended.late_ns {
            add(&self.late_sum, late_ns);
            self.late.add(late_ns);
            self.by_late[bucket::number(late_ns)].fetch_add(1, Ordering::Relaxed);
        }
        if ended.how == How::Event {
            self.took(ended.took_ns);
        }
    }

    /// How long one call took: each that waited for an event, some of those that could not block.
    pub fn took(&self, ns: u64) {
        self.took.add(ns);
        self.by_took[bucket::number(ns)].fetch_add(1, Ordering::Relaxed);
    }

    /// The CPU time of one call.
    pub fn used(&self, cpu_ns: u64) {
        add(&self.cpu, cpu_ns);
        add(&self.cpu_read, 1);
    }

    /// Whether another thread ran during one yield.
    pub fn yielded(&self, let_run: bool) {
        add(&self.let_run, u64::from(let_run));
        add(&self.let_run_read, 1);
    }
}

fn write<const N: usize>(words: &[AtomicU64; N], text: &[u8]) {
    for (word, bytes) in words.iter().zip(text.chunks(8).chain(std::iter::repeat(&[][..]))) {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(all), Ordering::Relaxed);
    }
}

// A call and the place in a program that makes it.

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

/// Buckets of durations up to 2^37 ns (137 s). There is one for each below 32 ns, then 32 to each power of two.
///
/// A bucket is at most 1/32 (3.1 %) as wide as its values. So its middle is at most 1.6 % off.
pub mod bucket {
    /// Bits of a value that are kept below the leading one.
    const BITS: u32 = 5;
    const EACH: usize = 1 << BITS;
    /// Values from here on share the last bucket.
    const BEYOND_BITS: u32 = 37;
    /// Buckets; the last one is for all that is longer.
    pub const COUNT: usize = (BEYOND_BITS - BITS + 1) as usize * EACH + 1;

    /// The bucket of a duration.
    #[inline]
    #[must_use]
    pub fn number(ns: u64) -> usize {
        if ns < EACH as u64 {
            return ns as usize;
        }
        let power = ns.ilog2();
        if power >= BEYOND_BITS {
            return COUNT - 1;
        }
        (power - BITS + 1) as usize * EACH + (ns >> (power - BITS)) as usize % EACH
    }

    /// The value that stands for a bucket: its middle; of the last one its beginning.
    #[must_use]
    pub fn middle(bucket: usize) -> u64 {
        let bucket = bucket.min(COUNT - 1);
        let (power, place) = ((bucket / EACH) as u32, (bucket % EACH) as u64);
        let Some(shift) = power.checked_sub(1) else { return place };
        let low = (EACH as u64 + place) << shift;
        if bucket >= COUNT - 1 { low } else { low + (1 << shift) / 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::bucket::{COUNT, middle, number};
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

    #[test]
    fn buckets_follow_each_other() {
        assert_eq!((number(0), number(31), number(32), number(63), number(64), number(65)), (0, 31, 32, 63, 64, 64));
        assert_eq!((number((1 << 37) - 1), number(1 << 37), number(u64::MAX)), (COUNT - 2, COUNT - 1, COUNT - 1));
        assert!((0..COUNT).all(|bucket| number(middle(bucket)) == bucket));
        assert_eq!(middle(COUNT - 1), middle(usize::MAX));
        assert!((1..COUNT).all(|bucket| middle(bucket - 1) < middle(bucket)));
    }

    proptest::proptest! {
        #[test]
        fn the_middle_is_near(bits in 0u32..37, ns in proptest::num::u64::ANY) {
            let ns = ns & ((1 << bits) - 1);
            let error = middle(number(ns)).abs_diff(ns) as f64;
            proptest::prop_assert!(error <= ns as f64 / 64.0 + 0.5, "{} of {ns}", middle(number(ns)));
        }
    }
}
