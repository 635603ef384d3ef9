//! `why` without a program, and `--why`.

use punctual_record::{CauseSource, Notice, Run};
use punctual_testing::{needs_root, open_copy};

use crate::support::{as_nobody, output, program, saw_events, text};

/// Four watched rounds and four others, however busy the machine is.
const SHORT: [&str; 6] = ["--samples", "40", "--rounds", "4", "--json", "-"];

fn measured(args: &[&str]) -> Run {
    let left = output(&[args, &SHORT].concat());
    assert_eq!(left.status.code(), Some(0), "{}", text(&left.stderr));
    Run::from_json(&left.stdout[..]).unwrap_or_else(|e| panic!("{e}\n{}", text(&left.stderr)))
}

#[test]
fn own_waits_are_split_by_duration() {
    let run = measured(&["why"]);
    assert_eq!((run.subcommand.as_str(), run.series.len()), ("why", 2));
    assert!(run.series.iter().all(|series| series.subject == "nanosleep" && series.rounds.len() == 4), "{run:?}");
    let causes = run.causes.unwrap();
    if !saw_events(&causes) {
        return;
    }
    let waits: Vec<_> = causes.calls.iter().filter(|call| call.call == "clock_nanosleep").collect();
    let mut nominal: Vec<_> = waits.iter().filter_map(|call| call.nominal_ns).collect();
    nominal.sort_unstable();
    assert_eq!(nominal, [100_000, 1_000_000], "{waits:?}");
    for wait in waits {
        let asked = wait.asked.unwrap();
        assert!(asked.p50_ns.abs_diff(wait.nominal_ns.unwrap()) < 50_000, "{asked:?}");
        assert_eq!(wait.causes.iter().map(|cause| cause.time.total_ns).sum::<u64>(), wait.late.total_ns);
    }
    // Watched samples are no figures: twice as many rounds were made as the series have.
    assert!(causes.wake_ups > 0 && causes.watched_ns > 0 && causes.watched_ns < run.elapsed_ns);
}

#[test]
fn every_family_that_waits_can_be_watched() {
    let cases: [&[&str]; 4] = [
        &["wait", "--why", "clock_nanosleep_abs", "--for", "100us"],
        &["ipc", "--why", "pipe", "--size", "64"],
        &["yield", "--why", "nanosleep1", "--competitors", "0"],
        &["pace", "--why", "--tick-only", "--rate", "2k", "--by", "clock_nanosleep_abs"],
    ];
    for case in cases {
        let run = measured(case);
        assert!(!run.series.is_empty(), "{case:?}");
        let causes = run.causes.unwrap_or_else(|| panic!("{case:?}"));
        if saw_events(&causes) {
            assert!(causes.wake_ups > 0, "{case:?}: {causes:?}");
        }
    }
    assert_eq!(measured(&["wait", "clock_nanosleep_abs", "--for", "100us"]).causes, None, "not unasked");
}

#[test]
fn a_plain_user_measures_and_gets_the_remedy() {
    if !needs_root("becoming a plain user") {
        return;
    }
    let (_folder, path) = open_copy(env!("CARGO_BIN_EXE_punctual").as_ref());
    let mut command = program(&path, &[&["why", "--no-keep"][..], &SHORT].concat());
    let left = as_nobody(&mut command).output().unwrap();
    assert_eq!(left.status.code(), Some(0), "{}", text(&left.stderr));
    let run = Run::from_json(&left.stdout[..]).unwrap();
    assert_eq!(run.series.len(), 2);
    assert!(
        run.notices.iter().any(|notice| matches!(notice, Notice::Unseen(unseen) if unseen.remedy.is_some())),
        "{:?}",
        run.notices
    );
    let causes = run.causes.unwrap();
    assert_eq!((causes.source, causes.effect), (CauseSource::RunDelay, None));
    assert!(causes.watched_ns > 0 && causes.wake_ups > 0 && causes.program.unwrap().run_delay_ns.is_some());
}

#[test]
fn the_way_of_a_call_through_the_kernel_is_recorded() {
    // The CPU can be chosen: a notice about a busy one says so.
    let cpu = punctual_linux::sched::affinity(0).unwrap()[0].to_string();
    let left = output(&["why", "--cpu", &cpu, "--json", "-", "--path", "sched_yield", "nanosleep"]);
    if left.status.code() == Some(1) && text(&left.stderr).contains("paths of calls: ") {
        return punctual_testing::lacks(punctual_testing::Lack::Events);
    }
    assert_eq!(left.status.code(), Some(0), "{}", text(&left.stderr));
    let run = Run::from_json(&left.stdout[..]).unwrap();
    let found: Vec<&str> = run.paths.iter().map(|path| path.method.as_str()).collect();
    assert_eq!((found.as_slice(), run.series.len()), (&["sched_yield", "nanosleep"][..], 0));
}
