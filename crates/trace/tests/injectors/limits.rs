//! Limits on CPU time.

use punctual_record::Cause;

use crate::groups::{Group, Settings};
use crate::judge::Injector;
use crate::place;
use crate::play::{Seen, Stage, now, pause};

/// The quota of a cgroup, used up by another of its threads.
pub(crate) const QUOTA: Injector = Injector {
    name: "cgroup quota 5 of 20 ms",
    cause: Cause::Quota,
    exact: false,
    least_ns: 3_000_000,
    play: |stage, wanted| Some(limited(stage, wanted, &Group::with(&FIVE_OF_TWENTY)?, Kind::Alone)),
    ..Injector::SLEEP
};

const FIVE_OF_TWENTY: Settings = Settings {
    version_1: &[("cpu.shares", "262144"), ("cpu.cfs_period_us", "20000"), ("cpu.cfs_quota_us", "5000")],
    version_2: &[("cpu.weight", "10000"), ("cpu.max", "5000 20000")],
};

/// The same where a thread outside of the group uses the CPU meanwhile.
pub(crate) const QUOTA_BESIDE: Injector = Injector {
    name: "cgroup quota 5 of 20 ms beside a busy thread",
    play: |stage, wanted| Some(limited(stage, wanted, &Group::with(&FIVE_OF_TWENTY)?, Kind::Beside)),
    ..QUOTA
};

/// The limit of a group's real-time threads.
pub(crate) const REAL_TIME: Injector = Injector {
    name: "real-time limit 5 of 20 ms",
    cause: Cause::RtThrottling,
    play: |stage, wanted| Some(limited(stage, wanted, &Group::with(&REAL_TIME_ALIKE)?, Kind::RealTime)),
    ..QUOTA
};

const REAL_TIME_ALIKE: Settings =
    Settings { version_1: &[("cpu.rt_period_us", "20000"), ("cpu.rt_runtime_us", "5000")], version_2: &[] };

/// What else runs, or how.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Alone,
    Beside,
    RealTime,
}

/// The victim runs little; another of its group runs all the time.
fn limited(stage: &Stage, wanted: usize, group: &Group, kind: Kind) -> Seen {
    let join = || {
        place::on(stage.cpu);
        group.join();
        if kind == Kind::RealTime {
            place::fifo(20);
        }
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
    // Works for a while, then rests.
    let busy = |ms: u64| {
        while stage.goes_on() {
            let begin = now();
            while now() < begin + ms * 1_000_000 {
                std::hint::spin_loop();
            }
            pause(100_000);
        }
    };
    let injector = || {
        std::thread::scope(|scope| {
            let beside = || {
                place::on(stage.cpu);
                rustix::thread::set_name(c"beside").unwrap();
                if stage.wait_for_part() {
                    busy(6);
                }
            };
            (kind == Kind::Beside).then(|| scope.spawn(beside));
            join();
            if stage.wait_for_part() {
                busy(6);
            }
        });
    };
    stage.play(wanted, victim, injector)
}

/// What the kernel keeps of each second for the threads below a busy real-time thread. The limit on all real-time threads
/// does so; since Linux 6.12 the fair server does.
pub(crate) const KEPT_FOR_FAIR: Injector =
    Injector { name: "5 % of the time for fair threads", least_ns: 30_000_000, play: kept_for_fair, ..REAL_TIME };

fn kept_for_fair(stage: &Stage, wanted: usize) -> Option<Seen> {
    let victim = || {
        place::on(stage.cpu);
        place::fifo(50);
        while stage.goes_on() {
            let on = stage.is_on();
            stage.sleep(2_000_000);
            let late = now() - stage.deadline.load(std::sync::atomic::Ordering::Relaxed);
            if on && late > KEPT_FOR_FAIR.least_ns {
                stage.hit();
            }
        }
    };
    let spin = || {
        while stage.goes_on() {
            std::hint::spin_loop()
        }
    };
    let injector = || {
        std::thread::scope(|scope| {
            let fair = || {
                place::on(stage.cpu);
                rustix::thread::set_name(c"fair").unwrap();
                if stage.wait_for_part() {
                    spin();
                }
            };
            scope.spawn(fair);
            place::on(stage.cpu);
            place::fifo(20);
            if stage.wait_for_part() {
                spin();
            }
        });
    };
    Some(stage.play(wanted, victim, injector))
}
