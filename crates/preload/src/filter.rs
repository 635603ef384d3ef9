//! Whether a filter of system calls (seccomp(2)) may refuse what the program itself does not call.
//!
//! Some remedies make another system call than the program: ppoll(2) for poll(2), sched_yield(2) for a sleep. A filter may answer it with
//! an error: then the program's own call is made, this time and from then on. A filter may also kill. So a process that turns on a filter
//! through the C library gets no system call from then on that it does not make itself. A filter that was on when the program was loaded
//! was made for many programs, by a container or a service manager: calls are tried. Exceptions are calls that such filters often lack
//! ([`may_use_newer`]).
//!
//! A filter that the program turns on by an instruction of its own is not seen before the next fork.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::next::{self, File};

/// Not asked yet, in this process.
const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
/// It was on when the program was loaded.
const INHERITED: u8 = 2;
/// The program turned it on.
const OWN: u8 = 3;

/// Whose filter is on.
static FILTER: AtomicU8 = AtomicU8::new(UNKNOWN);

/// A system call that takes the place of the program's own, until it is refused.
pub(crate) struct Foreign {
    refused: AtomicBool,
}

impl Foreign {
    pub(crate) const fn new() -> Self {
        Self { refused: AtomicBool::new(false) }
    }

    /// Whether it may be made.
    #[inline]
    pub(crate) fn is_allowed(&self) -> bool {
        !self.refused.load(Ordering::Relaxed) && may_try()
    }

    /// Whether the call was refused as a filter or an older kernel does it: then it is not made again.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_refused(&self, errno: libc::c_int) -> bool {
        let refused = matches!(errno, libc::EPERM | libc::ENOSYS | libc::EACCES);
        if refused {
            self.refused.store(true, Ordering::Relaxed);
        }
        refused
    }
}

/// Whether a call that the program does not make may be tried: no filter of its own is on.
#[inline]
pub(crate) fn may_try() -> bool {
    state() != OWN
}

/// Whether calls that are newer than most filters may be tried: no filter is on.
#[inline]
pub(crate) fn may_use_newer() -> bool {
    state() == NONE
}

#[inline]
fn state() -> u8 {
    match FILTER.load(Ordering::Relaxed) {
        UNKNOWN => ask(),
        known => known,
    }
}

/// Reads /proc/self/status. Where it cannot be read, a filter may be the reason.
#[cold]
#[inline(never)]
fn ask() -> u8 {
    let errno = next::errno();
    let found = File::open(c"/proc/self/status").map_or(INHERITED, |file| state_in(&file));
    next::set_errno(errno);
    // The program may have turned one on meanwhile.
    match FILTER.compare_exchange(UNKNOWN, found, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => found,
        Err(newer) => newer,
    }
}

/// What the line `Seccomp:` says, whose beginning may be in an earlier piece of the file.
fn state_in(file: &File) -> u8 {
    const LINE: &[u8] = b"\nSeccomp:\t";
    let mut piece = [0_u8; 256];
    let mut matched = 0;
    while let Some(read @ 1..) = file.read(&mut piece) {
        for byte in &piece[..read] {
            if matched == LINE.len() {
                return if *byte == b'0' { NONE } else { INHERITED };
            }
            matched = match *byte {
                byte if byte == LINE[matched] => matched + 1,
                b'\n' => 1,
                _ => 0,
            };
        }
    }
    // A kernel without filters has no such line.
    NONE
}

/// The program turns on a filter: `install` is its call, which returns -1 where it fails. No call is tried meanwhile.
pub(crate) fn install<T: PartialEq + From<i8>>(install: impl FnOnce() -> T) -> T {
    let before = FILTER.swap(OWN, Ordering::Relaxed);
    let done = install();
    if done == T::from(-1) {
        FILTER.swap(before, Ordering::Relaxed);
    }
    done
}

/// A child asks again: its parent's filter may have come by an instruction that this library does not see.
extern "C" fn forked() {
    let _ = FILTER.compare_exchange(NONE, UNKNOWN, Ordering::Relaxed, Ordering::Relaxed);
}

unsafe extern "C" {
    /// pthread_atfork(3), which the libc crate does not declare for every target.
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> libc::c_int;
}

/// Asks for the first time, when the program is loaded.
pub(crate) fn prepare() {
    ask();
    // SAFETY: the handler touches an atomic only. Without memory for it, children keep their parent's answer.
    unsafe { pthread_atfork(None, None, Some(forked)) };
}
