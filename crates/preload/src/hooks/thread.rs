//! The start of the program, when it is loaded, and of its threads.
//!
//! `pthread_create`, `pthread_setname_np` and `prctl(PR_SET_NAME)`: rules may hold for a new thread from its beginning, or for a new name.
//! `prctl(PR_SET_SECCOMP)`: a filter is on.
//!
//! The new thread begins in a function of this library. Its data are in a mapping of their own: an allocator may hold its lock while it
//! starts a thread. Without memory for that, the thread is as its rules say from its first wait.

use std::ffi::{CStr, c_void};

use libc::{c_char, c_int, c_ulong, pthread_attr_t, pthread_t};

use crate::callers::Caller;
use crate::next::{self, Start};
use crate::scheduling::Changed;
use crate::{callers, filter, memory, observe, scheduling, settings};

/// Runs before the program's `main`, when its libraries are ready.
extern "C" fn start() {
    next::look_up_all();
    if !says(c"PUNCTUAL_DISABLE", b"1") {
        settings::read();
        observe::attach();
    }
    if says(c"PUNCTUAL_INHERIT", b"0") {
        forget();
    }
    if !settings::any() && !observe::is_attached() {
        return;
    }
    filter::prepare();
    if settings::precise_everywhere() {
        scheduling::lower_slack();
    }
    if let Some(rules) = settings::rules() {
        // The first look applies what the rules say of this thread's scheduling.
        callers::rules_of_thread(rules);
        memory::prepare();
    }
}

/// Whether this environment variable has this value.
fn says(name: &CStr, value: &[u8]) -> bool {
    next::variable(name).is_some_and(|found| found.to_bytes() == value)
}

/// Takes the settings out of the environment, and this library's own name out of LD_PRELOAD (ld.so(8)): programs that this one starts run
/// without it.
fn forget() {
    // SAFETY: the names end with a zero byte; no other thread exists yet.
    let preload = unsafe {
        for name in [c"PUNCTUAL_PRELOAD", c"PUNCTUAL_OBSERVE", c"PUNCTUAL_SLACK_NS", c"PUNCTUAL_INHERIT"] {
            libc::unsetenv(name.as_ptr());
        }
        libc::getenv(c"LD_PRELOAD".as_ptr())
    };
    if preload.is_null() {
        return;
    }
    let mut end = preload;
    let mut word = preload;
    // SAFETY: getenv(3) returns a string that ends with a zero byte. What is written to it is not longer.
    unsafe {
        while *word != 0 {
            let length = libc::strcspn(word, c": ".as_ptr());
            let separated = length + usize::from(*word.add(length) != 0);
            if !names_this_library(std::slice::from_raw_parts(word.cast(), length)) {
                libc::memmove(end.cast(), word.cast(), separated);
                end = end.add(separated);
            }
            word = word.add(separated);
        }
        *end = 0;
        if end == preload {
            libc::unsetenv(c"LD_PRELOAD".as_ptr());
        }
    }
}

fn names_this_library(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next() == Some(b"libpunctual_preload.so")
}

// SAFETY: `.init_array` holds pointers to functions that the loader calls once each.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

#[cfg(test)]
const _: extern "C" fn() = start;

/// The beginning of a thread.
#[derive(Clone, Copy)]
struct Beginning {
    start: Start,
    argument: *mut c_void,
    inherited: Changed,
}

/// Maps memory for the beginning of a thread.
fn map(beginning: Beginning) -> Option<*mut Beginning> {
    let place = next::map(size_of::<Beginning>())?.cast::<Beginning>();
    // SAFETY: the mapping is writable and large enough.
    unsafe { place.write(beginning) };
    Some(place)
}

/// # Safety
/// `place` is from [`map`], and nobody else uses it.
unsafe fn unmap(place: *mut Beginning) -> Beginning {
    // SAFETY: as the caller says.
    unsafe {
        let beginning = place.read();
        libc::munmap(place.cast(), size_of::<Beginning>());
        beginning
    }
}

extern "C-unwind" fn begin(place: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` below mapped it for this thread.
    let Beginning { start, argument, inherited } = unsafe { unmap(place.cast()) };
    if let Some(rules) = settings::rules() {
        scheduling::inherit(inherited);
        callers::rules_of_thread(rules);
    }
    // SAFETY: the function and the argument that the program gave for this thread.
    unsafe { start(argument) }
}

/// As pthread_create(3).
///
/// # Safety
/// As pthread_create(3).
pub(crate) unsafe extern "C-unwind" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
    _: Caller,
) -> c_int {
    let concerned = settings::rules().is_some_and(|rules| rules.scheduling != 0);
    let beginning = || map(Beginning { start, argument, inherited: scheduling::changed() });
    let Some(place) = concerned.then(beginning).flatten() else {
        // SAFETY: the arguments of the caller.
        return unsafe { next::pthread_create(thread, attributes, start, argument) };
    };
    // SAFETY: the arguments of the caller, but for what the thread runs, which is given its mapping.
    let failed = unsafe { next::pthread_create(thread, attributes, begin, place.cast()) };
    if failed != 0 {
        // SAFETY: no thread has begun.
        unsafe { unmap(place) };
    }
    failed
}

/// A name was set. Another thread notices at its next wait.
fn renamed() {
    if let Some(rules) = settings::rules() {
        callers::renamed();
        callers::rules_of_thread(rules);
    }
}

/// The program turns on a filter of system calls.
pub(super) fn install_filter<T: PartialEq + From<i8>>(install: impl FnOnce() -> T) -> T {
    scheduling::put_slack_back();
    filter::install(install)
}

/// As pthread_setname_np(3).
///
/// # Safety
/// As pthread_setname_np(3).
pub(crate) unsafe extern "C-unwind" fn pthread_setname_np(thread: pthread_t, name: *const c_char, _: Caller) -> c_int {
    // SAFETY: the arguments of the caller.
    let failed = unsafe { next::pthread_setname_np(thread, name) };
    if failed == 0 {
        renamed();
    }
    failed
}

/// As prctl(2).
///
/// # Safety
/// As prctl(2).
pub(crate) unsafe extern "C-unwind" fn prctl(
    option: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
    _: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller.
    let kept = || unsafe { next::prctl(option, a, b, c, d) };
    let done = if option == libc::PR_SET_SECCOMP { install_filter(kept) } else { kept() };
    if option == libc::PR_SET_NAME && done == 0 {
        renamed();
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C-unwind" fn start(argument: *mut c_void) -> *mut c_void {
        argument
    }

    #[test]
    fn a_thread_begins_with_its_argument() {
        let argument = std::ptr::without_provenance_mut(7);
        let place = map(Beginning { start, argument, inherited: Changed::NOTHING }).unwrap();
        assert_eq!(begin(place.cast()), argument);
    }
}
