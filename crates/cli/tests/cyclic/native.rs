//! The native form: a run of every CPU, its gates and its refusals.

use std::process::{Command, Stdio};

use punctual_record::Run;

use crate::support::{Left, run};

fn punctual(arguments: &[&str]) -> Left {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.arg("cyclic").args(arguments).stdin(Stdio::null()).env("LC_ALL", "C.UTF-8");
    run({
        // Tests run at the same time, and do not wait for each other.
        command.env("PUNCTUAL_LOCK_NAMESPACE", "").env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
        command
    })
}

#[test]
fn every_cpu_has_its_series_and_the_load_is_part_of_it() {
    let left = punctual(&["--duration", "2s", "--load", "timers", "--json", "-", "--no-keep"]);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    let run = Run::from_json(left.stdout.as_bytes()).unwrap();
    assert_eq!(run.subcommand, "cyclic");
    assert_eq!(run.series.len(), std::thread::available_parallelism().unwrap().get());
    for series in &run.series {
        let cyclic = series.experiment.cyclic().unwrap();
        assert_eq!((cyclic.parameters.interval_ns, cyclic.parameters.load.as_deref()), (1_000_000, Some("timers")));
        assert!(series.subject.starts_with("cpu") && cyclic.metrics.missed.is_some(), "{}", series.subject);
        assert_eq!(series.rounds.iter().map(|round| round.summary.count).sum::<u64>(), series.summary.count);
        // Each began once all had, and ended when the first had cycled for two seconds.
        assert!(series.summary.count + cyclic.metrics.missed.unwrap() <= 2100, "{:?}", series.summary);
    }
}

#[test]
fn a_limit_that_is_exceeded_is_status_3() {
    let left = punctual(&["--duration", "1s", "--quiet", "--fail-if", "max > 1ns", "--no-keep"]);
    assert_eq!(left.code, Some(3), "{}", left.stderr);
    assert!(left.stdout.starts_with("FAIL: max of cpu"), "{}", left.stdout);
    assert!(left.stdout.contains("an idle machine says little"), "{}", left.stdout);
    assert!(left.stdout.lines().count() <= 24, "one screen: {}", left.stdout);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let refused = |arguments: &[&str]| {
        let left = punctual(arguments);
        assert_eq!((left.code, left.stdout.as_str()), (Some(2), ""), "{arguments:?}: {}", left.stderr);
        left.stderr
    };
    assert!(refused(&["--every", "1us"]).contains("invalid --every: must be at least 10us"));
    assert!(refused(&["--load", "disk"]).contains("expected cpu, memory, io"));
    assert!(refused(&["--policy", "deadline:1ms/10ms/10ms"]).contains("SCHED_DEADLINE"));
    assert!(refused(&["--policy", "fifo:1,fifo:2"]).contains("one set of conditions"));
}
