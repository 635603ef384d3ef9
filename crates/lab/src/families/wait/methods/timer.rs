//! Kernel timers that notify: by descriptor, by signal, by handler.

use punctual_linux as linux;
use punctual_linux::timer::{HandledTimer, IntervalTimer, SignalTimeout, WaitedTimer};
use punctual_linux::timerfd::{PolledTimerfd, Timerfd};

use super::waiters::{Remedies, relative, timed, unavailable};
use crate::ways::wait::{Kind, Method, Unit};

const TIMER_SETTIME: &[&str] = &["timer_settime", "timer_settime64"];
const TIMERFD_SETTIME: &[&str] = &["timerfd_settime", "timerfd_settime64"];

/// Each timer uses one entry of the user's signal queue limit.
const QUEUE: Remedies = &[(linux::EAGAIN, "raise the limit of pending signals (ulimit -i)")];

const TIMER: Method = Method::unnamed(Kind::Timer);

pub(super) static METHODS: &[Method] = &[
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
        open: || {
            let nothing = SignalTimeout::new().map_err(|e| unavailable(&e, &[]))?;
            relative(move |ns| nothing.wait(ns))
        },
        ..TIMER
    },
];
