//! Conditions on the real kernel: applied, read back, and put back after drop, error and panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::common::{on_thread, privileged, state};
use punctual::{Condition, Conditions, CpuSet, Policy};
use punctual_linux::sched::{self, Attributes};
use punctual_testing::{alone_on_this_machine, lacks, skip};

const POLICIES: [&str; 8] = ["other", "batch", "idle", "rr:1", "rr:40", "fifo:99", "fifo:40", "deadline:1ms/10ms/20ms"];

fn policy(typed: &str) -> Conditions {
    Conditions { policy: Some(typed.parse().unwrap()), ..Conditions::default() }
}

/// A thread that somebody has prepared: nothing is at its default.
fn dirty_start() {
    sched::set_nice(0, 5).unwrap();
    punctual_linux::prctl::set_timer_slack_ns(1234).unwrap();
    let last = *punctual_linux::affinity::affinity(0).unwrap().last().unwrap();
    punctual_linux::affinity::set_affinity(0, &[last]).unwrap();
}

pub(crate) fn everything_unprivileged() -> Conditions {
    let first = punctual_linux::affinity::affinity(0).unwrap()[0];
    Conditions { cpus: Some(CpuSet::of([first])), ..Conditions::default() }
}

pub(crate) fn everything() -> Conditions {
    Conditions {
        policy: Some(Policy::Fifo(40)),
        nice: Some(-3),
        cpus: Some(CpuSet::of([0])),
        timer_slack: Some(Duration::from_nanos(1)),
        ..Conditions::default()
    }
}

#[test]
fn each_policy_holds_and_is_put_back() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    for typed in POLICIES {
        on_thread(move || {
            let before = state();
            let guard = policy(typed).apply();
            assert_eq!(guard.refused(), []);
            assert_eq!(guard.applied().policy.unwrap().to_string(), typed);
            assert_eq!(Conditions::inspect().policy, guard.applied().policy);
            assert_eq!(guard.restore(), []);
            assert_eq!(state(), before, "{typed}");
        });
    }
}

#[test]
fn from_each_policy_to_each_and_back() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    for from in POLICIES {
        for to in POLICIES {
            on_thread(move || {
                sched::set_nice(0, 4).unwrap();
                punctual_linux::prctl::set_timer_slack_ns(4321).unwrap();
                policy(from).apply().leave_in_force();
                let before = state();
                let guard = policy(to).apply();
                assert_eq!(guard.refused(), [], "{from} to {to}");
                assert_eq!(guard.applied().policy.unwrap().to_string(), to);
                assert_eq!(guard.restore(), [], "{from} to {to}");
                assert_eq!(state(), before, "{from} to {to}");
            });
        }
    }
}

#[test]
fn a_prepared_thread_is_put_back_exactly_after_drop_error_and_panic() {
    if !privileged() {
        return;
    }
    fn fails() -> Result<(), std::num::ParseIntError> {
        let guard = everything().apply();
        assert_eq!(guard.refused(), []);
        "x".parse::<i32>()?;
        Ok(())
    }
    on_thread(|| {
        dirty_start();
        let before = state();

        let guard = everything().apply();
        assert_eq!(guard.refused(), []);
        let applied = guard.applied();
        assert_eq!((applied.policy, applied.nice), (Some(Policy::Fifo(40)), Some(-3)));
        assert_eq!(applied.cpus, Some(CpuSet::of([0])));
        drop(guard);
        assert_eq!(state(), before, "after drop");

        fails().unwrap_err();
        assert_eq!(state(), before, "after an error");

        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _guard = everything().apply();
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
        drop(policy("fifo:3").apply());
        assert_eq!(sched::attributes(0).unwrap(), default);
        let slice = Attributes { runtime_ns: 7_000_000, ..default };
        sched::set_attributes(0, &slice).unwrap();
        let before = sched::attributes(0).unwrap();
        if before.runtime_ns != 7_000_000 {
            lacks("time slices of SCHED_OTHER need Linux 6.12");
            return;
        }
        drop(policy("fifo:3").apply());
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
        let outer = policy("rr:5").apply();
        let between = state();
        let inner = everything().apply();
        assert_eq!(inner.restore(), []);
        assert_eq!(state(), between);
        assert_eq!(outer.restore(), []);
        assert_eq!(state(), start);
    });
}

#[test]
fn slack_survives_a_real_time_policy() {
    if !privileged() {
        return;
    }
    on_thread(|| {
        punctual_linux::prctl::set_timer_slack_ns(1234).unwrap();
        // Only the policy is asked: the kernel would leave the default behind.
        drop(policy("fifo:40").apply());
        assert_eq!(punctual_linux::prctl::timer_slack_ns().unwrap(), 1234);

        let slack = Some(Duration::from_micros(70));
        let guard = Conditions { timer_slack: slack, ..policy("fifo:40") }.apply();
        assert_eq!(guard.refused(), []);
        // Zero since Linux 6.13, as asked before: both are at most what was asked.
        assert!(guard.applied().timer_slack <= slack);
        drop(guard);
        assert_eq!(punctual_linux::prctl::timer_slack_ns().unwrap(), 1234);
    });
    // From a real-time policy to a fair one with a slack of its own.
    on_thread(|| {
        policy("fifo:40").apply().leave_in_force();
        let before = state();
        let guard = Conditions { timer_slack: Some(Duration::from_nanos(777)), ..policy("other") }.apply();
        assert_eq!(guard.refused(), []);
        assert_eq!(guard.applied().timer_slack, Some(Duration::from_nanos(777)));
        assert_eq!(guard.restore(), []);
        assert_eq!(state(), before);
    });
}

#[test]
fn no_slack_means_the_least() {
    on_thread(|| {
        let guard = Conditions { timer_slack: Some(Duration::ZERO), ..Conditions::default() }.apply();
        assert_eq!(guard.refused(), []);
        assert_eq!(guard.applied().timer_slack, Some(Duration::from_nanos(1)));
    });
}

#[test]
fn children_do_not_inherit_real_time() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    for typed in ["fifo:40", "rr:2", "deadline:1ms/10ms/10ms"] {
        on_thread(move || {
            let _guard = policy(typed).apply();
            let child = std::thread::spawn(|| Conditions::inspect().policy).join().unwrap();
            assert_eq!(child, Some(Policy::Other), "{typed}");
        });
    }
}

#[test]
fn what_is_out_of_bounds_is_refused_and_changes_nothing() {
    on_thread(|| {
        let before = state();
        let asked = Conditions {
            policy: Some(Policy::Fifo(0)),
            nice: Some(20),
            cpus: Some(CpuSet::of([0, 4321])),
            timer_slack: Some(Duration::MAX),
            dma_latency: Some(Duration::from_secs(3600)),
            ..Conditions::default()
        };
        let guard = asked.apply();
        let refused: Vec<Condition> = guard.refused().iter().map(|refused| refused.condition).collect();
        let all = [Condition::DmaLatency, Condition::Cpus, Condition::Nice, Condition::Policy, Condition::TimerSlack];
        assert_eq!(refused, all);
        for refused in guard.refused() {
            assert!(!refused.why.is_empty() && !refused.remedy.is_empty(), "{refused}");
        }
        assert!(guard.refused()[1].why.contains("no CPU 4321"), "{}", guard.refused()[1]);
        assert_eq!(state(), before);
        assert_eq!(guard.restore(), []);
        assert_eq!(state(), before);
    });
}

#[test]
fn deadline_beside_a_choice_of_cpus_says_why_not() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    if punctual_linux::affinity::affinity(0).unwrap().len() < 2 {
        lacks("needs two CPUs");
        return;
    }
    on_thread(|| {
        let before = state();
        let guard = Conditions { cpus: Some(CpuSet::of([0])), ..policy("deadline:1ms/10ms/10ms") }.apply();
        let [refused] = guard.refused() else { panic!("{:?}", guard.refused()) };
        assert_eq!((refused.condition, refused.errno), (Condition::Policy, Some(1)));
        assert!(refused.why.contains("all CPUs"), "{refused}");
        assert!(refused.remedy.contains("no CPUs together with deadline"), "{}", refused.remedy);
        drop(guard);
        assert_eq!(state(), before);
    });
}

#[test]
fn deadline_beyond_the_bandwidth_says_so() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    on_thread(|| {
        let _first = policy("deadline:9ms/10ms/10ms").apply();
        // With each CPU nearly taken by one thread, one of these must be too much.
        let count = punctual_linux::affinity::affinity(0).unwrap().len() + 1;
        let all_have_asked = Arc::new(Barrier::new(count));
        let others: Vec<_> = (0..count)
            .map(|_| {
                let all_have_asked = Arc::clone(&all_have_asked);
                std::thread::spawn(move || {
                    let guard = policy("deadline:9ms/10ms/10ms").apply();
                    all_have_asked.wait();
                    guard.refused().to_vec()
                })
            })
            .collect();
        let refused: Vec<_> = others.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert!(!refused.is_empty());
        assert!(
            refused.iter().all(|refused| refused.errno == Some(16) && refused.why.contains("guarantee")),
            "{refused:?}"
        );
    });
}

fn locked_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmLck:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn memory_stays_locked_until_the_last_guard_goes() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    let lock = Conditions { lock_memory: true, ..Conditions::default() };
    assert_eq!(locked_kib(), 0);
    let outer = lock.apply();
    assert_eq!(outer.refused(), []);
    assert_eq!(outer.applied().lock_memory, Some(true));
    let inner = lock.apply();
    assert_eq!(inner.restore(), []);
    assert!(locked_kib() > 0);
    assert_eq!(outer.restore(), []);
    assert_eq!(locked_kib(), 0);

    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.apply();
        assert!(locked_kib() > 0);
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(locked_kib(), 0);
}

#[test]
fn memory_that_was_locked_before_stays_locked() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    punctual_linux::memory::lock_all().unwrap();
    let guard = Conditions { lock_memory: true, ..Conditions::default() }.apply();
    assert_eq!(guard.refused(), []);
    let left = guard.restore();
    assert!(locked_kib() > 0);
    punctual_linux::memory::unlock_all().unwrap();
    assert_eq!(left, [], "all was locked before, and all is");
}

fn open_requests() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.as_os_str() == "/dev/cpu_dma_latency")
        .count()
}

#[test]
fn dma_latency_is_held_open_and_released() {
    if !privileged() {
        return;
    }
    if !std::path::Path::new("/dev/cpu_dma_latency").exists() {
        lacks("no /dev/cpu_dma_latency in this kernel");
        return;
    }
    let _alone = alone_on_this_machine();
    let before = Conditions::inspect().dma_latency.unwrap();
    let asked = |latency| Conditions { dma_latency: Some(latency), ..Conditions::default() };
    // Rounded down: 7.9 µs tolerated are 7 µs held.
    let guard = asked(Duration::from_nanos(7900)).apply();
    assert_eq!(guard.refused(), []);
    assert_eq!(guard.applied().dma_latency, Some(Duration::from_micros(7).min(before)));
    assert_eq!(open_requests(), 1);
    let inner = asked(Duration::from_nanos(999)).apply();
    assert_eq!(inner.applied().dma_latency, Some(Duration::ZERO));
    assert_eq!(open_requests(), 2);
    assert_eq!(inner.restore(), []);
    assert_eq!(Conditions::inspect().dma_latency, Some(Duration::from_micros(7).min(before)));
    assert_eq!(guard.restore(), []);
    assert_eq!(open_requests(), 0);
    assert_eq!(Conditions::inspect().dma_latency, Some(before));
}

#[test]
fn a_group_without_real_time_bandwidth_is_named() {
    if !privileged() {
        return;
    }
    let mount = std::path::Path::new("/sys/fs/cgroup/cpu");
    if !mount.join("cpu.rt_runtime_us").exists() {
        lacks("no RT group scheduling with cgroup v1 here");
        return;
    }
    let group = mount.join(format!("punctual-test-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir(&group) {
        return skip(&format!("{}: {error}", group.display()));
    }
    let (tasks, bandwidth, root_tasks) = (group.join("tasks"), group.join("cpu.rt_runtime_us"), mount.join("tasks"));
    let (refused, given, after_remedy) = on_thread(move || {
        let thread = sched::current_thread_id().to_string();
        std::fs::write(tasks, &thread).unwrap();
        let refused = policy("fifo:40").apply().refused().to_vec();
        let given = std::fs::write(bandwidth, "950000");
        let after_remedy = policy("fifo:40").apply().refused().to_vec();
        // The group can be removed only when nobody is in it any more, and an ending thread leaves late.
        std::fs::write(root_tasks, &thread).unwrap();
        (refused, given, after_remedy)
    });
    std::fs::remove_dir(&group).unwrap();
    match given {
        Ok(()) => assert_eq!(after_remedy, []),
        // Groups beside it have the bandwidth of the machine already.
        Err(error) => assert_eq!(error.raw_os_error(), Some(22), "{error}"),
    }
    let [refused] = &refused[..] else { panic!("{refused:?}") };
    let file = format!("{}/cpu.rt_runtime_us", group.display());
    assert!(refused.why.contains(&file), "{refused}");
    assert!(refused.remedy.contains(&format!("echo 950000 > {file}")), "{}", refused.remedy);
    assert!(refused.remedy.contains("echo $$ > /sys/fs/cgroup/cpu/cgroup.procs"), "{}", refused.remedy);
}

#[test]
fn a_cpu_outside_the_cpuset_is_refused_and_the_cpuset_named() {
    let mount = std::path::Path::new("/sys/fs/cgroup/cpuset");
    let cpus = punctual_linux::affinity::affinity(0).unwrap();
    if !privileged() {
        return;
    }
    if !mount.join("cpuset.cpus").exists() || cpus.len() < 2 {
        lacks("needs a cgroup v1 cpuset and two CPUs");
        return;
    }
    let group = mount.join(format!("punctual-test-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir(&group) {
        return skip(&format!("{}: {error}", group.display()));
    }
    let (inside, outside) = (cpus[0], cpus[1]);
    let (in_group, root_tasks) = (group.clone(), mount.join("tasks"));
    let (both, one) = on_thread(move || {
        let thread = sched::current_thread_id().to_string();
        std::fs::write(in_group.join("cpuset.mems"), "0").unwrap();
        std::fs::write(in_group.join("cpuset.cpus"), inside.to_string()).unwrap();
        std::fs::write(in_group.join("tasks"), &thread).unwrap();
        let before = state();
        let asked = |cpus: &[usize]| Conditions { cpus: Some(CpuSet::of(cpus.to_vec())), ..Conditions::default() };
        let both = asked(&[inside, outside]).apply().refused().to_vec();
        assert_eq!(state(), before);
        let one = asked(&[outside]).apply().refused().to_vec();
        assert_eq!(state(), before);
        std::fs::write(root_tasks, &thread).unwrap();
        (both, one)
    });
    std::fs::remove_dir(&group).unwrap();
    let ([both], [one]) = (&both[..], &one[..]) else { panic!("{both:?}, {one:?}") };
    assert!(both.why.contains(&format!("CPU {outside} is online, but outside the cpuset")), "{both}");
    assert_eq!(one.errno, Some(22));
    for refused in [both, one] {
        let named = format!("which is {inside} ({}/cpuset.effective_cpus)", group.display());
        assert!(refused.why.contains(&named), "{refused}");
    }
}
