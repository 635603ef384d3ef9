//! Which rules hold for the calls from an address: decided at the first call, and kept.
//!
//! A library at the place of an unloaded one keeps that one's rules.

use crate::caller::Caller;
use crate::once::Once;
use crate::rules::Rules;
use crate::{mapping, next, symbols};

/// Room for a line of /proc/self/maps. A signal handler may have a stack of 2 KiB.
const LINE: usize = 1024;

/// The sets of rules, by address.
static SITES: Once<u64, 1024> = Once::new();

/// The rules for calls from here.
#[inline]
pub(crate) fn rules_of(rules: &Rules, caller: Caller) -> u64 {
    if rules.anywhere == rules.all() || caller == Caller::UNKNOWN {
        return rules.anywhere;
    }
    SITES.get(caller.0 as u64, || decide(rules, caller.0)).unwrap_or(rules.anywhere)
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
