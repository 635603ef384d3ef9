//! Timers that have no slack: sleeping calls end late by the thread's timer slack, waiting for such a timer does not.

use crate::style::Style;

use super::figures::{Difference, Figure, Figures, running};
use super::finding::{Code, Finding, Place, Sentence};
use super::ranking::best;
use super::levers::{large_slack, shown_difference};

/// Methods whose timer the kernel starts without a range (`hrtimer_start`, which is `hrtimer_start_range_ns` with a range of 0), the call
/// that sets it, and where.
const WITHOUT_SLACK: [(&str, &str, &str); 5] = [
    ("timerfd", "timerfd_settime", "fs/timerfd.c"),
    ("timerfd_epoll", "timerfd_settime", "fs/timerfd.c"),
    ("timer_sigwaitinfo", "timer_settime", "kernel/time/posix-timers.c"),
    ("timer_handler", "timer_settime", "kernel/time/posix-timers.c"),
    ("io_uring", "IORING_OP_TIMEOUT", "io_uring/timeout.c"),
];

/// Sleeping calls, which have it (prctl(2), PR_SET_TIMERSLACK), by how well they stand for what programs do.
const WITH_SLACK: [&str; 4] = ["clock_nanosleep_abs", "clock_nanosleep", "nanosleep", "usleep"];

/// The least late method without slack and a sleeping call under the same ordinary conditions, with what the first gains.
#[must_use]
pub fn without_slack_row<'f, 'a>(figures: &'f Figures<'a>) -> Option<(&'f Figure<'a>, &'f Figure<'a>, Difference)> {
    let ours = |row: &&Figure<'_>| {
        WITHOUT_SLACK.iter().any(|(name, _, _)| *name == row.subject) && row.set.is_some_and(|set| large_slack(set).is_some())
    };
    let timer = best(figures.sleeping().filter(ours))?;
    let call = WITH_SLACK.iter().find_map(|name| figures.under(name, timer.set?))?;
    let gain = call.p50?.exceeds(&timer.p50?)?;
    Some((call, timer, gain))
}

/// What such a timer gains over a sleeping call.
#[must_use]
pub fn without_slack(figures: &Figures<'_>, style: &Style) -> Option<Finding> {
    let (call, timer, gain) = without_slack_row(figures)?;
    let (_, setter, place) = WITHOUT_SLACK.iter().find(|(name, _, _)| *name == timer.subject)?;
    let mut head = Sentence::new(format!("{} wakes ", timer.subject)).figure(shown_difference(gain, style));
    head = head.words(format!(" earlier at p50 than {}", call.subject));
    if figures.many_conditions {
        head = head.words(format!(", both under {}", running(&timer.conditions)));
    }
    let reason = format!("The kernel starts the timer of {setter} without the thread's slack ({place}).");
    let mut finding = Finding::new(Place::Slack, head.words("."));
    finding.tails.push(Sentence::new(reason));
    finding.code = Some(Code::Method(timer.subject.clone()));
    Some(finding)
}
