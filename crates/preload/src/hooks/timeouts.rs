//! `poll`, `ppoll`, `select`, `pselect`, `epoll_wait`, `epoll_pwait`, `epoll_pwait2`.

use libc::{c_int, c_ulong, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use super::looking::{Look, wait};
use crate::callers::Caller;
use crate::filter::{Foreign, may_use_newer};
use crate::next::{length_ns, now_ns, timespec as timespec_of};
use crate::settings::Settings;
use crate::{memory, next, settings};

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
fn until<L: Look>(caller: Caller, limit: Result<Option<i64>, ()>, mut call: L, kept: impl FnOnce() -> c_int) -> c_int {
    // A call that only looks is kept, whatever is set.
    if limit == Ok(Some(0)) {
        return kept();
    }
    let settings = settings::for_caller(caller);
    match limit {
        Ok(limit) if concerned(&settings, limit) => wait(&settings, limit, &mut call),
        _ => kept(),
    }
}

fn pointer(limit: Option<&timespec>) -> *const timespec {
    limit.map_or(std::ptr::null(), |limit| &raw const *limit)
}

/// The limit of a timespec that the C library reads itself: `Err` for an invalid one, which it reports.
///
/// # Safety
/// `timeout` is null or points to a timespec.
unsafe fn limit_of(timeout: *const timespec) -> Result<Option<i64>, ()> {
    if timeout.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller says.
    limit_in(unsafe { *timeout })
}

fn limit_in(timeout: timespec) -> Result<Option<i64>, ()> {
    length_ns(&timeout).map(Some).ok_or(())
}

/// A limit in milliseconds, rounded up: a call may end late, not early.
fn ms_of(limit: Option<&timespec>) -> c_int {
    limit.map_or(-1, |limit| {
        let ms = (length_ns(limit).unwrap_or(0) as u64).div_ceil(1_000_000);
        c_int::try_from(ms).unwrap_or(c_int::MAX)
    })
}

/// The call that takes ns, or the program's own, where that one is refused.
fn newer_or_own(newer: &Foreign, call: impl FnOnce() -> c_int, own: impl FnOnce() -> c_int) -> c_int {
    let errno = next::errno();
    if newer.is_allowed() {
        let found = call();
        if found >= 0 || !newer.is_refused(next::errno()) {
            return found;
        }
        next::set_errno(errno);
    }
    own()
}

struct Poll {
    fds: *mut pollfd,
    count: nfds_t,
}

static PPOLL: Foreign = Foreign::new();

impl Look for Poll {
    fn look(&mut self) -> c_int {
        // SAFETY: the arguments of the caller.
        unsafe { next::poll(self.fds, self.count, 0) }
    }

    fn block(&mut self, limit: Option<&timespec>) -> c_int {
        // SAFETY: the arguments of the caller, and a limit of this library.
        let (exact, own) = unsafe {
            (
                || next::ppoll(self.fds, self.count, pointer(limit), std::ptr::null()),
                || next::poll(self.fds, self.count, ms_of(limit)),
            )
        };
        if limit.is_none() { own() } else { newer_or_own(&PPOLL, exact, own) }
    }

    fn is_exact(&self) -> bool {
        PPOLL.is_allowed()
    }
}

struct Ppoll {
    fds: *mut pollfd,
    count: nfds_t,
    mask: *const sigset_t,
}

impl Look for Ppoll {
    fn look(&mut self) -> c_int {
        self.block(Some(&NONE))
    }

    fn block(&mut self, limit: Option<&timespec>) -> c_int {
        // SAFETY: the arguments of the caller, and a limit of this library.
        unsafe { next::ppoll(self.fds, self.count, pointer(limit), self.mask) }
    }

    fn mask(&self) -> *const sigset_t {
        self.mask
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
    until(caller, Ok(limit_of_ms(timeout_ms)), Poll { fds, count }, kept)
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
    until(caller, limit, Ppoll { fds, count, mask }, kept)
}

struct Epoll {
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    own: EpollCall,
}

/// The function that the program called.
enum EpollCall {
    Wait,
    Pwait(*const sigset_t),
    Pwait2(*const sigset_t),
}

static EPOLL_PWAIT2: Foreign = Foreign::new();

impl Epoll {
    fn own(&self, limit: Option<&timespec>) -> c_int {
        let Self { epoll, events, most, .. } = *self;
        // SAFETY: the arguments of the caller, and a limit of this library.
        unsafe {
            match self.own {
                EpollCall::Wait => next::epoll_wait(epoll, events, most, ms_of(limit)),
                EpollCall::Pwait(mask) => next::epoll_pwait(epoll, events, most, ms_of(limit), mask),
                EpollCall::Pwait2(mask) => next::epoll_pwait2(epoll, events, most, pointer(limit), mask),
            }
        }
    }
}

impl Look for Epoll {
    fn look(&mut self) -> c_int {
        self.own(Some(&NONE))
    }

    fn block(&mut self, limit: Option<&timespec>) -> c_int {
        if limit.is_none() || matches!(self.own, EpollCall::Pwait2(_)) || !self.is_exact() {
            return self.own(limit);
        }
        // SAFETY: the arguments of the caller, and a limit of this library.
        let exact = || unsafe { next::epoll_pwait2(self.epoll, self.events, self.most, pointer(limit), self.mask()) };
        newer_or_own(&EPOLL_PWAIT2, exact, || self.own(limit))
    }

    fn mask(&self) -> *const sigset_t {
        match self.own {
            EpollCall::Wait => std::ptr::null(),
            EpollCall::Pwait(mask) | EpollCall::Pwait2(mask) => mask,
        }
    }

    /// Linux before 5.11 has no epoll_pwait2, and many filters do not know it.
    fn is_exact(&self) -> bool {
        let newer = || next::has_epoll_pwait2() && may_use_newer() && EPOLL_PWAIT2.is_allowed();
        matches!(self.own, EpollCall::Pwait2(_)) || newer()
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
    let call = Epoll { epoll, events, most, own: EpollCall::Wait };
    until(caller, Ok(limit_of_ms(timeout_ms)), call, kept)
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
    let call = Epoll { epoll, events, most, own: EpollCall::Pwait(mask) };
    until(caller, Ok(limit_of_ms(timeout_ms)), call, kept)
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
    let kept = || unsafe { next::epoll_pwait2(epoll, events, most, timeout, mask) };
    // The kernel reads this timeout. A bad one is its to refuse.
    let limit = if timeout.is_null() { Ok(None) } else { memory::read(timeout).ok_or(()).and_then(limit_in) };
    until(caller, limit, Epoll { epoll, events, most, own: EpollCall::Pwait2(mask) }, kept)
}

/// Words of the sets of FD_SETSIZE descriptors. A program may give longer ones, which are kept as they are.
const WORDS: usize = libc::FD_SETSIZE / c_ulong::BITS as usize;

/// Three sets, of as many words as the kernel uses.
type Sets = [[c_ulong; WORDS]; 3];

/// A wait on copies of the sets, since each call changes them. The last call is on the program's own sets: the kernel alone knows which of
/// their words it writes, and a program may use the memory behind them.
struct Select {
    count: c_int,
    given: [*mut c_ulong; 3],
    asked: Sets,
    /// What pselect(2) got; none for select(2).
    mask: Option<*const sigset_t>,
    /// The program's sets have an answer.
    answered: bool,
}

impl Select {
    /// Reads the sets; false where they are too long or cannot be read. The sets are copied into place: signal handlers have small stacks.
    fn copy_sets(&mut self) -> bool {
        let words = usize::try_from(self.count).map_or(usize::MAX, |count| count.div_ceil(c_ulong::BITS as usize));
        for (set, asked) in self.given.iter().zip(&mut self.asked) {
            let Some(asked) = asked.get_mut(..words) else { return false };
            if set.is_null() || words == 0 {
                continue;
            }
            if !memory::is_readable(set.cast_const().cast(), size_of_val(asked)) {
                return false;
            }
            for (place, word) in asked.iter_mut().enumerate() {
                // SAFETY: these words can be read. Another thread may write to them meanwhile, as while the kernel reads them.
                *word = unsafe { set.add(place).read_volatile() };
            }
        }
        true
    }

    /// Asks for events in these sets.
    fn ask(&self, [read, write, except]: [*mut c_ulong; 3], limit: Option<&timespec>) -> c_int {
        let [read, write, except] = [read, write, except].map(<*mut c_ulong>::cast::<fd_set>);
        if let Some(mask) = self.mask {
            // SAFETY: the arguments of the caller, and a limit of this library.
            return unsafe { next::pselect(self.count, read, write, except, pointer(limit), mask) };
        }
        let mut limit = limit.map(|limit| timeval {
            tv_sec: limit.tv_sec + (limit.tv_nsec > 999_999_000) as libc::time_t,
            tv_usec: ((limit.tv_nsec as u32).div_ceil(1_000) % 1_000_000) as _,
        });
        let limit = limit.as_mut().map_or(std::ptr::null_mut(), |limit| &raw mut *limit);
        // SAFETY: the same.
        unsafe { next::select(self.count, read, write, except, limit) }
    }

    #[inline(never)]
    fn ask_copies(&self, limit: Option<&timespec>) -> c_int {
        let mut copies = self.asked;
        let mut pointers = self.given;
        for (pointer, copy) in pointers.iter_mut().zip(&mut copies).filter(|(pointer, _)| !pointer.is_null()) {
            *pointer = copy.as_mut_ptr();
        }
        self.ask(pointers, limit)
    }

    /// Writes the answer into the program's sets: 0 if there is no event any more.
    fn answer(&mut self) -> c_int {
        self.ask_again();
        self.answered = true;
        self.ask(self.given, Some(&NONE))
    }

    /// Undoes an answer without events.
    fn ask_again(&mut self) {
        if !std::mem::take(&mut self.answered) {
            return;
        }
        for (set, asked) in self.given.iter().zip(&self.asked).filter(|(set, _)| !set.is_null()) {
            for (place, asked) in asked.iter().enumerate().filter(|(_, asked)| **asked != 0) {
                // SAFETY: `new` has read this word.
                unsafe {
                    let word = set.add(place);
                    // The kernel does not write words of descriptors beyond those that the process can have.
                    if word.read_volatile() == 0 {
                        word.write_volatile(*asked);
                    }
                }
            }
        }
    }
}

impl Look for Select {
    fn look(&mut self) -> c_int {
        self.block(Some(&NONE))
    }

    fn block(&mut self, limit: Option<&timespec>) -> c_int {
        let found = self.ask_copies(limit);
        if found > 0 { self.answer() } else { found }
    }

    fn mask(&self) -> *const sigset_t {
        self.mask.unwrap_or(std::ptr::null())
    }

    fn finish(&mut self, found: c_int) -> c_int {
        match found {
            0 if !self.answered => self.answer(),
            -1 => {
                self.ask_again();
                found
            }
            _ => found,
        }
    }
}

/// The wait of select(2) or pselect(2); none where it is left to the C library.
#[inline(never)]
fn wait_on_copies(
    settings: &Settings,
    limit_ns: Option<i64>,
    count: c_int,
    sets: [*mut fd_set; 3],
    mask: Option<*const sigset_t>,
) -> Option<c_int> {
    let given = sets.map(<*mut fd_set>::cast::<c_ulong>);
    let mut call = Select { count, given, asked: [[0; WORDS]; 3], mask, answered: false };
    call.copy_sets().then(|| wait(settings, limit_ns, &mut call))
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
    let settings = settings::for_caller(caller);
    // SAFETY: the caller gave null or a timeval.
    let limit = unsafe { timeout.as_ref() }.map(length_of);
    let deadline_ns = limit.flatten().map(|limit_ns| now_ns().saturating_add(limit_ns));
    let found = match limit {
        None | Some(Some(_)) if concerned(&settings, limit.flatten()) => {
            wait_on_copies(&settings, limit.flatten(), count, [read, write, except], None)
        }
        _ => None,
    };
    let Some(found) = found else {
        // SAFETY: the arguments of the caller.
        return unsafe { next::select(count, read, write, except, timeout) };
    };
    if let Some(deadline_ns) = deadline_ns {
        let left = timespec_of(deadline_ns - now_ns());
        // SAFETY: the caller's timeval.
        unsafe { timeout.write(timeval { tv_sec: left.tv_sec, tv_usec: (left.tv_nsec / 1_000) as _ }) };
    }
    found
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
    let settings = settings::for_caller(caller);
    let found = match limit {
        Ok(limit) if concerned(&settings, limit) => {
            wait_on_copies(&settings, limit, count, [read, write, except], Some(mask))
        }
        _ => None,
    };
    found.unwrap_or_else(kept)
}

#[cfg(test)]
mod tests;
