//! Values that are computed once for a key, by whichever thread comes first. No thread waits for another.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Places that a key may have in the table.
const PROBES: usize = 8;
/// Marks a place as taken: keys are below it.
const TAKEN: u64 = 1 << 63;

struct Place<T> {
    key: AtomicU64,
    ready: AtomicBool,
    value: UnsafeCell<Option<T>>,
}

/// At most `N` values.
pub(crate) struct Once<T, const N: usize>([Place<T>; N]);

// SAFETY: only the thread that took a place writes its value, and others read it once it is ready.
unsafe impl<T: Send + Sync, const N: usize> Sync for Once<T, N> {}

impl<T: Copy, const N: usize> Once<T, N> {
    pub(crate) const fn new() -> Self {
        Self(
            [const { Place { key: AtomicU64::new(0), ready: AtomicBool::new(false), value: UnsafeCell::new(None) } };
                N],
        )
    }

    /// The value of a key; none where the table is full. While another thread computes it, it is computed here too.
    #[inline]
    pub(crate) fn get(&self, key: u64, compute: impl Fn() -> T) -> Option<T> {
        let taken = key | TAKEN;
        // Fibonacci hashing: neighbours are spread.
        let first = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        for probe in 0..PROBES {
            let place = &self.0[first.wrapping_add(probe) % N];
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
}

impl<T: Copy> Place<T> {
    /// By the thread that took the place.
    #[cold]
    fn fill(&self, value: T) -> T {
        // SAFETY: this thread took the place, and nobody reads the value before it is ready.
        unsafe { *self.value.get() = Some(value) };
        self.ready.store(true, Ordering::Release);
        value
    }

    #[inline]
    fn value(&self) -> Option<T> {
        // SAFETY: once it is ready, it is never written again.
        if self.ready.load(Ordering::Acquire) { unsafe { *self.value.get() } } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_computed_once() {
        let once = Once::<u64, 64>::new();
        assert_eq!(once.get(0, || 5), Some(5));
        assert_eq!(once.get(0, || panic!("again")), Some(5));
        assert_eq!(
            once.get(7, || once.get(7, || 6).unwrap()),
            Some(6),
            "a signal handler in the middle computes it too"
        );
        assert_eq!(once.get(7, || panic!("again")), Some(6));
    }

    #[test]
    fn a_full_table_keeps_what_it_has() {
        let once = Once::<u64, 64>::new();
        let first: Vec<Option<u64>> = (0..256).map(|key| once.get(key, || key)).collect();
        let again: Vec<Option<u64>> = (0..256).map(|key| once.get(key, || 999)).collect();
        assert_eq!(again, first);
        let known = first.iter().flatten().count();
        assert!((32..=64).contains(&known), "{known}");
    }

    #[test]
    fn threads_that_meet_have_the_same() {
        let once = Once::<u64, 1024>::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..200).for_each(|key| assert_eq!(once.get(key, || key * 3), Some(key * 3))));
            }
        });
    }
}
