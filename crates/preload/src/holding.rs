//! Which rules hold: for the calling thread by its name, compared when a name has changed; for the calls from an address decided at
//! the first one, and kept.
//!
//! A library at the place of an unloaded one keeps that one's rules.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::callers::{Caller, Once};
use crate::rules::Rules;
use crate::scheduling::{self, Changed};
use crate::{filter, mapping, next};

/// The longest name of a thread, with its zero byte (PR_GET_NAME in prctl(2)).
const NAME: usize = 16;

/// Counts changes of names, of any thread.
static NAMES: AtomicU32 = AtomicU32::new(1);

struct Thread {
    /// The count at which its name was read.
    read_at: Cell<u32>,
    rules: Cell<u64>,
    changed: Cell<Changed>,
}

thread_local! {
    // No destructor and no lazy beginning: reading it neither allocates nor registers anything.
    static THREAD: Thread = const {
        Thread { read_at: Cell::new(0), rules: Cell::new(0), changed: Cell::new(Changed::NOTHING) }
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
    let mut name = [0_u8; NAME];
    // SAFETY: writes at most 16 bytes.
    unsafe { next::prctl(libc::PR_GET_NAME, name.as_mut_ptr() as _, 0, 0, 0) };
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(NAME);
    let found = rules.of_thread(&name[..length]);
    thread.rules.set(found);
    let mut changed = thread.changed.get();
    scheduling::apply(rules, found, &mut changed);
    thread.changed.set(changed);
    next::set_errno(errno);
    found
}

/// A thread, perhaps this one, has another name now.
pub(crate) fn renamed() {
    NAMES.fetch_add(1, Ordering::Relaxed);
}

/// What was changed for this thread: its children inherit it.
pub(crate) fn changed() -> Changed {
    THREAD.with(|thread| thread.changed.get())
}

/// A new thread begins, with what its creator had.
pub(crate) fn begin(rules: &Rules, inherited: Changed) {
    THREAD.with(|thread| thread.changed.set(inherited));
    rules_of_thread(rules);
}

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
