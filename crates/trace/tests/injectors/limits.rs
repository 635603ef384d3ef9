//! Limits on CPU time.

use punctual_record::Cause;

use crate::groups::Group;
use crate::judge::Injector;
use crate::place;
use crate::play::{Seen, Stage, now, pause};

/// The quota of a cgroup, used up by another of its threads.
pub(crate) const QUOTA: Injector = Injector {
    name: "cgroup quota 5 of 20 ms",
    cause: Cause::Quota,
    culprit: None,
    exact: false,
    alone: true,
    call: "clock_nanosleep",
    least_ns: 3_000_000,
    play: quota,
};

fn quota(stage: &Stage, wanted: usize) -> Option<Seen> {
    let group = Group::with(&[("cpu.shares", "262144"), ("cpu.cfs_period_us", "20000"), ("cpu.cfs_quota_us", "5000")])?;
    Some(limited(stage, wanted, &group, || ()))
}

/// The limit of a group's real-time threads.
pub(crate) const REAL_TIME: Injector = Injector {
    name: "real-time limit 5 of 20 ms",
    cause: Cause::RtThrottling,
    culprit: None,
    alone: false,
    play: real_time,
    ..QUOTA
};

fn real_time(stage: &Stage, wanted: usize) -> Option<Seen> {
    let group = Group::with(&[("cpu.rt_period_us", "20000"), ("cpu.rt_runtime_us", "5000")])?;
    Some(limited(stage, wanted, &group, || place::fifo(20)))
}

/// The victim runs little; another of its group runs all the time.
fn limited(stage: &Stage, wanted: usize, group: &Group, policy: impl Fn() + Sync) -> Seen {
    let join = || {
        place::on(stage.cpu);
        group.join();
        policy();
    };
    let victim = || {
        join();
        while stage.goes_on() {
            let on = stage.is_on();
            stage.sleep(2_000_000);
            let late = now() - stage.deadline.load(std::sync::atomic::Ordering::Relaxed);
            if on && late > QUOTA.least_ns {
                stage.hit();
            }
        }
    };
    let injector = || {
        join();
        if !stage.wait_for_part() {
            return;
        }
        while stage.goes_on() {
            let begin = now();
            while now() < begin + 6_000_000 {
                std::hint::spin_loop();
            }
            pause(100_000);
        }
    };
    stage.play(wanted, victim, injector)
}
