//! Notices of eight bytes that the kernel queues: eventfd, signals, and messages between two io_urings.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use punctual_linux as linux;
use punctual_linux::ipc::{self, signals};
use punctual_linux::ring::MessageRing;
use rustix::event::{EventfdFlags, eventfd};

use super::mechanism::{
    Asked, End, Halt, InFlight, Inlet, Kind, Lane, Limit, Link, Mechanism, Outlet, Peer, Unavailable, lanes, no_file,
    refused, whole,
};

pub(super) fn notices() -> Vec<Mechanism> {
    vec![
        Mechanism {
            in_flight: InFlight::One,
            largest: eight,
            ..Mechanism::usual(
                Kind::Notice,
                [
                    "eventfd",
                    "eventfd: one number at a time; with its upper half taken a second write waits until the first is read",
                    "write, read",
                ],
                |asked| lanes(asked, event),
            )
        },
        Mechanism {
            in_flight: InFlight::Counted,
            largest: pointer,
            ..Mechanism::usual(
                Kind::Notice,
                ["sigqueue", "real-time signal that carries a pointer, taken by sigwaitinfo", "sigqueue, sigwaitinfo"],
                |asked| lanes(asked, |asked| Ok(signal(asked, false))),
            )
        },
        Mechanism {
            in_flight: InFlight::Counted,
            largest: pointer,
            ..Mechanism::usual(
                Kind::Notice,
                ["signalfd", "real-time signal that carries a pointer, read from a descriptor", "sigqueue, read"],
                |asked| lanes(asked, |asked| Ok(signal(asked, true))),
            )
        },
        Mechanism {
            needs: "Linux 5.18, io_uring allowed",
            in_flight: InFlight::Counted,
            usual: false,
            largest: eight,
            ..Mechanism::usual(
                Kind::Notice,
                [
                    "uring-msg",
                    "message from one io_uring to another, for programs that wait in io_uring anyway",
                    "io_uring_enter(IORING_OP_MSG_RING)",
                ],
                uring,
            )
        },
    ]
}

/// The limit of a mechanism that carries one 64-bit number.
fn eight() -> Limit {
    Limit { bytes: Some(8), from: "the mechanism itself: it carries one 64-bit number".into(), remedy: None }
}

/// The limit of a mechanism that carries one pointer.
fn pointer() -> Limit {
    let bytes = size_of::<usize>() as u64;
    Limit {
        bytes: Some(bytes),
        from: "the mechanism itself: a signal carries one pointer (sigval)".into(),
        remedy: None,
    }
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
    let end = || Event { file: Arc::clone(&file), halt: asked.halt.clone() };
    Ok(Lane::new(end(), end()))
}

struct Event {
    file: Arc<OwnedFd>,
    halt: Halt,
}

impl Outlet for Event {
    fn send(&mut self, message: &[u8]) -> linux::Result<()> {
        // The number's highest bit is set. A second number exceeds the counter, so its write blocks.
        debug_assert!(number("write", message).is_ok_and(|n| n >> 63 == 1));
        loop {
            match self.halt.persist(|| ipc::write(self.file.as_fd(), message)) {
                Err(e) if e.errno() == linux::EAGAIN => {
                    // Opened for polling: then the sender has to poll as well.
                    if self.halt.is_set() {
                        return Err(e);
                    }
                    std::hint::spin_loop();
                }
                done => return done.map(drop),
            }
        }
    }
}

impl Inlet for Event {
    fn receive(&mut self, into: &mut [u8]) -> linux::Result<()> {
        loop {
            match self.halt.persist(|| ipc::read(self.file.as_fd(), into)) {
                Ok(n) => return whole("read", n, into.len()),
                Err(e) if e.errno() == linux::EAGAIN => {
                    self.halt.persist(|| ipc::wait_readable(self.file.as_fd(), -1))?;
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn poll(&mut self, into: &mut [u8]) -> linux::Result<bool> {
        match ipc::read(self.file.as_fd(), into) {
            Ok(n) => whole("read", n, into.len()).map(|()| true),
            Err(e) if e.errno() == linux::EAGAIN || e.errno() == linux::EINTR => Ok(false),
            Err(e) => Err(e),
        }
    }
}

fn signal(asked: &Asked<'_>, through_descriptor: bool) -> Lane {
    let halt = asked.halt.clone();
    let outlet = SignalOutlet { peer: None, halt: halt.clone() };
    let inlet = SignalInlet { blocked: None, descriptor: None, through_descriptor, polls: asked.polls(), halt };
    Lane::new(outlet, inlet)
}

struct SignalOutlet {
    peer: Option<Peer>,
    halt: Halt,
}

impl Outlet for SignalOutlet {
    fn meet(&mut self, peer: Peer) -> linux::Result<()> {
        self.peer = Some(peer);
        Ok(())
    }

    fn send(&mut self, message: &[u8]) -> linux::Result<()> {
        let value = number("rt_tgsigqueueinfo", message)? as usize;
        let Some(peer) = self.peer else { return Err(linux::Error::from_errno("rt_tgsigqueueinfo", linux::ESRCH)) };
        loop {
            match self.halt.persist(|| signals::send(peer.process, peer.thread, value)) {
                // RLIMIT_SIGPENDING: the receiver lags.
                Err(e) if e.errno() == linux::EAGAIN && !self.halt.is_set() => std::thread::yield_now(),
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
    halt: Halt,
}

impl SignalInlet {
    fn take(&mut self) -> linux::Result<u64> {
        let value = match &self.descriptor {
            Some(descriptor) => self.halt.persist(|| signals::read(descriptor.as_fd()))?,
            None => self.halt.persist(signals::receive)?,
        };
        Ok(value as u64)
    }
}

impl Inlet for SignalInlet {
    fn meet(&mut self, _: Peer) -> linux::Result<()> {
        self.blocked = Some(signals::Blocked::new()?);
        if self.through_descriptor {
            self.descriptor = Some(signals::descriptor(self.polls)?);
        }
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8]) -> linux::Result<()> {
        loop {
            match self.take() {
                Ok(value) => return put("sigwaitinfo", value, into),
                Err(e) if e.errno() == linux::EAGAIN => {
                    if let Some(descriptor) = &self.descriptor {
                        self.halt.persist(|| ipc::wait_readable(descriptor.as_fd(), -1))?;
                    }
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn poll(&mut self, into: &mut [u8]) -> linux::Result<bool> {
        let value = match &self.descriptor {
            Some(descriptor) => match signals::read(descriptor.as_fd()) {
                Err(e) if e.errno() == linux::EAGAIN || e.errno() == linux::EINTR => None,
                read => Some(read?),
            },
            None => signals::try_receive()?,
        };
        value.map_or(Ok(false), |value| put("sigtimedwait", value as u64, into).map(|()| true))
    }
}

fn uring(asked: &Asked<'_>) -> Result<Link, Unavailable> {
    let failed = |e: linux::Error| {
        refused(
            &e,
            "Linux 5.18 or later, and io_uring allowed: sysctl kernel.io_uring_disabled=0, no seccomp filter against it",
        )
    };
    let (here, there) = (MessageRing::new().map_err(failed)?, MessageRing::new().map_err(failed)?);
    let end = |own: &MessageRing, other: &MessageRing| {
        let end = Uring { own: own.clone(), other: other.clone(), halt: asked.halt.clone() };
        End { outlet: Some(Box::new(end.clone())), inlet: Some(Box::new(end)) }
    };
    Ok(Link::new(end(&here, &there), end(&there, &here)))
}

#[derive(Clone)]
struct Uring {
    own: MessageRing,
    other: MessageRing,
    halt: Halt,
}

impl Outlet for Uring {
    fn send(&mut self, message: &[u8]) -> linux::Result<()> {
        let value = number("io_uring_enter", message)?;
        self.halt.persist(|| self.own.send(&self.other, value))
    }
}

impl Inlet for Uring {
    fn receive(&mut self, into: &mut [u8]) -> linux::Result<()> {
        let value = self.halt.persist(|| self.own.receive())?;
        put("io_uring_enter", value, into)
    }

    fn poll(&mut self, into: &mut [u8]) -> linux::Result<bool> {
        self.own.try_receive()?.map_or(Ok(false), |value| put("io_uring_enter", value, into).map(|()| true))
    }
}
