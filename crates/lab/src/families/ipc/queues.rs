//! Whole messages that the kernel queues: those of POSIX and System V queues, with the limits of both, read from their settings; and notices
//! of eight bytes: eventfd, signals, and messages between two io_urings.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use punctual_linux as linux;
use punctual_linux::ipc::queue::{self, Queue, Use};
use punctual_linux::ipc::sysv::{self, Envelope};
use punctual_linux::ipc::{self, signals};
use punctual_linux::ring::MessageRing;
use punctual_record::Hint;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{CapabilitySet, capabilities};

use super::keeper::{Leftover, What};
use super::mechanism::{
    Asked, End, Halt, InFlight, Inlet, Lane, Limit, Link, Mechanism, Outlet, Peer, Unavailable, if_any, lanes, no_file,
    refused, sysctl, whole, whole_if_any,
};

/// Default capacity of a POSIX queue: the kernel's default (`mq_overview(7)`, msg_default).
const USUAL_DEPTH: usize = 10;

pub(super) fn queues() -> Vec<Mechanism> {
    vec![
        Mechanism {
            name: "posix-mq".into(),
            about: "POSIX message queue: whole messages with priorities; a descriptor that can be polled".into(),
            call: "mq_send, mq_receive".into(),
            needs: "CONFIG_POSIX_MQUEUE",
            in_flight: InFlight::Messages,
            largest: posix_queue,
            ..Mechanism::usual("queue", |asked| lanes(asked, posix))
        },
        Mechanism {
            name: "sysv-mq".into(),
            about: "System V message queue: whole messages of a type, in any order; no descriptor".into(),
            call: "msgsnd, msgrcv".into(),
            needs: "CONFIG_SYSVIPC",
            largest: sysv_queue,
            ..Mechanism::usual("queue", |asked| lanes(asked, system_v))
        },
    ]
}

fn posix(asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let usual = posix_queue_depth(asked.size, USUAL_DEPTH);
    let depth = asked.depth_or(usual);
    let for_what = if asked.polls() { Use::Polling } else { Use::Receiving };
    let made = asked.keeper.make(What::PosixQueue, |name| queue::create(&name.posix(), depth, asked.size));
    let (outlet, leftover) = made.map_err(|e| refused_queue(&e, depth))?;
    let inlet = queue::open(&leftover.name.posix(), for_what).map_err(|e| refused_queue(&e, depth))?;
    // Both ends are open: remove the name.
    drop(leftover);
    Ok(Lane::new(outlet, inlet))
}

fn refused_queue(error: &linux::Error, depth: usize) -> Unavailable {
    let remedy = match rustix::io::Errno::from_raw_os_error(error.errno()) {
        rustix::io::Errno::MFILE => {
            "RLIMIT_MSGQUEUE counts the bytes of all queues of this user: remove unused ones in /dev/mqueue, ask for a smaller depth or \
             size, or raise it (ulimit -q)"
                .to_owned()
        }
        rustix::io::Errno::INVAL => format!(
            "a depth of {depth} or the size is beyond /proc/sys/fs/mqueue/msg_max or msgsize_max; as root: sysctl fs.mqueue.msg_max={depth}"
        ),
        rustix::io::Errno::NOSPC => "too many queues: see /proc/sys/fs/mqueue/queues_max".to_owned(),
        rustix::io::Errno::NOSYS => "a kernel with CONFIG_POSIX_MQUEUE".to_owned(),
        rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => "ask whoever forbids it (a container's seccomp or LSM)".to_owned(),
        _ => String::new(),
    };
    refused(error, &remedy)
}

impl Outlet for Queue {
    fn send(&mut self, message: &[u8], halt: &Halt) -> linux::Result<()> {
        halt.persist(|| Queue::send(self, message))
    }
}

impl Inlet for Queue {
    fn receive(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        let n = halt.persist_or_wait(|| Queue::receive(self, into), || self.wait())?;
        whole("mq_receive", n, into.len())
    }

    fn poll(&mut self, into: &mut [u8], _: &Halt) -> linux::Result<bool> {
        whole_if_any("mq_receive", Queue::receive(self, into), into.len())
    }
}

fn system_v(asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let made = asked.keeper.make(What::SysvQueue, |name| sysv::create_queue(name.key()));
    let (queue, leftover) = made.map_err(|e| {
        refused(
            &e,
            "remove unused queues (ipcs -q, ipcrm), or raise /proc/sys/kernel/msgmni; a kernel with CONFIG_SYSVIPC",
        )
    })?;
    let leftover = Arc::new(leftover);
    let end = || SystemV { queue, envelope: Envelope::new(asked.size), _leftover: Arc::clone(&leftover) };
    Ok(Lane::new(end(), end()))
}

struct SystemV {
    queue: sysv::Queue,
    envelope: Envelope,
    /// Removes the queue when the measuring process drops its end.
    _leftover: Arc<Leftover>,
}

impl Outlet for SystemV {
    fn send(&mut self, message: &[u8], halt: &Halt) -> linux::Result<()> {
        halt.persist(|| self.queue.send(message, &mut self.envelope))
    }
}

impl Inlet for SystemV {
    fn receive(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        let n = halt.persist(|| self.queue.receive(into, &mut self.envelope, true))?;
        whole("msgrcv", n, into.len())
    }

    fn poll(&mut self, into: &mut [u8], _: &Halt) -> linux::Result<bool> {
        match self.queue.receive(into, &mut self.envelope, false) {
            Ok(n) => whole("msgrcv", n, into.len()).map(|()| true),
            Err(e) if e.errno() == rustix::io::Errno::NOMSG.raw_os_error() || e.errno() == linux::EINTR => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// Largest message of a POSIX queue for the privileged (`include/linux/ipc_namespace.h`, HARD_MSGSIZEMAX).
const HARD_MSGSIZEMAX: u64 = 16 << 20;
/// Bytes per message that RLIMIT_MSGQUEUE adds to its contents: a pointer and, at most, a tree node. `getrlimit(2)`
/// has them: `struct msg_msg *` and, since Linux 3.5, `struct posix_msg_tree_node`.
const PER_MESSAGE: u64 = 56;

/// Whether this process may exceed the limits of ordinary users (CAP_SYS_RESOURCE).
fn may_exceed() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE))
}

/// Total bytes of queues that this user may have (RLIMIT_MSGQUEUE). None: no limit.
fn queue_bytes() -> Option<u64> {
    // rustix has no name for it; /proc has.
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    limits.lines().find(|l| l.starts_with("Max msgqueue size"))?.split_whitespace().nth(3)?.parse().ok()
}

/// The largest message of a POSIX queue: `msgsize_max`, and RLIMIT_MSGQUEUE, which also applies to privileged
/// processes.
fn posix_queue() -> Limit {
    let by_size = if may_exceed() {
        (HARD_MSGSIZEMAX, "the kernel's HARD_MSGSIZEMAX", None)
    } else {
        let from = "/proc/sys/fs/mqueue/msgsize_max";
        (sysctl(from).unwrap_or(8192), from, Some("as root: sysctl fs.mqueue.msgsize_max=BYTES"))
    };
    // Room for one message each way.
    let by_room = queue_bytes().map(|bytes| (bytes / 2).saturating_sub(PER_MESSAGE));
    match by_room.filter(|room| *room < by_size.0) {
        Some(room) => Limit {
            bytes: Some(room),
            from: "RLIMIT_MSGQUEUE, for two queues of one message".into(),
            remedy: Some("ulimit -q BYTES (as root beyond the hard limit)".into()),
        },
        None => Limit { bytes: Some(by_size.0), from: by_size.1.into(), remedy: by_size.2.map(Hint::from) },
    }
}

/// Number of messages of this size that fit two POSIX queues, up to `wanted`.
fn posix_queue_depth(size: usize, wanted: usize) -> usize {
    let by_number = if may_exceed() { u64::MAX } else { sysctl("/proc/sys/fs/mqueue/msg_max").unwrap_or(10) };
    let by_room = queue_bytes().map_or(u64::MAX, |bytes| bytes / 2 / (size as u64 + PER_MESSAGE));
    (wanted as u64).min(by_number).min(by_room).max(1) as usize
}

/// The largest message of a System V queue: `msgmax`, but at most `msgmnb`.
fn sysv_queue() -> Limit {
    let one = |path: &str, usual| (sysctl(path).unwrap_or(usual), path.to_owned());
    // include/uapi/linux/msg.h: MSGMAX 8192, MSGMNB 16384.
    let (bytes, from) = one("/proc/sys/kernel/msgmax", 8192).min(one("/proc/sys/kernel/msgmnb", 16384));
    let name = from.trim_start_matches("/proc/sys/").replace('/', ".");
    Limit { bytes: Some(bytes), remedy: Some(format!("as root: sysctl {name}=BYTES").into()), from }
}

pub(super) fn notices() -> Vec<Mechanism> {
    vec![
        Mechanism {
            name: "eventfd".into(),
            about:
                "eventfd: one number at a time; with its upper half taken a second write waits until the first is read"
                    .into(),
            call: "write, read".into(),
            in_flight: InFlight::Messages,
            largest: eight,
            ..Mechanism::usual("notice", |asked| lanes(asked, event))
        },
        Mechanism {
            name: "sigqueue".into(),
            about: "real-time signal that carries a pointer, taken by sigwaitinfo".into(),
            call: "sigqueue, sigwaitinfo".into(),
            ..queued_signal(false)
        },
        Mechanism {
            name: "signalfd".into(),
            about: "real-time signal that carries a pointer, read from a descriptor".into(),
            call: "sigqueue, read".into(),
            ..queued_signal(true)
        },
        Mechanism {
            name: "uring-msg".into(),
            about: "message from one io_uring to another, for programs that wait in io_uring anyway".into(),
            call: "io_uring_enter(IORING_OP_MSG_RING)".into(),
            needs: "Linux 5.18, io_uring allowed",
            in_flight: InFlight::Counted,
            usual: false,
            largest: eight,
            ..Mechanism::usual("notice", uring)
        },
    ]
}

/// Signals, fetched by a call or read from a descriptor.
fn queued_signal(through_descriptor: bool) -> Mechanism {
    let lane = move |asked: &Asked<'_>| {
        let inlet = SignalInlet { blocked: None, descriptor: None, through_descriptor, polls: asked.polls() };
        Ok(Lane::new(SignalOutlet { peer: None }, inlet))
    };
    Mechanism {
        in_flight: InFlight::Counted,
        largest: pointer,
        ..Mechanism::usual("notice", move |asked| lanes(asked, lane))
    }
}

/// The limit of a mechanism that carries one 64-bit number.
fn eight() -> Limit {
    Limit::fixed(8, "the mechanism itself: it carries one 64-bit number")
}

/// The limit of a mechanism that carries one pointer.
fn pointer() -> Limit {
    Limit::fixed(size_of::<usize>() as u64, "the mechanism itself: a signal carries one pointer (sigval)")
}

/// The number in a message of eight bytes.
fn number(call: &'static str, message: &[u8]) -> linux::Result<u64> {
    let bytes = message.try_into();
    bytes
        .map(u64::from_ne_bytes)
        .map_err(|_| whole(call, message.len(), 8).err().unwrap_or(linux::Error::from_errno(call, linux::EBADMSG)))
}

fn put(call: &'static str, number: u64, into: &mut [u8]) -> linux::Result<()> {
    whole(call, 8, into.len())?;
    into.copy_from_slice(&number.to_ne_bytes());
    Ok(())
}

fn event(asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let failed = |e: rustix::io::Errno| no_file(&linux::Error::from_errno("eventfd", e.raw_os_error()));
    let flags = EventfdFlags::CLOEXEC | if asked.polls() { EventfdFlags::NONBLOCK } else { EventfdFlags::empty() };
    let file = Arc::new(eventfd(0, flags).map_err(failed)?);
    Ok(Lane::new(Event(Arc::clone(&file)), Event(file)))
}

struct Event(Arc<OwnedFd>);

impl Outlet for Event {
    fn send(&mut self, message: &[u8], halt: &Halt) -> linux::Result<()> {
        // The number's highest bit is set. A second number exceeds the counter, so its write blocks.
        debug_assert!(number("write", message).is_ok_and(|n| n >> 63 == 1));
        loop {
            match halt.persist(|| ipc::write(self.0.as_fd(), message)) {
                // Opened for polling: then the sender has to poll as well.
                Err(e) if e.errno() == linux::EAGAIN && !halt.is_set() => std::hint::spin_loop(),
                done => return done.map(drop),
            }
        }
    }
}

impl Inlet for Event {
    fn receive(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        let file = self.0.as_fd();
        let n = halt.persist_or_wait(|| ipc::read(file, into), || ipc::wait_readable(file, -1))?;
        whole("read", n, into.len())
    }

    fn poll(&mut self, into: &mut [u8], _: &Halt) -> linux::Result<bool> {
        whole_if_any("read", ipc::read(self.0.as_fd(), into), into.len())
    }
}

struct SignalOutlet {
    peer: Option<Peer>,
}

impl Outlet for SignalOutlet {
    fn meet(&mut self, peer: Peer) -> linux::Result<()> {
        self.peer = Some(peer);
        Ok(())
    }

    fn send(&mut self, message: &[u8], halt: &Halt) -> linux::Result<()> {
        let value = number("rt_tgsigqueueinfo", message)? as usize;
        let Some(peer) = self.peer else { return Err(linux::Error::from_errno("rt_tgsigqueueinfo", linux::ESRCH)) };
        loop {
            match halt.persist(|| signals::send(peer.process, peer.thread, value)) {
                // RLIMIT_SIGPENDING: the receiver lags.
                Err(e) if e.errno() == linux::EAGAIN && !halt.is_set() => std::thread::yield_now(),
                done => return done,
            }
        }
    }
}

/// Bound to the thread that connects, because each thread has its own signal mask.
struct SignalInlet {
    blocked: Option<signals::Blocked>,
    descriptor: Option<OwnedFd>,
    through_descriptor: bool,
    polls: bool,
}

impl Inlet for SignalInlet {
    fn meet(&mut self, _: Peer) -> linux::Result<()> {
        self.blocked = Some(signals::Blocked::new()?);
        if self.through_descriptor {
            self.descriptor = Some(signals::descriptor(self.polls)?);
        }
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        let value = match self.descriptor.as_ref().map(OwnedFd::as_fd) {
            Some(file) => halt.persist_or_wait(|| signals::read(file), || ipc::wait_readable(file, -1))?,
            None => halt.persist(signals::receive)?,
        };
        put("sigwaitinfo", value as u64, into)
    }

    fn poll(&mut self, into: &mut [u8], _: &Halt) -> linux::Result<bool> {
        let value = match &self.descriptor {
            Some(descriptor) => if_any(signals::read(descriptor.as_fd()))?,
            None => signals::try_receive()?,
        };
        value.map_or(Ok(false), |value| put("sigtimedwait", value as u64, into).map(|()| true))
    }
}

fn uring(_: &Asked<'_>) -> Result<Link, Unavailable> {
    let failed = |e: linux::Error| {
        refused(
            &e,
            "Linux 5.18 or later, and io_uring allowed: sysctl kernel.io_uring_disabled=0, no seccomp filter against it",
        )
    };
    let (here, there) = (MessageRing::new().map_err(failed)?, MessageRing::new().map_err(failed)?);
    let end = |own: &MessageRing, other: &MessageRing| {
        let end = Uring { own: own.clone(), other: other.clone() };
        End { outlet: Some(Box::new(end.clone())), inlet: Some(Box::new(end)) }
    };
    Ok(Link { here: end(&here, &there), there: end(&there, &here) })
}

#[derive(Clone)]
struct Uring {
    own: MessageRing,
    other: MessageRing,
}

impl Outlet for Uring {
    fn send(&mut self, message: &[u8], halt: &Halt) -> linux::Result<()> {
        let value = number("io_uring_enter", message)?;
        halt.persist(|| self.own.send(&self.other, value))
    }
}

impl Inlet for Uring {
    fn receive(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        let value = halt.persist(|| self.own.receive())?;
        put("io_uring_enter", value, into)
    }

    fn poll(&mut self, into: &mut [u8], _: &Halt) -> linux::Result<bool> {
        self.own.try_receive()?.map_or(Ok(false), |value| put("io_uring_enter", value, into).map(|()| true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_name_their_source() {
        assert!(posix_queue().bytes.unwrap() >= 128);
        assert!(sysv_queue().from.starts_with("/proc/sys/kernel/msgm"));
        assert_eq!(posix_queue_depth(8, 4), 4);
        assert_eq!(posix_queue_depth(usize::MAX / 4, 4), 1);
    }
}
