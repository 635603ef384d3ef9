//! What a mechanism is: a [`Mechanism`], one small value, and the [`Link`] it opens.

use std::sync::Arc;

use punctual::ipc::Waiting;
use punctual_linux as linux;

use super::keeper::{Keeper, Leftover};

pub use super::halt::Halt;
pub use crate::wait::method::Unavailable;

/// One way to pass a message to another process: a name, one line, the calls it makes, its limits, and how to open it.
#[derive(Clone)]
pub struct Mechanism {
    /// Its name on the command line and in the record, for instance `posix-mq`.
    pub name: String,
    /// One line for `--list`: what it is and when one would use it.
    pub about: String,
    /// The calls as a C programmer writes them, for instance `mq_send, mq_receive`.
    pub call: String,
    /// Kind of mechanism.
    pub kind: Kind,
    /// What it needs, in a few words (`CONFIG_POSIX_MQUEUE`), or empty.
    pub needs: &'static str,
    /// How many messages fit in between.
    pub queue: Queue,
    /// Every message that was sent is received, in order.
    pub reliable: bool,
    /// Waiting is spinning: it has no way to sleep.
    pub only_polls: bool,
    /// Measured when no mechanism is named.
    pub usual: bool,
    /// The largest message it carries here, and where that limit comes from.
    pub largest: fn() -> Limit,
    /// Opens both ends. Everything that may allocate or fail for good happens here.
    pub open: Open,
}

/// Opens both ends of a mechanism.
pub type Open = Arc<dyn Fn(&Asked<'_>) -> Result<Link, Unavailable> + Send + Sync>;

impl std::fmt::Debug for Mechanism {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mechanism").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Kind of mechanism, for `--list` and for choosing by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Queues of messages.
    Queue,
    /// Streams of bytes.
    Stream,
    /// Sockets.
    Socket,
    /// Notices of eight bytes.
    Notice,
    /// Memory that both see.
    SharedMemory,
    /// Memory of the one that the other writes into.
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

/// How many messages fit between the two ends, and who bounds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// As many as `--depth` says.
    Messages,
    /// As many bytes as the kernel's buffer has; `--depth` is kept by counting what was received.
    Bytes,
    /// One.
    One,
    /// The kernel has no sensible bound: `--depth` is kept by counting what was received.
    Counted,
}

/// A limit, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Bytes; none: as much as memory holds.
    pub bytes: Option<u64>,
    /// Where it is set: `/proc/sys/fs/mqueue/msgsize_max`.
    pub from: String,
    /// How to raise it, where it can be raised.
    pub remedy: Option<String>,
}

impl Limit {
    /// No limit but memory.
    #[must_use]
    pub fn memory() -> Self {
        Self { bytes: None, from: "memory".into(), remedy: None }
    }
}

/// How the receiver waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Receive {
    /// In the kernel.
    Block,
    /// It asks again and again.
    Poll,
    /// It asks for a while, then yields, then waits in the kernel.
    Backoff,
}

impl Receive {
    /// Its name on the command line and in the record.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Poll => "poll",
            Self::Backoff => "backoff",
        }
    }

    /// How a ring waits then, when it must.
    #[must_use]
    pub const fn waiting(self) -> Waiting {
        match self {
            Self::Poll => Waiting::Spin,
            Self::Block | Self::Backoff => Waiting::Sleep,
        }
    }
}

/// What is asked of a link.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// Bytes of each message.
    pub size: usize,
    /// Messages that may be under way; none: the mechanism's own choice.
    pub depth: Option<usize>,
    /// Messages go to and fro, one at a time; otherwise from there to here only.
    pub both_ways: bool,
    /// How the receiving ends wait.
    pub receive: Receive,
    /// Who takes away what would be left behind.
    pub keeper: &'a Keeper,
    /// Ends all waiting.
    pub halt: Halt,
}

impl Asked<'_> {
    /// Messages that may be under way: as asked, or so many.
    #[must_use]
    pub fn depth_or(&self, usual: usize) -> usize {
        self.depth.unwrap_or(usual)
    }
}

/// Both ends of a mechanism, opened. Made before the fork; each process keeps its own end.
pub struct Link {
    /// The end of the process that measures: it receives, and in ping-pong begins.
    pub here: End,
    /// The end of the other process.
    pub there: End,
    /// What the measuring process removes when it is done.
    pub leftovers: Vec<Leftover>,
    /// Ends waits that no signal ends, once the peer is gone.
    pub rouse: Vec<Box<dyn Fn() + Send>>,
}

impl Link {
    /// A link with nothing to remove.
    #[must_use]
    pub fn new(here: End, there: End) -> Self {
        Self { here, there, leftovers: Vec::new(), rouse: Vec::new() }
    }
}

/// One end.
#[derive(Default)]
pub struct End {
    /// What it sends through.
    pub outlet: Option<Box<dyn Outlet>>,
    /// What it receives from.
    pub inlet: Option<Box<dyn Inlet>>,
}

/// Both parts of one direction.
pub struct Ends {
    /// Where messages go in.
    pub outlet: Box<dyn Outlet>,
    /// Where they come out.
    pub inlet: Box<dyn Inlet>,
}

impl Ends {
    /// The two parts.
    pub fn new(outlet: impl Outlet + 'static, inlet: impl Inlet + 'static) -> Self {
        Self { outlet: Box::new(outlet), inlet: Box::new(inlet) }
    }
}

/// The process at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its number.
    pub process: i32,
    /// The number of its thread that sends and receives.
    pub thread: i32,
}

/// Sends messages of one size.
pub trait Outlet: Send {
    /// Called once in the process that sends, before the first message.
    fn meet(&mut self, _peer: Peer) -> linux::Result<()> {
        Ok(())
    }

    /// Sends the message, waiting for room. Allocates nothing.
    fn send(&mut self, message: &[u8]) -> linux::Result<()>;
}

/// Receives messages of one size.
pub trait Inlet: Send {
    /// Called once in the process that receives, before the first message.
    fn meet(&mut self, _peer: Peer) -> linux::Result<()> {
        Ok(())
    }

    /// Receives a message of exactly the buffer's length, waiting for it in the kernel. Allocates nothing.
    fn receive(&mut self, into: &mut [u8]) -> linux::Result<()>;

    /// The same if a message is there; `false`: none is.
    fn poll(&mut self, into: &mut [u8]) -> linux::Result<bool>;

    /// Polls until a message is there, or until the waiting is to end (EINTR). Compiled for each inlet, so that nothing stands between two
    /// looks but the stop flag.
    fn poll_until(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        while !self.poll(into)? {
            halt.check("poll")?;
        }
        Ok(())
    }
}

/// A message of another length than the link's: EBADMSG.
pub(super) fn whole(call: &'static str, got: usize, wanted: usize) -> linux::Result<()> {
    match got {
        _ if got == wanted => Ok(()),
        0 => Err(linux::Error::from_errno(call, linux::EPIPE).on("the other end is closed")),
        _ => Err(linux::Error::from_errno(call, linux::EBADMSG).on(format!("{got} bytes instead of {wanted}"))),
    }
}

/// One direction, opened.
pub(super) struct Lane {
    pub(super) ends: Ends,
    pub(super) leftovers: Vec<Leftover>,
    pub(super) rouse: Vec<Box<dyn Fn() + Send>>,
}

impl Lane {
    /// One that leaves nothing behind and whose waits all end by a signal.
    pub(super) fn of(ends: Ends) -> Self {
        Self { ends, leftovers: Vec::new(), rouse: Vec::new() }
    }
}

/// Opens the directions that are asked for: messages go from there to here, and if asked for also from here to there.
pub(super) fn lanes(
    asked: &Asked<'_>,
    mut lane: impl FnMut(&Asked<'_>) -> Result<Lane, Unavailable>,
) -> Result<Link, Unavailable> {
    let Lane { ends, leftovers, rouse } = lane(asked)?;
    let here = End { inlet: Some(ends.inlet), outlet: None };
    let there = End { outlet: Some(ends.outlet), inlet: None };
    let mut link = Link { here, there, leftovers, rouse };
    if asked.both_ways {
        let Lane { ends, leftovers, rouse } = lane(asked)?;
        link.here.outlet = Some(ends.outlet);
        link.there.inlet = Some(ends.inlet);
        link.leftovers.extend(leftovers);
        link.rouse.extend(rouse);
    }
    Ok(link)
}

/// A kernel's refusal, with what to do about it.
pub(super) fn refused(error: &linux::Error, remedy: &str) -> Unavailable {
    Unavailable { why: error.to_string(), remedy: Some(remedy.to_owned()).filter(|r| !r.is_empty()) }
}
