//! Output formats: tables, JSON, CSV, the list; and their write failures.

use std::io::Read as _;
use std::process::Stdio;

use punctual_record::Quantity;
use punctual_testing::{Disturbed, undisturbed};

use crate::support::{SHORT, measured, punctual, run};

#[test]
fn a_run_says_what_was_asked_and_what_came_out() {
    let run = undisturbed(|_| {
        let (run, left) =
            measured(&[&["wait", "nanosleep", "clock_nanosleep_abs", "--for", "50us"][..], &SHORT].concat());
        assert_eq!(left.code, Some(0), "{}", left.stderr);
        // A thread that loses the CPU until its time is over does not give it up.
        let few = run.series.iter().find(|series| series.voluntary_switches_per_op.is_none_or(|n| n < 0.9));
        few.map_or(Ok(()), |few| Err(Disturbed(format!("a sleep gives up the CPU: {few:?}")))).map(|()| run)
    });
    assert!(run.complete);
    assert_eq!(run.command[..2], ["punctual", "wait"]);
    let names: Vec<&str> = run.series.iter().map(|s| s.subject.as_str()).collect();
    assert_eq!(names, ["nanosleep", "clock_nanosleep_abs"]);
    assert_eq!(run.series[0].quantity, Quantity::Overshoot);
    assert_eq!(run.series[1].quantity, Quantity::Lateness);
    for series in &run.series {
        assert!(series.summary.count > 0);
        assert_eq!(series.summary.negative, 0, "{} was early", series.subject);
        assert_eq!(series.rounds.iter().map(|r| r.summary.count).sum::<u64>(), series.summary.count);
        assert!(series.cpu_ns_per_op.is_some_and(|ns| ns > 0.0));
    }
    assert_eq!(run.conditions.len(), 1);
    assert!(run.clock.read_ns > 0.0);
}

#[test]
fn samples_are_exactly_as_many_as_asked() {
    let (run, _) = measured(&["wait", "nanosleep", "spin_clock", "--for", "10us,20us", "--samples", "103"]);
    assert_eq!(run.series.len(), 4);
    assert!(run.series.iter().all(|s| s.summary.count == 103 && s.rounds.len() == 10));
}

#[test]
fn variants_are_measured_side_by_side_and_put_back() {
    let args = ["wait", "nanosleep", "--for", "100us", "--timer-slack", "50us,1ns", "--samples", "200"];
    let (run, _) = measured(&args);
    let slack: Vec<Option<i64>> = run.conditions.iter().map(punctual_record::ConditionSet::timer_slack_ns).collect();
    assert_eq!(slack, [Some(50_000), Some(1)]);
    assert_eq!(run.series.len(), 2);
    assert_ne!(run.series[0].conditions, run.series[1].conditions);
}

#[test]
fn coarse_methods_are_shown_as_what_they_are() {
    let args = ["wait", "sleep", "epoll_wait", "--for", "100us", "--duration", "400ms"];
    let run = undisturbed(|_| {
        let run = measured(&args).0;
        let is_measured = run.series.iter().any(|series| series.subject == "epoll_wait");
        if is_measured { Ok(run) } else { Err(Disturbed(format!("{:?}", run.not_measured))) }
    });
    let epoll = &run.series[0];
    assert!(epoll.summary.min.is_some_and(|ns| ns >= 900_000), "{:?}", epoll.summary.min);
    let sleep = run.not_measured.iter().find(|n| n.subject == "sleep").expect("sleep is named");
    assert!(sleep.why.contains("1s") && sleep.remedy.is_some(), "{sleep:?}");
}

#[test]
fn what_the_cpu_lacks_is_said() {
    let (run, left) =
        measured(&[&["wait", "nanosleep", "umwait", "tpause", "mwaitx", "wfet", "--for", "10us"][..], &SHORT].concat());
    assert_eq!(left.code, Some(0));
    assert_eq!(run.series.len() + run.not_measured.len(), 5);
    assert!(run.not_measured.iter().all(|n| !n.why.is_empty()));
}

#[test]
fn the_list_has_every_method_and_the_calls_it_makes() {
    let left = run(&["wait", "--list"]);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    for method in punctual_lab::wait::methods::all() {
        assert!(left.stdout.contains(method.name), "{}", method.name);
    }
    assert!(left.stdout.contains("seen here: clock_nanosleep"), "{}", left.stdout);
}

#[test]
fn tables_go_to_stdout_and_notices_to_stderr() {
    let left = run(&[&["wait", "nanosleep", "--for", "20us", "--quiet"][..], &SHORT].concat());
    assert_eq!((left.code, left.stderr.as_str()), (Some(0), ""));
    assert!(left.stdout.contains("nanosleep"));
    assert!(!left.stdout.contains('\u{1b}'), "no colours into a pipe");
    let left = run(&[&["wait", "nanosleep", "--for", "20us", "--color", "always"][..], &SHORT].concat());
    assert!(left.stdout.contains('\u{1b}'));
}

#[test]
fn csv_has_a_line_for_each_series() {
    let left = run(&[&["wait", "nanosleep", "usleep", "--for", "20us", "--csv", "-"][..], &SHORT].concat());
    assert_eq!(left.stdout.lines().count(), 3, "{}", left.stdout);
    assert!(left.stdout.lines().next().is_some_and(|header| header.contains("p50_ns")));
}

#[test]
fn a_file_is_written_whole_and_an_old_one_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    std::fs::write(&path, "old").unwrap();
    let name = path.to_str().unwrap();
    let left = run(&[&["wait", "nanosleep", "--for", "20us", "--json", name][..], &SHORT].concat());
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert!(left.stdout.contains("nanosleep"), "the tables are printed as well");
    punctual_record::Run::from_json(std::fs::File::open(&path).unwrap()).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left there");
}

#[test]
fn a_full_disk_is_a_clear_error() {
    let left = run(&[&["wait", "nanosleep", "--for", "20us", "--json", "/dev/full"][..], &SHORT].concat());
    assert_eq!(left.code, Some(1));
    assert!(left.stderr.contains("/dev/full") && left.stderr.contains("No space left"), "{}", left.stderr);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let args = [&["wait", "nanosleep", "--for", "20us", "--quiet"][..], &SHORT].concat();
    let mut child = punctual(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}

#[test]
fn thresholds_decide_the_exit_status() {
    let wait = ["wait", "nanosleep", "--for", "20us", "--samples", "300"];
    let status = |limit: &str| run(&[&wait[..], &["--fail-above", limit]].concat());
    assert_eq!(status("max=1000s").code, Some(0));
    let exceeded = status("p50=1ns");
    assert_eq!(exceeded.code, Some(3));
    assert!(exceeded.stderr.contains("exceeded"), "{}", exceeded.stderr);
    let unjudged = status("p99.9=1000s");
    assert_eq!(unjudged.code, Some(4), "what cannot be judged has not passed");
    assert!(unjudged.stderr.contains("unjudged"), "{}", unjudged.stderr);
}
