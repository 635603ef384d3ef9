//! Timers that fire late.

use std::sync::atomic::Ordering;

use punctual_linux::sched::set_nice;
use punctual_linux::sched::set_timer_slack_ns;
use punctual_record::Cause;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use crate::judge::Injector;
use crate::place;
use crate::play::{Seen, Stage, now};

/// The default slack of a thread against the smallest.
pub(crate) const SLACK: Injector =
    Injector { name: "timer slack 50 us", cause: Cause::TimerSlack, least_ns: 40_000, play: slack, ..Injector::SLEEP };

const SLACK_NS: u64 = 50_000;

fn slack(stage: &Stage, wanted: usize) -> Option<Seen> {
    let victim = || {
        place::on(stage.cpu);
        set_nice(0, -20).unwrap();
        while stage.goes_on() {
            let on = stage.is_on();
            set_timer_slack_ns(if on { SLACK_NS } else { 1 }).unwrap();
            stage.sleep(1_000_000);
            if on {
                let deadline = stage.deadline.load(Ordering::Relaxed);
                stage.injected(deadline, deadline + SLACK_NS);
            }
        }
    };
    Some(stage.play(wanted, victim, || ()))
}

/// Timers of one CPU that expire together.
pub(crate) const AT_ONCE: Injector = Injector {
    name: "400 timers at once",
    cause: Cause::OtherTimers,
    culprit: Some("timerfd_tmrproc"),
    exact: false,
    play: at_once,
    ..Injector::SLEEP
};

/// As many as the usual limit of open files permits.
const TIMERS: usize = 400;

fn at_once(stage: &Stage, wanted: usize) -> Option<Seen> {
    let victim = || {
        place::on(stage.cpu);
        place::fifo(50);
        let timer = |_| rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).unwrap();
        let timers: Vec<_> = (0..TIMERS).map(timer).collect();
        while stage.goes_on() {
            let on = stage.is_on();
            let at = now() + 10_000_000;
            for timer in timers.iter().filter(|_| on) {
                let value = Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as _ };
                let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
                rustix::time::timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once).unwrap();
            }
            // Behind them, and before they are all served.
            stage.sleep((at + 1_000).saturating_sub(now()));
            if on {
                stage.injected(at, at);
            }
        }
    };
    Some(stage.play(wanted, victim, || ()))
}
