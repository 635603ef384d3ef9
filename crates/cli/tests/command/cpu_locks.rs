//! Measuring runs on one CPU: the second waits for the first, or refuses.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_linux::named_lock::{Attempt, try_take};
use rustix::fs::Uid;
use rustix::process::{Pid, Signal, geteuid, kill_process};

use punctual_testing::{NOBODY, first_cpu, needs_root, skip, until};

use crate::support::punctual;

/// A set of locks of its own for each test.
fn namespace() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// The last CPU of this process; `None` says that there is but one.
fn two_cpus() -> Option<(String, String)> {
    let cpus = punctual_linux::sched::affinity(0).unwrap();
    match cpus[..] {
        [first, .., last] => Some((first.to_string(), last.to_string())),
        _ => {
            skip("two CPUs are needed");
            None
        }
    }
}

fn wait_on(namespace: &str, cpu: &str, more: &[&str]) -> Command {
    let mut command = punctual(&["wait", "nanosleep", "--for", "1ms", "--cpu", cpu]);
    command.args(more).env("PUNCTUAL_LOCK_NAMESPACE", namespace).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A run that does not end by itself, once it holds its lock.
fn hog(namespace: &str, cpu: &str) -> Child {
    let child = wait_on(namespace, cpu, &["--duration", "10m"]).spawn().unwrap();
    let name = format!("@punctual/{namespace}/cpu{cpu}");
    until("the lock", || std::fs::read_to_string("/proc/net/unix").unwrap().lines().any(|line| line.ends_with(&name)));
    child
}

/// A run that waits, with the line that says for whom.
fn waiting(namespace: &str, cpu: &str) -> (Child, String) {
    let mut child = wait_on(namespace, cpu, &["--samples", "20", "--rounds", "1"]).spawn().unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    // The rest is read, so that the run can write it.
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    (child, line)
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_second_waits_for_the_first_and_says_for_whom() {
    let (namespace, cpu) = (namespace(), first_cpu().to_string());
    let first = hog(&namespace, &cpu);
    let holder = format!(
        "punctual wait nanosleep --for 1ms --cpu {cpu} --duration 10m (pid {}, user {})",
        first.id(),
        geteuid().as_raw()
    );
    let refused = wait_on(&namespace, &cpu, &["--samples", "20", "--no-wait"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(said(&refused).contains(&format!("CPU {cpu} is in use by {holder}")), "{}", said(&refused));

    let (second, line) = waiting(&namespace, &cpu);
    assert_eq!(
        line,
        format!(
            "punctual: waiting for CPU {cpu}: in use by {holder}; with --no-wait, this fails instead; with PUNCTUAL_LOCK_NAMESPACE=, it \
             measures beside it\n"
        )
    );
    // Killed, the first one releases nothing by itself.
    kill(first);
    let second = second.wait_with_output().unwrap();
    assert_eq!(second.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&second.stdout).contains("nanosleep"));
}

/// Any user may take the lock of a CPU, and keep it.
#[test]
fn a_lock_of_another_user_is_named_and_can_be_left_aside() {
    if !needs_root("becoming another user") {
        return;
    }
    let (namespace, cpu) = (namespace(), first_cpu().to_string());
    let name = format!("punctual/{namespace}/cpu{cpu}");
    // The user of that thread alone.
    let squatter = std::thread::spawn(move || {
        rustix::thread::set_thread_uid(Uid::from_raw(NOBODY)).unwrap();
        try_take(&name).unwrap()
    });
    let Attempt::Taken(lock) = squatter.join().unwrap() else { panic!("it is free") };
    let short = ["--samples", "20", "--rounds", "1", "--no-wait"];
    let refused = wait_on(&namespace, &cpu, &short).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    let user = format!("(pid {}, user {NOBODY}); ", std::process::id());
    assert!(
        said(&refused).contains(&user) && said(&refused).contains("set PUNCTUAL_LOCK_NAMESPACE= "),
        "{}",
        said(&refused)
    );
    assert_eq!(wait_on("", &cpu, &short).output().unwrap().status.code(), Some(0));
    drop(lock);
    let free = wait_on(&namespace, &cpu, &short).output().unwrap();
    assert!(free.status.success() && !said(&free).contains("in use"), "{}", said(&free));
}

#[test]
fn a_signal_ends_the_wait() {
    let (namespace, cpu) = (namespace(), first_cpu().to_string());
    let first = hog(&namespace, &cpu);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (second, line) = waiting(&namespace, &cpu);
        assert!(line.contains(&format!("waiting for CPU {cpu}")), "{line}");
        kill_process(Pid::from_child(&second), signal).unwrap();
        let second = second.wait_with_output().unwrap();
        assert_eq!((second.status.code(), second.stdout.len()), (Some(code), 0));
    }
    kill(first);
}

#[test]
fn other_cpus_and_other_namespaces_do_not_wait() {
    let Some((first, last)) = two_cpus() else { return };
    let namespace = namespace();
    let hog = hog(&namespace, &first);
    let short = ["--samples", "20", "--rounds", "1", "--no-wait"];
    for (namespace, cpu) in [(namespace.as_str(), &last), ("", &first), (&format!("{namespace}-b"), &first)] {
        let output = wait_on(namespace, cpu, &short).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{namespace} {cpu}: {}", said(&output));
    }
    // Without --cpu a run may measure on every CPU.
    let all =
        punctual(&["wait", "nanosleep", "--no-wait"]).env("PUNCTUAL_LOCK_NAMESPACE", &namespace).output().unwrap();
    assert_eq!(all.status.code(), Some(1), "{}", said(&all));
    assert!(said(&all).contains(&format!("CPU {first} is in use by")), "{}", said(&all));
    kill(hog);
}

#[test]
fn many_at_once_all_finish() {
    let namespace = namespace();
    // On all CPUs, and on the first and the last. In any order they wait for each other in the same one.
    let cpus = punctual_linux::sched::affinity(0).unwrap();
    let (first, last) = (cpus[0].to_string(), cpus.last().unwrap().to_string());
    let all = format!("{first},{last}");
    let lists = [all.clone(), last, first, all];
    let runs: Vec<Child> = lists
        .iter()
        .map(|list| wait_on(&namespace, list, &["--samples", "20", "--rounds", "1"]).spawn().unwrap())
        .collect();
    for run in runs {
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
}

#[test]
fn a_lock_that_cannot_be_made_is_a_notice() {
    // Enough descriptors for the run, too few for a socket too: which limit that is, depends on the C library.
    let noticed = (4..40).any(|limit| {
        let script = format!("ulimit -n {limit}; exec \"$@\"");
        let args = ["-c", &script, "sh", env!("CARGO_BIN_EXE_punctual"), "wait", "nanosleep", "--samples", "20"];
        let mut command = Command::new("sh");
        command.args(args).env("PUNCTUAL_LOCK_NAMESPACE", namespace());
        let output = command.output().unwrap();
        let noticed = said(&output).contains("is not locked");
        assert!(!noticed || !said(&output).contains("error: no lock"), "{}", said(&output));
        noticed
    });
    assert!(noticed, "no limit made it impossible");
    let bad = punctual(&["wait", "nanosleep"]).env("PUNCTUAL_LOCK_NAMESPACE", "a b").output().unwrap();
    assert_eq!(bad.status.code(), Some(2));
    assert!(said(&bad).contains("invalid PUNCTUAL_LOCK_NAMESPACE"), "{}", said(&bad));
}
