//! Interrupted runs: results so far are reported, and no change is left.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use punctual_record::{Notice, Run};
use punctual_testing::{Disturbed, alone_on_this_machine, undisturbed};
use rustix::process::{Pid, Signal, kill_process};

use crate::ipc::leftovers;
use crate::support::{measured, punctual};

fn start(args: &[&str]) -> Child {
    punctual(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Starts a run that writes JSON, sends it a signal once it has measured something, and collects what it left.
fn interrupted_with_results(args: &[&str], signal: Signal) -> (Output, Run) {
    undisturbed(|longer| {
        let output = interrupted(args, Duration::from_millis(600) * longer, signal)?;
        let run = Run::from_json(&output.stdout[..]).unwrap();
        match run.series.iter().any(|s| s.summary.count > 0) {
            true => Ok((output, run)),
            false => Err(Disturbed(format!("nothing was measured within {longer} times 600 ms"))),
        }
    })
}

/// Starts a run, sends it a signal after a while, and collects what it left.
fn interrupted(args: &[&str], after: Duration, signal: Signal) -> Result<Output, Disturbed> {
    let child = start(args);
    std::thread::sleep(after);
    send(&child, signal);
    let output = child.wait_with_output().unwrap();
    match output.status.signal() {
        None => Ok(output),
        Some(_) => Err(Disturbed(format!("it did not listen within {after:?}: {}", output.status))),
    }
}

#[test]
fn ctrl_c_reports_what_was_measured() {
    // Of a thousand rounds, the first is over after 60 ms.
    let args = ["wait", "nanosleep", "--for", "100us", "--duration", "60s", "--rounds", "1000", "--json", "-"];
    for (signal, name, code) in
        [(Signal::INT, "SIGINT", 130), (Signal::TERM, "SIGTERM", 143), (Signal::HUP, "SIGHUP", 129)]
    {
        let (output, run) = interrupted_with_results(&args, signal);
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!run.complete);
        assert!(run.notices.contains(&Notice::Interrupted { signal: name.into() }), "{:?}", run.notices);
    }
}

/// `nohup punctual … &` goes on when the terminal is closed.
#[test]
fn what_it_was_started_to_ignore_it_ignores() {
    let mut args = vec!["", "HUP INT", env!("CARGO_BIN_EXE_punctual")];
    args.extend(["wait", "nanosleep", "--for", "100us", "--samples", "6k", "--rounds", "50", "--json", "-"]);
    // Whether the signals were sent while it measured, the shell knows best: it sends them itself.
    let script = "trap '' $1; shift; \"$@\" & sleep 0.4; kill -HUP $!; kill -INT $!; wait $!";
    let output = Command::new("sh")
        .args(["-c", script])
        .args(args)
        .env("PUNCTUAL_LOCK_NAMESPACE", "")
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let run = Run::from_json(&output.stdout[..]).unwrap();
    assert!(run.complete, "{:?}", run.notices);
}

/// A run that was interrupted is reported as far as it got, and every form that people read says so.
#[test]
fn an_interrupted_run_is_reported_as_far_as_it_got() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["old.json", "new.json"] {
        let path = file(name);
        let args =
            ["wait", "nanosleep", "futex", "--for", "100us", "--duration", "60s", "--rounds", "600", "--json", "-"];
        let (output, run) = undisturbed(|longer| {
            let output = interrupted(&args, Duration::from_millis(1000) * longer, Signal::INT)?;
            let run = Run::from_json(&output.stdout[..]).unwrap();
            match &run.series[..] {
                [_, _] if run.series.iter().all(|s| s.rounds.len() > 4) => Ok((output, run)),
                _ => Err(Disturbed("one of two was measured in less than five rounds".into())),
            }
        });
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        run.to_json(std::fs::File::create(path).unwrap()).unwrap();
    }
    let said = |args: &[&str]| {
        let output = punctual(args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let old = file("old.json");
    let run = Run::from_json(std::fs::File::open(&old).unwrap()).unwrap();
    assert!(!run.complete && run.series.iter().all(|series| series.summary.count > 0 && !series.rounds.is_empty()));
    for (form, word) in [
        ("--text", "Incomplete: the run was interrupted"),
        ("--html", "Incomplete: "),
        ("--markdown", "nterrupted"),
        ("--json", "\"complete\": false"),
    ] {
        let text = said(&["report", &old, form]);
        assert!(text.contains(word) && text.contains("nanosleep") && text.contains("futex"), "{form}: {text}");
    }
    assert!(
        said(&["report", &old, "--openmetrics"])
            .lines()
            .any(|l| l.starts_with("punctual_run_complete") && l.ends_with(" 0.0"))
    );
    assert_eq!(said(&["report", &old, "--csv"]).lines().count(), 3);
    let page = file("page.html");
    // Another test may have changed the DMA latency of the machine between the two.
    let text = said(&["compare", &old, &file("new.json"), "--across-conditions", "--html", &page]);
    assert!(text.contains("old.json (interrupted)") && text.contains("new.json (interrupted)"), "{text}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("2 of the runs were interrupted"));
}

#[test]
fn a_long_wait_is_cut_short() {
    // An hour of waiting, once with a call that a signal ends and once with one that hides signals.
    for method in ["nanosleep", "thread_sleep"] {
        let args = ["wait", method, "--for", "1h", "--duration", "2h", "--rounds", "1", "--json", "-"];
        let output = undisturbed(|longer| interrupted(&args, Duration::from_millis(500) * longer, Signal::TERM));
        assert_eq!(output.status.code(), Some(143), "{method}: {}", String::from_utf8_lossy(&output.stderr));
        let run = Run::from_json(&output.stdout[..]).unwrap();
        assert!(!run.complete && run.series.is_empty(), "{method}: nothing was measured, and it says so");
    }
}

#[test]
fn killed_it_leaves_no_name() {
    for round in 0..5 {
        let mut child = start(&["wait", "--for", "20us", "--duration", "20s"]);
        std::thread::sleep(Duration::from_millis(40 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(leftovers(child.id()), BTreeSet::new());
    }
}

#[test]
fn stopped_and_continued_it_goes_on() {
    let child =
        start(&["wait", "nanosleep", "timerfd", "spin_clock", "--for", "200us", "--samples", "1k", "--json", "-"]);
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(40));
        send(&child, Signal::STOP);
        std::thread::sleep(Duration::from_millis(40));
        send(&child, Signal::CONT);
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let run = Run::from_json(&output.stdout[..]).unwrap();
    assert_eq!(run.series.len(), 3);
    assert!(run.series.iter().all(|s| s.summary.negative == 0), "none was early");
}

#[test]
fn real_time_busy_waiting_lets_others_run() {
    // Both CPUs or the only one: whatever it takes, this test must go on while a FIFO thread spins.
    let _alone = alone_on_this_machine();
    let args = ["wait", "spin_clock", "--for", "1ms", "--policy", "fifo:40", "--samples", "1500", "--quiet"];
    undisturbed(|_| {
        let (run, left) = measured(&args);
        assert_eq!(left.code, Some(0), "{}", left.stderr);
        // Breaks between stretches keep the watchdog quiet, unless other programs take them.
        let tripped = run.notices.iter().find(|n| matches!(n, Notice::WatchdogTripped { .. }));
        tripped.map_or(Ok(()), |notice| Err(Disturbed(format!("{notice:?}"))))
    });
    let (run, _) = measured(&["wait", "spin_clock", "--for", "2s", "--policy", "fifo:40", "--samples", "1"]);
    if run.conditions.iter().any(|set| set.policy() == Some("fifo:40")) {
        assert!(run.series.is_empty(), "a busy wait of two seconds under FIFO is not begun");
        assert!(run.not_measured[0].why.contains("hold the CPU"), "{:?}", run.not_measured);
    }
}
