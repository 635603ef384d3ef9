//! The kernel's limits, read from their settings.

use punctual_linux as linux;
use rustix::process::{Resource, getrlimit};

use super::super::mechanism::{Limit, Unavailable, refused};

/// The number in a file of /proc/sys.
pub(super) fn sysctl(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
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
pub(super) fn posix_queue() -> Limit {
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
        None => Limit { bytes: Some(by_size.0), from: by_size.1.into(), remedy: by_size.2.map(str::to_owned) },
    }
}

/// Number of messages of this size that fit two POSIX queues, up to `wanted`.
pub(super) fn posix_queue_depth(size: usize, wanted: usize) -> usize {
    let by_number = if may_exceed() { u64::MAX } else { sysctl("/proc/sys/fs/mqueue/msg_max").unwrap_or(10) };
    let by_room = queue_bytes().map_or(u64::MAX, |bytes| bytes / 2 / (size as u64 + PER_MESSAGE));
    (wanted as u64).min(by_number).min(by_room).max(1) as usize
}

/// The largest message of a System V queue: `msgmax`, but at most `msgmnb`.
pub(super) fn sysv_queue() -> Limit {
    let one = |path: &str, usual| (sysctl(path).unwrap_or(usual), path.to_owned());
    // include/uapi/linux/msg.h: MSGMAX 8192, MSGMNB 16384.
    let (bytes, from) = one("/proc/sys/kernel/msgmax", 8192).min(one("/proc/sys/kernel/msgmnb", 16384));
    let name = from.trim_start_matches("/proc/sys/").replace('/', ".");
    Limit { bytes: Some(bytes), remedy: Some(format!("as root: sysctl {name}=BYTES")), from }
}

/// The largest datagram of a Unix socket: limited by its send buffer, which also holds the kernel's overhead.
pub(super) fn unix_datagram() -> Limit {
    let from = "/proc/sys/net/core/wmem_default";
    // net/unix/af_unix.c: a datagram with its overhead must fit sk_sndbuf less 32 bytes.
    let bytes = sysctl(from).unwrap_or(212_992).saturating_sub(32);
    Limit { bytes: Some(bytes), from: from.into(), remedy: Some("as root: sysctl net.core.wmem_default=BYTES".into()) }
}

/// The largest UDP datagram over IPv4: 65 535 less the headers of IP and UDP.
pub(super) fn udp() -> Limit {
    Limit { bytes: Some(65_507), from: "the length field of IPv4 and UDP (65 535 less 28)".into(), remedy: None }
}

/// Eight bytes.
pub(super) fn eight() -> Limit {
    Limit { bytes: Some(8), from: "the mechanism itself: it carries one 64-bit number".into(), remedy: None }
}

/// A pointer.
pub(super) fn pointer() -> Limit {
    let bytes = size_of::<usize>() as u64;
    Limit {
        bytes: Some(bytes),
        from: "the mechanism itself: a signal carries one pointer (sigval)".into(),
        remedy: None,
    }
}

/// The refusal of one more open file.
pub(super) fn no_file(error: &linux::Error) -> Unavailable {
    refused(error, &format!("too many open files? the limit here is {} (ulimit -n)", open_files()))
}

/// Number of files that may be open, for error messages.
pub(super) fn open_files() -> String {
    getrlimit(Resource::Nofile).current.map_or("no limit".into(), |n| n.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_name_their_source() {
        assert!(posix_queue().bytes.unwrap() >= 128);
        assert!(sysv_queue().from.starts_with("/proc/sys/kernel/msgm"));
        assert!(unix_datagram().bytes.unwrap() >= 1024);
        assert_eq!(posix_queue_depth(8, 4), 4);
        assert_eq!(posix_queue_depth(usize::MAX / 4, 4), 1);
    }
}
