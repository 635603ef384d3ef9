//! Policies: each holds and is put back, whatever came before it.

use std::sync::{Arc, Barrier};

use punctual::{Applied, Condition, Conditions, Need, Policy};
use punctual_linux::sched;
use punctual_testing::{Lack, alone_on_this_machine, first_cpu, lacks, skip, until};

use super::policy;
use crate::common::{on_thread, privileged, state};

const POLICIES: [&str; 8] = ["other", "batch", "idle", "rr:1", "rr:40", "fifo:99", "fifo:40", "deadline:1ms/10ms/20ms"];

#[test]
fn each_policy_holds_and_is_put_back() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    for typed in POLICIES {
        on_thread(move || {
            let before = state();
            let Applied { guard, refused } = policy(typed).apply();
            assert_eq!(refused, []);
            assert_eq!(guard.applied().get_policy().unwrap().to_string(), typed);
            assert_eq!(Conditions::inspect().get_policy(), guard.applied().get_policy());
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
                punctual_linux::sched::set_timer_slack_ns(4321).unwrap();
                policy(from).apply().guard.leave_in_force();
                let before = state();
                let Applied { guard, refused } = policy(to).apply();
                assert_eq!(refused, [], "{from} to {to}");
                assert_eq!(guard.applied().get_policy().unwrap().to_string(), to);
                assert_eq!(guard.restore(), [], "{from} to {to}");
                assert_eq!(state(), before, "{from} to {to}");
            });
        }
    }
}

#[test]
fn children_do_not_inherit_real_time() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    for typed in ["fifo:40", "rr:2", "deadline:1ms/10ms/10ms"] {
        on_thread(move || {
            let _guard = policy(typed).apply().guard;
            let child = std::thread::spawn(|| Conditions::inspect().get_policy()).join().unwrap();
            assert_eq!(child, Some(Policy::Other), "{typed}");
        });
    }
}

#[test]
fn deadline_beside_a_choice_of_cpus_says_why_not() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    if punctual_linux::sched::affinity(0).unwrap().len() < 2 {
        lacks(Lack::Cpus(2));
        return;
    }
    on_thread(|| {
        let before = state();
        let Applied { guard, refused } = policy("deadline:1ms/10ms/10ms").cpu(first_cpu()).apply();
        let [refused] = &refused[..] else { panic!("{refused:?}") };
        assert_eq!((refused.condition, refused.errno), (Condition::POLICY, Some(1)));
        assert!(refused.why.contains("all CPUs"), "{refused}");
        assert_eq!(refused.needs, Need::DeadlineOnAllCpus);
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
        let _first = policy("deadline:9ms/10ms/10ms").apply().guard;
        // With each CPU nearly taken by one thread, one of these must be too much.
        let count = punctual_linux::sched::affinity(0).unwrap().len() + 1;
        let all_have_asked = Arc::new(Barrier::new(count));
        let others: Vec<_> = (0..count)
            .map(|_| {
                let all_have_asked = Arc::clone(&all_have_asked);
                std::thread::spawn(move || {
                    let Applied { guard: _guard, refused } = policy("deadline:9ms/10ms/10ms").apply();
                    all_have_asked.wait();
                    refused.clone()
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
    // The kernel keeps a thread's share until its deadline, and other tests need theirs.
    on_thread(|| until("a share is free again", || policy("deadline:1ms/10ms/10ms").apply().refused.is_empty()));
}

#[test]
fn a_group_without_real_time_bandwidth_is_named() {
    if !privileged() {
        return;
    }
    let mount = std::path::Path::new("/sys/fs/cgroup/cpu");
    if !mount.join("cpu.rt_runtime_us").exists() {
        lacks(Lack::File("/sys/fs/cgroup/cpu/cpu.rt_runtime_us"));
        return;
    }
    // Tests with such a group of their own need its bandwidth.
    let _alone = alone_on_this_machine();
    let group = mount.join(format!("punctual-test-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir(&group) {
        return skip(&format!("{}: {error}", group.display()));
    }
    let (tasks, bandwidth, root_tasks) = (group.join("tasks"), group.join("cpu.rt_runtime_us"), mount.join("tasks"));
    let (refused, given, after_remedy) = on_thread(move || {
        let thread = sched::current_thread_id().to_string();
        std::fs::write(tasks, &thread).unwrap();
        let refused = policy("fifo:40").apply().refused;
        let given = std::fs::write(bandwidth, "950000");
        let after_remedy = policy("fifo:40").apply().refused;
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
    assert_eq!(refused.needs, Need::GroupBandwidth(file));
}
