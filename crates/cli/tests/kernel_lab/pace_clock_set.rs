//! `punctual pace` while CLOCK_REALTIME is set.

use punctual_record::Notice;
use punctual_testing::skip;
use punctual_vm::{Kernel, Table};

use crate::support::{machine, run, written};

/// By how much the clock is set: far more than any datagram is late on an emulated machine.
const STEP_NS: i64 = 3_600_000_000_000;

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_clock_that_is_set_is_noticed_and_what_it_spoilt_is_left_out() {
    let ip = "/usr/sbin/ip";
    if !std::path::Path::new(ip).exists() {
        return skip(&format!("no {ip} (Debian: apt-get install iproute2)"));
    }
    let Some(machine) = machine(Kernel::V6_1, Table::PStates) else { return };
    let done = run(
        &machine.program(ip),
        2,
        r#"
ip link set lo up
punctual pace --rate 200 --to 127.0.0.1:9999 --by clock_nanosleep_abs --duration 12s --rounds 12 --quiet --json /tmp/run.json &
while ! grep -q punctual/ /proc/net/unix; do usleep 100000; done
usleep 3000000
date -s "@$(($(date +%s) + 3600))" >/dev/null
is set 0 $?
wait $!
is status 0 $?
echo "BEGIN RUN"; cat /tmp/run.json; echo; echo "END RUN"
"#,
    );
    let result = written(&done.stdout);
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
