//! Where in the program a function was called, and which rules hold: for the calling thread by its name, compared when a name has changed;
//! for the calls from an address decided at the first one, and kept. A library at the place of an unloaded one keeps that one's rules.
//!
//! Values are computed once for such a key, by whichever thread comes first. No thread waits for another.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::rules::Rules;
use crate::{filter, memory, next, scheduling};

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

/// Counts changes of names, of any thread.
static NAMES: AtomicU32 = AtomicU32::new(1);

struct Thread {
    /// The count at which its name was read.
    read_at: Cell<u32>,
    rules: Cell<u64>,
}

thread_local! {
    // No destructor and no lazy beginning: reading it neither allocates nor registers anything.
    static THREAD: Thread = const {
        Thread { read_at: Cell::new(0), rules: Cell::new(0) }
    };
}

/// The rules for this thread.
#[inline]
pub(crate) fn rules_of_thread(rules: &Rules) -> u64 {
    if rules.any_thread == rules.all() && rules.scheduling == 0 {
        return rules.any_thread;
    }
    THREAD.with(|thread| {
        let names = NAMES.load(Ordering::Relaxed);
        if thread.read_at.get() == names { thread.rules.get() } else { read(rules, thread, names) }
    })
}

#[cold]
#[inline(never)]
fn read(rules: &Rules, thread: &Thread, names: u32) -> u64 {
    if !filter::may_try() {
        // It has read its name at its first wait, or it is newer than the program's filter of system calls.
        return if thread.read_at.get() == 0 { rules.any_thread } else { thread.rules.get() };
    }
    let errno = next::errno();
    // First, so that a signal handler that waits meanwhile does not begin as well.
    thread.read_at.set(names);
    let found = rules.of_thread(next::thread_name(&mut [0; 16]));
    thread.rules.set(found);
    scheduling::apply(rules, found);
    next::set_errno(errno);
    found
}

/// A thread, perhaps this one, has another name now.
pub(crate) fn renamed() {
    NAMES.fetch_add(1, Ordering::Relaxed);
}

/// Room for a line of /proc/self/maps, which the stack of a signal handler may not have.
struct Room(*mut libc::c_void);

impl Room {
    const BYTES: usize = 4096;

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: this value's own mapping, of zeros.
        unsafe { std::slice::from_raw_parts_mut(self.0.cast(), Self::BYTES) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: its own mapping.
        unsafe { libc::munmap(self.0, Self::BYTES) };
    }
}

/// The sets of rules, by address.
static SITES: Once<1024> = Once::new();

/// The rules for calls from here. Files are not opened once the program has turned on a filter of system calls.
#[inline]
pub(crate) fn rules_of_caller(rules: &Rules, caller: Caller) -> u64 {
    if rules.anywhere == rules.all() || caller == Caller::UNKNOWN {
        return rules.anywhere;
    }
    if !filter::may_try() {
        return SITES.known(caller.0 as u64).unwrap_or(rules.anywhere);
    }
    SITES.get(caller.0 as u64, || decide(rules, caller.0)).unwrap_or(rules.anywhere)
}

#[cold]
#[inline(never)]
fn decide(rules: &Rules, address: usize) -> u64 {
    let errno = next::errno();
    let mut room = next::map(Room::BYTES).map(Room);
    let mut found = rules.anywhere;
    if let Some(mapping) = room.as_mut().and_then(|room| memory::find(address, room.bytes())) {
        let path = mapping.path.to_bytes();
        found |= rules.at(!rules.symbols, |place| place.is_in(path));
        let here = rules.at(rules.symbols, |place| place.is_in(path));
        if here != 0 {
            memory::functions_at(&mapping, &mut |name| {
                found |=
                    rules.at(here, |place| place.symbol.is_some_and(|pattern| punctual_rules::matches(pattern, name)));
            });
        }
    }
    next::set_errno(errno);
    found
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
