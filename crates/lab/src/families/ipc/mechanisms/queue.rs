//! Queues of messages: POSIX and System V.

use punctual_linux as linux;
use punctual_linux::ipc::queue::{self, Use};
use punctual_linux::ipc::sysv::{self, Envelope};

use super::super::keeper::What;
use super::super::mechanism::{
    Asked, Halt, Inlet, Kind, Lane, Mechanism, Outlet, Queue, Unavailable, lanes, refused, whole,
};
use super::limits;

/// Default capacity of a POSIX queue: the kernel's default (`mq_overview(7)`, msg_default).
const USUAL_DEPTH: usize = 10;

pub(super) fn all() -> Vec<Mechanism> {
    vec![
        Mechanism {
            needs: "CONFIG_POSIX_MQUEUE",
            queue: Queue::Messages,
            largest: limits::posix_queue,
            ..Mechanism::of(
                Kind::Queue,
                [
                    "posix-mq",
                    "POSIX message queue: whole messages with priorities; a descriptor that can be polled",
                    "mq_send, mq_receive",
                ],
                |asked| lanes(asked, posix),
            )
        },
        Mechanism {
            needs: "CONFIG_SYSVIPC",
            largest: limits::sysv_queue,
            ..Mechanism::of(
                Kind::Queue,
                [
                    "sysv-mq",
                    "System V message queue: whole messages of a type, in any order; no descriptor",
                    "msgsnd, msgrcv",
                ],
                |asked| lanes(asked, system_v),
            )
        },
    ]
}

fn posix(asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let usual = limits::posix_queue_depth(asked.size, USUAL_DEPTH);
    let depth = asked.depth_or(usual);
    let for_what = if asked.polls() { Use::Polling } else { Use::Receiving };
    let made = asked.keeper.make(What::PosixQueue, |name| queue::create(&name.name(), depth, asked.size));
    let (outlet, name) = made.map_err(|e| refused_queue(&e, depth))?;
    let inlet = queue::open(&name.name(), for_what).map_err(|e| refused_queue(&e, depth))?;
    // Both ends are open: remove the name.
    drop(name);
    let halt = asked.halt.clone();
    let inlet = PosixInlet { queue: inlet, halt: halt.clone() };
    Ok(Lane::of(PosixOutlet { queue: outlet, halt }, inlet))
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

struct PosixOutlet {
    queue: queue::Queue,
    halt: Halt,
}

impl Outlet for PosixOutlet {
    fn send(&mut self, message: &[u8]) -> linux::Result<()> {
        self.halt.persist(|| self.queue.send(message))
    }
}

struct PosixInlet {
    queue: queue::Queue,
    halt: Halt,
}

impl Inlet for PosixInlet {
    fn receive(&mut self, into: &mut [u8]) -> linux::Result<()> {
        loop {
            match self.halt.persist(|| self.queue.receive(into)) {
                Ok(n) => return whole("mq_receive", n, into.len()),
                // Opened for polling, but this call has to block.
                Err(e) if e.errno() == linux::EAGAIN => self.halt.persist(|| self.queue.wait())?,
                Err(e) => return Err(e),
            }
        }
    }

    fn poll(&mut self, into: &mut [u8]) -> linux::Result<bool> {
        match self.queue.receive(into) {
            Ok(n) => whole("mq_receive", n, into.len()).map(|()| true),
            Err(e) if e.errno() == linux::EAGAIN || e.errno() == linux::EINTR => Ok(false),
            Err(e) => Err(e),
        }
    }
}

fn system_v(asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let made = asked.keeper.make(What::SysvQueue, |name| sysv::create_queue(name.key()));
    let (queue, name) = made.map_err(|e| {
        refused(
            &e,
            "remove unused queues (ipcs -q, ipcrm), or raise /proc/sys/kernel/msgmni; a kernel with CONFIG_SYSVIPC",
        )
    })?;
    let end = || SystemV { queue, envelope: Envelope::new(asked.size), halt: asked.halt.clone() };
    Ok(Lane { leftovers: vec![name], ..Lane::of(end(), end()) })
}

struct SystemV {
    queue: sysv::Queue,
    envelope: Envelope,
    halt: Halt,
}

impl Outlet for SystemV {
    fn send(&mut self, message: &[u8]) -> linux::Result<()> {
        let Self { queue, envelope, halt } = self;
        halt.persist(|| queue.send(message, envelope))
    }
}

impl Inlet for SystemV {
    fn receive(&mut self, into: &mut [u8]) -> linux::Result<()> {
        let Self { queue, envelope, halt } = self;
        let n = halt.persist(|| queue.receive(into, envelope, true))?;
        whole("msgrcv", n, into.len())
    }

    fn poll(&mut self, into: &mut [u8]) -> linux::Result<bool> {
        match self.queue.receive(into, &mut self.envelope, false) {
            Ok(n) => whole("msgrcv", n, into.len()).map(|()| true),
            Err(e) if e.errno() == rustix::io::Errno::NOMSG.raw_os_error() || e.errno() == linux::EINTR => Ok(false),
            Err(e) => Err(e),
        }
    }
}
