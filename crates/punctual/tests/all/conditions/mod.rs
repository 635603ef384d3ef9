//! Conditions on the real kernel: applied, read back, and put back after drop, error and panic.

mod cpu;
mod dma_latency;
mod frequency;
mod lock_memory;
mod lost;
mod policy;
mod timer_slack;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::common::{on_thread, privileged, state};
use punctual::{Applied, Condition, Conditions, CpuSet, Need, Policy};
use punctual_linux::sched::{self, Attributes};
use punctual_testing::{Lack, first_cpu, lacks};

fn policy(typed: &str) -> Conditions {
    Conditions::new().policy(typed.parse().unwrap())
}

/// A prepared thread: nothing is at its default.
fn dirty_start() {
    sched::set_nice(0, 5).unwrap();
    punctual_linux::sched::set_timer_slack_ns(1234).unwrap();
    let last = *punctual_linux::sched::affinity(0).unwrap().last().unwrap();
    punctual_linux::sched::set_affinity(0, &[last]).unwrap();
}

pub(crate) fn everything_unprivileged() -> Conditions {
    Conditions::new().cpu(first_cpu())
}

pub(crate) fn everything() -> Conditions {
    Conditions::new().policy(Policy::Fifo(40)).nice(-3).cpu(first_cpu()).timer_slack(Duration::from_nanos(1))
}

#[test]
fn a_prepared_thread_is_put_back_exactly_after_drop_error_and_panic() {
    if !privileged() {
        return;
    }
    fn fails() -> Result<(), std::num::ParseIntError> {
        let Applied { guard: _guard, refused } = everything().apply();
        assert_eq!(refused, []);
        "x".parse::<i32>()?;
        Ok(())
    }
    on_thread(|| {
        dirty_start();
        let before = state();

        let Applied { guard, refused } = everything().apply();
        assert_eq!(refused, []);
        let applied = guard.applied();
        assert_eq!((applied.get_policy(), applied.get_nice()), (Some(Policy::Fifo(40)), Some(-3)));
        assert_eq!(applied.get_cpus(), Some(CpuSet::from_iter([first_cpu()])));
        drop(guard);
        assert_eq!(state(), before, "after drop");

        fails().unwrap_err();
        assert_eq!(state(), before, "after an error");

        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _guard = everything().apply().guard;
            assert_ne!(state(), before);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(state(), before, "after a panic");
    });
}

#[test]
fn a_time_slice_of_ones_own_is_put_back_and_the_default_stays_the_default() {
    if !privileged() {
        return;
    }
    on_thread(|| {
        let default = sched::attributes(0).unwrap();
        drop(policy("fifo:3").apply().guard);
        assert_eq!(sched::attributes(0).unwrap(), default);
        let slice = Attributes { runtime_ns: 7_000_000, ..default };
        sched::set_attributes(0, &slice).unwrap();
        let before = sched::attributes(0).unwrap();
        if before.runtime_ns != 7_000_000 {
            lacks(Lack::Linux(6, 12));
            return;
        }
        drop(policy("fifo:3").apply().guard);
        assert_eq!(sched::attributes(0).unwrap(), before);
    });
}

#[test]
fn nested_guards_unwind_one_by_one() {
    if !privileged() {
        return;
    }
    on_thread(|| {
        let start = state();
        let outer = policy("rr:5").apply().guard;
        let between = state();
        let inner = everything().apply().guard;
        assert_eq!(inner.restore(), []);
        assert_eq!(state(), between);
        assert_eq!(outer.restore(), []);
        assert_eq!(state(), start);
    });
}

#[test]
fn what_is_out_of_bounds_is_refused_and_changes_nothing() {
    on_thread(|| {
        let before = state();
        let asked = Conditions::new()
            .policy(Policy::Fifo(0))
            .nice(20)
            .cpus(&CpuSet::from_iter([0, 4321]))
            .timer_slack(Duration::MAX)
            .dma_latency(Duration::from_secs(3600));
        let Applied { guard, refused } = asked.apply();
        let conditions: Vec<Condition> = refused.iter().map(|refused| refused.condition).collect();
        let all = [Condition::DMA_LATENCY, Condition::TIMER_SLACK, Condition::CPU, Condition::NICE, Condition::POLICY];
        assert_eq!(conditions, all);
        for refused in &refused {
            assert!(!refused.why.is_empty() && refused.needs != Need::Unknown, "{refused}");
        }
        assert!(refused[2].why.contains("no CPU 4321"), "{}", refused[2]);
        assert_eq!(state(), before);
        assert_eq!(guard.restore(), []);
        assert_eq!(state(), before);
    });
}
