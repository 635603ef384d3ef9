//! Timers without slack: sleeping calls are late by the thread's timer slack, these timers are not.

use crate::words::{Figure, Figures, SLEEPING_CALLS};

use super::levers::large_slack;

/// Methods whose timer the kernel starts without a range (`hrtimer_start`, or a range of 0): fs/timerfd.c,
/// kernel/time/posix-timers.c, kernel/time/itimer.c, ipc/mqueue.c, io_uring/timeout.c.
const WITHOUT_SLACK: [&str; 7] = [
    "timerfd",
    "timerfd_epoll",
    "timer_sigwaitinfo",
    "timer_handler",
    "setitimer_sigsuspend",
    "mq_timedreceive",
    "io_uring",
];

/// The best known method without slack, after a sleeping call under the same ordinary conditions.
pub(super) fn without_slack<'f, 'a>(figures: &'f Figures<'a>) -> Option<(&'f Figure<'a>, &'f Figure<'a>)> {
    WITHOUT_SLACK.iter().find_map(|name| {
        let timer = figures.sleeping().find(|row| row.subject == *name)?;
        // Where the slack is too small for a difference, there is nothing to propose.
        large_slack(timer.set?)?;
        let call = SLEEPING_CALLS.iter().find_map(|name| figures.under(name, timer.set?))?;
        Some((call, timer))
    })
}
