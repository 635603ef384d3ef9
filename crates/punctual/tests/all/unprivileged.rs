//! Conditions for a plain user. Each refusal says why and what it needs, and what cannot be undone is not done unasked.

use std::time::Duration;

use crate::common::{on_thread, privileged, state};
use punctual::watchdog::WatchdogConfig;
use punctual::{Applied, Condition, Conditions, Need, Policy, Refused, Watchdog};
use punctual_testing::{Lack, alone, as_plain_user, lacks};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::set_thread_res_uid;

fn policy(typed: &str) -> Conditions {
    Conditions::new().policy(typed.parse().unwrap())
}

/// The one refusal of these conditions, which change nothing.
fn refusal(conditions: &Conditions) -> Refused {
    let before = state();
    let Applied { guard, refused } = conditions.apply();
    let [refused] = &refused[..] else { panic!("{conditions:?}: {refused:?}") };
    let refused = refused.clone();
    assert_eq!(guard.restore(), []);
    assert_eq!(state(), before);
    refused
}

/// The limits this test counts on, whatever the ones of the machine: lowering them needs no privilege.
fn without_limits() {
    for resource in [Resource::Rtprio, Resource::Nice] {
        setrlimit(resource, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
    }
    setrlimit(Resource::Memlock, Rlimit { current: Some(64 * 1024), maximum: Some(64 * 1024) }).unwrap();
}

#[test]
fn each_refusal_has_a_reason_and_says_what_it_needs() {
    if !as_plain_user("unprivileged::each_refusal_has_a_reason_and_says_what_it_needs") {
        return;
    }
    without_limits();
    let none = Conditions::new();
    let said = |conditions: Conditions, errno: Option<i32>, why: &str, is_needed: fn(&Need) -> bool| {
        let refused = refusal(&conditions);
        assert_eq!(refused.errno, errno, "{refused}");
        assert!(refused.why.contains(why), "{refused}");
        assert!(is_needed(&refused.needs), "{:?}", refused.needs);
    };
    for typed in ["fifo:40", "rr:1"] {
        said(policy(typed), Some(1), "RLIMIT_RTPRIO) is 0", |need| matches!(need, Need::RtPriority { .. }));
    }
    said(policy("deadline:1ms/10ms/10ms"), Some(1), "needs CAP_SYS_NICE", |need| matches!(need, Need::SysNice(_)));
    // Whoever started the tests may have changed their nice value.
    let own = punctual_linux::sched::nice(0).unwrap();
    let higher = (own - 5).max(-20);
    let limit = format!("nice limit (RLIMIT_NICE) of {}", 20 - higher);
    said(none.clone().nice(higher), Some(13), &limit, |need| matches!(need, Need::NiceLimit(..)));
    said(none.clone().lock_memory(), None, "64 KiB may be locked", |need| matches!(need, Need::MemoryLimit { .. }));
    said(policy("idle"), None, "other not put back", |need| matches!(need, Need::WayBack(_)));
    let lower = none.clone().nice((own + 5).min(19));
    said(lower, None, &format!("{own} not put back"), |need| matches!(need, Need::WayBack(_)));
    if std::path::Path::new("/dev/cpu_dma_latency").exists() {
        let latency = none.dma_latency(Duration::ZERO);
        said(latency, Some(13), "/dev/cpu_dma_latency: Permission denied", |need| {
            matches!(need, Need::LatencyDevice | Need::DeviceInContainer(..))
        });
    }
}

#[test]
fn what_needs_no_privilege_is_granted_and_put_back() {
    if !as_plain_user("unprivileged::what_needs_no_privilege_is_granted_and_put_back") {
        return;
    }
    without_limits();
    on_thread(|| {
        let before = state();
        let asked = Conditions::new().policy(Policy::Batch).cpu(before.2[0]).timer_slack(Duration::from_nanos(1));
        let Applied { guard, refused } = asked.apply();
        assert_eq!(refused, []);
        assert_ne!(state(), before);
        assert_eq!(guard.restore(), []);
        assert_eq!(state(), before);
    });
}

#[test]
fn one_way_conditions_are_granted_when_asked_so_and_then_reported() {
    if !as_plain_user("unprivileged::one_way_conditions_are_granted_when_asked_so_and_then_reported") {
        return;
    }
    without_limits();
    let nicer = Conditions::new().nice((punctual_linux::sched::nice(0).unwrap() + 5).min(19));
    for (conditions, condition) in [(nicer, Condition::NICE), (policy("idle"), Condition::POLICY)] {
        on_thread(move || {
            let Applied { guard, refused } = conditions.allow_irreversible().apply();
            assert_eq!(refused, []);
            let left = guard.restore();
            let [left] = &left[..] else { panic!("{left:?}") };
            assert_eq!(left.what, condition.name());
            println!("{left}");
        });
    }
}

/// A limit of 50 and no capability: real-time policies up to 50, and a way back.
#[test]
fn a_real_time_limit_is_enough_up_to_its_height() {
    if !privileged() {
        return;
    }
    let hard = getrlimit(Resource::Rtprio).maximum;
    let raised = Rlimit { current: Some(50), maximum: hard.map(|hard| hard.max(50)) };
    if setrlimit(Resource::Rtprio, raised).is_err() {
        // As in many containers and some machines of CI.
        return lacks(Lack::Capability("CAP_SYS_RESOURCE", 24));
    }
    // The watchdog's limit is the whole process's.
    let _alone = alone();
    on_thread(|| {
        // Of this thread alone: its capabilities go.
        let nobody = rustix::thread::Uid::from_raw(65534);
        set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let before = state();
        let refused = refusal(&policy("fifo:51"));
        assert!(refused.why.contains("RLIMIT_RTPRIO) is 50"), "{refused}");

        // One above is not allowed, as high is.
        let watchdog = Watchdog::over_this_thread(Policy::Fifo(50), WatchdogConfig::default()).unwrap();
        assert_eq!(watchdog.runs_under(), Some(Policy::Fifo(50)));
        assert!(watchdog.caveats()[0].contains("cannot preempt it on the same CPU"), "{:?}", watchdog.caveats());
        drop(watchdog);
        let watchdog = Watchdog::over_this_thread(Policy::Fifo(49), WatchdogConfig::default()).unwrap();
        assert_eq!((watchdog.runs_under(), watchdog.caveats()), (Some(Policy::Fifo(50)), &[] as &[String]));
        drop(watchdog);

        let Applied { guard, refused } = policy("fifo:50").apply();
        assert_eq!(refused, []);
        assert_eq!(guard.applied().get_policy(), Some(Policy::Fifo(50)));
        // The flag that protects its children stays, which only the privileged may clear, and that is said.
        let left = guard.restore();
        let [left] = &left[..] else { panic!("{left:?}") };
        assert!(left.why.contains("reset-on-fork"), "{left}");
        let mut after = state();
        assert_eq!(after.0.flags, punctual_linux::sched::RESET_ON_FORK);
        after.0.flags = before.0.flags;
        assert_eq!(after, before);
        // And it is in nobody's way.
        let Applied { guard, refused } = policy("batch").apply();
        assert_eq!(refused, []);
        assert_eq!(guard.restore(), []);
    });
}

#[test]
fn a_watchdog_without_privilege_says_what_it_lacks() {
    if !as_plain_user("unprivileged::a_watchdog_without_privilege_says_what_it_lacks") {
        return;
    }
    without_limits();
    let before = getrlimit(Resource::Rttime);
    let watchdog = Watchdog::over_this_thread(Policy::Fifo(40), WatchdogConfig::default()).unwrap();
    let [caveat] = watchdog.caveats() else { panic!("{:?}", watchdog.caveats()) };
    assert!(caveat.contains("may be too late") && caveat.contains("RLIMIT_RTPRIO"), "{caveat}");
    assert_eq!(watchdog.runs_under(), Some(Policy::Other));
    // The soft limit needs no privilege, neither down nor up again.
    assert!(watchdog.backstop().unwrap() <= Duration::from_secs(4));
    assert_eq!(getrlimit(Resource::Rttime).maximum, before.maximum);
    drop(watchdog);
    assert_eq!(getrlimit(Resource::Rttime), before);
}
