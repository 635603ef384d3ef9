//! All ways to wait, one small item each, and the system calls that each makes here, as the kernel sees them.
//!
//! A new way is one [`Method`] in one of the three lists; nothing else changes. The library has its own. The kernel has the
//! sleeping calls, the timeouts of calls that wait for file descriptors or for messages and get none, and the timers that
//! notify by descriptor, by signal or by handler. A program itself may spin, or let the core rest in user mode. The system
//! calls of a way are not known if it is unavailable, or if tracing is forbidden.

use std::hint::spin_loop;
use std::time::Duration;

use punctual::Strategy;
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::counter::Instruction;
use punctual_linux::ipc::queue::EmptyQueue;
use punctual_linux::observe::{ObserveError, SystemCall, system_calls_after};
use punctual_linux::ring::RingTimeout;
use punctual_linux::sleep::{self, Condition, Ended, Epoll, Futex, Semaphore, SilentSocket, sched_yield};
use punctual_linux::timer::{HandledTimer, IntervalTimer, PolledTimerfd, SignalTimeout, Timerfd, WaitedTimer};

use crate::frame::{Unavailable, go_on};
use crate::ways::wait::{
    Kind, Method, Opened, Remedies, UNCUTTABLE_NS, Unit, Waiter, absolute, absolute_up_to, relative, relative_up_to,
    timed, unavailable, units_up, usable,
};
use crate::ways::wait::{on_clock, open_counter, open_instruction, open_sleeper};

/// All ways to wait, ordered by kind. It includes those that this machine lacks.
pub fn all() -> impl Iterator<Item = &'static Method> {
    let lists = [LIBRARY_METHODS, KERNEL_METHODS, SPINNING_METHODS];
    lists.into_iter().flatten()
}

/// The way called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Method> {
    all().find(|method| method.name == name)
}

/// Why a method's calls could not be observed.
#[derive(Debug, thiserror::Error)]
pub enum NotObserved {
    /// The method is not available.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// It could not be traced.
    #[error(transparent)]
    Observe(#[from] ObserveError),
}

/// The system calls of one wait of `asked_ns`, the first after opening.
pub fn system_calls(method: &Method, asked_ns: i64) -> Result<Vec<SystemCall>, NotObserved> {
    // Opened here first: the child process would lose the reason of a refusal.
    drop((method.open)()?);
    let calls = system_calls_after(
        || (method.open)().expect("a method that opened opens again"),
        |waiter| {
            let from_ns = now_ns(Clock::Monotonic);
            waiter.wait(from_ns, asked_ns).expect("nobody asks this process to stop");
        },
    )?;
    Ok(calls)
}

/// The names of the calls in order, without repetitions, for `--list`.
#[must_use]
pub fn names(calls: &[SystemCall]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for call in calls {
        if !names.contains(&call.name.as_str()) {
            names.push(&call.name);
        }
    }
    names
}

const LIBRARY: Method = Method {
    system_calls: &["clock_nanosleep", "clock_nanosleep_time64"],
    // The first wait sets the timer slack.
    also: &["prctl"],
    absolute: true,
    ..Method::unnamed(Kind::Library)
};

const SPIN: Method = Method { absolute: true, ..Method::unnamed(Kind::Spin) };

const USER_WAIT: Method = Method { absolute: true, ..Method::unnamed(Kind::UserWait) };

static LIBRARY_METHODS: &[Method] = &[
    Method {
        name: "native",
        about: "the library's plain sleep: an absolute deadline and a timer slack of 1 ns",
        call: "Sleeper::options().strategy(Strategy::Native)",
        code: "Sleeper::options().strategy(Strategy::Native).build().sleep_until(deadline);",
        open: || open_sleeper(Strategy::Native),
        ..LIBRARY
    },
    Method {
        name: "compensated",
        about: "the same, woken sooner by the typical wake-up latency, which is followed as it drifts",
        call: "Sleeper::options().strategy(Strategy::Compensated)",
        code: "Sleeper::options().strategy(Strategy::Compensated).build().sleep_until(deadline);",
        open: || open_sleeper(Strategy::Compensated),
        ..LIBRARY
    },
    Method {
        name: "hybrid",
        about: "sleeps until a learned margin before the deadline, then spins: on time at little CPU time",
        call: "Sleeper::new()",
        code: "let mut sleeper = punctual::Sleeper::new(); sleeper.sleep_until(deadline);",
        // It learns a sleep's cost from the thread's CPU clock, a system call, and now and then reads the thread's run delay in /proc. A
        // debug build checks a descriptor before it closes it.
        also: &["prctl", "clock_gettime", "openat", "read", "close", "fcntl", "fcntl64"],
        open: || open_sleeper(Strategy::Hybrid),
        ..LIBRARY
    },
];

static SPINNING_METHODS: &[Method] = &[
    Method {
        name: "spin_clock",
        about: "reads the clock until it is time",
        call: "while (clock_gettime(CLOCK_MONOTONIC) < deadline);",
        code: "do clock_gettime(CLOCK_MONOTONIC, &now); while (before(&now, &deadline));",
        open: || on_clock(|| Ok(())),
        ..SPIN
    },
    Method {
        name: "spin_counter",
        about: "reads the CPU's counter until it is time, then verifies on the clock",
        call: "while (rdtsc() < deadline);",
        code: if cfg!(target_arch = "aarch64") {
            "while (__arm_rsr64(\"cntvct_el0\") < deadline_in_ticks) ;"
        } else {
            "while (__rdtsc() < deadline_in_ticks) ;"
        },
        needs: "a steady CPU counter",
        open: open_counter,
        ..SPIN
    },
    Method {
        name: "spin_pause",
        about: "reads the clock with the CPU's pause instruction in between: gentler to the other hyper-thread",
        call: "while (clock_gettime(CLOCK_MONOTONIC) < deadline) pause();",
        code: if cfg!(target_arch = "aarch64") {
            "do { __yield(); clock_gettime(CLOCK_MONOTONIC, &now); } while (before(&now, &deadline));"
        } else {
            "do { _mm_pause(); clock_gettime(CLOCK_MONOTONIC, &now); } while (before(&now, &deadline));"
        },
        open: || {
            on_clock(|| {
                spin_loop();
                Ok(())
            })
        },
        ..SPIN
    },
    Method {
        name: "spin_yield",
        about: "gives other threads the CPU between two looks at the clock",
        call: "while (clock_gettime(CLOCK_MONOTONIC) < deadline) sched_yield();",
        code: "do { sched_yield(); clock_gettime(CLOCK_MONOTONIC, &now); } while (before(&now, &deadline));",
        system_calls: &["sched_yield"],
        open: || on_clock(sched_yield),
        ..SPIN
    },
    Method {
        name: "tpause",
        about: "rests the core until a time of its counter",
        call: "_tpause(0, deadline)",
        code: "_tpause(0, deadline_in_ticks);",
        needs: "CPU with WAITPKG",
        open: || open_instruction(Instruction::Tpause),
        ..USER_WAIT
    },
    Method {
        name: "umwait",
        about: "rests the core until a time of its counter or a write to watched memory",
        call: "_umonitor(line), _umwait(0, deadline)",
        code: "_umonitor(line); _umwait(0, deadline_in_ticks);",
        needs: "CPU with WAITPKG",
        open: || open_instruction(Instruction::Umwait),
        ..USER_WAIT
    },
    Method {
        name: "mwaitx",
        about: "rests the core for a time or until a write to watched memory",
        call: "_mm_monitorx(line, 0, 0), _mm_mwaitx(2, 0xf0, ticks)",
        code: "_mm_monitorx(line, 0, 0); _mm_mwaitx(2, 0xf0, ticks);",
        needs: "CPU with MONITORX",
        open: || open_instruction(Instruction::Mwaitx),
        ..USER_WAIT
    },
    Method {
        name: "wfet",
        about: "rests the core until a time of its counter or an event",
        call: "wfet(deadline)",
        code: "__asm__ volatile(\"wfet %0\" :: \"r\"(deadline_in_ticks));",
        needs: "64-bit Arm CPU with FEAT_WFxT",
        open: || open_instruction(Instruction::Wfet),
        ..USER_WAIT
    },
];

/// C libraries differ in the system call of their sleeping functions.
const NANOSLEEP: &[&str] = &["nanosleep", "clock_nanosleep", "clock_nanosleep_time64"];
const CLOCK_NANOSLEEP: &[&str] = &["clock_nanosleep", "clock_nanosleep_time64"];

/// Far below the maximum of `usleep` (4294 s), and far above any measured wait.
const USLEEP_LONGEST_NS: i64 = 1_000_000_000_000;

const RELATIVE: Method = Method { system_calls: CLOCK_NANOSLEEP, ..Method::unnamed(Kind::Sleep) };

const ABSOLUTE: Method = Method { absolute: true, ..RELATIVE };

/// Below the maximum of an `int` of milliseconds (24 days), and far above any measured wait.
const MILLISECONDS_LONGEST_NS: i64 = 1_000_000_000_000_000;

const POLL: Method = Method::unnamed(Kind::Poll);

const TIMER_SETTIME: &[&str] = &["timer_settime", "timer_settime64"];
const TIMERFD_SETTIME: &[&str] = &["timerfd_settime", "timerfd_settime64"];

/// Each timer uses one entry of the user's signal queue limit.
const QUEUE: Remedies = &[(linux::EAGAIN, "raise the limit of pending signals (ulimit -i)")];

const TIMER: Method = Method::unnamed(Kind::Timer);

const FUTEX: &[&str] = &["futex", "futex_time64"];

const RING: Remedies = &[
    (linux::EPERM, "set /proc/sys/kernel/io_uring_disabled to 0, or allow io_uring in the container's seccomp profile"),
    (linux::ENOMEM, "raise the limit of locked memory (ulimit -l)"),
];

const SYNC: Method = Method { system_calls: FUTEX, ..Method::unnamed(Kind::Sync) };

static KERNEL_METHODS: &[Method] = &[
    Method {
        name: "sleep",
        about: "whole seconds: the oldest call, for waits that a person notices",
        call: "sleep(seconds)",
        system_calls: NANOSLEEP,
        unit: Unit::Second,
        open: || relative_up_to(USLEEP_LONGEST_NS, |ns| sleep::sleep(units_up(ns, 1_000_000_000) as u32)),
        ..RELATIVE
    },
    Method {
        name: "usleep",
        about: "microseconds: withdrawn from POSIX in 2008, still everywhere",
        call: "usleep(microseconds)",
        system_calls: NANOSLEEP,
        unit: Unit::Microsecond,
        open: || relative_up_to(USLEEP_LONGEST_NS, |ns| sleep::usleep(units_up(ns, 1_000) as u32)),
        ..RELATIVE
    },
    Method {
        name: "nanosleep",
        about: "nanoseconds, for a duration",
        call: "nanosleep(&duration, &remaining)",
        system_calls: NANOSLEEP,
        open: || relative(sleep::nanosleep),
        ..RELATIVE
    },
    Method {
        name: "clock_nanosleep",
        about: "a duration on the monotonic clock",
        call: "clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL)",
        open: || relative(|ns| sleep::clock_nanosleep(Clock::Monotonic, ns)),
        ..RELATIVE
    },
    Method {
        name: "clock_nanosleep_realtime",
        about: "a duration, named on the wall clock: setting the clock does not change it",
        call: "clock_nanosleep(CLOCK_REALTIME, 0, &duration, NULL)",
        open: || relative(|ns| sleep::clock_nanosleep(Clock::Realtime, ns)),
        ..RELATIVE
    },
    Method {
        name: "clock_nanosleep_boottime",
        about: "a duration that goes on while the machine is suspended",
        call: "clock_nanosleep(CLOCK_BOOTTIME, 0, &duration, NULL)",
        needs: "Linux 2.6.39",
        clock: Clock::Boottime,
        open: || relative(|ns| sleep::clock_nanosleep(Clock::Boottime, ns)),
        ..RELATIVE
    },
    Method {
        name: "clock_nanosleep_tai",
        about: "a duration on international atomic time",
        call: "clock_nanosleep(CLOCK_TAI, 0, &duration, NULL)",
        needs: "Linux 3.10",
        clock: Clock::Tai,
        open: || relative(|ns| sleep::clock_nanosleep(Clock::Tai, ns)),
        ..RELATIVE
    },
    Method {
        name: "clock_nanosleep_abs",
        about: "until a deadline on the monotonic clock: what periodic work should use",
        call: "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL)",
        relative: "clock_nanosleep",
        open: || absolute(Clock::Monotonic, |at| sleep::clock_nanosleep_until(Clock::Monotonic, at)),
        ..ABSOLUTE
    },
    Method {
        name: "clock_nanosleep_abs_realtime",
        about: "until a time of day; follows the clock when it is set",
        call: "clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &deadline, NULL)",
        clock: Clock::Realtime,
        open: || absolute(Clock::Realtime, |at| sleep::clock_nanosleep_until(Clock::Realtime, at)),
        ..ABSOLUTE
    },
    Method {
        name: "clock_nanosleep_abs_boottime",
        about: "until a deadline on the clock that goes on in suspend",
        call: "clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &deadline, NULL)",
        needs: "Linux 2.6.39",
        clock: Clock::Boottime,
        open: || absolute(Clock::Boottime, |at| sleep::clock_nanosleep_until(Clock::Boottime, at)),
        ..ABSOLUTE
    },
    Method {
        name: "clock_nanosleep_abs_tai",
        about: "until a time of international atomic time, as PTP networks use it",
        call: "clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &deadline, NULL)",
        needs: "Linux 3.10",
        clock: Clock::Tai,
        open: || absolute(Clock::Tai, |at| sleep::clock_nanosleep_until(Clock::Tai, at)),
        ..ABSOLUTE
    },
    Method {
        name: "thread_sleep",
        about: "what Rust programs call; hides signals",
        call: "std::thread::sleep(duration)",
        system_calls: NANOSLEEP,
        open: || {
            relative_up_to(UNCUTTABLE_NS, |ns| {
                std::thread::sleep(Duration::from_nanos(ns.max(0).unsigned_abs()));
                Ok(Ended::TimeUp)
            })
        },
        ..RELATIVE
    },
    Method {
        name: "select",
        about: "the timeout of select, in microseconds",
        call: "select(0, NULL, NULL, NULL, &timeval)",
        system_calls: &["select", "_newselect", "pselect6", "pselect6_time64"],
        unit: Unit::Microsecond,
        open: || relative(|ns| sleep::select(units_up(ns, 1_000))),
        ..POLL
    },
    Method {
        name: "pselect",
        about: "the timeout of pselect, in nanoseconds",
        call: "pselect(0, NULL, NULL, NULL, &timespec, NULL)",
        system_calls: &["pselect6", "pselect6_time64"],
        open: || relative(sleep::pselect),
        ..POLL
    },
    Method {
        name: "poll",
        about: "the timeout of poll: whole milliseconds",
        call: "poll(NULL, 0, milliseconds)",
        system_calls: &["poll", "ppoll", "ppoll_time64"],
        unit: Unit::Millisecond,
        open: || relative_up_to(MILLISECONDS_LONGEST_NS, |ns| sleep::poll(milliseconds(ns))),
        ..POLL
    },
    Method {
        name: "ppoll",
        about: "the timeout of ppoll, in nanoseconds",
        call: "ppoll(NULL, 0, &timespec, NULL)",
        system_calls: &["ppoll", "ppoll_time64"],
        open: || relative(sleep::ppoll),
        ..POLL
    },
    Method {
        name: "epoll_wait",
        about: "the timeout of epoll_wait: whole milliseconds, as most event loops have it",
        call: "epoll_wait(epfd, events, 1, milliseconds)",
        system_calls: &["epoll_wait", "epoll_pwait"],
        unit: Unit::Millisecond,
        open: || {
            let set = usable(Epoll::new())?;
            relative_up_to(MILLISECONDS_LONGEST_NS, move |ns| set.wait(milliseconds(ns)))
        },
        ..POLL
    },
    Method {
        name: "epoll_pwait2",
        about: "the timeout of epoll_pwait2, in nanoseconds",
        call: "epoll_pwait2(epfd, events, 1, &timespec, NULL)",
        system_calls: &["epoll_pwait2"],
        needs: "Linux 5.11",
        open: || usable(Epoll::new()).and_then(|set| relative(move |ns| set.pwait2(ns))),
        ..POLL
    },
    Method {
        name: "timerfd",
        about: "a timer as a file descriptor, read when it is due",
        call: "timerfd_settime(fd, 0, &duration, NULL), read(fd)",
        code: "timerfd_settime(fd, 0, &duration, NULL); read(fd, &expirations, sizeof expirations);",
        system_calls: &["read"],
        also: TIMERFD_SETTIME,
        needs: "Linux 2.6.25",
        open: || timed(Timerfd::new(), &[]),
        ..TIMER
    },
    Method {
        name: "timerfd_epoll",
        about: "a timer as a file descriptor in an event loop",
        call: "timerfd_settime(fd, 0, &duration, NULL), epoll_wait(epfd, events, 1, -1)",
        code: "timerfd_settime(fd, 0, &duration, NULL); epoll_wait(epfd, events, 1, -1);",
        system_calls: &["epoll_wait", "epoll_pwait"],
        also: TIMERFD_SETTIME,
        needs: "Linux 2.6.25",
        open: || timed(PolledTimerfd::new(), &[]),
        ..TIMER
    },
    Method {
        name: "timer_sigwaitinfo",
        about: "a POSIX timer whose signal is fetched",
        call: "timer_settime(timer, 0, &duration, NULL), sigwaitinfo(&set, &info)",
        code: "timer_settime(timer, 0, &duration, NULL); sigwaitinfo(&set, &info);",
        system_calls: &["rt_sigtimedwait", "rt_sigtimedwait_time64"],
        also: TIMER_SETTIME,
        open: || timed(WaitedTimer::new(), QUEUE),
        ..TIMER
    },
    Method {
        name: "timer_handler",
        about: "a POSIX timer whose signal is handled",
        call: "timer_settime(timer, 0, &duration, NULL), sigsuspend(&mask)",
        code: "timer_settime(timer, 0, &duration, NULL); sigsuspend(&mask);",
        system_calls: &["rt_sigsuspend"],
        also: &["timer_settime", "timer_settime64", "rt_sigreturn"],
        open: || timed(HandledTimer::new(), QUEUE),
        ..TIMER
    },
    Method {
        name: "setitimer_sigsuspend",
        about: "the process' one alarm timer, in microseconds: withdrawn from POSIX in 2008",
        call: "setitimer(ITIMER_REAL, &duration, NULL), sigsuspend(&mask)",
        code: "setitimer(ITIMER_REAL, &duration, NULL); sigsuspend(&mask);",
        system_calls: &["rt_sigsuspend"],
        also: &["setitimer", "rt_sigreturn"],
        unit: Unit::Microsecond,
        needs: "the process' alarm timer unused",
        open: || timed(IntervalTimer::new(), &[]),
        ..TIMER
    },
    Method {
        name: "sigtimedwait",
        about: "the timeout of waiting for a signal that does not come",
        call: "sigtimedwait(&set, NULL, &timeout)",
        system_calls: &["rt_sigtimedwait", "rt_sigtimedwait_time64"],
        open: || usable(SignalTimeout::new()).and_then(|nothing| relative(move |ns| nothing.wait(ns))),
        ..TIMER
    },
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
            let condition = usable(Condition::new())?;
            absolute_up_to(UNCUTTABLE_NS, Clock::Monotonic, move |at| condition.wait_until(at))
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
            let semaphore = usable(Semaphore::new())?;
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
            const REMEDIES: Remedies = &[
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
        open: || timed(RingTimeout::new(), RING),
        ..SYNC
    },
];

fn milliseconds(ns: i64) -> i32 {
    i32::try_from(units_up(ns, 1_000_000)).unwrap_or(i32::MAX)
}

/// Waits on a socket, whose timeout may come up to a jiffy early (`schedule_timeout` counts from the last tick).
struct SocketTimeout {
    socket: SilentSocket,
    set_us: Option<i64>,
}

fn open_socket() -> Opened {
    let socket = usable(SilentSocket::new())?;
    usable(socket.set_timeout(1))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_means_one_method() {
        for method in all() {
            assert!(std::ptr::eq(find(method.name).unwrap(), method), "{} twice", method.name);
            assert!(!method.name.is_empty() && !method.about.is_empty() && !method.call.is_empty());
            assert!(method.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
        }
        assert!(find("snooze").is_none());
    }
}
