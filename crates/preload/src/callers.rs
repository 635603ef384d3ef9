//! Where in the program a function was called, and values that are computed once for such a key, by whichever thread comes first. No thread
//! waits for another.

use std::sync::atomic::{AtomicU64, Ordering};

/// The address behind the call, in the program or one of its libraries. 0 where the architecture does not give it.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caller(pub(crate) usize);

impl Caller {
    /// A caller that is not known.
    #[allow(dead_code, reason = "x86-64 always knows it")]
    pub(crate) const UNKNOWN: Self = Self(0);
}

/// Places that a key may have in the table.
const PROBES: usize = 8;
/// Marks a place as taken, and a value as computed: both are below it.
const MARK: u64 = 1 << 63;

struct Place {
    key: AtomicU64,
    value: AtomicU64,
}

/// At most `N` values below 2^63.
///
/// Every write exchanges the word: helgrind takes such an instruction for atomic, a plain store for a race.
pub(crate) struct Once<const N: usize>([Place; N]);

impl<const N: usize> Once<N> {
    pub(crate) const fn new() -> Self {
        Self([const { Place { key: AtomicU64::new(0), value: AtomicU64::new(0) } }; N])
    }

    /// The places that a key may have.
    #[inline]
    fn places(&self, key: u64) -> impl Iterator<Item = &Place> {
        // Fibonacci hashing: neighbours are spread.
        let first = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        (0..PROBES).map(move |probe| &self.0[first.wrapping_add(probe) % N])
    }

    /// The value of a key; none where the table is full. While another thread computes it, it is computed here too.
    #[inline]
    pub(crate) fn get(&self, key: u64, compute: impl Fn() -> u64) -> Option<u64> {
        let taken = key | MARK;
        for place in self.places(key) {
            let mut found = place.key.load(Ordering::Relaxed);
            if found == 0 {
                match place.key.compare_exchange(0, taken, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return Some(place.fill(compute())),
                    Err(other) => found = other,
                }
            }
            if found == taken {
                return Some(place.value().unwrap_or_else(compute));
            }
        }
        None
    }

    /// The value of a key that was computed before.
    pub(crate) fn known(&self, key: u64) -> Option<u64> {
        self.places(key).find(|place| place.key.load(Ordering::Relaxed) == key | MARK)?.value()
    }
}

impl Place {
    /// By the thread that took the place. What the value refers to is visible to whoever reads it.
    #[cold]
    fn fill(&self, value: u64) -> u64 {
        self.value.swap(value | MARK, Ordering::AcqRel);
        value
    }

    #[inline]
    fn value(&self) -> Option<u64> {
        let value = self.value.load(Ordering::Acquire);
        (value != 0).then_some(value & !MARK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_computed_once() {
        let once = Once::<64>::new();
        assert_eq!(once.get(0, || 5), Some(5));
        assert_eq!(once.get(0, || panic!("again")), Some(5));
        assert_eq!((once.known(0), once.known(7)), (Some(5), None));
        assert_eq!(
            once.get(7, || once.get(7, || 6).unwrap()),
            Some(6),
            "a signal handler in the middle computes it too"
        );
        assert_eq!(once.get(7, || panic!("again")), Some(6));
    }

    #[test]
    fn a_full_table_keeps_what_it_has() {
        let once = Once::<64>::new();
        let first: Vec<Option<u64>> = (0..256).map(|key| once.get(key, || key)).collect();
        let again: Vec<Option<u64>> = (0..256).map(|key| once.get(key, || 999)).collect();
        assert_eq!(again, first);
        let known = first.iter().flatten().count();
        assert!((32..=64).contains(&known), "{known}");
    }

    #[test]
    fn threads_that_meet_have_the_same() {
        let once = Once::<1024>::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..200).for_each(|key| assert_eq!(once.get(key, || key * 3), Some(key * 3))));
            }
        });
    }
}
