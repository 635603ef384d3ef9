//! Which rules hold for the calling thread: by its name, compared when a name has changed.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::rules::Rules;
use crate::scheduling::{self, Changed};
use crate::{filter, next};

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
pub(crate) fn rules_of(rules: &Rules) -> u64 {
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
    rules_of(rules);
}
