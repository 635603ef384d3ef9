//! External interference is reported: lost conditions, a stop, a failing part, an empty result.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use punctual_linux::sched::{affinity, set_affinity};
use punctual_record::{Notice, PauseCause, Run};
use rustix::process::{Pid, Signal, kill_process};

use punctual_testing::{Disturbed, eventually, needs_root, open_copy, skip, undisturbed};

use crate::support::{Left, punctual, run};

fn start(args: &[&str]) -> Child {
    punctual(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn finish(child: Child) -> (Option<Run>, Left) {
    let left = Left::from(child.wait_with_output().unwrap());
    (Run::from_json(left.stdout.as_bytes()).ok(), left)
}

/// The measuring thread, once it may run on `cpu` only; `None` when the process ended.
fn measuring_thread(child: &mut Child, cpu: usize) -> Option<i32> {
    eventually("a measuring thread confined to one CPU, or the end", || {
        if child.try_wait().unwrap().is_some() {
            return Some(None);
        }
        let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
        let named = |task: &std::fs::DirEntry| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "measure")
        };
        let mut ids = tasks.filter(named).filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
        ids.find(|id| affinity(*id).is_ok_and(|cpus| cpus == [cpu])).map(Some)
    })
}

/// Starts a run on one CPU. Lets its measuring thread run on all of them, three times: the pilot may swallow one. `longer`: this many times
/// as slowly.
fn moved_away(more: &[&str], longer: u32) -> Option<(Option<Run>, Left)> {
    let all = affinity(0).unwrap();
    let [.., cpu] = all[..] else { unreachable!() };
    if all.len() < 2 {
        skip("one CPU: there is no other to move to");
        return None;
    }
    let (cpu_word, duration) = (cpu.to_string(), format!("{}s", 2 * longer));
    let args = [
        "wait",
        "nanosleep",
        "--cpu",
        &cpu_word,
        "--for",
        "1ms",
        "--duration",
        &duration,
        "--rounds",
        "40",
        "--json",
        "-",
    ];
    let mut child = start(&[&args[..], more].concat());
    for _ in 0..3 {
        let Some(thread) = measuring_thread(&mut child, cpu) else { break };
        std::thread::sleep(Duration::from_millis(200) * longer);
        // With --require the first time ended it.
        if set_affinity(thread, &all).is_err() || !more.is_empty() {
            break;
        }
    }
    Some(finish(child))
}

#[test]
fn a_thread_that_others_move_is_noticed_and_moved_back() {
    undisturbed(|longer| {
        let Some((run, left)) = moved_away(&[], longer) else { return Ok(()) };
        let run = run.unwrap();
        let left_out = run.notices.iter().find_map(|notice| match notice {
            Notice::ConditionNotKept { condition, left_out, .. } if condition == "cpu" => Some(*left_out),
            _ => None,
        });
        let (Some(left_out), false) = (left_out, run.series.is_empty()) else {
            return Err(Disturbed(format!("moved in no batch, or in all: {:?}", run.notices)));
        };
        assert_eq!(left.code, Some(0), "{}", left.stderr);
        assert!((1..=6).contains(&left_out), "{:?}", run.notices);
        assert!(run.series[0].summary.count > 0 && left.stderr.contains("left out"), "{}", left.stderr);
        Ok(())
    });
}

#[test]
fn a_thread_that_others_move_is_an_error_where_conditions_are_required() {
    undisturbed(|longer| {
        let Some((run, left)) = moved_away(&["--require"], longer) else { return Ok(()) };
        if left.code == Some(0) {
            return Err(Disturbed("the pilot swallowed it: nothing was lost".into()));
        }
        assert_eq!(left.code, Some(1), "{}", left.stderr);
        assert!(left.stderr.contains("cpu was set to"), "{}", left.stderr);
        // What was measured before is not lost.
        assert!(run.is_none_or(|run| !run.complete && run.series[0].summary.count > 0));
        Ok(())
    });
}

#[test]
fn a_stop_is_noticed_and_is_no_lateness() {
    undisturbed(|longer| {
        let duration = format!("{}ms", 1500 * longer);
        let child =
            start(&["wait", "nanosleep", "--for", "1ms", "--duration", &duration, "--rounds", "5", "--json", "-"]);
        std::thread::sleep(Duration::from_millis(500) * longer);
        let process = Pid::from_child(&child);
        kill_process(process, Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_millis(700) * longer);
        kill_process(process, Signal::CONT).unwrap();
        let (run, left) = finish(child);
        let run = run.unwrap();
        let stopped = run.notices.iter().find_map(|notice| match notice {
            Notice::Paused { cause: PauseCause::Stopped, gap_ns, .. } => Some(*gap_ns),
            _ => None,
        });
        // It may hit the moment between two batches, in which nothing is measured, or one that was to take long.
        if run.series.is_empty() || stopped.is_none_or(|gap_ns| gap_ns <= 500_000_000) {
            return Err(Disturbed(format!("stopped for {stopped:?} ns in a batch: {:?}", run.not_measured)));
        }
        assert_eq!(left.code, Some(0), "{}", left.stderr);
        assert!(left.stderr.contains("was stopped by a signal"), "{}", left.stderr);
        Ok(())
    });
}

#[test]
fn nothing_measured_is_a_failure_that_says_why() {
    let left = run(&["wait", "spin_clock", "--policy", "fifo:40", "--for", "600ms", "--duration", "2s"]);
    assert_eq!(left.code, Some(1));
    assert!(left.stderr.contains("nothing was measured: spin_clock"), "{}", left.stderr);
    assert!(left.stderr.contains("500ms or less"), "what to do: {}", left.stderr);
}

/// A user whose processes nobody else starts, with as many of them as some parts need and others lack.
#[test]
fn a_part_of_the_check_up_that_fails_leaves_the_others() {
    if !needs_root("becoming another user, whose processes are counted,") {
        return;
    }
    undisturbed(|_| a_part_fails());
}

fn a_part_fails() -> Result<(), Disturbed> {
    let (_folder, path) = open_copy(env!("CARGO_BIN_EXE_punctual").as_ref());
    for processes in 3..8 {
        let mut command = std::process::Command::new("prlimit");
        command.arg(format!("--nproc={processes}")).arg(&path).args(["--quick", "--json", "-"]);
        command.env("PUNCTUAL_LOCK_NAMESPACE", "").uid(61_347).gid(61_347).current_dir("/");
        let left = match command.output() {
            Err(error) => {
                skip(&format!("prlimit(1) cannot be run: {error}"));
                return Ok(());
            }
            Ok(output) => Left::from(output),
        };
        let run = Run::from_json(left.stdout.as_bytes()).unwrap_or_else(|e| panic!("{e}: {}", left.stderr));
        if run.notices.contains(&Notice::Overdue) {
            return Err(Disturbed("its time was over before every part had its turn".into()));
        }
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
        return Ok(());
    }
    // A process of the attempt before may live on for a moment, and counts.
    Err(Disturbed("no number of processes was too few for one part and enough for another".into()))
}
