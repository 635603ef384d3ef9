//! Ends a wait that nothing else ends ([`Halt`]), and supervises such waits ([`Watcher`]): the other process may be killed, a
//! datagram lost, or the run interrupted.
//!
//! A thread of its own sleeps, and checks at intervals. When the wait is over it sets the [`Halt`] and ends the waits that no
//! signal ends. It interrupts the measuring thread until that returns.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use punctual_linux as linux;
use punctual_linux::child::{Child, Ended};
use punctual_linux::interrupt::Interrupter;

use super::control::Control;

/// Interval of checks: a killed process is noticed well within a second, and ten wake-ups a second disturb nothing.
const LOOK: Duration = Duration::from_millis(100);
/// Interval of interruptions of a thread that has not returned: the first may have come just before it fell asleep.
const AGAIN: Duration = Duration::from_millis(2);
/// A message that has not arrived this long after the last was sent is lost.
const PATIENCE: Duration = Duration::from_millis(500);
/// Number of checks that find the same message missing before it counts as lost: a second. They are counted, not
/// timed, so that a suspended machine or a stopped run loses nothing.
const LOOKS_PER_MESSAGE: u32 = 10;

/// The child, shared by two threads.
pub(super) type SharedChild = Arc<Mutex<Child>>;

/// The child's lock. A panic in another thread does not prevent killing the process.
pub(super) fn lock(child: &SharedChild) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why the wait was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The other process ended, in this way.
    Ended(Ended),
    /// It failed, with this reason.
    Failed,
    /// Everything was sent, and a message does not arrive.
    Missing,
    /// The run was asked to end.
    Stopped,
}

/// The wait under supervision.
pub(super) struct Watched {
    pub(super) child: SharedChild,
    pub(super) control: Control,
    pub(super) halt: Halt,
    pub(super) rouse: Vec<Box<dyn Fn() + Send>>,
    pub(super) interrupter: Interrupter,
    /// CPUs of the watching thread, because the measuring thread's own is busy.
    pub(super) cpus: Vec<usize>,
}

/// The watching thread.
pub(super) struct Watcher {
    thread: JoinHandle<Option<Reason>>,
    over: Sender<()>,
}

impl Watcher {
    pub(super) fn start(watched: Watched) -> std::io::Result<Self> {
        let (over, inbox) = channel();
        let thread = std::thread::Builder::new().name("watch".into()).spawn(move || {
            // A thread that may not move still checks, but later.
            let _ = linux::sched::set_affinity(0, &watched.cpus);
            watched.watch(&inbox)
        })?;
        Ok(Self { thread, over })
    }

    /// Ends the supervision. Returns the reason if the wait was ended.
    pub(super) fn finish(self) -> Option<Reason> {
        drop(self.over);
        self.thread.join().unwrap_or(None)
    }
}

/// The time for which the same message has been missing.
#[derive(Debug, Default)]
struct Patience {
    number: Option<u64>,
    looks: u32,
}

impl Patience {
    /// Another check found this message missing.
    fn is_over(&mut self, number: u64) -> bool {
        self.looks = if self.number == Some(number) { self.looks + 1 } else { 0 };
        self.number = Some(number);
        self.looks >= LOOKS_PER_MESSAGE
    }
}

impl Watched {
    fn watch(&self, over: &Receiver<()>) -> Option<Reason> {
        let mut done_at = None;
        let mut patience = Patience::default();
        let reason = loop {
            if over.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                return None;
            }
            if let Some(reason) = self.look(&mut done_at) {
                break reason;
            }
            if let Some(number) = self.halt.awaited().filter(|number| patience.is_over(*number)) {
                self.give_up(number);
            }
        };
        // First keep others from using the shared resources, then end waits on them by force.
        let _ = lock(&self.child).kill();
        self.halt.set();
        loop {
            self.rouse.iter().for_each(|rouse| rouse());
            // The thread may have returned just now.
            let _ = self.interrupter.interrupt();
            if over.recv_timeout(AGAIN) != Err(RecvTimeoutError::Timeout) {
                return Some(reason);
            }
        }
    }

    /// Ends the wait for a lost message. Returns when the thread waits for the next one, or soon: the next check
    /// continues.
    fn give_up(&self, number: u64) {
        self.halt.give_up(number);
        let until = Instant::now() + LOOK;
        while self.halt.awaited() == Some(number) && Instant::now() < until {
            let _ = self.interrupter.interrupt();
            std::thread::sleep(AGAIN);
        }
    }

    fn look(&self, done_at: &mut Option<Instant>) -> Option<Reason> {
        if linux::stop::requested() {
            return Some(Reason::Stopped);
        }
        if let Ok(Some(ended)) = lock(&self.child).ended() {
            return Some(Reason::Ended(ended));
        }
        if self.control.failure().is_some() {
            return Some(Reason::Failed);
        }
        // A message that may be lost has its own timeout.
        if !self.control.is_done() || self.halt.awaited().is_some() {
            return None;
        }
        let since = *done_at.get_or_insert_with(Instant::now);
        (since.elapsed() >= PATIENCE).then_some(Reason::Missing)
    }
}

/// Ends the waits of a link, permanently or for one message. Clones share the state. After a fork each process has
/// its own.
#[derive(Debug, Clone, Default)]
pub struct Halt(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// The current wait must end.
    ends: AtomicBool,
    /// Every wait must end.
    over: AtomicBool,
    /// One more than the number of the awaited message. 0: no message that may be given up.
    awaited: AtomicU64,
    /// One more than the number of the last message given up. 0: none.
    given_up: AtomicU64,
}

/// The result of an interrupted wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The wait continues: the interruption was for an earlier one.
    GoOn,
    /// The message is lost.
    Lost,
    /// All waiting is over.
    Over,
}

impl Halt {
    /// Ends all waits. The thread that notices the peer's end calls it.
    pub fn set(&self) {
        self.0.over.store(true, Ordering::SeqCst);
        self.0.ends.store(true, Ordering::SeqCst);
    }

    /// Whether the current wait must end.
    #[inline]
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.ends.load(Ordering::Relaxed) || linux::stop::requested()
    }

    /// An error (EINTR) of this call if the current wait must end.
    #[inline]
    pub(super) fn check(&self, call: &'static str) -> linux::Result<()> {
        if self.is_set() { Err(linux::Error::from_errno(call, linux::EINTR)) } else { Ok(()) }
    }

    /// Repeats a call after interruptions by signals, until it succeeds or the wait must end.
    #[inline]
    pub fn persist<T>(&self, mut call: impl FnMut() -> linux::Result<T>) -> linux::Result<T> {
        loop {
            match call() {
                Err(e) if e.errno() == linux::EINTR && !self.is_set() => {}
                done => return done,
            }
        }
    }

    /// Called by the waiting thread: from now on it waits for this message, which may be lost.
    #[inline]
    pub(super) fn wait_for(&self, number: u64) {
        self.0.awaited.store(number + 1, Ordering::Relaxed);
        if self.0.ends.load(Ordering::Relaxed) {
            // It was for the previous message, which came at the last moment.
            let _ = self.interrupted(number);
        }
    }

    /// The awaited message, if it may be lost.
    pub(super) fn awaited(&self) -> Option<u64> {
        self.0.awaited.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Ends the wait for this message only.
    pub(super) fn give_up(&self, number: u64) {
        self.0.given_up.store(number + 1, Ordering::SeqCst);
        self.0.ends.store(true, Ordering::SeqCst);
    }

    /// Called by the waiting thread after an interruption: whether to continue the wait for this message.
    pub(super) fn interrupted(&self, number: u64) -> Then {
        self.0.ends.store(false, Ordering::SeqCst);
        if self.0.over.load(Ordering::SeqCst) || linux::stop::requested() {
            // The flag cleared just now may have been a permanent one.
            self.0.ends.store(true, Ordering::SeqCst);
            return Then::Over;
        }
        if self.0.given_up.load(Ordering::SeqCst) == number + 1 { Then::Lost } else { Then::GoOn }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_for_one_message() {
        let mut patience = Patience::default();
        assert!((0..LOOKS_PER_MESSAGE).all(|_| !patience.is_over(7)));
        assert!(patience.is_over(7));
        assert!((0..LOOKS_PER_MESSAGE).all(|_| !patience.is_over(8)));
        assert!(patience.is_over(8));
    }

    #[test]
    fn giving_up_one_message_ends_no_other_wait() {
        let halt = Halt::default();
        assert_eq!(halt.awaited(), None);
        halt.wait_for(0);
        assert_eq!(halt.awaited(), Some(0));
        halt.give_up(0);
        assert!(halt.is_set());
        // It arrived at the last moment, and the thread waits for the next one.
        halt.wait_for(1);
        assert_eq!(halt.interrupted(1), Then::GoOn);
        assert!(!halt.is_set());
        halt.give_up(1);
        assert_eq!(halt.interrupted(1), Then::Lost);
        assert!(!halt.is_set());
    }

    #[test]
    fn the_end_for_good_is_never_taken_back() {
        let halt = Halt::default();
        halt.wait_for(5);
        halt.give_up(5);
        halt.set();
        assert_eq!(halt.interrupted(5), Then::Over);
        assert!(halt.is_set());
        assert_eq!(halt.interrupted(5), Then::Over);
    }
}
