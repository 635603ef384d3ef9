//! `pthread_create`: rules may hold for the new thread from its beginning.
//!
//! The new thread begins in a function of this library. Its data are in a fixed number of places: an allocator may hold its lock while it
//! starts a thread. Where all are taken, the thread is as its rules say from its first wait.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, pthread_attr_t, pthread_t};

use crate::caller::Caller;
use crate::next::{self, Start};
use crate::scheduling::Changed;
use crate::{settings, threads};

/// Threads that are being started at the same time.
const PLACES: usize = 64;

/// The beginning of a thread.
#[derive(Clone, Copy)]
struct Beginning {
    start: Start,
    argument: *mut c_void,
    inherited: Changed,
}

struct Place {
    taken: AtomicBool,
    beginning: UnsafeCell<Option<Beginning>>,
}

// SAFETY: only who took a place touches its content, until the new thread has read it and gives it back.
unsafe impl Sync for Place {}

static ALL: [Place; PLACES] =
    [const { Place { taken: AtomicBool::new(false), beginning: UnsafeCell::new(None) } }; PLACES];

fn take(beginning: Beginning) -> Option<&'static Place> {
    let free = |place: &&Place| !place.taken.load(Ordering::Relaxed) && !place.taken.swap(true, Ordering::Acquire);
    let place = ALL.iter().find(free)?;
    // SAFETY: this thread took the place.
    unsafe { *place.beginning.get() = Some(beginning) };
    Some(place)
}

extern "C-unwind" fn begin(place: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` below gave the address of a static.
    let place = unsafe { &*place.cast_const().cast::<Place>() };
    // SAFETY: the place was taken for this thread.
    let beginning = unsafe { *place.beginning.get() };
    place.taken.store(false, Ordering::Release);
    let Some(Beginning { start, argument, inherited }) = beginning else { return std::ptr::null_mut() };
    if let Some(rules) = settings::rules() {
        threads::begin(rules, inherited);
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
    let place = concerned.then(|| take(Beginning { start, argument, inherited: threads::changed() })).flatten();
    let Some(place) = place else {
        // SAFETY: the arguments of the caller.
        return unsafe { next::pthread_create(thread, attributes, start, argument) };
    };
    // SAFETY: the arguments of the caller, but for what the thread runs; the place is a static.
    let failed = unsafe { next::pthread_create(thread, attributes, begin, (&raw const *place).cast_mut().cast()) };
    if failed != 0 {
        place.taken.store(false, Ordering::Release);
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C-unwind" fn start(argument: *mut c_void) -> *mut c_void {
        argument
    }

    #[test]
    fn places_are_taken_until_their_thread_begins() {
        let argument = std::ptr::without_provenance_mut(7);
        let beginning = Beginning { start, argument, inherited: Changed::NOTHING };
        let places: Vec<_> = (0..PLACES).map(|_| take(beginning).unwrap()).collect();
        assert!(take(beginning).is_none(), "all are taken");
        for place in places {
            assert_eq!(begin((&raw const *place).cast_mut().cast()), argument);
        }
        assert_eq!(begin((&raw const *take(beginning).unwrap()).cast_mut().cast()), argument);
    }
}
