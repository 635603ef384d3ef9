//! Measurements while CLOCK_REALTIME is set.

use punctual_record::{Notice, Run};
use punctual_testing::skip;
use punctual_vm::{Kernel, Table};

use crate::support::{machine, run, written};

/// By how much the clock is set: far more than anything is late on an emulated machine.
const STEP_NS: i64 = 3_600_000_000_000;

/// Sets the clock in the middle of the measurement that the shell line has begun, and prints its run.
const SET: &str = r#"
usleep 3000000
date -s "@$(($(date +%s) + 3600))" >/dev/null
is set 0 $?
wait $!
is status 0 $?
echo "BEGIN RUN"; cat /tmp/run.json; echo; echo "END RUN"
"#;

/// The step is noticed, and no figure holds it.
fn check(result: &Run) {
    let stepped = result.notices.iter().find_map(|notice| match notice {
        Notice::ClockStepped { by_ns, .. } => Some(*by_ns),
        _ => None,
    });
    let by_ns = stepped.unwrap_or_else(|| panic!("nobody noticed: {:?}", result.notices));
    assert!((STEP_NS - by_ns).abs() < STEP_NS / 100, "{by_ns}");
    for series in &result.series {
        let extremes = [series.summary.min, series.summary.max].into_iter().flatten();
        assert!(extremes.clone().all(|ns| ns.abs() < STEP_NS / 2), "{}: {:?}", series.subject, series.summary);
    }
    assert!(!result.series.is_empty(), "{:?}", result.not_measured);
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn what_a_clock_that_is_set_spoils_is_left_out_of_pace() {
    let ip = "/usr/sbin/ip";
    if !std::path::Path::new(ip).exists() {
        return skip(&format!("no {ip} (Debian: apt-get install iproute2)"));
    }
    let Some(machine) = machine(Kernel::V6_1, Table::PStates) else { return };
    let begin = r#"
ip link set lo up
punctual pace --rate 200 --to 127.0.0.1:9999 --by clock_nanosleep_abs --duration 12s --rounds 12 --quiet --json /tmp/run.json &
while ! grep -q punctual/ /proc/net/unix; do usleep 100000; done
"#;
    check(&written(&run(&machine.program(ip), 2, &format!("{begin}{SET}")).stdout));
}

/// Waits until a time of the clock that is set end at once, or an hour late; durations do not.
#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn what_a_clock_that_is_set_spoils_is_left_out_of_wait() {
    let Some(machine) = machine(Kernel::V6_1, Table::PStates) else { return };
    let begin = r#"
punctual wait nanosleep clock_nanosleep_abs_realtime sem_timedwait --for 20ms --duration 12s --rounds 12 --quiet --json /tmp/run.json &
while ! grep -q punctual/ /proc/net/unix; do usleep 100000; done
"#;
    check(&written(&run(&machine, 2, &format!("{begin}{SET}")).stdout));
}
