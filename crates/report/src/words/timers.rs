//! Timers without slack: sleeping calls are late by the thread's timer slack, these timers are not.

use crate::format::prose::listed;
use crate::naming::under;

use super::figures::{Difference, Figure, Figures, SLEEPING_CALLS};
use super::finding::{Code, Finding, Place, Sentence};
use super::levers::large_slack;

/// Methods whose timer the kernel starts without a range (`hrtimer_start`, or a range of 0), the call
/// that sets it, and where.
const WITHOUT_SLACK: [(&str, &str, &str); 7] = [
    ("timerfd", "timerfd_settime", "fs/timerfd.c"),
    ("timerfd_epoll", "timerfd_settime", "fs/timerfd.c"),
    ("timer_sigwaitinfo", "timer_settime", "kernel/time/posix-timers.c"),
    ("timer_handler", "timer_settime", "kernel/time/posix-timers.c"),
    ("setitimer_sigsuspend", "setitimer", "kernel/time/itimer.c"),
    ("mq_timedreceive", "mq_timedreceive", "ipc/mqueue.c"),
    ("io_uring", "IORING_OP_TIMEOUT", "io_uring/timeout.c"),
];

/// The best known method without slack and a sleeping call under the same ordinary conditions, with what the first gains.
#[must_use]
pub fn without_slack_row<'f, 'a>(figures: &'f Figures<'a>) -> Option<(&'f Figure<'a>, &'f Figure<'a>, Difference)> {
    WITHOUT_SLACK.iter().find_map(|(name, _, _)| {
        figures.sleeping().filter(|row| row.subject == *name).find_map(|timer| {
            let call = call_like(figures, timer)?;
            Some((call, timer, call.p50?.exceeds(&timer.p50?)?))
        })
    })
}

/// The best known method without slack, after a sleeping call under the same ordinary conditions.
pub(crate) fn without_slack_rows<'f, 'a>(figures: &'f Figures<'a>) -> Option<(&'f Figure<'a>, &'f Figure<'a>)> {
    WITHOUT_SLACK.iter().find_map(|(name, _, _)| {
        let timer = figures.sleeping().find(|row| row.subject == *name)?;
        Some((call_like(figures, timer)?, timer))
    })
}

/// A sleeping call under the same conditions, where these have a slack worth a word.
fn call_like<'f, 'a>(figures: &'f Figures<'a>, timer: &Figure<'a>) -> Option<&'f Figure<'a>> {
    large_slack(timer.set?)?;
    SLEEPING_CALLS.iter().find_map(|name| figures.under(name, timer.set?))
}

/// What such a timer gains over a sleeping call.
#[must_use]
pub fn without_slack(figures: &Figures<'_>) -> Option<Finding> {
    let (call, timer, gain) = without_slack_row(figures)?;
    let (_, setter, place) = WITHOUT_SLACK.iter().find(|(name, _, _)| *name == timer.subject)?;
    let mut head = Sentence::new(format!("{} wakes ", timer.subject)).figure(gain.shown());
    head = head.words(format!(" earlier at p50 than {}", call.subject));
    if figures.many_conditions && figures.usual.as_ref() != Some(&timer.conditions) {
        head = head.words(format!(", both {}", under(&timer.conditions)));
    }
    let reason = format!("The kernel starts the timer of {setter} without the thread's slack ({place}).");
    let mut finding = Finding::new(Place::Slack, head.words("."));
    finding.tails.push(Sentence::new(reason));
    let too = |row: &&Figure<'_>| {
        row.subject != timer.subject
            && row.conditions == timer.conditions
            && WITHOUT_SLACK.iter().any(|(name, _, _)| *name == row.subject)
            && call.p50.zip(row.p50).is_some_and(|(call, its)| call.exceeds(&its).is_some())
    };
    let too: Vec<String> = figures.sleeping().filter(too).map(|row| row.subject.clone()).collect();
    if !too.is_empty() {
        finding.tails.push(Sentence::new(format!("Others without it that are earlier too: {}.", listed(&too, 8))));
    }
    finding.code = timer.code.clone().map(Code::Call);
    Some(finding)
}
