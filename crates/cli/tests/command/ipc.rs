//! `punctual ipc`: what it refuses, what it tells, and that nothing stays behind, however it ends.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use punctual_record::{Param, Quantity};

use crate::support::{measured, punctual, run, skip};

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
        &["ipc", "--receive", "sometimes"],
        &["ipc", "--blocks", "0"],
        &["ipc", "--sender-policy", "fifo:100"],
        &["ipc", "--verify=perhaps"],
        &["ipc", "pipe", "--all"],
    ];
    let mut said = String::new();
    for case in cases {
        let left = run(case);
        assert_eq!(left.code, Some(2), "{case:?}: {}", left.stderr);
        assert_eq!(left.stdout, "", "{case:?}");
        said.push_str(&format!("$ punctual {}\n{}\n", case.join(" "), left.stderr.trim_end()));
    }
    insta::assert_snapshot!(said);
}

#[test]
fn a_cpu_that_may_not_be_used_is_refused() {
    let left = run(&["ipc", "pipe", "--cpus", "4990,4991"]);
    assert_eq!(left.code, Some(2), "{}", left.stderr);
    assert!(left.stderr.contains("CPU 4990 is not among those"), "{}", left.stderr);
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
        let faults = ["lost", "doubled", "torn", "reordered"].map(|name| series.outcome[name].clone());
        assert_eq!(faults, [const { Param::Int(0) }; 4], "{}", series.subject);
        let ping = series.parameters["mode"] == Param::Text("ping-pong".into());
        assert_eq!(series.quantity == Quantity::RoundTrip, ping);
        let Param::Real(per_second) = series.outcome["per_second"] else { panic!("{:?}", series.outcome) };
        assert!(per_second > 0.0);
        if ping {
            // One at a time: they cannot be quicker than the quickest.
            assert!(per_second <= 1e9 / series.summary.min.expect("a minimum") as f64, "{series:?}");
        }
        assert!(series.cpu_ns_per_op.is_some_and(|ns| ns > 0.0) && series.outcome.contains_key("peer_cpu_ns"));
    }
}

#[test]
fn a_line_per_block_while_it_goes_on() {
    let left = run(&[
        "ipc",
        "pipe",
        "--mode",
        "saturated",
        "--blocks",
        "500",
        "--samples",
        "2k",
        "--rounds",
        "1",
        "--cpus",
        "same",
    ]);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    let blocks: Vec<&str> = left.stdout.lines().filter(|l| l.contains(": block ")).collect();
    assert_eq!(blocks.len(), 4, "{}", left.stdout);
    assert!(blocks[3].contains("block 4 of 500 messages: min ") && blocks[3].contains(", mean "), "{}", blocks[3]);
}

#[test]
fn what_cannot_be_measured_is_said_with_the_remedy() {
    // Polling would keep the sender from its CPU for ever; some machines refuse the policy first.
    let (run, left) = measured(&[&["ipc", "memfd-spin", "pipe", "--policy", "fifo:10"], &QUICK[..]].concat());
    assert!(left.code == Some(0), "{}", left.stderr);
    let why = run.not_measured.iter().find(|n| n.subject == "memfd-spin").map(|n| n.why.as_str());
    assert!(why.is_some_and(|why| why.contains("keeps the sender on the same CPU")), "{:?}", run.not_measured);
    let (run, _) = measured(&[&["ipc", "sysv-mq", "pipe", "--size", "1M"], &QUICK[..]].concat());
    let no = run.not_measured.iter().find(|n| n.subject == "sysv-mq").expect("a reason");
    assert!(no.why.contains("/proc/sys/kernel/msgm"), "{no:?}");
    assert!(no.remedy.as_ref().is_some_and(|r| r.contains("sysctl kernel.msgm")), "{no:?}");
}

#[test]
fn a_limit_on_queues_is_named() {
    let mut limited = std::process::Command::new("bash");
    limited.args(["-c", "ulimit -q 2000; exec \"$0\" ipc posix-mq --size 4k", env!("CARGO_BIN_EXE_punctual")]);
    let out = limited.stdin(Stdio::null()).output().expect("bash starts");
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{text}");
    assert!(text.contains("RLIMIT_MSGQUEUE") && text.contains("ulimit -q"), "{text}");
}

#[test]
fn without_dev_shm_its_mechanisms_are_missing_and_the_others_are_not() {
    let script = "mount --make-rprivate / && umount -l /dev/shm && mount -t tmpfs -o size=0,nr_inodes=1 none /dev/shm && exec \"$@\"";
    let args = ["-m", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_punctual"), "ipc", "shm-futex", "pipe"];
    let out = std::process::Command::new("unshare")
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
    assert!(no.remedy.as_ref().is_some_and(|r| r.contains("/dev/shm")), "{no:?}");
}

/// Everything that a process of this number could leave behind.
fn leftovers(pid: u32) -> BTreeSet<String> {
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

/// The children of a process, with their names.
fn children(pid: u32) -> Vec<(i32, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
    let pids: Vec<i32> =
        lists.flat_map(|l| l.split_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<_>>()).collect();
    let name = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned();
    pids.into_iter().map(|pid| (pid, name(&pid))).collect()
}

/// Until it holds; the end is generous, so that a failure is a failure and not a hang.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(120), "{what} never came true");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a process number");
    // It may have ended by itself just now.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

fn start(mechanism: &str, mode: &str) -> Child {
    let args =
        ["ipc", mechanism, "--mode", mode, "--size", "8", "--duration", "60s", "--rounds", "1", "--cpus", "different"];
    let mut command = punctual(&args);
    // Orphans must be somebody's whom this test can see: nobody else's kill may hit them.
    command.process_group(0);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the command starts")
}

/// Waits until messages pass, and tells the number of the other process.
fn other_process(parent: &Child) -> i32 {
    let mut found = 0;
    eventually("the other process", || {
        let other =
            children(parent.id()).into_iter().find(|(_, name)| name == "punctual-send" || name == "punctual-echo");
        found = other.map_or(0, |(pid, _)| pid);
        found != 0
    });
    found
}

/// Mechanisms of every kind that could leave something behind, or a process waiting for ever.
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
        let parent = start(mechanism, mode);
        let id = parent.id();
        // A quarter of the time before the other process is there at all.
        let early = kills_parent && i % 4 == 0;
        let other = if early { 0 } else { other_process(&parent) };
        std::thread::sleep(Duration::from_micros((state >> 40) % 20_000));
        kill(if kills_parent { id as i32 } else { other });
        let killed_at = Instant::now();
        let out = parent.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&out.stderr);
        if !kills_parent {
            eprintln!("{mechanism} {mode}: reported after {:?}", killed_at.elapsed());
            assert_eq!(out.status.code(), Some(1), "{mechanism} {mode}: {text}");
            assert!(text.contains("was killed by signal 9"), "{mechanism} {mode}: {text}");
        }
        eventually(&format!("{mechanism} {mode}: nothing left: {:?}", leftovers(id)), || leftovers(id).is_empty());
        if other != 0 {
            let gone =
                || std::fs::read_to_string(format!("/proc/{other}/comm")).map_or(true, |c| !c.starts_with("punctual"));
            eventually("the other process's end", gone);
        }
    }
}

#[test]
fn killing_either_side_hundreds_of_times_leaves_nothing() {
    let before = system_v();
    campaign(112, false);
    campaign(112, true);
    eventually("System V objects gone", || system_v().difference(&before).next().is_none());
}
