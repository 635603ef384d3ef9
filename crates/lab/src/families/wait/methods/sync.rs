//! Timeouts of synchronisation and message calls that nothing answers.

use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::ipc::queue::EmptyQueue;
use punctual_linux::ring::RingTimeout;
use punctual_linux::sync::{Condition, Futex, Semaphore, SilentSocket};

use super::waiters::{Opened, absolute, absolute_uncuttable, relative, timed, unavailable};
use crate::frame::progress::go_on;
use crate::ways::wait::{Kind, Method, Unit, Waiter, units_up};

const FUTEX: &[&str] = &["futex", "futex_time64"];

const SYNC: Method = Method { system_calls: FUTEX, ..Method::unnamed(Kind::Sync) };

pub(super) static METHODS: &[Method] = &[
    Method {
        name: "futex",
        about: "the timeout of a futex, for a duration",
        call: "futex(&word, FUTEX_WAIT_PRIVATE, 0, &duration)",
        code: "syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &duration, NULL, 0);",
        open: || {
            let word = Futex::default();
            relative(move |ns| word.wait(ns))
        },
        ..SYNC
    },
    Method {
        name: "futex_abs",
        about: "the timeout of a futex, until a deadline: what mutexes and condition variables are built on",
        call: "futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, &deadline, NULL, FUTEX_BITSET_MATCH_ANY)",
        code: "syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &deadline, NULL, FUTEX_BITSET_MATCH_ANY);",
        absolute: true,
        relative: "futex",
        open: || {
            let word = Futex::default();
            absolute(Clock::Monotonic, move |at| word.wait_until(at))
        },
        ..SYNC
    },
    Method {
        name: "pthread_cond_timedwait",
        about: "the timeout of a condition variable on the monotonic clock; hides signals",
        call: "pthread_cond_timedwait(&condition, &mutex, &deadline)",
        absolute: true,
        open: || {
            let condition = Condition::new().map_err(|e| unavailable(&e, &[]))?;
            absolute_uncuttable(Clock::Monotonic, move |at| condition.wait_until(at))
        },
        ..SYNC
    },
    Method {
        name: "sem_timedwait",
        about: "the timeout of a semaphore, on the wall clock: follows it when it is set",
        call: "sem_timedwait(&semaphore, &deadline)",
        absolute: true,
        clock: Clock::Realtime,
        open: || {
            let semaphore = Semaphore::new().map_err(|e| unavailable(&e, &[]))?;
            absolute(Clock::Realtime, move |at| semaphore.wait_until(at))
        },
        ..SYNC
    },
    Method {
        name: "mq_timedreceive",
        about: "the timeout of a POSIX message queue, on the wall clock: follows it when it is set",
        call: "mq_timedreceive(queue, message, size, NULL, &deadline)",
        system_calls: &["mq_timedreceive", "mq_timedreceive_time64"],
        absolute: true,
        needs: "kernel with CONFIG_POSIX_MQUEUE",
        clock: Clock::Realtime,
        open: || {
            const REMEDIES: super::waiters::Remedies = &[
                (linux::ENOSYS, "a kernel built with CONFIG_POSIX_MQUEUE has them"),
                (linux::EMFILE, "raise the limits of message queues and of open files (ulimit -q, ulimit -n)"),
                (linux::ENOSPC, "close message queues or raise /proc/sys/fs/mqueue/queues_max"),
            ];
            let queue = EmptyQueue::new().map_err(|e| unavailable(&e, REMEDIES))?;
            absolute(Clock::Realtime, move |at| queue.wait_until(at))
        },
        ..SYNC
    },
    Method {
        name: "socket_timeout",
        about: "the receive timeout of a socket: whole jiffies",
        call: "setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeval), recv(fd, buffer, size, 0)",
        code: "setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeval, sizeof timeval); recv(fd, buffer, size, 0);",
        system_calls: &["recvfrom", "recv"],
        also: &["setsockopt"],
        unit: Unit::Jiffy,
        open: open_socket,
        ..SYNC
    },
    Method {
        name: "io_uring",
        about: "a timeout through a ring",
        call: "io_uring_prep_timeout(sqe, &duration, 0, 0), io_uring_submit_and_wait(&ring, 1)",
        code: "io_uring_prep_timeout(sqe, &duration, 0, 0); io_uring_submit_and_wait(&ring, 1);",
        system_calls: &["io_uring_enter"],
        needs: "Linux 5.4",
        open: open_ring,
        ..SYNC
    },
];

/// Waits on a socket, whose timeout may come up to a jiffy early (`schedule_timeout` counts from the last tick).
struct SocketTimeout {
    socket: SilentSocket,
    set_us: Option<i64>,
}

fn open_socket() -> Opened {
    let socket = SilentSocket::new().map_err(|e| unavailable(&e, &[]))?;
    socket.set_timeout(1).map_err(|e| unavailable(&e, &[]))?;
    Ok(Box::new(SocketTimeout { socket, set_us: None }))
}

impl Waiter for SocketTimeout {
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        let mut remaining = asked_ns;
        while remaining > 0 {
            let timeout_us = units_up(remaining, 1_000);
            if self.set_us != Some(timeout_us) {
                self.socket.set_timeout(timeout_us)?;
                self.set_us = Some(timeout_us);
            }
            // After a timeout or a signal, the clock tells the time left.
            let _ = self.socket.receive()?;
            remaining = asked_ns.saturating_sub(now_ns(Clock::Monotonic) - from_ns);
            if remaining > 0 {
                go_on("recv")?;
            }
        }
        Ok(())
    }
}

fn open_ring() -> Opened {
    const REMEDIES: super::waiters::Remedies = &[
        (
            linux::EPERM,
            "set /proc/sys/kernel/io_uring_disabled to 0, or allow io_uring in the container's seccomp profile",
        ),
        (linux::ENOMEM, "raise the limit of locked memory (ulimit -l)"),
    ];
    timed(RingTimeout::new(), REMEDIES)
}
