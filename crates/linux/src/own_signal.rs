//! Signals that this process sends to itself with timers: held back in the thread that waits for them, and handled harmlessly
//! wherever else they may arrive.
//!
//! The real-time signals used here lie above those that the C library keeps for itself (`SIGRTMIN` accounts for these).

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::{Result, check, check_errno_return};

/// Highest signal number plus one (`_NSIG`), for the tables.
const SIGNALS: usize = 65;

/// The signal of timers that are waited for with `sigwaitinfo`.
pub(crate) fn for_waiting() -> i32 {
    libc::SIGRTMIN() + 2
}

/// The signal of timers with a handler.
pub(crate) fn for_handling() -> i32 {
    libc::SIGRTMIN() + 3
}

/// The signal that `sigtimedwait` waits for in vain.
pub(crate) fn for_nothing() -> i32 {
    libc::SIGRTMIN() + 4
}

/// The signal that interrupts a wait.
pub(crate) fn for_interrupting() -> i32 {
    libc::SIGRTMIN() + 5
}

/// An empty set with `signal` in it.
pub(crate) fn set_of(signal: i32) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set; sigaddset changes an initialised one.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        set.assume_init()
    }
}

thread_local! {
    /// Per signal: how often this thread holds it, and whether it was blocked before the first time.
    static HELD: Cell<[(u16, bool); SIGNALS]> = const { Cell::new([(0, false); SIGNALS]) };
}

/// A signal blocked in the calling thread, as often as it is held; on the last drop pending ones are discarded and the mask is as before.
#[derive(Debug)]
pub(crate) struct Held {
    signal: i32,
    bound_to_thread: PhantomData<*const ()>,
}

impl Held {
    pub(crate) fn new(signal: i32) -> Result<Self> {
        let mut table = HELD.get();
        let entry = &mut table[signal as usize];
        if entry.0 == 0 {
            let set = set_of(signal);
            let mut old = MaybeUninit::<libc::sigset_t>::uninit();
            // SAFETY: both sets are valid for the call, which fills `old` when it succeeds.
            let errno = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, old.as_mut_ptr()) };
            check_errno_return("pthread_sigmask", errno)?;
            // SAFETY: `old` was filled.
            entry.1 = unsafe { libc::sigismember(old.as_ptr(), signal) } == 1;
        }
        entry.0 += 1;
        HELD.set(table);
        Ok(Self { signal, bound_to_thread: PhantomData })
    }

    /// The calling thread's signal mask as it is now, without this signal: for `sigsuspend`.
    pub(crate) fn mask_without(&self) -> Result<libc::sigset_t> {
        let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: asks for the mask only, which is filled when the call succeeds.
        let errno = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr()) };
        check_errno_return("pthread_sigmask", errno)?;
        // SAFETY: `mask` was filled; sigdelset changes an initialised set.
        unsafe {
            libc::sigdelset(mask.as_mut_ptr(), self.signal);
            Ok(mask.assume_init())
        }
    }

    /// Throws away pending signals of this number.
    pub(crate) fn discard_pending(&self) {
        let set = set_of(self.signal);
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: set and timeout are valid for each call; no information is asked for.
        while unsafe { libc::sigtimedwait(&raw const set, null_mut(), &raw const zero) } == self.signal {}
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut table = HELD.get();
        let entry = &mut table[self.signal as usize];
        entry.0 -= 1;
        if entry.0 == 0 && !entry.1 {
            self.discard_pending();
            let set = set_of(self.signal);
            // SAFETY: the set is valid for the call; with these arguments it cannot fail.
            unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, null_mut()) };
        }
        HELD.set(table);
    }
}

/// What a signal of a timer carries (`siginfo_t` in the layout of the kernel, `asm-generic/siginfo.h`).
#[repr(C)]
struct TimerInfo {
    signo: i32,
    errno: i32,
    code: i32,
    fields: TimerFields,
}

#[repr(C)]
struct TimerFields {
    timer: i32,
    overrun: i32,
    value: libc::sigval,
}

/// The value a timer was created with, if `info` came from a timer.
///
/// # Safety
/// `info` must be a `siginfo_t` filled by the kernel.
pub(crate) unsafe fn timer_value(info: *const libc::siginfo_t) -> Option<usize> {
    const { assert!(size_of::<TimerInfo>() <= size_of::<libc::siginfo_t>()) };
    // SAFETY: the kernel filled `info`; for SI_TIMER it has the layout of `TimerInfo`, and any bytes are valid for it.
    unsafe {
        if (*info).si_code != libc::SI_TIMER {
            return None;
        }
        Some((*info.cast::<TimerInfo>()).fields.value.sival_ptr as usize)
    }
}

/// How often each timer with a handler has expired. A handler may touch nothing but atomics, and a timer that is gone must do no harm:
/// hence a static table rather than a pointer.
static FIRED: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];
static SLOTS: AtomicU64 = AtomicU64::new(0);

/// A place in the table of expiries.
#[derive(Debug)]
pub(crate) struct Slot(usize);

impl Slot {
    /// A free place; `None` when 64 timers with a handler exist.
    pub(crate) fn claim() -> Option<Self> {
        let mut used = SLOTS.load(Ordering::Relaxed);
        loop {
            let free = used.trailing_ones();
            if free == u64::BITS {
                return None;
            }
            match SLOTS.compare_exchange_weak(used, used | 1 << free, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(Self(free as usize)),
                Err(now) => used = now,
            }
        }
    }

    pub(crate) fn number(&self) -> usize {
        self.0
    }

    /// Expiries so far, wrapping.
    pub(crate) fn fired(&self) -> u32 {
        FIRED[self.0].load(Ordering::Acquire)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        SLOTS.fetch_and(!(1 << self.0), Ordering::AcqRel);
    }
}

/// The thread that waits for SIGALRM, by its kernel number (0: none) and by its pthread, which is known without a system call.
static ALARM_TARGET: AtomicI32 = AtomicI32::new(0);
static ALARM_THREAD: AtomicUsize = AtomicUsize::new(0);
/// Threads that are just now passing a SIGALRM on.
static FORWARDING: AtomicU32 = AtomicU32::new(0);

/// While it exists, SIGALRM that another thread takes is passed on to the thread that made this.
#[derive(Debug)]
pub(crate) struct AlarmTarget(());

impl AlarmTarget {
    /// For the calling thread. The caller sees to it that there is only one.
    pub(crate) fn this_thread() -> Self {
        // SAFETY: no arguments.
        let (thread, number) = unsafe { (libc::pthread_self(), libc::gettid()) };
        ALARM_THREAD.store(thread as usize, Ordering::SeqCst);
        ALARM_TARGET.store(number, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for AlarmTarget {
    fn drop(&mut self) {
        ALARM_TARGET.store(0, Ordering::SeqCst);
        // Whoever still passes one on must be done before the old handler, which may end the process, is back.
        while FORWARDING.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
    }
}

/// Passes SIGALRM on to the thread that waits for it, if another one got it.
extern "C" fn forward(signal: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    FORWARDING.fetch_add(1, Ordering::SeqCst);
    let target = ALARM_TARGET.load(Ordering::SeqCst);
    // SAFETY: pthread_self, getpid and tgkill are async-signal-safe and take numbers; the interrupted code's errno is put back.
    unsafe {
        if target != 0 && ALARM_THREAD.load(Ordering::SeqCst) != libc::pthread_self() as usize {
            let errno = *libc::__errno_location();
            libc::syscall(libc::SYS_tgkill, libc::getpid(), target, signal);
            *libc::__errno_location() = errno;
        }
    }
    FORWARDING.fetch_sub(1, Ordering::SeqCst);
}

/// Does nothing: the signal has done its work by interrupting a call.
extern "C" fn ignore(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

/// What is done with a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Counts a timer's expiry in its [`Slot`].
    Count,
    /// Passes it on to the [`AlarmTarget`].
    Forward,
    /// Nothing, but calls are interrupted (no `SA_RESTART`).
    Interrupt,
}

impl Action {
    fn address(self) -> libc::sighandler_t {
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = match self {
            Self::Count => count,
            Self::Forward => forward,
            Self::Interrupt => ignore,
        };
        handler as libc::sighandler_t
    }

    fn flags(self) -> i32 {
        if self == Self::Interrupt { libc::SA_SIGINFO } else { libc::SA_SIGINFO | libc::SA_RESTART }
    }
}

/// Counts a timer's expiry; anything else is ignored.
extern "C" fn count(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel calls this with a filled siginfo_t (SA_SIGINFO).
    if let Some(slot) = unsafe { timer_value(info) }
        && let Some(fired) = FIRED.get(slot)
    {
        fired.fetch_add(1, Ordering::AcqRel);
    }
}

struct Installed {
    signal: i32,
    action: Action,
    users: usize,
    before: libc::sigaction,
}

static INSTALLED: Mutex<Vec<Installed>> = Mutex::new(Vec::new());

/// A handler, installed for a signal as long as somebody uses it; then what was there before is put back.
#[derive(Debug)]
pub(crate) struct Handler(i32);

impl Handler {
    pub(crate) fn install(signal: i32, what: Action) -> Result<Self> {
        let mut installed = INSTALLED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(entry) = installed.iter_mut().find(|entry| entry.signal == signal) {
            entry.users += 1;
            return Ok(Self(signal));
        }
        // SAFETY: all-zero bytes are a valid sigaction (default action, empty mask).
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = what.address();
        action.sa_flags = what.flags();
        let mut before = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: `action` is valid, its handler is async-signal-safe; `before` is filled when the call succeeds.
        check("sigaction", unsafe { libc::sigaction(signal, &raw const action, before.as_mut_ptr()) })?;
        // SAFETY: filled by the call above.
        installed.push(Installed { signal, action: what, users: 1, before: unsafe { before.assume_init() } });
        Ok(Self(signal))
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        let mut installed = INSTALLED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(place) = installed.iter().position(|entry| entry.signal == self.0) else { return };
        installed[place].users -= 1;
        if installed[place].users > 0 {
            return;
        }
        let entry = installed.swap_remove(place);
        let mut now = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: asks for the action in force; then puts back what the kernel itself gave us. A handler that somebody else
        // installed in the meantime is left alone.
        unsafe {
            if libc::sigaction(self.0, std::ptr::null(), now.as_mut_ptr()) == 0
                && now.assume_init_ref().sa_sigaction == entry.action.address()
            {
                libc::sigaction(self.0, &raw const entry.before, null_mut());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(signal: i32) -> bool {
        let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: asks for the mask, which is filled, and reads it.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
            libc::sigismember(mask.as_ptr(), signal) == 1
        }
    }

    #[test]
    fn a_signal_stays_held_until_the_last_one_lets_go() {
        let signal = libc::SIGRTMIN() + 9;
        assert!(!blocked(signal));
        let first = Held::new(signal).unwrap();
        let second = Held::new(signal).unwrap();
        drop(first);
        assert!(blocked(signal));
        // A pending signal whose default action would end the process must be gone before it is unblocked.
        // SAFETY: sends a signal to this thread, which holds it.
        unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
        drop(second);
        assert!(!blocked(signal));
    }

    #[test]
    fn what_was_handled_before_is_handled_so_again() {
        let signal = libc::SIGRTMIN() + 10;
        let action = || {
            let mut now = MaybeUninit::<libc::sigaction>::uninit();
            // SAFETY: asks for the action only.
            unsafe {
                libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr());
                now.assume_init().sa_sigaction
            }
        };
        assert_eq!(action(), libc::SIG_DFL);
        let first = Handler::install(signal, Action::Count).unwrap();
        let second = Handler::install(signal, Action::Count).unwrap();
        drop(first);
        assert_eq!(action(), Action::Count.address());
        drop(second);
        assert_eq!(action(), libc::SIG_DFL);
    }

    #[test]
    fn slots_run_out_and_come_back() {
        let all: Vec<_> = std::iter::from_fn(Slot::claim).collect();
        assert!(all.len() <= 64 && !all.is_empty());
        assert!(Slot::claim().is_none());
        drop(all);
        assert!(Slot::claim().is_some());
    }
}
