//! `punctual ipc`: refusals, results, and no leftovers, however it ends.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Seek as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use punctual_record::{Notice, Param, Quantity, Run};
use punctual_testing::{first_cpu, skip, until};

use crate::support::{measured, punctual, refusals, run};

const QUICK: [&str; 6] = ["--samples", "200", "--rounds", "2", "--cpus", "same"];

#[test]
fn refusals_say_what_would_be_accepted() {
    let cases: &[&[&str]] = &[
        &["ipc", "--size", "0"],
        &["ipc", "--size", "7"],
        &["ipc", "--size", "64kB"],
        &["ipc", "--size", "-1"],
        &["ipc", "--size", "2G"],
        &["ipc", "eventfd", "--size", "64"],
        &["ipc", "udp", "--size", "64k"],
        &["ipc", "--depth", "0"],
        &["ipc", "--depth", "many"],
        &["ipc", "posixmq"],
        &["ipc", "qqqq"],
        &["ipc", "--mode", "fast"],
        &["ipc", "--mode", "rate:0/s"],
        &["ipc", "--mode", "rate:5"],
        &["ipc", "--mode", "sporadic", "--every", "0s"],
        &["ipc", "--mode", "sporadic", "--every", "2h"],
        &["ipc", "pipe", "--mode", "sporadic", "--samples", "10k"],
        &["ipc", "--cpus", "0"],
        &["ipc", "--cpus", "here"],
        &["ipc", "--cpus", "0,1", "--matrix"],
        &["ipc", "--receiver-policy", "rr:1,rr:1"],
        &["ipc", "--receive", "sometimes"],
        &["ipc", "--blocks", "0"],
        &["ipc", "--sender-policy", "fifo:100"],
        &["ipc", "--verify=perhaps"],
        &["ipc", "pipe", "--all"],
    ];
    insta::assert_snapshot!(refusals(cases));
}

#[test]
fn a_cpu_that_may_not_be_used_is_refused() {
    let left = run(&["ipc", "pipe", "--cpus", "4990,4991"]);
    assert_eq!(left.code, Some(2), "{}", left.stderr);
    assert!(left.stderr.contains("CPU 4990 is not among those"), "{}", left.stderr);
}

#[test]
fn a_matrix_of_one_cpu_is_refused() {
    let left = run(&["ipc", "pipe", "--matrix", "--cpu", &first_cpu().to_string()]);
    assert_eq!(left.code, Some(2), "{}", left.stderr);
    assert!(left.stderr.contains("invalid --matrix: must have two CPUs or more, not one"), "{}", left.stderr);
}

#[test]
fn figures_add_up() {
    let modes = ["--mode", "ping-pong,saturated,rate:1k/s"];
    let (run, left) = measured(&[&["ipc", "pipe", "memfd-futex", "--size", "64,4k"], &modes[..], &QUICK[..]].concat());
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert_eq!(run.series.len(), 2 * 2 * 3, "mechanisms, sizes, modes");
    for series in &run.series {
        assert_eq!(series.summary.count, 200, "{series:?}");
        assert_eq!(series.rounds.iter().map(|r| r.summary.count).sum::<u64>(), 200);
        let faults = ["lost", "duplicates", "torn", "reordered"].map(|name| series.experiment.metrics()[name].clone());
        assert_eq!(faults, [const { Param::Int(0) }; 4], "{}", series.subject);
        let ping = series.experiment.parameters()["mode"] == Param::Text("ping-pong".into());
        assert_eq!(series.quantity == Quantity::RoundTrip, ping);
        let Param::Real(per_second) = series.experiment.metrics()["per_second"] else {
            panic!("{:?}", series.experiment.metrics())
        };
        assert!(per_second > 0.0);
        if ping {
            // One at a time: they cannot be quicker than the quickest.
            assert!(per_second <= 1e9 / series.summary.min.expect("a minimum") as f64, "{series:?}");
        }
        assert!(
            series.cpu_ns_per_op.is_some_and(|ns| ns > 0.0) && series.experiment.metrics().contains_key("peer_cpu_ns")
        );
    }
}

#[test]
fn rare_messages_have_a_series_for_each_interval() {
    let every = ["--mode", "sporadic", "--every", "1ms,2ms"];
    let amount = ["--samples", "10", "--rounds", "1", "--cpus", "same"];
    let (run, left) = measured(&[&["ipc", "pipe"], &every[..], &amount[..]].concat());
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    let intervals: Vec<Param> =
        run.series.iter().map(|series| series.experiment.parameters()["interval_ns"].clone()).collect();
    assert_eq!(intervals, [Param::Int(1_000_000), Param::Int(2_000_000)]);
}

#[test]
fn a_line_per_block_while_it_goes_on() {
    let asked = "ipc pipe --mode saturated --blocks 500 --samples 2k --rounds 1 --cpus same";
    let asked: Vec<&str> = asked.split(' ').collect();
    let left = run(&asked);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    let blocks_in = |text: &str| text.lines().filter(|l| l.contains(": block ")).map(str::to_owned).collect::<Vec<_>>();
    let blocks = blocks_in(&left.stdout);
    assert_eq!(blocks.len(), 4, "{}", left.stdout);
    assert!(blocks[3].contains("block 4 of 500 messages: min ") && blocks[3].contains(", mean "), "{}", blocks[3]);
    // The verdict on a limit is the first line of stdout.
    let left = run(&[&asked[..], &["--fail-if", "max > 1000s"]].concat());
    assert!(left.stdout.starts_with("PASS") && blocks_in(&left.stdout).is_empty(), "{}", left.stdout);
    assert_eq!(blocks_in(&left.stderr).len(), 4, "{}", left.stderr);
}

#[test]
fn what_cannot_be_measured_is_said_with_the_remedy() {
    // Polling would keep the sender from its CPU indefinitely; some machines refuse the policy first.
    let (run, left) = measured(&[&["ipc", "memfd-spin", "pipe", "--policy", "fifo:10"], &QUICK[..]].concat());
    assert!(left.code == Some(0), "{}", left.stderr);
    let why = run.not_measured.iter().find(|n| n.subject == "memfd-spin").map(|n| n.why.as_str());
    assert!(why.is_some_and(|why| why.contains("keeps the sender on the same CPU")), "{:?}", run.not_measured);
    let (run, _) = measured(&[&["ipc", "sysv-mq", "pipe", "--size", "1M"], &QUICK[..]].concat());
    let no = run.not_measured.iter().find(|n| n.subject == "sysv-mq").expect("a reason");
    assert!(no.why.contains("/proc/sys/kernel/msgm"), "{no:?}");
    assert!(no.remedy.as_ref().is_some_and(|r| r.to_string().contains("sysctl kernel.msgm")), "{no:?}");
}

#[test]
fn a_limit_on_queues_is_named() {
    let mut limited = std::process::Command::new("bash");
    limited.args(["-c", "ulimit -q 2000; exec \"$0\" ipc posix-mq --size 4k", env!("CARGO_BIN_EXE_punctual")]);
    let out = limited.env("PUNCTUAL_LOCK_NAMESPACE", "").stdin(Stdio::null()).output().expect("bash starts");
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{text}");
    assert!(text.contains("RLIMIT_MSGQUEUE") && text.contains("ulimit -q"), "{text}");
}

#[test]
fn without_dev_shm_its_mechanisms_are_missing_and_the_others_are_not() {
    let script = "mount --make-rprivate / && umount -l /dev/shm && mount -t tmpfs -o size=0,nr_inodes=1 none /dev/shm && exec \"$@\"";
    let args = ["-m", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_punctual"), "ipc", "shm-futex", "pipe"];
    let out = std::process::Command::new("unshare")
        .env("PUNCTUAL_LOCK_NAMESPACE", "")
        .args(args)
        .args(QUICK)
        .args(["--json", "-"])
        .output()
        .expect("unshare starts");
    let text = String::from_utf8_lossy(&out.stderr);
    if text.contains("unshare:") || text.contains("mount:") || text.contains("umount:") {
        return skip(&format!("no mount namespace here: {text}"));
    }
    let run = punctual_record::Run::from_json(&out.stdout[..]).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert!(run.series.iter().all(|s| s.subject == "pipe") && !run.series.is_empty());
    let no = run.not_measured.iter().find(|n| n.subject == "shm-futex").expect("a reason");
    assert!(no.why.contains("shm_open") || no.why.contains("posix_fallocate"), "{no:?}");
    assert!(no.remedy.as_ref().is_some_and(|r| r.to_string().contains("/dev/shm")), "{no:?}");
}

/// Everything that a process of this number could leave behind.
pub(crate) fn leftovers(pid: u32) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let prefix = format!("punctual-{pid}-");
    for folder in ["/dev/shm".into(), "/dev/mqueue".into(), std::env::temp_dir()] {
        let names = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|e| e.file_name());
        let mine = names.filter_map(|n| n.into_string().ok()).filter(|n| n.starts_with(&prefix));
        found.extend(mine.map(|n| folder.join(n).display().to_string()));
    }
    found
}

/// Keys of System V objects that `punctual` makes: 0x70 above.
fn system_v() -> BTreeSet<String> {
    let lists = ["msg", "sem", "shm"]
        .map(|kind| (kind, std::fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default()));
    let ours = |line: &str| {
        let key: Option<i64> = line.split_whitespace().next().and_then(|k| k.parse().ok());
        key.is_some_and(|key| key >> 24 == 0x70)
    };
    lists
        .iter()
        .flat_map(|(kind, text)| text.lines().filter(|l| ours(l)).map(move |l| format!("{kind}: {}", l.trim())))
        .collect()
}

/// The children of a process, with their names. (`/proc/PID/task/TID/children` is not in every kernel.)
fn children(parent: u32) -> Vec<(i32, String)> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let child = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // "PID (NAME) STATE PPID ...", and the name may hold anything.
        let (before, after) = stat.rsplit_once(") ")?;
        let ppid: u32 = after.split_whitespace().nth(1)?.parse().ok()?;
        let name = before.split_once('(')?.1.to_owned();
        (ppid == parent).then_some((pid, name))
    };
    pids.filter_map(child).collect()
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a process number");
    // It may have ended by itself just now.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

fn start(mechanism: &str, mode: &str, record: File) -> Child {
    let args = ["ipc", mechanism, "--mode", mode, "--size", "8", "--duration", "60s", "--rounds", "1"];
    let mut command = punctual(&[&args[..], &["--cpus", "different", "--json", "-"]].concat());
    // A separate process group: orphans stay visible to this test, and no other kill hits them.
    command.process_group(0);
    command.stdout(record).stderr(Stdio::piped()).spawn().expect("the command starts")
}

/// The other process, if there is one now: each batch has its own.
fn other_process(parent: &Child) -> Option<i32> {
    let mine = children(parent.id()).into_iter();
    mine.filter(|(_, name)| name == "punctual-send" || name == "punctual-echo").map(|(pid, _)| pid).next()
}

/// Kills the other process after a while. One that had ended by then was the pilot's: then the next one.
fn kill_other(parent: &mut Child, wait: Duration) -> i32 {
    let mut last = 0;
    until("the end of a run whose other process was killed", || {
        if let Some(other) = other_process(parent).filter(|other| *other != last) {
            std::thread::sleep(wait);
            kill(other);
            last = other;
        }
        parent.try_wait().expect("the process is ours").is_some()
    });
    last
}

/// Mechanisms of every kind that could leave an object behind, or a process that waits indefinitely.
const KILLED: [&str; 14] = [
    "posix-mq",
    "sysv-mq",
    "fifo",
    "unix-stream-path",
    "unix-dgram-path",
    "shm-sem",
    "sysv-shm-sysv-sem",
    "memfd-cond",
    "memfd-spin",
    "ring",
    "sigqueue",
    "eventfd",
    "vm-writev",
    "uring-msg",
];

/// Kills one side at a moment that differs from time to time.
fn campaign(times: u64, kills_parent: bool) {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ u64::from(kills_parent);
    for i in 0..times {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mechanism = KILLED[(i % KILLED.len() as u64) as usize];
        let mode = if state >> 63 == 1 { "ping-pong" } else { "saturated" };
        let mut record = tempfile::tempfile().expect("a temporary file");
        let mut parent = start(mechanism, mode, record.try_clone().expect("a second descriptor"));
        let id = parent.id();
        let wait = Duration::from_micros((state >> 40) % 20_000);
        let mut other = 0;
        if kills_parent {
            // A quarter of the time before the other process is there at all.
            if i % 4 != 0 {
                until("the other process", || {
                    other = other_process(&parent).unwrap_or(0);
                    other != 0
                });
            }
            std::thread::sleep(wait);
            kill(id as i32);
        } else {
            other = kill_other(&mut parent, wait);
        }
        let out = parent.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&out.stderr);
        if !kills_parent {
            assert_eq!(out.status.code(), Some(1), "{mechanism} {mode}: {text}");
            assert!(text.contains("was killed by signal 9"), "{mechanism} {mode}: {text}");
            record.rewind().expect("a file can be read again");
            let run = Run::from_json(record).unwrap_or_else(|e| panic!("{mechanism} {mode}: {e}: {text}"));
            assert!(!run.complete, "{mechanism} {mode}");
            let who = |n: &Notice| {
                matches!(n, Notice::PeerEnded { subject, how, after_ns } if subject.contains(mechanism)
                && how.contains("signal 9") && (1..run.elapsed_ns).contains(after_ns))
            };
            assert!(run.notices.iter().any(who), "{mechanism} {mode}: {:?}", run.notices);
        }
        until(&format!("{mechanism} {mode}: nothing left: {:?}", leftovers(id)), || leftovers(id).is_empty());
        if other != 0 {
            let gone =
                || std::fs::read_to_string(format!("/proc/{other}/comm")).map_or(true, |c| !c.starts_with("punctual"));
            until("the other process's end", gone);
        }
    }
}

/// Kills each side this many times.
fn kill_either_side(times: u64) {
    let before = system_v();
    campaign(times, false);
    campaign(times, true);
    until("the end of all System V objects", || system_v().difference(&before).next().is_none());
}

/// Each mechanism once.
#[test]
fn killing_either_side_leaves_nothing() {
    kill_either_side(KILLED.len() as u64);
}

#[test]
#[ignore = "slow: run by the gate"]
fn killing_either_side_hundreds_of_times_leaves_nothing() {
    kill_either_side(112);
}
