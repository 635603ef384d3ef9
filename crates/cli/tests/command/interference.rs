//! External interference is reported: lost conditions, a stop, a failing part, an empty result.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use punctual_linux::affinity::{affinity, set_affinity};
use punctual_record::{Notice, PauseCause, Run};
use rustix::process::{Pid, Signal, kill_process};

use punctual_testing::{needs_root, open_copy, skip};

use crate::support::{Left, punctual, run};

fn start(args: &[&str]) -> Child {
    punctual(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn finish(child: Child) -> (Option<Run>, Left) {
    let left = Left::from(child.wait_with_output().unwrap());
    (Run::from_json(left.stdout.as_bytes()).ok(), left)
}

/// The measuring thread, once it may run on `cpu` only.
fn measuring_thread(child: &Child, cpu: usize) -> i32 {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
        let named = |task: &std::fs::DirEntry| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "measure")
        };
        let mut ids = tasks.filter(named).filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
        if let Some(id) = ids.find(|id| affinity(*id).is_ok_and(|cpus| cpus == [cpu])) {
            return id;
        }
        assert!(Instant::now() < until, "the measuring thread was never confined to CPU {cpu}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a run on one CPU, and lets its measuring thread run on all of them, three times: the pilot may swallow one.
fn moved_away(more: &[&str]) -> Option<(Option<Run>, Left)> {
    let all = affinity(0).unwrap();
    let [.., cpu] = all[..] else { unreachable!() };
    if all.len() < 2 {
        skip("one CPU: there is no other to move to");
        return None;
    }
    let cpu_word = cpu.to_string();
    let args =
        ["wait", "nanosleep", "--cpu", &cpu_word, "--for", "1ms", "--duration", "2s", "--rounds", "40", "--json", "-"];
    let child = start(&[&args[..], more].concat());
    for _ in 0..3 {
        let thread = measuring_thread(&child, cpu);
        std::thread::sleep(Duration::from_millis(200));
        // With --require the first time ended it.
        if set_affinity(thread, &all).is_err() || !more.is_empty() {
            break;
        }
    }
    Some(finish(child))
}

#[test]
fn a_thread_that_others_move_is_noticed_and_moved_back() {
    let Some((run, left)) = moved_away(&[]) else { return };
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    let run = run.unwrap();
    let left_out = run.notices.iter().find_map(|notice| match notice {
        Notice::ConditionNotKept { condition, left_out, .. } if condition == "cpu" => Some(*left_out),
        _ => None,
    });
    assert!(left_out.is_some_and(|n| (1..=6).contains(&n)), "{:?}", run.notices);
    assert!(run.series[0].summary.count > 0 && left.stderr.contains("left out"), "{}", left.stderr);
}

#[test]
fn a_thread_that_others_move_is_an_error_where_conditions_are_required() {
    // Where the pilot swallowed it, nothing was lost.
    for _ in 0..3 {
        let Some((run, left)) = moved_away(&["--require"]) else { return };
        if left.code == Some(0) {
            continue;
        }
        assert_eq!(left.code, Some(1), "{}", left.stderr);
        assert!(left.stderr.contains("cpu was set to"), "{}", left.stderr);
        // What was measured before is not lost.
        assert!(run.is_none_or(|run| !run.complete && run.series[0].summary.count > 0));
        return;
    }
    panic!("it was never noticed");
}

#[test]
fn a_stop_is_noticed_and_is_no_lateness() {
    // It may hit the moment between two batches, in which nothing is measured.
    for _ in 0..3 {
        let child =
            start(&["wait", "nanosleep", "--for", "1ms", "--duration", "1500ms", "--rounds", "5", "--json", "-"]);
        std::thread::sleep(Duration::from_millis(500));
        let process = Pid::from_child(&child);
        kill_process(process, Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_millis(700));
        kill_process(process, Signal::CONT).unwrap();
        let (run, left) = finish(child);
        assert_eq!(left.code, Some(0), "{}", left.stderr);
        let run = run.unwrap();
        let stopped = run.notices.iter().find_map(|notice| match notice {
            Notice::Paused { cause: PauseCause::Stopped, gap_ns, .. } => Some(*gap_ns),
            _ => None,
        });
        if let Some(gap_ns) = stopped {
            assert!(gap_ns > 500_000_000, "{gap_ns}");
            assert!(left.stderr.contains("was stopped by a signal"), "{}", left.stderr);
            return;
        }
    }
    panic!("no stop was noticed");
}

#[test]
fn nothing_measured_is_a_failure_that_says_why() {
    let left = run(&["wait", "nanosleep", "--duration", "1ns", "--for", "10us"]);
    assert_eq!(left.code, Some(1));
    assert!(left.stderr.contains("nothing was measured: nanosleep"), "{}", left.stderr);
    assert!(left.stderr.contains("--duration"), "what to do: {}", left.stderr);
}

/// A user whose processes nobody else starts, with as many of them as some parts need and others lack.
#[test]
fn a_part_of_the_check_up_that_fails_leaves_the_others() {
    if !needs_root("becoming another user, whose processes are counted,") {
        return;
    }
    let (_folder, path) = open_copy(env!("CARGO_BIN_EXE_punctual").as_ref());
    for processes in 3..8 {
        let mut command = std::process::Command::new("prlimit");
        command.arg(format!("--nproc={processes}")).arg(&path).args(["--quick", "--json", "-"]);
        command.env("PUNCTUAL_LOCK_NAMESPACE", "").uid(61_347).gid(61_347).current_dir("/");
        let left = match command.output() {
            Err(error) => return skip(&format!("prlimit(1) cannot be run: {error}")),
            Ok(output) => Left::from(output),
        };
        let run = Run::from_json(left.stdout.as_bytes()).unwrap_or_else(|e| panic!("{e}: {}", left.stderr));
        if run.series.is_empty() {
            assert_eq!(left.code, Some(1), "{}", left.stderr);
            assert!(left.stderr.contains("nothing was measured: wait: "), "{}", left.stderr);
            continue;
        }
        assert_eq!(left.code, Some(0), "{}", left.stderr);
        let failed =
            run.notices.iter().any(|notice| matches!(notice, Notice::PartFailed { part, .. } if part == "ipc"));
        assert!(failed && left.stderr.contains("The part `ipc` failed"), "{processes}: {:?}", run.notices);
        assert!(run.series.iter().any(|series| series.experiment.name() == "wait"), "the others are reported");
        return;
    }
    panic!("no number of processes was too few for one part and enough for another");
}
