//! Tests of each condition's messages: for invalid values, and for refusals on every kind of machine.

use std::io;
use std::time::Duration;

use punctual_linux::Error;

use super::surroundings::{Reason, Surroundings};
use super::{CONDITIONS, Condition, Thread, dma_latency, lock_memory, nice, policy, set as reasons};
use crate::policy::Policy;

const EPERM: i32 = 1;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;

const FIFO: Policy = Policy::Fifo(40);

fn deadline() -> Policy {
    let ms = Duration::from_millis;
    Policy::Deadline { runtime: ms(9), deadline: ms(10), period: ms(10) }
}

/// A plain desktop user with the limits of common distributions.
fn user() -> Surroundings {
    Surroundings {
        bounding: !0,
        rtprio_limit: Some(0),
        rtprio_hard_limit: Some(0),
        nice_limit: Some(0),
        memlock_limit: Some(8 << 20),
        memlock_hard_limit: Some(8 << 20),
        mapped_kib: Some(20_000),
        rt_runtime_us: Some(950_000),
        rt_period_us: Some(1_000_000),
        ..Surroundings::default()
    }
}

fn root() -> Surroundings {
    Surroundings { capabilities: !0, ..user() }
}

fn in_docker() -> Surroundings {
    Surroundings { bounding: 0xa804_25fb, container: Some("docker".into()), ..user() }
}

fn said(cases: Vec<(&str, Reason)>) -> String {
    cases.into_iter().map(|(case, Reason { why, needs, .. })| format!("{case}\n  {why}\n  > {needs:?}\n")).collect()
}

fn refused(policy: Policy, errno: i32, here: &Surroundings) -> Reason {
    policy::explain(policy, &Error::from_errno("sched_setattr", errno), Thread::Calling, here)
}

#[test]
fn policies() {
    let soft = Surroundings { rtprio_limit: Some(10), rtprio_hard_limit: Some(99), ..user() };
    let no_group =
        Surroundings { rt_group: Some(("/sys/fs/cgroup/cpu/user.slice/cpu.rt_runtime_us".into(), 0)), ..root() };
    let throttled = Surroundings { rt_runtime_us: Some(0), ..root() };
    let unified = Surroundings { unified_group: Some("/user.slice".into()), ..root() };
    let contained = Surroundings { container: Some("podman".into()), ..root() };
    let namespace = Surroundings { user_namespace: true, bounding: 0, container: Some("podman".into()), ..user() };
    let texts = said(vec![
        ("a plain user", refused(FIFO, EPERM, &user())),
        ("a plain user with a hard limit to spare", refused(FIFO, EPERM, &soft)),
        ("root of a container", refused(FIFO, EPERM, &in_docker())),
        ("root of a user namespace", refused(FIFO, EPERM, &namespace)),
        ("root in a group without bandwidth", refused(FIFO, EPERM, &no_group)),
        ("root without real-time bandwidth at all", refused(FIFO, EPERM, &throttled)),
        ("root in a unified group", refused(FIFO, EPERM, &unified)),
        ("root under a security module", refused(FIFO, EPERM, &root())),
        ("privileged under a container's filter", refused(FIFO, EPERM, &contained)),
        ("no such call", refused(FIFO, ENOSYS, &root())),
        ("deadline for a plain user", refused(deadline(), EPERM, &user())),
        ("deadline in a user namespace", refused(deadline(), EPERM, &namespace)),
        ("deadline with chosen CPUs", refused(deadline(), EPERM, &root())),
        ("deadline beyond the bandwidth", refused(deadline(), EBUSY, &root())),
        ("deadline out of bounds", refused(deadline(), EINVAL, &root())),
        ("a user leaves SCHED_IDLE", refused(Policy::Other, EPERM, &user())),
        ("something else", refused(Policy::Other, EINVAL, &root())),
    ]);
    insta::assert_snapshot!(texts);
}

#[test]
fn the_others() {
    let of_nice =
        |errno, here: &Surroundings| nice::explain(-5, &Error::from_errno("setpriority", errno), Thread::Calling, here);
    let memory = |here: &Surroundings| lock_memory::explain(&Error::from_errno("mlockall", 12), here);
    let latency = |errno, here: &Surroundings| dma_latency::explain(&io::Error::from_raw_os_error(errno), here);
    let soft = Surroundings { memlock_hard_limit: None, ..user() };
    let texts = said(vec![
        ("nice for a plain user", of_nice(EACCES, &user())),
        ("nice for root of a container", of_nice(EACCES, &in_docker())),
        ("memory for a plain user", memory(&user())),
        ("memory for a plain user with a hard limit to spare", memory(&soft)),
        ("memory for a root that lacks CAP_IPC_LOCK", memory(&Surroundings { root: true, ..user() })),
        ("memory for root of a container", memory(&in_docker())),
        ("memory in a user namespace", memory(&Surroundings { user_namespace: true, ..user() })),
        ("latency for a plain user", latency(EACCES, &user())),
        ("latency for a user of a container", latency(EACCES, &in_docker())),
        ("latency for root of a container", latency(EPERM, &in_docker())),
        ("latency in a container without the device", latency(2, &in_docker())),
        ("latency without the device", latency(2, &root())),
        ("there and not back", reasons::irreversible("nice 5 could be set, but 0 not put back", &user())),
    ]);
    insta::assert_snapshot!(texts);
}

#[test]
fn values_come_back_as_typed_and_what_is_none_is_answered() {
    let typed = [
        (Condition::POLICY, "fifo:40", "FIFO:40"),
        (Condition::NICE, "-5", "-5"),
        (Condition::CPU, "0-3,8", "8,3,2,1,0"),
        (Condition::TIMER_SLACK, "1ns", "1 ns"),
        (Condition::LOCK_MEMORY, "yes", "yes"),
        (Condition::DMA_LATENCY, "0us", "0s"),
        (Condition::GOVERNOR, "performance", "performance"),
        (Condition::EPP, "128", "128"),
        (Condition::MIN_FREQUENCY, "max", "max"),
        (Condition::MAX_FREQUENCY, "2.2GHz", "2200MHz"),
    ];
    for (condition, canonical, typed) in typed {
        let value = condition.parse(typed).unwrap();
        assert_eq!((value.condition(), value.to_string().as_str()), (condition, canonical));
        assert_eq!(condition.parse(canonical), Ok(value));
        assert_eq!(Condition::named(condition.name()), Some(condition));
    }
    for bad in ["x", "", "-21", "20", "99999999999", "1.5"] {
        let said = Condition::NICE.parse(bad).unwrap_err().to_string();
        assert_eq!(said, "expected an integer from -20 to 19 (example: -5)");
    }
    assert!(Condition::TIMER_SLACK.parse("0ns").is_err_and(|e| e.to_string().contains("default")));
    assert!(Condition::TIMER_SLACK.parse("2s").is_err() && Condition::DMA_LATENCY.parse("2000s").is_err());
    assert!(Condition::DMA_LATENCY.parse("1500ns").is_err_and(|e| e.to_string().contains("whole microseconds")));
    assert!(Condition::GOVERNOR.parse("../x").is_err() && Condition::MAX_FREQUENCY.parse("max").is_err());
}

#[test]
fn no_two_names_are_the_same() {
    for (index, condition) in CONDITIONS.iter().enumerate() {
        assert!(condition.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{condition}");
        assert!(!CONDITIONS[..index].contains(condition), "{condition}");
    }
}
