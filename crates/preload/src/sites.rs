//! Which rules hold for the calls from an address: decided at the first call, and kept.
//!
//! A library at the place of an unloaded one keeps that one's rules.

use crate::callers::{Caller, Once};
use crate::rules::Rules;
use crate::{filter, mapping, next};

/// Room for a line of /proc/self/maps, which the stack of a signal handler may not have.
struct Room(*mut libc::c_void);

impl Room {
    const BYTES: usize = 4096;

    fn map() -> Option<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, where the kernel has room.
        let begin = unsafe { libc::mmap(std::ptr::null_mut(), Self::BYTES, protection, flags, -1, 0) };
        (begin != libc::MAP_FAILED).then_some(Self(begin))
    }

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
pub(crate) fn rules_of(rules: &Rules, caller: Caller) -> u64 {
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
    let mut room = Room::map();
    let mut found = rules.anywhere;
    if let Some(mapping) = room.as_mut().and_then(|room| mapping::find(address, room.bytes())) {
        let path = mapping.path.to_bytes();
        found |= rules.at(!rules.symbols, |place| place.is_in(path));
        let here = rules.at(rules.symbols, |place| place.is_in(path));
        if here != 0 {
            mapping::functions_at(&mapping, &mut |name| {
                found |=
                    rules.at(here, |place| place.symbol.is_some_and(|pattern| punctual_rules::matches(pattern, name)));
            });
        }
    }
    next::set_errno(errno);
    found
}
