//! `punctual run` and `punctual governor` on the machine at hand, whatever it has.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use punctual_testing::{Disturbed, undisturbed};
use rustix::process::{Pid, Signal, kill_process};

fn punctual(args: &[&str]) -> Command {
    // Whoever runs the tests in the background may ignore what they send.
    punctual_linux::signal::heed_what_ends_a_program().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(args).env("LC_ALL", "C.UTF-8").env("PUNCTUAL_LOCK_NAMESPACE", "").stdin(Stdio::null());
    command
}

fn output(args: &[&str]) -> Output {
    punctual(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_exit_status_is_the_programs() {
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        assert_eq!(output(&["run", "--", "sh", "-c", script]).status.code(), Some(status), "{script}");
    }
    let missing = output(&["run", "no-such-program-anywhere"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).contains("no-such-program-anywhere"), "{}", stderr(&missing));
    assert_eq!(output(&["run", "/etc/passwd"]).status.code(), Some(126));
    assert_eq!(output(&["run", "--policy", "fifo"]).status.code(), Some(2));
}

#[test]
fn arguments_and_streams_are_the_programs_own() {
    // Options behind the program's name are the program's, without -- too.
    assert_eq!(stdout(&output(&["run", "echo", "--policy", "fifo:40", "-q"])), "--policy fifo:40 -q\n");
    let mut child = punctual(&["run", "--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through").unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "through");
}

#[test]
fn conditions_hold_inside() {
    let nice =
        output(&["run", "--nice", "5", "--timer-slack", "1us", "--", "sh", "-c", "nice; cat /proc/self/timerslack_ns"]);
    assert_eq!(stdout(&nice), "5\n1000\n", "{}", stderr(&nice));
    let batch = output(&["run", "--policy", "batch", "--", "sh", "-c", "cut -d' ' -f41 /proc/self/stat"]);
    assert_eq!(stdout(&batch), "3\n", "{}", stderr(&batch));
    let first = punctual_testing::first_cpu().to_string();
    let cpu = output(&["run", "--cpu", &first, "--", "grep", "Cpus_allowed_list", "/proc/self/status"]);
    assert!(stdout(&cpu).ends_with(&format!("\t{first}\n")), "{}", stdout(&cpu));
}

#[test]
fn a_real_time_policy_is_inherited_or_refused_with_a_remedy() {
    let fifo = output(&["run", "--policy", "fifo:40", "--", "sh", "-c", "cut -d' ' -f40,41 /proc/self/stat"]);
    assert_eq!(fifo.status.code(), Some(0));
    match stdout(&fifo).as_str() {
        "40 1\n" => assert_eq!(stderr(&fifo), ""),
        "0 0\n" => assert!(stderr(&fifo).contains("fifo:40 was refused"), "{}", stderr(&fifo)),
        other => panic!("{other}"),
    }
}

#[test]
fn signals_to_the_command_reach_the_program() {
    for signal in [Signal::TERM, Signal::HUP, Signal::USR1, Signal::USR2, Signal::WINCH, Signal::INT, Signal::QUIT] {
        let script = "trap 'exit 9' TERM HUP USR1 USR2 WINCH INT QUIT; echo ready; while :; do sleep 0.01; done";
        let mut child = punctual(&["run", "--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(9), "{signal:?}");
    }
}

/// The command, started by env(1) with these signals ignored.
fn ignoring(signals: &str, args: &[&str]) -> Command {
    let mut command = Command::new("env");
    command
        .arg(format!("--ignore-signal={signals}"))
        .arg(env!("CARGO_BIN_EXE_punctual"))
        .args(args)
        .stdin(Stdio::null());
    command
}

/// `nohup` and programs that never wait for their children start others so.
#[test]
fn ignored_signals_are_passed_on_and_do_not_disturb_the_wait() {
    // SIGHUP, SIGPIPE and SIGCHLD are 1, 13 and 17, so bits 0, 12 and 16. Of the others nothing is said.
    let mask = |signals: &str| {
        let mut command = if signals.is_empty() { punctual(&[]) } else { ignoring(signals, &[]) };
        let said = command.args(["run", "--", "grep", "SigIgn", "/proc/self/status"]).output().unwrap();
        assert_eq!(said.status.code(), Some(0), "{}", stderr(&said));
        let mask = stdout(&said).trim().trim_start_matches("SigIgn:").trim().to_owned();
        u64::from_str_radix(&mask, 16).unwrap() & 0x11001
    };
    assert_eq!((mask(""), mask("CHLD"), mask("HUP,PIPE"), mask("HUP,PIPE,CHLD")), (0, 0x10000, 0x1001, 0x11001));
    for (script, status) in [("exit 7", 7), ("kill -TERM $$", 143)] {
        let left = ignoring("CHLD", &["run", "--", "sh", "-c", script]).output().unwrap();
        assert_eq!(left.status.code(), Some(status), "{script}");
    }
    let mut child = ignoring("CHLD", &["run", "--", "sleep", "1000"]).spawn().unwrap();
    // The signal may come before the program is there: it ends the command then, by the same number.
    std::thread::sleep(Duration::from_millis(300));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    assert!(
        status.code() == Some(143) || std::os::unix::process::ExitStatusExt::signal(&status) == Some(15),
        "{status}"
    );
}

#[test]
fn a_dry_run_says_everything_and_does_nothing() {
    let said = output(&["run", "--dry-run", "--policy", "fifo:40", "--nice", "3", "--", "sh", "-c", "echo ran"]);
    let text = stdout(&said);
    assert_eq!(said.status.code(), Some(0));
    for part in ["set SCHED_FIFO 40 (now: SCHED_", "set nice 3 (now: nice ", "run sh -c echo ran", "restore everything"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.lines().any(|line| line == "ran"), "{text}");
}

#[test]
fn a_governor_that_cannot_be_set_is_never_called_set() {
    let shown = output(&["governor"]);
    assert_eq!(shown.status.code(), Some(0));
    // The kernel lab looks at machines that have cpufreq.
    if std::path::Path::new("/sys/devices/system/cpu/cpufreq/policy0").exists() {
        return assert!(!stdout(&shown).contains("not exposed"), "{}", stdout(&shown));
    }
    assert!(stdout(&shown).contains("not exposed") && !stdout(&shown).contains("performance:"), "{}", stdout(&shown));
    assert_eq!(output(&["governor", "set", "performance"]).status.code(), Some(1));
    let required = output(&["run", "--require", "--governor", "performance", "--", "echo", "ran"]);
    assert_eq!((required.status.code(), stdout(&required).as_str()), (Some(1), ""));
    let anyway = output(&["run", "--governor", "performance", "--", "echo", "ran"]);
    assert_eq!((anyway.status.code(), stdout(&anyway).as_str()), (Some(0), "ran\n"));
    assert!(stderr(&anyway).contains("governor performance was refused: "), "{}", stderr(&anyway));
}

#[test]
fn a_ramp_has_every_loop_in_json_and_a_row_per_loop_in_csv() {
    let folder = tempfile::tempdir().unwrap();
    let (json, csv) = (folder.path().join("ramp.json"), folder.path().join("ramp.csv"));
    let asked = "governor ramp --full --policy other --loops 20 --rounds 2 --rest 1ms --work 50us";
    let files = ["--json", json.to_str().unwrap(), "--csv", csv.to_str().unwrap()];
    let ramp = undisturbed(|_| {
        let ramp = output(&[&asked.split(' ').collect::<Vec<_>>()[..], &files].concat());
        assert_eq!(ramp.status.code(), Some(0), "{}", stderr(&ramp));
        let overdue = stderr(&ramp).contains("its announced time was over");
        if overdue { Err(Disturbed(stderr(&ramp))) } else { Ok(ramp) }
    });
    assert!(stdout(&ramp).contains("ramp: loops of 50 µs of fixed work"), "{}", stdout(&ramp));
    // Two rounds are no test: nothing is claimed and nothing drawn.
    for claim in ["to full speed", "loop number across"] {
        assert!(!stdout(&ramp).contains(claim), "{claim}: {}", stdout(&ramp));
    }
    let run: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let series = run["series"].as_array().unwrap();
    assert!(series.iter().all(|s| s["experiment"] == "ramp"));
    let series_of = |quantity: &str| series.iter().filter(|s| s["quantity"] == quantity).collect::<Vec<_>>();
    assert!(series_of("loop").iter().all(|s| s["samples"].as_array().unwrap().len() == 40));
    assert!(series_of("first_loops").iter().all(|s| s["count"] == 6 && s["rounds"].as_array().unwrap().len() == 2));
    assert_eq!((series_of("loop").len(), series_of("first_loops").len()), (series.len() / 2, series.len() / 2));
    let text = std::fs::read_to_string(&csv).unwrap();
    assert_eq!(text.lines().count(), 21);
    assert!(text.starts_with("loop,") && text.lines().last().unwrap().starts_with("20,"), "{text}");
}

#[test]
fn plans_that_make_no_sense_are_refused_before_anything_is_touched() {
    for bad in [
        &["governor", "ramp", "--loops", "0"][..],
        &["governor", "ramp", "--loops", "100000"],
        &["governor", "ramp", "--work", "1ns"],
        &["governor", "ramp", "--cpu", "4095"],
        &["governor", "ramp", "--governor-thread-priority", "100"],
        &["governor", "switch", "performance"],
        &["governor", "switch", "--switches", "0"],
        &["governor", "set"],
        &["governor", "set", "userspace", "--speed", "1200"],
        &["governor", "set", "performance", "--speed", "1.2GHz"],
        &["run", "--min-frequency=fast", "true"],
        &["run", "--cpu", "4095", "true"],
        &["run"],
    ] {
        let refused = output(bad);
        assert_eq!(refused.status.code(), Some(2), "{bad:?}: {}", stderr(&refused));
    }
}
