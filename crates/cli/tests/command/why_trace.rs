//! `why --trace`.

use std::process::Command;

fn why(args: &[&str]) -> std::process::Output {
    punctual(&[&["why", "--no-keep"], args].concat())
}

fn punctual(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_punctual")).args(args).env("PUNCTUAL_LOCK_NAMESPACE", "").output().unwrap()
}

#[test]
fn the_file_has_the_program_and_its_calls() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let done = why(&["--trace", file.to_str().unwrap(), "--", "sleep", "0.01"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    if said.contains("the kernel's events are refused") {
        punctual_testing::lacks(punctual_testing::Lack::Events);
        assert!(!file.exists());
        return;
    }
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let lines = trace["traceEvents"].as_array().unwrap();
    let has = |name: &str| lines.iter().any(|line| line["name"] == name);
    assert!(has("process_name") && has("clock_nanosleep") && has("exit"), "{said}");
    assert!(lines.iter().any(|line| line["name"] == "thread_name" && line["args"]["name"] == "sleep"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let (ran, absent) = (ran.to_str().unwrap(), folder.path().join("absent/trace.json"));
    let same = folder.path().join("same.json");
    let same = same.to_str().unwrap();
    for (args, said) in [
        (vec!["--trace", absent.to_str().unwrap()], "invalid --trace"),
        (vec!["--trace", "-"], "stdout belongs to the program"),
        (vec!["--trace", same, "--json", same], "is the same place"),
    ] {
        let done = why(&[&args[..], &["--", "touch", ran]].concat());
        let text = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{text}");
        assert!(text.contains(said), "{text}");
    }
    assert!(!std::path::Path::new(ran).exists());
}

#[test]
fn own_waits_are_traced_in_their_watched_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let trace = ["--trace", file.to_str().unwrap(), "--samples", "20", "--rounds", "2"];
    let cases: [&[&str]; 5] = [
        &["why", "--for", "100us"],
        &["wait", "nanosleep", "--for", "100us", "--why"],
        &["ipc", "pipe", "--size", "64", "--why"],
        &["yield", "nanosleep1", "--competitors", "0", "--why"],
        &["pace", "--tick-only", "--by", "clock_nanosleep_abs", "--rate", "2k", "--why"],
    ];
    for case in cases {
        let done = punctual(&[case, &trace, &["--no-keep"]].concat());
        let said = String::from_utf8_lossy(&done.stderr);
        if said.contains("not written, because nothing was traced") {
            assert!(!done.status.success() && !file.exists());
            return punctual_testing::lacks(punctual_testing::Lack::Events);
        }
        assert!(done.status.success() && !done.stdout.is_empty(), "{case:?}: {said}");
        let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let lines = trace["traceEvents"].as_array().unwrap();
        let named = |line: &serde_json::Value| line["name"] == "thread_name" && line["args"]["name"] == "measure";
        assert!(lines.iter().any(named), "{case:?}");
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_trace_is_of_watched_rounds_only() {
    let done = punctual(&["wait", "nanosleep", "--trace", "trace.json"]);
    assert_eq!(done.status.code(), Some(2), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(String::from_utf8_lossy(&done.stderr).contains("--why"), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(!std::path::Path::new("trace.json").exists());
}

#[test]
fn a_full_disk_is_said_and_the_status_is_the_programs() {
    let done = why(&["--trace", "/dev/full", "--", "sh", "-c", "exit 7"]);
    let text = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(7), "{text}");
    assert!(text.contains("--trace /dev/full: "), "{text}");
}
