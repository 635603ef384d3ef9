//! What a way to pass messages is: a [`Mechanism`] opens a [`Link`], whose two [`End`]s send and receive. A mechanism of one direction opens
//! a `Lane` for each. A receiver waits as its `Waiter` says. A [`Halt`] ends its waits from another thread, one of them or all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual::backoff::{Backoff, Limits, Step};
use punctual_linux as linux;
use punctual_record::Hint;
pub use punctual_record::experiment::ipc::Receive;
use rustix::process::{Resource, getrlimit};

use super::keeper::Keeper;
use crate::frame::Shared;
pub(super) use crate::frame::Unavailable;

/// One way to pass a message to another process: name, summary, calls, limits, and constructor.
#[derive(Clone)]
pub struct Mechanism {
    /// Its name on the command line and in the record, for instance `posix-mq`.
    pub name: String,
    /// One line for `--list`: description and use.
    pub about: String,
    /// The calls in C, for instance `mq_send, mq_receive`.
    pub call: String,
    /// Kind of mechanism, for `--list`, the record and selection by kind: `socket`.
    pub kind: &'static str,
    /// Its requirements, in a few words (`CONFIG_POSIX_MQUEUE`), or empty.
    pub needs: &'static str,
    /// What limits the messages in flight.
    pub(crate) in_flight: InFlight,
    /// Every sent message is received, in order.
    pub(crate) reliable: bool,
    /// A receiver can only poll: the mechanism cannot block.
    pub(crate) only_polls: bool,
    /// Whether it is measured by default.
    pub usual: bool,
    /// The largest message it carries here, and the source of that limit.
    pub largest: fn() -> Limit,
    /// Opens both ends. Any allocation or permanent failure happens here.
    pub open: Open,
}

/// Opens both ends of a mechanism.
pub(super) type Open = Arc<dyn Fn(&Asked<'_>) -> Result<Link, Unavailable> + Send + Sync>;

impl Mechanism {
    /// A reliable one of this kind, measured by default, still without words: a receiver may block, and nothing limits a message but
    /// memory.
    pub(super) fn usual(
        kind: &'static str,
        open: impl Fn(&Asked<'_>) -> Result<Link, Unavailable> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: String::new(),
            about: String::new(),
            call: String::new(),
            kind,
            needs: "",
            in_flight: InFlight::Bytes,
            reliable: true,
            only_polls: false,
            usual: true,
            largest: Limit::memory,
            open: Arc::new(open),
        }
    }
}

impl std::fmt::Debug for Mechanism {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mechanism").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What limits the messages in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InFlight {
    /// The mechanism itself, to as many as `--depth` allows or to one.
    Messages,
    /// As many bytes as the kernel's buffer holds. `--depth` is kept by counting received messages.
    Bytes,
    /// The kernel has no sensible limit. `--depth` is kept by counting received messages.
    Counted,
}

/// A size limit and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Bytes. None: limited by memory only.
    pub bytes: Option<u64>,
    /// Its setting: `/proc/sys/fs/mqueue/msgsize_max`.
    pub from: String,
    /// The remedy that raises it, if there is one.
    pub remedy: Option<Hint>,
}

impl Limit {
    /// Limited by memory only.
    #[must_use]
    pub fn memory() -> Self {
        Self { bytes: None, from: "memory".into(), remedy: None }
    }

    /// Limited to this by what nobody can change.
    pub(super) fn fixed(bytes: u64, from: &str) -> Self {
        Self { bytes: Some(bytes), from: from.into(), remedy: None }
    }
}

/// The parameters of a link.
#[derive(Clone)]
pub struct Asked<'a> {
    /// Bytes of each message.
    pub size: usize,
    /// Messages that may be in flight. None: the mechanism's own choice.
    pub depth: Option<usize>,
    /// Messages go back and forth, one at a time. Otherwise they go only to the measuring process.
    pub(crate) both_ways: bool,
    /// The receivers' method of waiting.
    pub receive: Receive,
    /// Removes objects that would otherwise remain.
    pub keeper: &'a Keeper,
    /// Ends the waits of this link.
    pub(crate) halt: &'a Halt,
}

impl Asked<'_> {
    /// A receiver may look without waiting.
    #[must_use]
    pub fn polls(&self) -> bool {
        self.receive != Receive::Block
    }

    /// Messages that may be in flight: as requested, or this default.
    pub(crate) fn depth_or(&self, usual: usize) -> usize {
        self.depth.unwrap_or(usual)
    }
}

/// Both open ends of a mechanism. Made before the fork; each process keeps its own end.
pub struct Link {
    /// The end of the measuring process: it receives, and begins in ping-pong.
    pub here: End,
    /// The end of the other process.
    pub there: End,
}

/// One end of a link: what a process sends and receives with.
#[derive(Default)]
pub struct End {
    /// The sending side.
    pub(crate) outlet: Option<Box<dyn Outlet>>,
    /// The receiving side.
    pub(crate) inlet: Option<Box<dyn Inlet>>,
}

/// The process at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Its process id.
    pub process: i32,
    /// The id of its thread that sends and receives.
    pub thread: i32,
}

/// Sends messages of one size.
pub(crate) trait Outlet: Send {
    /// Called once in the sending process, before the first message.
    fn meet(&mut self, _peer: Peer) -> linux::Result<()> {
        Ok(())
    }

    /// Sends the message, and waits for room until `halt` ends the wait (EINTR). Allocates nothing.
    fn send(&mut self, message: &[u8], halt: &Halt) -> linux::Result<()>;
}

/// Receives messages of one size.
pub(crate) trait Inlet: Send {
    /// Called once in the receiving process, before the first message.
    fn meet(&mut self, _peer: Peer) -> linux::Result<()> {
        Ok(())
    }

    /// Receives a message of exactly the buffer's length, blocking in the kernel until `halt` ends the wait (EINTR).
    /// Allocates nothing.
    fn receive(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()>;

    /// The same without blocking. `false`: there is no message.
    fn poll(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<bool>;

    /// Polls until a message arrives, or until the wait must end (EINTR). Compiled for each inlet, so that only the
    /// stop flag is checked between two polls.
    fn poll_until(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        while !self.poll(into, halt)? {
            halt.check("poll")?;
        }
        Ok(())
    }
}

/// An end lacks one of its sides.
pub(super) fn missing(what: &'static str) -> linux::Error {
    linux::Error::from_errno("open", linux::EBADMSG).on(what)
}

/// Checks that a message has the length of the link's. The error is EPIPE for an empty one, which is the end of the other side, and EBADMSG
/// for any other.
pub(super) fn whole(call: &'static str, got: usize, wanted: usize) -> linux::Result<()> {
    match got {
        _ if got == wanted => Ok(()),
        0 => Err(linux::Error::from_errno(call, linux::EPIPE).on("the other end is closed")),
        _ => Err(linux::Error::from_errno(call, linux::EBADMSG).on(format!("{got} bytes instead of {wanted}"))),
    }
}

/// What a call that does not block brought. Nothing: no message is there, or a signal came first.
#[inline]
pub(super) fn if_any<T>(done: linux::Result<T>) -> linux::Result<Option<T>> {
    match done {
        Err(e) if e.errno() == linux::EAGAIN || e.errno() == linux::EINTR => Ok(None),
        done => done.map(Some),
    }
}

/// Whether such a call received a message, which then has the length of the link's.
#[inline]
pub(super) fn whole_if_any(call: &'static str, got: linux::Result<usize>, wanted: usize) -> linux::Result<bool> {
    if_any(got)?.map_or(Ok(false), |got| whole(call, got, wanted).map(|()| true))
}

/// One open direction of a link.
pub(super) struct Lane {
    pub(super) outlet: Box<dyn Outlet>,
    pub(super) inlet: Box<dyn Inlet>,
}

impl Lane {
    pub(super) fn new(outlet: impl Outlet + 'static, inlet: impl Inlet + 'static) -> Self {
        Self { outlet: Box::new(outlet), inlet: Box::new(inlet) }
    }
}

/// Opens the requested directions: to the measuring process, and for ping-pong also from it.
pub(super) fn lanes(
    asked: &Asked<'_>,
    lane: impl Fn(&Asked<'_>) -> Result<Lane, Unavailable>,
) -> Result<Link, Unavailable> {
    let Lane { outlet, inlet } = lane(asked)?;
    let mut link =
        Link { here: End { inlet: Some(inlet), outlet: None }, there: End { outlet: Some(outlet), inlet: None } };
    if asked.both_ways {
        let Lane { outlet, inlet } = lane(asked)?;
        (link.here.outlet, link.there.inlet) = (Some(outlet), Some(inlet));
    }
    Ok(link)
}

/// A refusal by the kernel, with the remedy.
pub(super) fn refused(error: &linux::Error, remedy: impl Into<Hint>) -> Unavailable {
    Unavailable { why: error.to_string(), remedy: Some(remedy.into()).filter(|remedy| !remedy.is_empty()) }
}

/// A receiver's method of waiting.
#[derive(Clone)]
pub(super) struct Waiter {
    how: Receive,
    backoff: Backoff,
    pub(super) halt: Halt,
}

impl Waiter {
    pub(super) fn new(how: Receive, limits: Limits, halt: Halt) -> Self {
        Self { how, backoff: Backoff::new(limits), halt }
    }

    /// Receives the next message.
    #[inline]
    pub(super) fn next(&mut self, inlet: &mut dyn Inlet, into: &mut [u8]) -> linux::Result<()> {
        match self.how {
            Receive::Block => inlet.receive(into, &self.halt),
            Receive::Poll => inlet.poll_until(into, &self.halt),
            Receive::Backoff => self.back_off(inlet, into),
        }
    }

    fn back_off(&mut self, inlet: &mut dyn Inlet, into: &mut [u8]) -> linux::Result<()> {
        self.backoff.reset();
        while !inlet.poll(into, &self.halt)? {
            self.halt.check("poll")?;
            if self.backoff.step() == Step::Park {
                return inlet.receive(into, &self.halt);
            }
        }
        Ok(())
    }
}

/// The refusal of one more open file.
pub(super) fn no_file(error: &linux::Error) -> Unavailable {
    refused(error, format!("too many open files? the limit here is {} (ulimit -n)", open_files()))
}

/// Number of files that may be open, for error messages.
pub(super) fn open_files() -> String {
    getrlimit(Resource::Nofile).current.map_or("no limit".into(), |n| n.to_string())
}

/// The number in a file of /proc/sys.
pub(super) fn sysctl(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
}

/// Ends the waits of a link, permanently or for one message. Clones share the state. After a fork each process has
/// its own.
#[derive(Clone, Default)]
pub(crate) struct Halt(Arc<HaltState>);

#[derive(Default)]
struct HaltState {
    /// The current wait must end.
    ends: AtomicBool,
    /// Every wait must end.
    over: AtomicBool,
    /// One more than the number of the awaited message. 0: no message that may be given up.
    awaited: AtomicU64,
    /// One more than the number of the last message given up. 0: none.
    given_up: AtomicU64,
    /// Each ends waits that no signal ends.
    rousers: Shared<Vec<Box<dyn Fn() + Send>>>,
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
    pub(crate) fn set(&self) {
        self.0.over.store(true, Ordering::SeqCst);
        self.0.ends.store(true, Ordering::SeqCst);
    }

    /// Adds what ends waits of a link that no signal ends.
    pub(super) fn on_rouse(&self, rouser: impl Fn() + Send + 'static) {
        self.0.rousers.open().push(Box::new(rouser));
    }

    /// Ends the waits that no signal ends. Called after the peer is gone.
    pub(super) fn rouse(&self) {
        self.0.rousers.open().iter().for_each(|rouse| rouse());
    }

    /// Whether the current wait must end.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.0.ends.load(Ordering::Relaxed) || linux::stop::requested()
    }

    /// An error (EINTR) of this call if the current wait must end.
    #[inline]
    pub(super) fn check(&self, call: &'static str) -> linux::Result<()> {
        if self.is_set() { Err(linux::Error::from_errno(call, linux::EINTR)) } else { Ok(()) }
    }

    /// Repeats a call after interruptions by signals, until it succeeds or the wait must end.
    #[inline]
    pub(crate) fn persist<T>(&self, mut call: impl FnMut() -> linux::Result<T>) -> linux::Result<T> {
        loop {
            match call() {
                Err(e) if e.errno() == linux::EINTR && !self.is_set() => {}
                done => return done,
            }
        }
    }

    /// The same for a call that has to block on what was opened for polling: `wait` blocks until there is something.
    #[inline]
    pub(super) fn persist_or_wait<T, W>(
        &self,
        mut call: impl FnMut() -> linux::Result<T>,
        wait: impl Fn() -> linux::Result<W>,
    ) -> linux::Result<T> {
        loop {
            match self.persist(&mut call) {
                Err(e) if e.errno() == linux::EAGAIN => drop(self.persist(&wait)?),
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
