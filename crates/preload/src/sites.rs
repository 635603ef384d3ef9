//! Which rules hold for the calls from an address: decided at the first call, and kept.
//!
//! The table has no lock: threads that meet at a new address decide the same. Where it is full, only the rules for all callers hold. What
//! is loaded at the place of a library that was unloaded keeps that one's rules.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::caller::Caller;
use crate::rules::Rules;
use crate::{mapping, next, symbols};

/// Addresses that are known at most.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 10;
/// Places that an address may have in the table.
const PROBES: usize = 16;
/// The highest bit is no rule's.
const DECIDED: u64 = 1 << 63;
/// Room for a line of /proc/self/maps. A signal handler may have a stack of 2 KiB.
const LINE: usize = 1024;

struct Slot {
    address: AtomicUsize,
    rules: AtomicU64,
}

struct Table([Slot; SLOTS]);

static TABLE: Table = Table::new();

/// The rules for calls from here.
#[inline]
pub(crate) fn rules_of(rules: &Rules, caller: Caller) -> u64 {
    if rules.anywhere == rules.all() {
        return rules.anywhere;
    }
    TABLE.get(caller.0, rules.anywhere, |address| decide(rules, address))
}

impl Table {
    const fn new() -> Self {
        Self([const { Slot { address: AtomicUsize::new(0), rules: AtomicU64::new(0) } }; SLOTS])
    }

    /// What is known of an address, or what `decide` finds; `full` where there is no room. 0 is no address.
    #[inline]
    fn get(&self, address: usize, full: u64, decide: impl FnOnce(usize) -> u64) -> u64 {
        // Fibonacci hashing: neighbours are spread.
        let hash = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOT_BITS);
        for probe in 0..PROBES {
            let slot = &self.0[(hash as usize + probe) % SLOTS];
            let mut found = slot.address.load(Ordering::Relaxed);
            if found == 0 && address != 0 {
                let taken = slot.address.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed);
                found = taken.err().unwrap_or(address);
            }
            if found == address && address != 0 {
                let known = slot.rules.load(Ordering::Relaxed);
                if known & DECIDED != 0 {
                    return known & !DECIDED;
                }
                let rules = decide(address);
                slot.rules.store(rules | DECIDED, Ordering::Relaxed);
                return rules;
            }
        }
        full
    }
}

#[cold]
#[inline(never)]
fn decide(rules: &Rules, address: usize) -> u64 {
    let errno = next::errno();
    let mut buffer = [0; LINE];
    let mut found = rules.anywhere;
    if let Some(mapping) = mapping::find(address, &mut buffer) {
        let path = mapping.path.to_bytes();
        found |= rules.at(!rules.symbols, |place| place.is_in(path));
        let here = rules.at(rules.symbols, |place| place.is_in(path));
        if here != 0 {
            symbols::functions_at(&mapping, &mut |name| {
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
    fn an_address_is_decided_once() {
        let table = Box::new(Table::new());
        assert_eq!(table.get(4000, 9, |_| 5), 5);
        assert_eq!(table.get(4000, 9, |_| panic!("again")), 5);
        assert_eq!(table.get(4001, 9, |_| 0), 0);
        assert_eq!(table.get(4001, 9, |_| panic!("again")), 0);
        assert_eq!(table.get(0, 9, |_| panic!("no address")), 9);
    }

    #[test]
    fn a_full_table_keeps_what_it_has() {
        let table = Box::new(Table::new());
        let first: Vec<u64> = (1..=4 * SLOTS).map(|address| table.get(address * 16, 9, |_| 1)).collect();
        let known = first.iter().filter(|rules| **rules == 1).count();
        assert!((SLOTS / 2..=SLOTS).contains(&known), "{known}");
        assert!(first.contains(&9));
        for (n, rules) in first.iter().enumerate() {
            assert_eq!(table.get((n + 1) * 16, 9, |_| 2), *rules);
        }
    }

    #[test]
    fn threads_that_meet_decide_the_same() {
        let table = Box::new(Table::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (1..=200).for_each(|n| assert_eq!(table.get(n * 8, 0, |address| address as u64), n as u64 * 8))
                });
            }
        });
    }
}
