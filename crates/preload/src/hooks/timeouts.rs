//! `poll`, `ppoll`, `select`, `pselect`, `epoll_wait`, `epoll_pwait`, `epoll_pwait2`.

use libc::{c_int, c_ulong, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use super::limits::{length_of, limit_of};
use super::looking::{Look, wait};
use crate::callers::Caller;
use crate::filter::{Foreign, may_use_newer};
use crate::next::{length_ns, now_ns, timespec as timespec_of};
use crate::observe::Limit;
use crate::settings::Settings;
use crate::{memory, next, settings};

const NONE: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

/// The settings of a call with this limit, and for how long it may wait, if a setting concerns it. Calls that only look are kept.
fn concerning(caller: Caller, limit: Limit) -> Option<(Settings, Option<i64>)> {
    let limit_ns = match limit {
        Limit::Endless => None,
        Limit::For(ns) => Some(ns),
        Limit::Look | Limit::Until(_) => return None,
    };
    let settings = settings::for_caller(caller);
    concerned(&settings, limit_ns).then_some((settings, limit_ns))
}

fn concerned(settings: &Settings, limit_ns: Option<i64>) -> bool {
    settings.poll_first_ns > 0 || settings.precise.is_some() && limit_ns.is_some()
}

/// A call with this limit: by this library if a setting concerns it, else the program's own.
///
/// # Safety
/// Its pointers are as the C function takes them.
pub(super) unsafe fn until(caller: Caller, limit: Limit, mut call: Events, own: impl FnOnce() -> c_int) -> c_int {
    match concerning(caller, limit) {
        Some((settings, limit_ns)) => wait(&settings, limit_ns, &mut call),
        None => own(),
    }
}

fn pointer(limit: Option<&timespec>) -> *const timespec {
    limit.map_or(std::ptr::null(), |limit| &raw const *limit)
}

/// A limit in milliseconds, rounded up: a call may end late, not early.
fn ms_of(limit: Option<&timespec>) -> c_int {
    limit.map_or(-1, |limit| {
        let ms = (length_ns(limit).unwrap_or(0) as u64).div_ceil(1_000_000);
        c_int::try_from(ms).unwrap_or(c_int::MAX)
    })
}

/// A call that waits for events, with its arguments.
pub(super) enum Events {
    Poll { fds: *mut pollfd, count: nfds_t },
    Ppoll { fds: *mut pollfd, count: nfds_t, mask: *const sigset_t },
    EpollWait { epoll: c_int, found: *mut epoll_event, most: c_int },
    EpollPwait { epoll: c_int, found: *mut epoll_event, most: c_int, mask: *const sigset_t },
    EpollPwait2 { epoll: c_int, found: *mut epoll_event, most: c_int, mask: *const sigset_t },
}

static PPOLL: Foreign = Foreign::new();
static EPOLL_PWAIT2: Foreign = Foreign::new();

impl Events {
    /// The program's own call.
    fn own(&self, limit: Option<&timespec>) -> c_int {
        // SAFETY: the arguments of the caller, and a limit of this library.
        unsafe {
            match *self {
                Self::Poll { fds, count } => next::poll(fds, count, ms_of(limit)),
                Self::Ppoll { fds, count, mask } => next::ppoll(fds, count, pointer(limit), mask),
                Self::EpollWait { epoll, found, most } => next::epoll_wait(epoll, found, most, ms_of(limit)),
                Self::EpollPwait { epoll, found, most, mask } => {
                    next::epoll_pwait(epoll, found, most, ms_of(limit), mask)
                }
                Self::EpollPwait2 { epoll, found, most, mask } => {
                    next::epoll_pwait2(epoll, found, most, pointer(limit), mask)
                }
            }
        }
    }

    fn takes_ns(&self) -> bool {
        matches!(self, Self::Ppoll { .. } | Self::EpollPwait2 { .. })
    }

    /// The call that takes ns in place of ms, if it may be made. Linux before 5.11 has no epoll_pwait2, and many filters do not know it.
    fn newer(&self) -> Option<&'static Foreign> {
        let newer = match self {
            Self::Poll { .. } => &PPOLL,
            _ if !self.takes_ns() && next::has_epoll_pwait2() && may_use_newer() => &EPOLL_PWAIT2,
            _ => return None,
        };
        newer.is_allowed().then_some(newer)
    }
}

impl Look for Events {
    fn look(&mut self) -> c_int {
        self.own(Some(&NONE))
    }

    fn block(&mut self, limit: Option<&timespec>) -> c_int {
        let Some(newer) = limit.and_then(|_| self.newer()) else { return self.own(limit) };
        let errno = next::errno();
        // SAFETY: the arguments of the caller, and a limit of this library.
        let found = unsafe {
            match *self {
                Self::Poll { fds, count } | Self::Ppoll { fds, count, .. } => {
                    next::ppoll(fds, count, pointer(limit), self.mask())
                }
                Self::EpollWait { epoll, found, most }
                | Self::EpollPwait { epoll, found, most, .. }
                | Self::EpollPwait2 { epoll, found, most, .. } => {
                    next::epoll_pwait2(epoll, found, most, pointer(limit), self.mask())
                }
            }
        };
        if found >= 0 || !newer.is_refused(next::errno()) {
            return found;
        }
        next::set_errno(errno);
        self.own(limit)
    }

    fn mask(&self) -> *const sigset_t {
        match *self {
            Self::Poll { .. } | Self::EpollWait { .. } => std::ptr::null(),
            Self::Ppoll { mask, .. } | Self::EpollPwait { mask, .. } | Self::EpollPwait2 { mask, .. } => mask,
        }
    }

    fn is_exact(&self) -> bool {
        self.takes_ns() || self.newer().is_some()
    }
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
                // SAFETY: `copy_sets` has read this word.
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

/// As select(2): what is left of the timeout is written back, as Linux does.
///
/// # Safety
/// Its pointers are as the C function takes them.
pub(super) unsafe fn select(
    count: c_int,
    sets: [*mut fd_set; 3],
    timeout: *mut timeval,
    caller: Caller,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller gave null or a timeval.
    let limit = limit_of(unsafe { timeout.as_ref() }.map(length_of));
    let Some((settings, limit_ns)) = concerning(caller, limit) else { return own() };
    let deadline_ns = limit_ns.map(|limit_ns| now_ns().saturating_add(limit_ns));
    let Some(found) = wait_on_copies(&settings, limit_ns, count, sets, None) else { return own() };
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
/// Its pointers are as the C function takes them.
pub(super) unsafe fn pselect(
    count: c_int,
    sets: [*mut fd_set; 3],
    limit: Limit,
    mask: *const sigset_t,
    caller: Caller,
    own: impl FnOnce() -> c_int,
) -> c_int {
    let wait = |(settings, limit_ns)| wait_on_copies(&settings, limit_ns, count, sets, Some(mask));
    concerning(caller, limit).and_then(wait).unwrap_or_else(own)
}

#[cfg(test)]
mod tests;
