//! What a way to pass messages is: a [`Mechanism`] opens a [`Link`], whose two [`End`]s send and receive. A mechanism of one direction opens
//! a `Lane` for each. A receiver waits as its `Waiter` says.

use std::sync::Arc;

use punctual::backoff::{Backoff, Limits, Step};
use punctual::ipc::WaitStrategy;
use punctual_linux as linux;
use punctual_record::Hint;
pub use punctual_record::experiment::ipc::Receive;
use rustix::process::{Resource, getrlimit};

use super::halt::Halt;
pub use crate::frame::Unavailable;
use crate::keeper::{Keeper, Leftover};

/// One way to pass a message to another process: name, summary, calls, limits, and constructor.
#[derive(Clone)]
pub struct Mechanism {
    /// Its name on the command line and in the record, for instance `posix-mq`.
    pub name: String,
    /// One line for `--list`: description and use.
    pub about: String,
    /// The calls in C, for instance `mq_send, mq_receive`.
    pub call: String,
    /// Kind of mechanism.
    pub kind: Kind,
    /// Its requirements, in a few words (`CONFIG_POSIX_MQUEUE`), or empty.
    pub needs: &'static str,
    /// What limits the messages in flight.
    pub in_flight: InFlight,
    /// Every sent message is received, in order.
    pub reliable: bool,
    /// A receiver can only poll: the mechanism cannot block.
    pub only_polls: bool,
    /// Whether it is measured by default.
    pub usual: bool,
    /// The largest message it carries here, and the source of that limit.
    pub largest: fn() -> Limit,
    /// Opens both ends. Any allocation or permanent failure happens here.
    pub open: Open,
}

/// Opens both ends of a mechanism.
pub type Open = Arc<dyn Fn(&Asked<'_>) -> Result<Link, Unavailable> + Send + Sync>;

impl Mechanism {
    /// A reliable one of this kind, measured by default: a receiver may block, and nothing limits a message but memory.
    pub(super) fn usual(
        kind: Kind,
        [name, about, call]: [&str; 3],
        open: impl Fn(&Asked<'_>) -> Result<Link, Unavailable> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            about: about.into(),
            call: call.into(),
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

/// Kind of mechanism, for `--list` and for selection by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Queues of messages.
    Queue,
    /// Streams of bytes.
    Stream,
    /// Sockets.
    Socket,
    /// Notifications of eight bytes.
    Notice,
    /// Shared memory.
    SharedMemory,
    /// Memory of one process that the other writes into.
    Copy,
}

impl Kind {
    /// Its name in the record.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Stream => "stream",
            Self::Socket => "socket",
            Self::Notice => "notice",
            Self::SharedMemory => "shared memory",
            Self::Copy => "copy",
        }
    }
}

/// What limits the messages in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlight {
    /// As many as `--depth` allows.
    Messages,
    /// As many bytes as the kernel's buffer holds. `--depth` is kept by counting received messages.
    Bytes,
    /// One message at a time.
    One,
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
}

/// How a ring waits if it is empty or full.
#[must_use]
pub const fn wait_strategy(receive: Receive) -> WaitStrategy {
    match receive {
        Receive::Poll => WaitStrategy::Spin,
        Receive::Block | Receive::Backoff => WaitStrategy::Sleep,
    }
}

/// The parameters of a link.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// Bytes of each message.
    pub size: usize,
    /// Messages that may be in flight. None: the mechanism's own choice.
    pub depth: Option<usize>,
    /// Messages go back and forth, one at a time. Otherwise they go only to the measuring process.
    pub both_ways: bool,
    /// The receivers' method of waiting.
    pub receive: Receive,
    /// Removes objects that would otherwise remain.
    pub keeper: &'a Keeper,
    /// Ends the waits of this link.
    pub halt: Halt,
}

impl Asked<'_> {
    /// A receiver may look without waiting.
    #[must_use]
    pub fn polls(&self) -> bool {
        self.receive != Receive::Block
    }

    /// Messages that may be in flight: as requested, or this default.
    #[must_use]
    pub fn depth_or(&self, usual: usize) -> usize {
        self.depth.unwrap_or(usual)
    }
}

/// Both open ends of a mechanism. Made before the fork; each process keeps its own end.
pub struct Link {
    /// The end of the measuring process: it receives, and begins in ping-pong.
    pub here: End,
    /// The end of the other process.
    pub there: End,
    /// The objects that the measuring process removes at the end.
    pub leftovers: Vec<Leftover>,
    /// Each ends waits that no signal ends. Called after the peer is gone.
    pub rouse: Vec<Box<dyn Fn() + Send>>,
}

impl Link {
    /// A link with no objects to remove.
    #[must_use]
    pub fn new(here: End, there: End) -> Self {
        Self { here, there, leftovers: Vec::new(), rouse: Vec::new() }
    }
}

/// One end of a link: what a process sends and receives with.
#[derive(Default)]
pub struct End {
    /// The sending side.
    pub outlet: Option<Box<dyn Outlet>>,
    /// The receiving side.
    pub inlet: Option<Box<dyn Inlet>>,
}

/// The process at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its process id.
    pub process: i32,
    /// The id of its thread that sends and receives.
    pub thread: i32,
}

/// Sends messages of one size.
pub trait Outlet: Send {
    /// Called once in the sending process, before the first message.
    fn meet(&mut self, _peer: Peer) -> linux::Result<()> {
        Ok(())
    }

    /// Sends the message, and waits for room. Allocates nothing.
    fn send(&mut self, message: &[u8]) -> linux::Result<()>;
}

/// Receives messages of one size.
pub trait Inlet: Send {
    /// Called once in the receiving process, before the first message.
    fn meet(&mut self, _peer: Peer) -> linux::Result<()> {
        Ok(())
    }

    /// Receives a message of exactly the buffer's length, blocking in the kernel. Allocates nothing.
    fn receive(&mut self, into: &mut [u8]) -> linux::Result<()>;

    /// The same without blocking. `false`: there is no message.
    fn poll(&mut self, into: &mut [u8]) -> linux::Result<bool>;

    /// Polls until a message arrives, or until the wait must end (EINTR). Compiled for each inlet, so that only the
    /// stop flag is checked between two polls.
    fn poll_until(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        while !self.poll(into)? {
            halt.check("poll")?;
        }
        Ok(())
    }
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

/// One open direction of a link.
pub(super) struct Lane {
    pub(super) outlet: Box<dyn Outlet>,
    pub(super) inlet: Box<dyn Inlet>,
    pub(super) leftovers: Vec<Leftover>,
    pub(super) rouse: Vec<Box<dyn Fn() + Send>>,
}

impl Lane {
    /// A direction with no objects to remove, and with waits that signals end.
    pub(super) fn new(outlet: impl Outlet + 'static, inlet: impl Inlet + 'static) -> Self {
        Self { outlet: Box::new(outlet), inlet: Box::new(inlet), leftovers: Vec::new(), rouse: Vec::new() }
    }
}

/// Opens the requested directions: to the measuring process, and for ping-pong also from it.
pub(super) fn lanes(
    asked: &Asked<'_>,
    mut lane: impl FnMut(&Asked<'_>) -> Result<Lane, Unavailable>,
) -> Result<Link, Unavailable> {
    let Lane { outlet, inlet, leftovers, rouse } = lane(asked)?;
    let here = End { inlet: Some(inlet), outlet: None };
    let there = End { outlet: Some(outlet), inlet: None };
    let mut link = Link { here, there, leftovers, rouse };
    if asked.both_ways {
        let Lane { outlet, inlet, leftovers, rouse } = lane(asked)?;
        link.here.outlet = Some(outlet);
        link.there.inlet = Some(inlet);
        link.leftovers.extend(leftovers);
        link.rouse.extend(rouse);
    }
    Ok(link)
}

/// A refusal by the kernel, with the remedy.
pub(super) fn refused(error: &linux::Error, remedy: impl Into<Hint>) -> Unavailable {
    Unavailable { why: error.to_string(), remedy: Some(remedy.into()).filter(|remedy| !remedy.is_empty()) }
}

/// A receiver's method of waiting.
#[derive(Debug, Clone)]
pub(super) struct Waiter {
    how: Receive,
    backoff: Backoff,
    halt: Halt,
}

impl Waiter {
    pub(super) fn new(how: Receive, limits: Limits, halt: Halt) -> Self {
        Self { how, backoff: Backoff::new(limits), halt }
    }

    /// Receives the next message.
    #[inline]
    pub(super) fn next(&mut self, inlet: &mut dyn Inlet, into: &mut [u8]) -> linux::Result<()> {
        match self.how {
            Receive::Block => inlet.receive(into),
            Receive::Poll => inlet.poll_until(into, &self.halt),
            Receive::Backoff => self.back_off(inlet, into),
        }
    }

    fn back_off(&mut self, inlet: &mut dyn Inlet, into: &mut [u8]) -> linux::Result<()> {
        self.backoff.reset();
        while !inlet.poll(into)? {
            self.halt.check("poll")?;
            if self.backoff.step() == Step::Park {
                return inlet.receive(into);
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
