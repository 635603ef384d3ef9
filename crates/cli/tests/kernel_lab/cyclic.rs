//! `punctual cyclic` on real kernels: what they keep for other threads, isolated and offline CPUs, a clock that is set.

use punctual_record::{FairServer, Notice, PauseCause, Run};
use punctual_vm::{Kernel, Machine, Table};

use crate::support::{machine, run};

/// `cyclic` with a run in a file, as short as the emulated CPU allows.
const CYCLIC: &str = r#"
cyclic() { punctual cyclic --every 20ms --duration ${LASTS:-1s} --no-causes --no-keep --json /tmp/run.json "$@" 2>/tmp/said; }
show() { echo "BEGIN $1"; cat /tmp/run.json; echo; echo "END $1"; }
"#;

/// The run that the script showed under this name.
fn shown(stdout: &str, name: &str) -> Run {
    let (_, rest) = stdout.split_once(&format!("BEGIN {name}\n")).unwrap_or_else(|| panic!("no {name} in {stdout}"));
    Run::from_json(rest.split_once(&format!("\nEND {name}")).unwrap().0.as_bytes()).unwrap()
}

fn subjects(run: &Run) -> Vec<&str> {
    run.series.iter().map(|series| series.subject.as_str()).collect()
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn what_the_fair_server_keeps_is_read_or_called_unknown() {
    for kernel in [Kernel::V6_12, Kernel::V7_3] {
        let Some(machine) = machine(kernel, Table::PStates) else { return };
        let script = r#"
cyclic --full >/tmp/text; is status 0 $?; show mounted
has kept "The fair server keeps 50 ms of 1 s for other threads." "$(tr -s ' \n' ' ' </tmp/text)"
umount /sys/kernel/debug; is unmounted 0 $?
cyclic --full >/tmp/text; is status 0 $?; show unmounted
has unknown "What the fair server keeps for other threads is not known" "$(tr -s ' \n' ' ' </tmp/text)"
"#;
        let done = run(&machine, 5, &format!("{CYCLIC}{script}"));
        let server = FairServer { runtime_ns: 50_000_000, period_ns: 1_000_000_000 };
        let [mounted, unmounted] = ["mounted", "unmounted"].map(|name| shown(&done.stdout, name).host.rt.fair_server);
        assert_eq!((mounted, unmounted), (Some(server), None), "{kernel}");
    }
}

fn isolated() -> Option<Machine> {
    Some(Machine { append: "isolcpus=1".into(), ..machine(Kernel::V6_12, Table::PStates)? })
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn isolated_and_offline_cpus_are_measured_as_asked() {
    let Some(machine) = isolated() else { return };
    let script = r#"
cyclic >/dev/null; is status 0 $?; show usual
cyclic --cpu 1 >/dev/null; is status 0 $?; show isolated
LASTS=3s cyclic --cpu 1 --full >/tmp/text & sleep 1.5
echo 0 >/sys/devices/system/cpu/cpu1/online; wait $!; is status 0 $?; show lost
has said "cpu was set to 1 and accepted, but was found to be 0" "$(tr -s " \n" " " </tmp/said)"
cyclic --cpu 1 >/dev/null; is refused 2 $?
has offline "CPU 1 is offline" "$(cat /tmp/said)"
punctual cyclictest -q -l 3 -S >/tmp/text; is status 0 $?
is threads 1 "$(grep -c ^T: /tmp/text)"
"#;
    let done = run(&machine, 8, &format!("{CYCLIC}{script}"));
    assert_eq!(subjects(&shown(&done.stdout, "usual")), ["cpu0"], "the kernel lets a process begin without it");
    assert_eq!(subjects(&shown(&done.stdout, "isolated")), ["cpu1"]);
    let is_lost = |notice: &Notice| matches!(notice, Notice::ConditionNotKept { condition, .. } if condition == "cpu");
    assert!(shown(&done.stdout, "lost").notices.iter().any(is_lost));
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_clock_that_is_set_is_said_where_it_is_measured() {
    let Some(machine) = machine(Kernel::V6_12, Table::PStates) else { return };
    let script = r#"
later() { sleep 1; date -s "@$(($(date +%s) + 3600))" >/dev/null; wait $!; }
punctual cyclictest -q -i 20000 -D 3 -c 1 >/tmp/text 2>/tmp/said & later; is status 0 $?
has said "the wall clock, which -c 1 measures, was set by 3" "$(cat /tmp/said)"
punctual cyclictest -q -i 20000 -D 3 >/tmp/text 2>/tmp/said & later; is status 0 $?
case $(cat /tmp/said) in *"wall clock"*) echo "FAILED monotonic" ;; *) echo "ok monotonic" ;; esac
LASTS=3s cyclic >/dev/null & later; is status 0 $?; show native
"#;
    let done = run(&machine, 5, &format!("{CYCLIC}{script}"));
    for series in &shown(&done.stdout, "native").series {
        assert!(series.summary.max.unwrap() < 60_000_000_000, "it measures another clock: {:?}", series.summary);
    }
}

/// The kernel suspends down to its core, waits there for five seconds, and resumes (Documentation/power/basic-pm-debugging.rst).
#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_suspended_machine_is_said_and_no_wake_up_is_lost() {
    let Some(machine) = machine(Kernel::V6_12, Table::PStates) else { return };
    let script = r#"
LASTS=6s cyclic >/dev/null &
while ! grep -qs cyclic/ /proc/[0-9]*/task/*/comm; do usleep 100000; done; sleep 1
echo core >/sys/power/pm_test; echo mem >/sys/power/state; is resumed 0 $?
wait $!; is status 0 $?; show suspended
"#;
    let suspended = shown(&run(&machine, 2, &format!("{CYCLIC}{script}")).stdout, "suspended");
    let gap_ns = suspended.notices.iter().find_map(|notice| match notice {
        Notice::Paused { cause: PauseCause::Suspended, gap_ns, .. } => Some(*gap_ns),
        _ => None,
    });
    assert!(gap_ns.is_some_and(|ns| ns >= 2_000_000_000), "{:?}", suspended.notices);
    for series in &suspended.series {
        let missed = series.experiment.cyclic().unwrap().metrics.missed.unwrap();
        assert_eq!(series.summary.count + missed, 300, "CLOCK_MONOTONIC stands still meanwhile: {}", series.subject);
    }
}
