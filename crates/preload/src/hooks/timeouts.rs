//! `poll`, `ppoll`, `select`, `pselect`, `epoll_wait`, `epoll_pwait`, `epoll_pwait2`.

use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use super::looking::{Look, wait};
use crate::caller::Caller;
use crate::now::{length_ns, now_ns, timespec as timespec_of};
use crate::settings::Settings;
use crate::{next, settings};

const NONE: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

/// The limit of a call in milliseconds; a negative one is none.
fn limit_of_ms(timeout_ms: c_int) -> Option<i64> {
    (timeout_ms >= 0).then(|| i64::from(timeout_ms) * 1_000_000)
}

/// Whether a setting concerns a call with this limit. Calls that only look are kept.
fn concerned(settings: &Settings, limit_ns: Option<i64>) -> bool {
    limit_ns != Some(0) && (settings.poll_first_ns > 0 || settings.precise.is_some() && limit_ns.is_some())
}

/// A call with this limit: by this library if a setting concerns it, else `kept`. An invalid limit is left to the C library.
fn until<L: Look>(
    caller: Caller,
    limit: Result<Option<i64>, ()>,
    call: impl FnOnce() -> L,
    kept: impl FnOnce() -> c_int,
) -> c_int {
    let settings = settings::of(caller);
    match limit {
        Ok(limit) if concerned(&settings, limit) => wait(&settings, limit, &mut call()),
        _ => kept(),
    }
}

fn pointer(limit: Option<&timespec>) -> *const timespec {
    limit.map_or(std::ptr::null(), |limit| &raw const *limit)
}

/// The limit of a timespec: `Err` for an invalid one, which the C library reports.
///
/// # Safety
/// `timeout` is null or points to a timespec.
unsafe fn limit_of(timeout: *const timespec) -> Result<Option<i64>, ()> {
    if timeout.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller says.
    length_ns(unsafe { &*timeout }).map(Some).ok_or(())
}

struct Poll {
    fds: *mut pollfd,
    count: nfds_t,
    mask: *const sigset_t,
}

impl Look for Poll {
    fn look(&mut self) -> c_int {
        self.block(Some(&NONE))
    }

    fn block(&mut self, limit: Option<&timespec>) -> c_int {
        // SAFETY: the arguments of the caller, and a limit of this library.
        unsafe { next::ppoll(self.fds, self.count, pointer(limit), self.mask) }
    }
}

/// As poll(2).
///
/// # Safety
/// As poll(2).
pub(crate) unsafe extern "C-unwind" fn poll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout_ms: c_int,
    caller: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller.
    let kept = || unsafe { next::poll(fds, count, timeout_ms) };
    until(caller, Ok(limit_of_ms(timeout_ms)), || Poll { fds, count, mask: std::ptr::null() }, kept)
}

/// As ppoll(2).
///
/// # Safety
/// As ppoll(2).
pub(crate) unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    caller: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller.
    let (limit, kept) = unsafe { (limit_of(timeout), || next::ppoll(fds, count, timeout, mask)) };
    until(caller, limit, || Poll { fds, count, mask }, kept)
}

struct Epoll {
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    mask: *const sigset_t,
}

impl Look for Epoll {
    fn look(&mut self) -> c_int {
        // SAFETY: the arguments of the caller.
        unsafe { next::epoll_pwait(self.epoll, self.events, self.most, 0, self.mask) }
    }

    fn block(&mut self, limit: Option<&timespec>) -> c_int {
        if next::has_epoll_pwait2() {
            // SAFETY: the arguments of the caller, and a limit of this library.
            let found = unsafe { next::epoll_pwait2(self.epoll, self.events, self.most, pointer(limit), self.mask) };
            // Linux before 5.11 has no epoll_pwait2.
            if found >= 0 || next::errno() != libc::ENOSYS {
                return found;
            }
        }
        // Whole milliseconds: rounded down, the rest is looked for.
        let ms = limit.map_or(-1, |limit| (length_ns(limit).unwrap_or(0) / 1_000_000).min(c_int::MAX.into()) as c_int);
        // SAFETY: the arguments of the caller.
        unsafe { next::epoll_pwait(self.epoll, self.events, self.most, ms, self.mask) }
    }
}

/// As epoll_wait(2).
///
/// # Safety
/// As epoll_wait(2).
pub(crate) unsafe extern "C-unwind" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout_ms: c_int,
    caller: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller.
    let kept = || unsafe { next::epoll_wait(epoll, events, most, timeout_ms) };
    until(caller, Ok(limit_of_ms(timeout_ms)), || Epoll { epoll, events, most, mask: std::ptr::null() }, kept)
}

/// As epoll_pwait(2).
///
/// # Safety
/// As epoll_pwait(2).
pub(crate) unsafe extern "C-unwind" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout_ms: c_int,
    mask: *const sigset_t,
    caller: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller.
    let kept = || unsafe { next::epoll_pwait(epoll, events, most, timeout_ms, mask) };
    until(caller, Ok(limit_of_ms(timeout_ms)), || Epoll { epoll, events, most, mask }, kept)
}

/// As epoll_pwait2(2).
///
/// # Safety
/// As epoll_pwait2(2).
pub(crate) unsafe extern "C-unwind" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
    caller: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller.
    let (limit, kept) = unsafe { (limit_of(timeout), || next::epoll_pwait2(epoll, events, most, timeout, mask)) };
    until(caller, limit, || Epoll { epoll, events, most, mask }, kept)
}

/// Words of an fd_set: a program may give longer ones, which are kept as they are.
const SET: usize = libc::FD_SETSIZE;

struct Select {
    count: c_int,
    sets: [*mut fd_set; 3],
    /// The sets as they were given: a call without events empties them.
    asked: [Option<fd_set>; 3],
    mask: *const sigset_t,
}

impl Select {
    /// # Safety
    /// The sets are null or sets of the caller.
    unsafe fn new(count: c_int, sets: [*mut fd_set; 3], mask: *const sigset_t) -> Self {
        // SAFETY: as the caller says; the C library's fd_set has room for FD_SETSIZE descriptors.
        let asked = sets.map(|set| (!set.is_null()).then(|| unsafe { set.read() }));
        Self { count, sets, asked, mask }
    }

    fn ask_again(&mut self) {
        for (set, asked) in self.sets.into_iter().zip(self.asked) {
            if let Some(asked) = asked {
                // SAFETY: a set of the caller, read from there before.
                unsafe { set.write(asked) };
            }
        }
    }
}

impl Look for Select {
    fn look(&mut self) -> c_int {
        self.block(Some(&NONE))
    }

    fn block(&mut self, limit: Option<&timespec>) -> c_int {
        self.ask_again();
        let [read, write, except] = self.sets;
        // SAFETY: the arguments of the caller, and a limit of this library.
        unsafe { next::pselect(self.count, read, write, except, pointer(limit), self.mask) }
    }
}

/// The length of a valid timeval.
pub(crate) fn length_of(time: &timeval) -> Option<i64> {
    let nsec = (time.tv_usec as i64).checked_mul(1_000).filter(|nsec| *nsec >= 0).unwrap_or(-1);
    length_ns(&timespec { tv_sec: time.tv_sec, tv_nsec: nsec as _ })
}

/// As select(2): what is left of the timeout is written back, as Linux does.
///
/// # Safety
/// As select(2).
pub(crate) unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
    caller: Caller,
) -> c_int {
    let settings = settings::of(caller);
    // SAFETY: the caller gave null or a timeval.
    let limit = unsafe { timeout.as_ref() }.map(length_of);
    match limit {
        None | Some(Some(_)) if concerned(&settings, limit.flatten()) && fits(count) => {
            let deadline_ns = limit.flatten().map(|limit_ns| now_ns().saturating_add(limit_ns));
            // SAFETY: the arguments of the caller.
            let mut call = unsafe { Select::new(count, [read, write, except], std::ptr::null()) };
            let found = wait(&settings, limit.flatten(), &mut call);
            if let Some(deadline_ns) = deadline_ns {
                let left = timespec_of(deadline_ns - now_ns());
                // SAFETY: the caller's timeval.
                unsafe { timeout.write(timeval { tv_sec: left.tv_sec, tv_usec: (left.tv_nsec / 1_000) as _ }) };
            }
            found
        }
        // SAFETY: the arguments of the caller.
        _ => unsafe { next::select(count, read, write, except, timeout) },
    }
}

/// As pselect(2).
///
/// # Safety
/// As pselect(2).
pub(crate) unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
    caller: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller.
    let (limit, kept) = unsafe { (limit_of(timeout), || next::pselect(count, read, write, except, timeout, mask)) };
    // SAFETY: the arguments of the caller.
    let call = || unsafe { Select::new(count, [read, write, except], mask) };
    until(caller, limit.and_then(|limit| if fits(count) { Ok(limit) } else { Err(()) }), call, kept)
}

fn fits(count: c_int) -> bool {
    usize::try_from(count).is_ok_and(|count| count <= SET)
}
