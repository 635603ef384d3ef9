//! `why --pid`.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use punctual_record::{CauseSource, Causes, Notice, Run};
use punctual_testing::{Disturbed, needs_root, open_copy, undisturbed};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Running, as_nobody, causes, output, program, punctual, saw_events, text};

#[test]
fn a_running_process_is_watched_for_a_while_and_goes_on() {
    let mut watched = Running::sh("while :; do sleep 0.01; done");
    let causes = watched_for(500, &["--pid", &watched.pid()], |causes| {
        // It creates them after the beginning.
        causes.calls.iter().any(|call| call.thread == "sleep")
    });
    assert!(watched.0.try_wait().unwrap().is_none(), "it goes on");
    let program = causes.program.clone().unwrap();
    assert_eq!((program.name.as_str(), program.pid.to_string(), program.status), ("sh", watched.pid(), None));
    assert!(!saw_events(&causes) || causes.wake_ups > 0 && causes.watched_ns >= 400_000_000, "{causes:?}");
}

/// Watches for this long. It watches for longer if single wake-ups are seen, but not `enough`: the program may have had no CPU.
fn watched_for(ms: u64, which: &[&str], enough: impl Fn(&Causes) -> bool) -> Causes {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("why.json");
    undisturbed(|longer| {
        let duration = format!("{}ms", ms * u64::from(longer));
        let asked = ["--duration", &duration, "--json", json.to_str().unwrap()];
        let left = output(&[&["why", "--full"], which, &asked].concat());
        assert_eq!(left.status.code(), Some(0), "{}", text(&left.stderr));
        let causes = causes(&json);
        let seen = causes.source != CauseSource::Tracepoints || enough(&causes);
        if seen { Ok(causes) } else { Err(Disturbed(format!("{:?}", causes.calls))) }
    })
}

#[test]
fn ctrl_c_reports_what_was_seen() {
    let watched = Running::sh("while :; do sleep 0.01; done");
    let args = ["why", "--pid", &watched.pid(), "--duration", "600s", "--json", "-"];
    let left = undisturbed(|longer| {
        let child = punctual(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(1) * longer);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let left = child.wait_with_output().unwrap();
        // A signal before it listens ends it, too.
        if left.status.code().is_some() { Ok(left) } else { Err(Disturbed(left.status.to_string())) }
    });
    assert_eq!(left.status.code(), Some(130), "{}", text(&left.stderr));
    let run = Run::from_json(&left.stdout[..]).unwrap();
    assert!(run.causes.is_some() && !run.complete);
    assert!(run.notices.contains(&Notice::Interrupted { signal: "SIGINT".into() }), "{:?}", run.notices);
}

#[test]
fn a_process_that_ends_ends_the_watching_and_is_named() {
    let (watched, left) = undisturbed(|longer| {
        let watched = Running::sh(&format!("sleep {longer}"));
        // It has to be waited for, or it stays as a zombie: that counts as ended too.
        let left = output(&["why", "--pid", &watched.pid(), "--duration", "600s", "--json", "-"]);
        let late = left.status.code() == Some(2) && text(&left.stderr).contains("has ended");
        if late { Err(Disturbed(text(&left.stderr))) } else { Ok((watched, left)) }
    });
    assert_eq!(left.status.code(), Some(0), "{}", text(&left.stderr));
    let run = Run::from_json(&left.stdout[..]).unwrap();
    let said = format!("(process {}) ended after ", watched.pid());
    let missing = &run.causes.as_ref().unwrap().missing;
    assert!(missing.iter().any(|missing| missing.why.contains(&said) && missing.remedy.is_some()), "{missing:?}");
}

#[test]
fn a_process_that_is_stopped_is_said_to_be() {
    let watched = Running::sh("while :; do sleep 0.01; done");
    let pid: i32 = watched.pid().parse().unwrap();
    let send = |signal| kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    let look = |more: &[&str]| {
        let left = output(&[&["why", "--pid", &watched.pid(), "--no-keep", "--duration"], more].concat());
        assert_eq!(left.status.code(), Some(0), "{}", text(&left.stderr));
        text(&left.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let runs = look(&["300ms"]);
    assert!(!runs.contains("stopped"), "{runs}");
    send(Signal::STOP);
    punctual_testing::until("it is stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    });
    let said = look(&["300ms"]);
    let parts = [format!("(process {pid}) is stopped by a signal"), format!("kill -CONT {pid}")];
    assert!(parts.iter().all(|part| said.contains(part)) && said.contains("by whom is not known"), "{said}");
    let advised = look(&["1s", "--advise"]);
    assert!(advised.contains("is stopped by a signal") && !advised.contains("Too few wake-ups"), "{advised}");
    let said = undisturbed(|longer| {
        send(Signal::STOP);
        let duration = format!("{}s", 3 * longer);
        let said = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(700) * longer);
                send(Signal::CONT);
            });
            look(&[&duration])
        });
        // Watching may begin too late to see most of it, beside others.
        if said.contains("was stopped by a signal") { Ok(said) } else { Err(Disturbed(said)) }
    });
    assert!(said.contains("watch again while it runs"), "{said}");
}

#[test]
fn advice_on_a_process_that_ends_says_so() {
    let advise = |script: &str, duration| {
        let watched = Running::sh(script);
        let left = output(&["why", "--advise", "--pid", &watched.pid(), "--no-keep", "--duration", duration]);
        assert_eq!(left.status.code(), Some(0), "{}", text(&left.stderr));
        // The reason is a note; where wake-ups can be recorded, it is also beside the remedies.
        [&left.stdout, &left.stderr].map(|said| text(said).split_whitespace().collect::<Vec<_>>().join(" ")).join(" ")
    };
    let said = advise("(sleep 3; kill $$) & while :; do sleep 0.01; done", "15s");
    assert!(!said.contains("Too few wake-ups") && said.contains(" ended after "), "{said}");
    let goes_on = advise("while :; do sleep 0.01; done", "3s");
    assert!(!goes_on.contains(" ended after "), "{goes_on}");
}

#[test]
fn children_that_are_not_watched_are_named() {
    for (script, children) in [("sleep 1000 & exec sleep 1000", 1), ("exec sleep 1000", 0)] {
        let watched = Running::sh(script);
        let path = format!("/proc/{0}/task/{0}/children", watched.pid());
        let Ok(mut all) = std::fs::read_to_string(&path) else {
            return punctual_testing::lacks(punctual_testing::Lack::File("/proc/thread-self/children"));
        };
        punctual_testing::until("the child exists", || {
            all = std::fs::read_to_string(&path).unwrap_or_default();
            all.split_whitespace().count() == children
        });
        let left = output(&["why", "--pid", &watched.pid(), "--duration", "50ms", "--json", "-"]);
        let run = Run::from_json(&left.stdout[..]).unwrap();
        let said =
            format!("1 child is not watched, only those that it creates from now on (example: --pid {})", all.trim());
        let says = run.notices.iter().any(|notice| matches!(notice, Notice::Other { text } if text.ends_with(&said)));
        assert_eq!(says, children == 1, "{:?}", run.notices);
        if let Ok(child) = all.trim().parse() {
            kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
        }
    }
}

#[test]
fn threads_are_chosen_by_name() {
    let script = "import threading, time, ctypes
def named(name):
    ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
    while True: time.sleep(0.005)
for name in (b'first', b'second'): threading.Thread(target=named, args=(name,), daemon=True).start()
time.sleep(1000)";
    let Ok(child) = std::process::Command::new("python3").args(["-c", script]).spawn() else {
        return punctual_testing::skip("python3 is missing");
    };
    let watched = Running(child);
    let names = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", watched.pid())).unwrap().flatten();
        tasks.map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default()).collect::<String>()
    };
    punctual_testing::until("both threads have their names", || {
        let names = names();
        names.contains("first") && names.contains("second")
    });
    let pid = watched.pid();
    let causes = watched_for(300, &["--pid", &pid, "--thread", "f*t"], |causes| !causes.calls.is_empty());
    assert_eq!(causes.program.as_ref().unwrap().threads, 1);
    if saw_events(&causes) {
        assert!(causes.calls.iter().all(|call| call.thread == "first"), "{:?}", causes.calls);
    }
    let wrong = output(&["why", "--pid", &pid, "--thread", "frist"]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = text(&wrong.stderr);
    assert!(said.contains("invalid --thread 'frist'") && said.contains("first, ") && said.contains("second"), "{said}");
}

/// A container's process has another number inside, and the machine's outside.
#[test]
fn a_process_of_another_pid_namespace_is_watched_from_outside_and_not_from_inside() {
    let unshared = |args: &[&str]| {
        let mut command = std::process::Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).args(args).stdin(Stdio::null());
        command.env("PUNCTUAL_LOCK_NAMESPACE", "").env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
        command
    };
    if !needs_root("a PID namespace") || !unshared(&["true"]).output().is_ok_and(|left| left.status.success()) {
        return punctual_testing::skip("unshare(1) cannot make a PID namespace");
    }
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("why.json");
    let json = json.to_str().unwrap();
    let outer = Running(unshared(&["sh", "-c", "while :; do sleep 0.01; done"]).spawn().unwrap());
    let children = format!("/proc/{0}/task/{0}/children", outer.pid());
    let mut inner = String::new();
    punctual_testing::until("the shell runs", || {
        inner = std::fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
        std::fs::read_to_string(format!("/proc/{inner}/comm")).is_ok_and(|name| name == "sh\n")
    });
    watched_for(500, &["--pid", &inner], |seen| {
        seen.calls.iter().any(|call| call.thread == "sleep" && call.blocked > 0)
    });
    let why = [env!("CARGO_BIN_EXE_punctual"), "why", "--json", json, "--", "sh", "-c", "sleep 0.01; exit 4"];
    let left = unshared(&why).output().unwrap();
    assert_eq!(left.status.code(), Some(4), "{}", text(&left.stderr));
    let seen = causes(json.as_ref());
    assert_eq!((seen.source, seen.wake_ups), (CauseSource::RunDelay, 0));
    assert!(seen.missing[0].why.contains("PID namespace") && seen.missing[0].remedy.is_some(), "{:?}", seen.missing);
}

/// Without a privilege the scheduler's account is left, with the remedy for the rest.
#[test]
fn a_plain_user_gets_the_account_and_the_remedy() {
    if !needs_root("becoming a plain user") {
        return;
    }
    let (folder, path) = open_copy(env!("CARGO_BIN_EXE_punctual").as_ref());
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let json = folder.path().join("why.json");
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.1";
    let mut command = program(&path, &["why", "--no-keep", "--json", json.to_str().unwrap(), "--", "sh", "-c", script]);
    let left = as_nobody(&mut command).output().unwrap();
    assert_eq!(left.status.code(), Some(0), "{}", text(&left.stderr));
    let causes = causes(&json);
    assert_eq!((causes.source, causes.wake_ups), (CauseSource::RunDelay, 0));
    assert!(causes.watched_ns >= 100_000_000 && causes.missing[0].remedy.is_some(), "{causes:?}");
    let found = causes.program.unwrap();
    assert!(found.cpu_ns.is_some_and(|cpu_ns| cpu_ns > 0) && found.run_delay_ns.is_some(), "{found:?}");

    let of_root = Running::sh("exec sleep 1000");
    let mut command = program(&path, &["why", "--pid", &of_root.pid()]);
    let refused = as_nobody(&mut command).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(said.contains("belongs to another user; watch it as that user or as root"), "{said}");
}
