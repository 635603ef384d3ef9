//! Poor conditions: no privilege, no PATH, a kernel that lacks a call.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use punctual_record::{Notice, Run};
use punctual_testing::{Disturbed, NOBODY, alone_on_this_machine, needs_root, open_copy, skip, undisturbed};

use crate::support::{SHORT, punctual, run};

fn as_nobody(args: &[&str]) -> Option<(Run, String)> {
    // The other tests run as the user that you are.
    if !needs_root("becoming a plain user") {
        return None;
    }
    let (_folder, path) = open_copy(env!("CARGO_BIN_EXE_punctual").as_ref());
    let mut command = Command::new(path);
    command.env("PUNCTUAL_LOCK_NAMESPACE", "");
    let output = command.args(args).args(["--json", "-"]).uid(NOBODY).gid(NOBODY).current_dir("/").output();
    let output = output.unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    Some((Run::from_json(&output.stdout[..]).unwrap(), stderr))
}

#[test]
fn a_plain_user_gets_everything_that_needs_no_privilege() {
    let found = undisturbed(|longer| {
        let duration = format!("{}s", 3 * longer);
        let Some((run, stderr)) = as_nobody(&["wait", "--for", "50us", "--duration", &duration, "--rounds", "2"])
        else {
            return Ok(None);
        };
        let few = run.series.len() < 30;
        if few { Err(Disturbed(format!("{:?}", run.not_measured))) } else { Ok(Some((run, stderr))) }
    });
    let Some((run, stderr)) = found else { return };
    let privileged: Vec<_> = run.not_measured.iter().filter(|n| n.why.contains("Operation not permitted")).collect();
    assert!(privileged.is_empty(), "{privileged:?}");
    let skipped = run.notices.iter().find_map(|n| match n {
        Notice::ConditionsSkipped { conditions, refusal } if conditions == "SCHED_FIFO 40" => Some(refusal.clone()),
        _ => None,
    });
    let refusal = skipped.unwrap_or_else(|| panic!("FIFO is refused to a plain user: {:?}\n{stderr}", run.notices));
    assert!(refusal.remedy.to_string().contains("rtprio"), "{refusal:?}");
    assert!(run.series.iter().all(|s| !s.conditions.contains("FIFO")), "no row under a false name");
}

#[test]
fn a_plain_user_gets_the_check_up() {
    undisturbed(|_| {
        let Some((run, _)) = as_nobody(&["checkup", "--quick"]) else { return Ok(()) };
        if run.notices.contains(&Notice::Overdue) {
            return Err(Disturbed("its time was over before every part had its turn".into()));
        }
        assert!(run.complete && !run.series.is_empty());
        Ok(())
    });
}

#[test]
fn every_condition_refused_to_a_plain_user_has_its_reason_and_remedy() {
    let asked = ["--policy", "fifo:40", "--nice=-19", "--dma-latency", "0us", "--for", "50us", "nanosleep"];
    let Some((run, stderr)) = as_nobody(&[&["wait"][..], &asked, &SHORT].concat()) else { return };
    let refused: Vec<&str> = run.conditions[0].refused.iter().map(|r| r.condition.as_str()).collect();
    for condition in ["policy", "nice", "dma-latency"] {
        assert!(refused.contains(&condition), "{condition} in {refused:?}\n{stderr}");
    }
    for refusal in &run.conditions[0].refused {
        assert!(!refusal.why.is_empty() && !refusal.remedy.is_empty(), "{refusal:?}");
        assert!(stderr.contains(&refusal.condition), "{stderr}");
    }
}

#[test]
fn without_path_or_environment_it_runs() {
    let mut command = punctual(&[&["wait", "nanosleep", "--for", "20us"][..], &SHORT].concat());
    let output = command.env_clear().env("PUNCTUAL_LOCK_NAMESPACE", "").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Whoever reads stdout finds the gate's verdict first, also where nothing can end the run in time.
#[test]
fn a_warning_before_the_run_is_no_part_of_the_report() {
    let _alone = alone_on_this_machine();
    let cpu = punctual_linux::sched::affinity(0).unwrap()[0].to_string();
    let measures =
        ["wait", "nanosleep", "--for", "100us", "--policy", "fifo:10", "--fail-if", "min > 10s", "--no-keep"];
    let inner = [&["run", "--cpu", &cpu, "--", env!("CARGO_BIN_EXE_punctual")], &measures[..], &SHORT].concat();
    let left = run(&inner);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert!(left.stdout.starts_with("PASS"), "{}", left.stdout);
    assert!(left.stderr.starts_with("warning: nothing may be able to end this run in time"), "{}", left.stderr);
}

#[test]
fn a_kernel_without_the_call_is_told_from_one_with_it() {
    let strace = Command::new("strace").arg("-V").output();
    if strace.is_err() {
        return skip("strace is not installed (Debian: apt-get install strace)");
    }
    for (method, call) in
        [("epoll_pwait2", "epoll_pwait2"), ("timerfd", "timerfd_create"), ("io_uring", "io_uring_setup")]
    {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new("strace");
        command.env("PUNCTUAL_LOCK_NAMESPACE", "");
        command.args(["-f", "-e", &format!("trace={call}"), "-e", &format!("inject={call}:error=ENOSYS"), "-o"]);
        command.arg(log.path()).arg(env!("CARGO_BIN_EXE_punctual"));
        command.args(["wait", method, "nanosleep", "--for", "100us", "--json", "-"]).args(SHORT);
        let output = command.output().unwrap();
        if !std::fs::read_to_string(log.path()).unwrap().contains("INJECTED") {
            return skip("strace cannot inject errors here (ptrace is forbidden?)");
        }
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let run = Run::from_json(&output.stdout[..]).unwrap();
        let missing = run.not_measured.iter().find(|n| n.subject == method);
        let missing = missing.unwrap_or_else(|| panic!("{method}: {:?}", run.not_measured));
        assert!(missing.why.contains("kernel") || missing.why.contains("not implemented"), "{missing:?}");
        assert!(run.series.iter().any(|s| s.subject == "nanosleep"), "the others are measured all the same");
    }
}
