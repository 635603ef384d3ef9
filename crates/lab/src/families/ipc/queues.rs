//! Messages of POSIX and System V queues, with the limits of both, read from their settings.

use punctual_linux as linux;
use punctual_linux::ipc::queue::{self, Use};
use punctual_linux::ipc::sysv::{self, Envelope};
use punctual_record::Hint;

use super::mechanism::{
    Asked, Halt, InFlight, Inlet, Kind, Lane, Limit, Mechanism, Outlet, Unavailable, lanes, refused, sysctl, whole,
};
use crate::keeper::What;

/// Default capacity of a POSIX queue: the kernel's default (`mq_overview(7)`, msg_default).
const USUAL_DEPTH: usize = 10;

pub(super) fn queues() -> Vec<Mechanism> {
    vec![
        Mechanism {
            needs: "CONFIG_POSIX_MQUEUE",
            in_flight: InFlight::Messages,
            largest: posix_queue,
            ..Mechanism::usual(
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
            largest: sysv_queue,
            ..Mechanism::usual(
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
    let usual = posix_queue_depth(asked.size, USUAL_DEPTH);
    let depth = asked.depth_or(usual);
    let for_what = if asked.polls() { Use::Polling } else { Use::Receiving };
    let made = asked.keeper.make(What::PosixQueue, |name| queue::create(&name.posix(), depth, asked.size));
    let (outlet, leftover) = made.map_err(|e| refused_queue(&e, depth))?;
    let inlet = queue::open(&leftover.name.posix(), for_what).map_err(|e| refused_queue(&e, depth))?;
    // Both ends are open: remove the name.
    drop(leftover);
    let halt = asked.halt.clone();
    let inlet = PosixInlet { queue: inlet, halt: halt.clone() };
    Ok(Lane::new(PosixOutlet { queue: outlet, halt }, inlet))
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
    Ok(Lane { leftovers: vec![name], ..Lane::new(end(), end()) })
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

/// Largest message of a POSIX queue for the privileged (`include/linux/ipc_namespace.h`, HARD_MSGSIZEMAX).
const HARD_MSGSIZEMAX: u64 = 16 << 20;
/// Bytes per message that RLIMIT_MSGQUEUE adds to its contents: a pointer and, at most, a tree node. `getrlimit(2)`
/// has them: `struct msg_msg *` and, since Linux 3.5, `struct posix_msg_tree_node`.
const PER_MESSAGE: u64 = 56;

/// Whether this process may exceed the limits of ordinary users (CAP_SYS_RESOURCE, bit 24 of CapEff in
/// /proc/self/status).
fn may_exceed() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).is_some_and(|bits| bits >> 24 & 1 == 1)
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
