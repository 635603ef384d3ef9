//! Bad input is refused before anything is started.

use crate::support::{Running, output, text};

#[test]
fn bad_input_says_what_would_be_accepted() {
    let never = "never-started-by-a-test";
    let cases: &[(&[&str], &str)] = &[
        (&["--pid", "x"], "invalid --pid 'x': expected a process ID from 1 to 4194304 (example: 1234)"),
        (&["--pid", "0"], "invalid --pid '0': expected a process ID"),
        (&["--pid", "-1"], "invalid --pid '-1': expected a process ID"),
        (&["--pid", "99999999999"], "invalid --pid '99999999999': expected a process ID"),
        (&["--pid", "4194304"], "invalid --pid '4194304': there is no such process"),
        (&["--pid", "1", never], "invalid --pid: it cannot be used with PROGRAM (example: punctual why --pid 1234)"),
        (&["--pid", "1", "--cpu", "0"], "--cpu"),
        (&["--pid", "1", "--samples", "100"], "--samples"),
        (&["--pid", "1", "--fail-if", "p99 > 1us"], "--fail-if"),
        (&["--pid", "1", "--duration", "0s"], "invalid --duration '0s'"),
        (&["--thread", "x"], "invalid --thread: it needs --pid (example: --pid 1234 --thread worker)"),
        (&["--cpu", "0", never], "--cpu"),
        (&["--policy", "fifo:40", never], "--policy"),
        (&["--duration", "1s", never], "--duration"),
        (&["--for", "100us", never], "--for"),
        (&["--json", "-", never], "stdout belongs to the program"),
        (&["-o", "/dev/stdout", never], "stdout belongs to the program"),
        (&["--json", "/no/such/folder/why.json", never], "/no/such/folder/why.json"),
        (&["--path", "sched_yeild"], "invalid --path 'sched_yeild': expected a way to wait or to yield"),
        (&["--pid", "1", "--path", "sched_yield"], "--path"),
        (&["--path", "sched_yield", "--slack", "1ns"], "--slack"),
        (&["--path", "sched_yield", "--thread", "x"], "invalid --path: it cannot be used with --thread"),
        (
            &["--path", "nanosleep", "--for", "1h"],
            "invalid --for '1h': a path takes dozens of waits; expected at most 1s",
        ),
        (&["--redact"], "invalid --redact: it takes a program (example: punctual why --redact --pid 1234)"),
        (&["--path"], "invalid --path: a value is missing (example: --path sched_yield)"),
        (&["--no-such-option", never], "invalid --no-such-option: punctual why has no such option"),
        (&["--for", "0ns"], "invalid --for '0ns'"),
        (&["--fail-if", "p99 of usleep > 1us"], "usleep"),
    ];
    for (args, said) in cases {
        let left = output(&[&["why"], *args].concat());
        let stderr = text(&left.stderr);
        assert_eq!(left.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(said) && left.stdout.is_empty(), "{args:?}: {stderr}");
        assert!(
            !stderr.contains("No such file or directory (os error 2)") || args[0] == "--json",
            "{args:?}: {stderr}"
        );
    }
}

#[test]
fn a_thread_and_a_zombie_are_no_processes_to_watch() {
    let mut zombie = Running::sh("exit 0");
    punctual_testing::until("it ends", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", zombie.pid())).unwrap();
        stat.contains(") Z ")
    });
    let left = output(&["why", "--pid", &zombie.pid()]);
    assert_eq!(left.status.code(), Some(2));
    assert!(text(&left.stderr).contains("sh has ended"), "{}", text(&left.stderr));
    zombie.0.wait().unwrap();
    // kthreadd, where this machine shows it.
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        let left = output(&["why", "--pid", "2"]);
        assert_eq!(left.status.code(), Some(2));
        assert!(text(&left.stderr).contains("kthreadd is a kernel thread"), "{}", text(&left.stderr));
    }
}
