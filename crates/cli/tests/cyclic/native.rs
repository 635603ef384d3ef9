//! The native form: a run of every CPU, its gates and its refusals.

use std::process::{Command, Stdio};

use punctual_record::{Notice, Run};
use punctual_testing::{Disturbed, Lack, as_plain_user, lacks, undisturbed};

use crate::support::{Left, run, run_so_far};

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
    // A busy machine is not called idle.
    let is_busy = left.stdout.contains("Busy machine");
    assert_ne!(left.stdout.contains("an idle machine says little"), is_busy, "{}", left.stdout);
    assert!(left.stdout.lines().count() <= 24, "one screen: {}", left.stdout);
}

/// Of the waits that the events show, nine of ten are cut. Without a lost event they show nine of ten wake-ups. On a busy machine the rings
/// overrun, since their reader waits for a CPU; the record has the number of those events.
fn waits_are_cut(run: &Run) -> Result<(), Disturbed> {
    let causes = run.causes.as_ref().unwrap();
    let lost = causes.lost_events;
    if causes.calls.len() < run.series.len() && lost > 0 {
        return Err(Disturbed(format!("{lost} events lost: {} calls", causes.calls.len())));
    }
    assert_eq!(causes.calls.len(), run.series.len(), "one call of each CPU");
    for call in &causes.calls {
        let cpu = call.thread.replace("cyclic/", "cpu");
        let series = run.series.iter().find(|series| series.subject == cpu).unwrap();
        let said = format!(
            "{cpu}: {} wake-ups, {} calls, {} blocked, {} cut",
            series.summary.count, call.calls, call.blocked, call.late.count
        );
        let parts: u64 = call.causes.iter().map(|one| one.time.total_ns).sum();
        assert_eq!(parts, call.late.total_ns, "nothing is left over: {said}");
        assert!(call.call.contains("nanosleep"), "{}", call.call);
        let are_seen = call.calls * 10 >= series.summary.count * 9;
        if call.late.count * 10 < call.blocked * 9 || call.late.count == 0 || (lost == 0 && !are_seen) {
            assert!(lost > 0, "no event was lost: {said}");
            return Err(Disturbed(format!("{lost} events lost: {said}")));
        }
    }
    Ok(())
}

/// Events of spikes only: an interval that a loaded CPU exceeds now and then.
#[test]
fn wake_ups_have_causes_and_spikes_their_events() {
    let folder = tempfile::tempdir().unwrap();
    let [trace, record] = ["trace", "record"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let spikes = ["--break", "80us", "--trace", &trace, "--json", &record];
    let base = ["--duration", "2s", "--policy", "other", "--load", "cpu", "--no-keep"];
    let run = undisturbed(|_| {
        let left = punctual(&[&base[..], &spikes].concat());
        if left.stderr.contains("not written, because nothing was traced") {
            assert_eq!(left.code, Some(1), "{}", left.stderr);
            return Ok(None);
        }
        assert_eq!(left.code, Some(0), "{}", left.stderr);
        let run = Run::from_json(&std::fs::read(&record).unwrap()[..]).unwrap();
        waits_are_cut(&run).map(|()| Some(run))
    });
    let Some(mut run) = run else { return lacks(Lack::Events) };
    let events: serde_json::Value = serde_json::from_slice(&std::fs::read(&trace).unwrap()).unwrap();
    assert!(events.to_string().contains("cyclic/0"));
    let full = |run: &Run| {
        std::fs::write(&record, serde_json::to_string(run).unwrap()).unwrap();
        let mut report = Command::new(env!("CARGO_BIN_EXE_punctual"));
        report.args(["report", "--full", &record]);
        super::support::run(report).stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(full(&run).contains("each cause at its worst, added, takes"));
    // Without the latest wake-up no cause is claimed.
    run.causes.as_mut().unwrap().worst.clear();
    let text = full(&run);
    assert!(
        text.contains("The kernel's events lack the wait that ended with it") && !text.contains("of that went to"),
        "{text}"
    );
    run.causes = None;
    let text = full(&run);
    assert!(!text.contains("events lack the wait") && !text.contains("at its worst"), "{text}");
}

#[test]
fn a_plain_user_measures_without_causes_and_hears_why() {
    if !as_plain_user("native::a_plain_user_measures_without_causes_and_hears_why") {
        return;
    }
    let left = punctual(&["--duration", "1s", "--json", "-", "--no-keep"]);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    let run = Run::from_json(left.stdout.as_bytes()).unwrap();
    let unseen = |notice: &Notice| matches!(notice, Notice::Unseen(unseen) if unseen.remedy.is_some());
    assert!(run.causes.is_none() && run.notices.iter().any(unseen), "{:?}", run.notices);
    let without = punctual(&["--duration", "1s", "--json", "-", "--no-keep", "--no-causes"]);
    let run = Run::from_json(without.stdout.as_bytes()).unwrap();
    assert!(run.causes.is_none() && !run.notices.iter().any(unseen), "{:?}", run.notices);
}

#[test]
fn a_killed_run_is_found_again_and_a_finished_one_leaves_nothing() {
    let state = tempfile::tempdir().unwrap();
    let cyclic = |duration: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        command.args(["cyclic", "--duration", duration, "--policy", "other"]).stdin(Stdio::null());
        command.env("PUNCTUAL_LOCK_NAMESPACE", "").env("XDG_STATE_HOME", state.path());
        command
    };
    let mut killed = cyclic("1h").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Each time the file is there it is whole.
    let count = |run: &Run| run.series.iter().map(|series| series.summary.count).sum::<u64>();
    let read = || Run::from_json(&std::fs::read(run_so_far(state.path(), &killed)?).ok()?[..]).ok();
    let first = punctual_testing::eventually("the run so far", read);
    let later = punctual_testing::eventually("a later one", || read().filter(|run| count(run) > count(&first)));
    assert!(!later.complete && later.series.len() == first.series.len());
    // Where the kernel shows its events, the run so far has causes.
    if later.causes.is_none() {
        lacks(Lack::Events);
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let next = run(cyclic("1s"));
    assert!(next.stderr.contains("note: a run that was killed is in "), "{}", next.stderr);
    let names = || {
        state.path().join("punctual").read_dir().unwrap().map(|file| file.unwrap().file_name().into_string().unwrap())
    };
    let found = names().find(|name| name.starts_with("unwritten-")).expect("it has a name that stays");
    let mut report = Command::new(env!("CARGO_BIN_EXE_punctual"));
    report.arg("report").arg(state.path().join("punctual").join(found));
    assert!(run(report).stdout.contains("The run is incomplete."));
    assert!(names().all(|name| !name.starts_with("cyclic-")), "{:?}", names().collect::<Vec<_>>());
    assert!(!run(cyclic("1s")).stderr.contains("killed"), "it is named once");
}

/// A figure beside a load that is not there would be one of an idle machine.
#[test]
fn a_load_that_ends_before_the_run_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("run.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(["cyclic", "--duration", "1h", "--load", "cpu,io", "--no-causes", "--no-keep", "--json"]).arg(&record);
    command.stdin(Stdio::null()).env("PUNCTUAL_LOCK_NAMESPACE", "").env("TMPDIR", "/nonexistent");
    let left = run(command);
    assert_eq!(left.code, Some(1), "{}", left.stderr);
    assert!(left.stderr.contains("load io: /nonexistent: "), "{}", left.stderr);
    assert!(!Run::from_json(&std::fs::read(&record).unwrap()[..]).unwrap().complete);
}

#[test]
fn a_required_condition_that_is_refused_ends_the_run_at_once() {
    if !as_plain_user("native::a_required_condition_that_is_refused_ends_the_run_at_once") {
        return;
    }
    let left = punctual(&["--duration", "1h", "--policy", "fifo:80", "--require", "--no-keep"]);
    assert_eq!(left.code, Some(1), "{}", left.stderr);
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
    assert!(refused(&["--policy", "fifo:1,fifo:2"]).contains("invalid --policy 'fifo:1,fifo:2'"));
    assert!(refused(&["--slice", "1ms,2ms"]).contains("invalid --slice '1ms,2ms'"));
    assert!(refused(&["--duration", "60", "--every", "1ms"]).contains("invalid --duration '60'"));
    assert!(refused(&["--nice", "-50"]).contains("invalid --nice '-50'"));
    assert!(refused(&["--policy", "fifo", "-j"]).contains("'--policy fifo' gives the line the form of cyclictest"));
    for hostile in [
        &["--every", "0"][..],
        &["--every", "-1ms"],
        &["--every", "1e999s"],
        &["--every", "99999999999999999999h"],
        &["--every", ""],
        &["--duration", "0s"],
        &["--duration", "NaN"],
        &["--duration", "8h", "--every", "9h"],
        &["--break", "0us", "--trace", "t"],
        &["--break", "100us"],
        &["--load", ""],
        &["--load", "cpu,\u{1b}[31mred"],
        &["--cpu", "70000"],
        &["--cpu", "4096"],
        &["--policy", "fifo:100"],
        &["--policy", "fifo:-1"],
        &["--fail-if", "max > "],
        &["--fail-if", "max > 150us of"],
        &["--until", "p50 > 1us", "--against", "last"],
        &["--at-most", "0s", "--until", "p50 +5%", "--against", "none.json"],
        &["--until", "p50 +5%"],
        &["--no-causes", "--trace", "t"],
    ] {
        let said = refused(hostile);
        assert!(!said.contains("panicked") && !said.contains('\u{1b}'), "{hostile:?}: {said}");
    }
}
