//! Signals: blocks them on a thread, and reads or resets signal actions (`pthread_sigmask(3)`, `sigaction(2)`). And those that this process
//! sends to itself: of timers, and the one that interrupts a thread in a system call (`tgkill(2)`).
//!
//! The real-time signals used here lie above those that the C library reserves (`SIGRTMIN` excludes these). A timer's signal is blocked
//! in the thread that waits for it, and handled harmlessly in all others. Handlers are installed while in use: they count expiries, and
//! pass SIGALRM to the thread that waits for it.
//!
//! [`Interrupter`] ends the call of another thread with EINTR. To cut a long wait, request the stop ([`stop`]), then interrupt the thread.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::{Error, Result, check, check_errno_return, descriptor};

/// A set of these signals. Async-signal-safe.
pub(crate) fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigemptyset initialises the set; sigaddset changes an initialised one.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// A set of every signal.
pub(crate) fn every_signal() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigfillset initialises the set.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// `signalfd(2)`, close-on-exec: a descriptor for these signals, which must be blocked.
pub(crate) fn signalfd(set: &libc::sigset_t, nonblocking: bool) -> Result<OwnedFd> {
    let flags = libc::SFD_CLOEXEC | if nonblocking { libc::SFD_NONBLOCK } else { 0 };
    // SAFETY: the set is valid for the call, which returns a descriptor of this call alone.
    unsafe { descriptor("signalfd", libc::signalfd(-1, set, flags)) }
}

/// `read(2)` of a signalfd. `None`: less than a signal was there to read.
#[inline]
pub(crate) fn read_signalfd(descriptor: BorrowedFd<'_>) -> Result<Option<libc::signalfd_siginfo>> {
    let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
    let bytes = size_of::<libc::signalfd_siginfo>();
    // SAFETY: the buffer is writable for its length.
    let n = unsafe { libc::read(descriptor.as_raw_fd(), info.as_mut_ptr().cast(), bytes) };
    let n = usize::try_from(n).map_err(|_| Error::last("read").on("signalfd"))?;
    // SAFETY: zeroed is a valid value, and the call filled all of it.
    Ok((n == bytes).then(|| unsafe { info.assume_init() }))
}

/// `pthread_sigmask(3)`: changes the calling thread's mask by this set and returns the mask from before. Async-signal-safe.
pub(crate) fn change_mask(how: i32, set: &libc::sigset_t) -> Result<libc::sigset_t> {
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both sets are valid for the call.
    check_errno_return("pthread_sigmask", unsafe { libc::pthread_sigmask(how, set, before.as_mut_ptr()) })?;
    // SAFETY: zeroed is a valid sigset_t already, and the call filled it.
    Ok(unsafe { before.assume_init() })
}

/// Blocks signals on this thread until dropped, then restores the mask.
///
/// Bound to the thread that created it.
#[derive(Debug)]
#[must_use = "the signals are unblocked when this is dropped"]
pub struct BlockedSignals {
    before: libc::sigset_t,
    bound_to_thread: PhantomData<*const ()>,
}

/// `pthread_sigmask(SIG_BLOCK)`: blocks every signal that can be blocked on the calling thread.
///
/// Another thread then takes signals sent to the process; signals sent to this thread wait until the guard is dropped.
/// Signals that the thread causes itself (SIGSEGV, SIGBUS, SIGFPE, SIGILL) stay unblocked: blocked, they would kill silently.
pub fn block_all_signals_for_this_thread() -> Result<BlockedSignals> {
    block_all_signals_but(&[])
}

/// The same except for the signals in `open`, which are unchanged.
pub fn block_all_signals_but(open: &[i32]) -> Result<BlockedSignals> {
    let mut set = every_signal();
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL].iter().chain(open) {
        // SAFETY: changes an initialised set.
        unsafe { libc::sigdelset(&raw mut set, *signal) };
    }
    Ok(BlockedSignals { before: change_mask(libc::SIG_BLOCK, &set)?, bound_to_thread: PhantomData })
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: `before` is a mask that the kernel gave; setting it cannot fail.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, null_mut()) };
    }
}

/// `tgkill(2)`: sends `signal` to thread `tid` of this process. ESRCH once that thread has ended. Signal 0 only checks that it exists.
pub fn send_signal_to_thread(tid: i32, signal: i32) -> Result<()> {
    // SAFETY: takes numbers; what a handler then does is the business of whoever installed it.
    let returned = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) };
    check("tgkill", returned as i32).map(drop).map_err(|e| e.on(format!("thread {tid}, signal {signal}")))
}

/// Whether the process ignores `signal`, as under `nohup` or in the background of a script.
pub fn is_ignored(signal: i32) -> Result<bool> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a null action changes nothing; `action` is writable.
    check("sigaction", unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) })?;
    // SAFETY: the call filled it.
    Ok(unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN)
}

/// Resets each ignored signal that ends or stops a program to its default action. Children would inherit it. For a program that ends
/// others by these signals.
pub fn heed_what_ends_a_program() -> Result<()> {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGTSTP] {
        if is_ignored(signal)? {
            // SAFETY: the default action runs no code of ours.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    Ok(())
}

/// The signal of timers that `sigwaitinfo` waits for.
pub(crate) fn for_waiting() -> i32 {
    libc::SIGRTMIN() + 2
}

/// The signal of timers with a handler.
pub(crate) fn for_handling() -> i32 {
    libc::SIGRTMIN() + 3
}

/// The signal that `sigtimedwait` waits for; it is never sent.
pub(crate) fn for_nothing() -> i32 {
    libc::SIGRTMIN() + 4
}

/// The signal that interrupts a wait; an interruptible thread must not block it.
#[must_use]
pub fn for_interrupting() -> i32 {
    libc::SIGRTMIN() + 5
}

/// Highest signal number plus one (`_NSIG`), for the tables.
const SIGNALS: usize = 65;

thread_local! {
    /// Per signal: the number of holds on this thread, and whether it was blocked before the first.
    static HELD: Cell<[(u16, bool); SIGNALS]> = const { Cell::new([(0, false); SIGNALS]) };
}

/// Blocks a signal in the calling thread; holds nest. The last drop discards pending signals and restores the mask.
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
            let before = change_mask(libc::SIG_BLOCK, &set_of(&[signal]))?;
            // SAFETY: reads an initialised set.
            entry.1 = unsafe { libc::sigismember(&raw const before, signal) } == 1;
        }
        entry.0 += 1;
        HELD.set(table);
        Ok(Self { signal, bound_to_thread: PhantomData })
    }

    /// The calling thread's signal mask without this signal, for `sigsuspend`.
    pub(crate) fn mask_without(&self) -> Result<libc::sigset_t> {
        let mut mask = change_mask(libc::SIG_BLOCK, &set_of(&[]))?;
        // SAFETY: changes an initialised set.
        unsafe { libc::sigdelset(&raw mut mask, self.signal) };
        Ok(mask)
    }

    /// Discards pending signals of this number.
    pub(crate) fn discard_pending(&self) {
        let set = set_of(&[self.signal]);
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
            // With these arguments it cannot fail.
            let _ = change_mask(libc::SIG_UNBLOCK, &set_of(&[self.signal]));
        }
        HELD.set(table);
    }
}

/// Does nothing: the signal's purpose is to interrupt a call.
extern "C" fn ignore(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

/// The action of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Count a timer's expiry in its [`Slot`].
    Count,
    /// Pass it on to the [`AlarmTarget`].
    Forward,
    /// Only interrupt calls (no `SA_RESTART`).
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

struct Installed {
    signal: i32,
    action: Action,
    users: usize,
    before: libc::sigaction,
}

static INSTALLED: Mutex<Vec<Installed>> = Mutex::new(Vec::new());

/// A handler, installed for a signal while in use; the last user restores the previous action.
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
        // SAFETY: reads the action in force; then restores the action that the kernel returned. A handler that other code
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

/// The `siginfo_t` of a timer's signal in the kernel's layout (`asm-generic/siginfo.h`).
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

/// The value of the timer, if `info` came from a timer.
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

/// Expiries of each timer with a handler. A static table instead of a pointer: a handler may touch atomics only. The signal of a
/// deleted timer must be harmless.
static FIRED: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];
static SLOTS: AtomicU64 = AtomicU64::new(0);

/// A slot of the table.
#[derive(Debug)]
pub(crate) struct Slot(usize);

impl Slot {
    /// A free slot; `None` if 64 timers with a handler exist.
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

/// Counts a timer's expiry; ignores other signals.
extern "C" fn count(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel calls this with a filled siginfo_t (SA_SIGINFO).
    if let Some(slot) = unsafe { timer_value(info) }
        && let Some(fired) = FIRED.get(slot)
    {
        fired.fetch_add(1, Ordering::AcqRel);
    }
}

/// The thread that waits for SIGALRM: its kernel ID (0: none), and its pthread. That is known without a system call.
static ALARM_TARGET: AtomicI32 = AtomicI32::new(0);
static ALARM_THREAD: AtomicUsize = AtomicUsize::new(0);
/// Threads that are passing a SIGALRM on.
static FORWARDING: AtomicU32 = AtomicU32::new(0);

/// While this exists, other threads pass SIGALRM on to the thread that created it.
#[derive(Debug)]
pub(crate) struct AlarmTarget(());

impl AlarmTarget {
    /// For the calling thread. The caller ensures that only one exists.
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
        // Wait for threads that still pass one on before the old handler, which may end the process, is restored.
        while FORWARDING.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
    }
}

/// Passes SIGALRM on to the waiting thread, if another one got it.
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

/// Makes the calling thread interruptible. A signal handler is installed while this or an [`Interrupter`] exists.
#[derive(Debug)]
pub struct Interruptible {
    interrupter: Interrupter,
    bound_to_thread: PhantomData<*const ()>,
}

/// Interrupts one thread.
#[derive(Debug, Clone)]
pub struct Interrupter {
    thread: libc::pid_t,
    _handler: Arc<Handler>,
}

impl Interruptible {
    /// `sigaction(2)`: a handler that does nothing, without `SA_RESTART`; and `gettid(2)`.
    pub fn this_thread() -> Result<Self> {
        let handler = Arc::new(Handler::install(for_interrupting(), Action::Interrupt)?);
        // SAFETY: no arguments.
        let thread = unsafe { libc::gettid() };
        Ok(Self { interrupter: Interrupter { thread, _handler: handler }, bound_to_thread: PhantomData })
    }

    /// The handle that interrupts this thread, for another one.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }
}

impl Interrupter {
    /// `tgkill(2)`. ESRCH: the thread has ended.
    pub fn interrupt(&self) -> Result<()> {
        // The handler is installed, so the signal ends nothing but a call.
        send_signal_to_thread(self.thread, for_interrupting())
    }
}

/// A process-wide request to stop waiting, so that Ctrl-C can cut a long wait.
///
/// A signal handler or any thread calls [`stop::request`]. A waiting thread checks [`stop::requested`] when a signal interrupts its call. Both
/// are async-signal-safe.
pub mod stop {
    use std::sync::atomic::{AtomicBool, Ordering};

    static REQUESTED: AtomicBool = AtomicBool::new(false);

    /// Asks all waits of this process to end at their next interruption. Async-signal-safe.
    #[inline]
    pub fn request() {
        REQUESTED.store(true, Ordering::Relaxed);
    }

    /// Whether [`request`] was called and not yet cleared.
    #[inline]
    #[must_use]
    pub fn requested() -> bool {
        REQUESTED.load(Ordering::Relaxed)
    }

    /// Clears the request.
    #[inline]
    pub fn clear() {
        REQUESTED.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::sched::current_thread_id;
    use crate::sleep::{self, Ended};

    /// Whether `signal` is blocked on the calling thread.
    fn is_blocked(signal: i32) -> Result<bool> {
        let mask = change_mask(libc::SIG_BLOCK, &set_of(&[]))?;
        // SAFETY: reads an initialised set.
        Ok(check("sigismember", unsafe { libc::sigismember(&raw const mask, signal) })? == 1)
    }

    #[test]
    fn blocked_then_as_before() {
        assert!(!is_blocked(libc::SIGUSR1).unwrap());
        let blocked = block_all_signals_for_this_thread().unwrap();
        assert!(is_blocked(libc::SIGUSR1).unwrap());
        assert!(!is_blocked(libc::SIGSEGV).unwrap());
        let nested = block_all_signals_for_this_thread().unwrap();
        drop(nested);
        assert!(is_blocked(libc::SIGUSR1).unwrap());
        drop(blocked);
        assert!(!is_blocked(libc::SIGUSR1).unwrap());
    }

    #[test]
    fn ignored_and_no_longer() {
        // Ignored by default, which is not the same as being told to.
        assert!(!is_ignored(libc::SIGWINCH).unwrap());
        for signal in [libc::SIGTSTP, libc::SIGWINCH] {
            // SAFETY: runs no code of ours.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
            assert!(is_ignored(signal).unwrap());
        }
        heed_what_ends_a_program().unwrap();
        assert!(!is_ignored(libc::SIGTSTP).unwrap());
        assert!(is_ignored(libc::SIGWINCH).unwrap(), "none of those that end or stop a program");
        assert_eq!(is_ignored(-1).unwrap_err().errno(), libc::EINVAL);
    }

    #[test]
    fn signals_reach_the_thread_or_say_it_is_gone() {
        send_signal_to_thread(current_thread_id(), 0).unwrap();
        // SIGURG is ignored by default, so it may really be sent.
        send_signal_to_thread(current_thread_id(), libc::SIGURG).unwrap();
        assert_eq!(send_signal_to_thread(i32::MAX, 0).unwrap_err().errno(), libc::ESRCH);
    }

    #[test]
    fn a_signal_stays_held_until_the_last_one_lets_go() {
        let signal = libc::SIGRTMIN() + 9;
        assert!(!is_blocked(signal).unwrap());
        let first = Held::new(signal).unwrap();
        let second = Held::new(signal).unwrap();
        drop(first);
        assert!(is_blocked(signal).unwrap());
        // A pending signal whose default action would end the process must be discarded before it is unblocked.
        // SAFETY: sends a signal to this thread, which holds it.
        unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
        drop(second);
        assert!(!is_blocked(signal).unwrap());
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

    #[test]
    fn a_sleep_of_an_hour_ends() {
        static DONE: AtomicBool = AtomicBool::new(false);
        let me = Interruptible::this_thread().unwrap();
        let interrupter = me.interrupter();
        // Repeatedly: the first signal may come before the sleep begins.
        let other = std::thread::spawn(move || {
            while !DONE.load(Ordering::Relaxed) {
                interrupter.interrupt().unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        assert_eq!(sleep::nanosleep(3_600_000_000_000).unwrap(), Ended::Sooner);
        DONE.store(true, Ordering::Relaxed);
        other.join().unwrap();
    }
}
