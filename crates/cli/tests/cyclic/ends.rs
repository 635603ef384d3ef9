//! How a run ends: by signals, limits, without its reader, without rights; and what it lets go.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::time::Duration;

use punctual_testing::{as_plain_user, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Left, ours, run, shape};

fn started(arguments: &[&str]) -> Child {
    ours(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits until it has printed that it runs.
fn runs(child: &mut Child) {
    let mut line = String::new();
    BufReader::with_capacity(1, child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("# punctual"), "{line}");
    std::thread::sleep(Duration::from_millis(200));
}

#[test]
fn a_signal_ends_it_with_the_result_and_status_0() {
    for which in [Signal::INT, Signal::TERM] {
        let mut child = started(&["-q", "-t2", "-h", "3"]);
        runs(&mut child);
        signal(&child, which);
        let left = Left::from(child.wait_with_output().unwrap());
        assert_eq!(left.code, Some(0), "{}", left.stderr);
        assert!(left.stdout.contains("# Histogram Overflows:"), "{}", left.stdout);
    }
}

#[test]
fn it_shows_its_figures_when_asked() {
    let mut child = started(&["-q"]);
    runs(&mut child);
    signal(&child, Signal::USR1);
    signal(&child, Signal::USR2);
    let status = format!("/dev/shm/cyclictest{}", child.id());
    let said =
        eventually("the status file", || std::fs::read_to_string(&status).ok().filter(|text| text.contains("T: 0")));
    assert!(said.starts_with("#---------------------------\n# cyclictest current status:\nT: 0 ("), "{said}");
    signal(&child, Signal::INT);
    let left = Left::from(child.wait_with_output().unwrap());
    assert!(left.stderr.contains("# cyclictest current status:\nT: 0 ("), "{}", left.stderr);
    assert!(!std::path::Path::new(&status).exists());
}

#[test]
fn a_named_pipe_gives_the_figures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let mut child = started(&["-q", "-F", path.to_str().unwrap()]);
    runs(&mut child);
    let mut read = String::new();
    std::fs::File::open(&path).unwrap().read_to_string(&mut read).unwrap();
    assert!(read.starts_with("T: 0 ("), "{read}");
    signal(&child, Signal::INT);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
    assert!(!path.exists());
}

#[test]
fn it_ends_with_its_reader() {
    let mut child = started(&["-v"]);
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_file_that_cannot_be_written_is_refused() {
    for file in ["--json=/nonexistent/file", "--histfile=/nonexistent/file"] {
        let left = run(ours(&["-q", "-l", "2", "-h", "10", file]));
        assert_eq!((left.code, left.stdout.as_str()), (Some(2), ""), "{}", left.stderr);
        assert!(left.stderr.contains("'/nonexistent/file'"), "{}", left.stderr);
    }
}

#[test]
fn a_full_disk_loses_the_text_and_not_the_run() {
    let begin = std::time::Instant::now();
    let mut command = ours(&["-i", "1000", "-l", "300", "--policy=other"]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let left = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert!(begin.elapsed() >= std::time::Duration::from_millis(300), "it ended at the first error");
    assert_eq!(left.status.code(), Some(1));
    assert_eq!(String::from_utf8(left.stderr).unwrap().matches("writing to stdout").count(), 1, "it is said once");
}

#[test]
fn a_named_pipe_gets_the_json_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    let left = run(ours(&["-q", "-l", "2", &format!("--json={}", pipe.display())]));
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert!(reader.join().unwrap().contains("\"num_threads\": 1"));
}

#[test]
fn the_json_has_the_keys_of_cyclictest_and_no_other() {
    let left = run(ours(&["-q", "-t2", "-h", "100000", "-l", "5", "--json=-"]));
    let begin = left.stdout.find('{').unwrap();
    let end = left.stdout.find("\n}\n").unwrap() + 2;
    let json: serde_json::Value = serde_json::from_str(&left.stdout[begin..end]).unwrap();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(
        keys(&json),
        "cmdline: end_time file_version num_threads resolution_in_ns return_code rt_test_version: start_time sysinfo thread"
    );
    assert_eq!(keys(&json["sysinfo"]), "machine nodename realtime release sysname version");
    assert_eq!(keys(&json["thread"]["1"]), "avg cpu cycles histogram max min node");
    let counts = json["thread"]["0"]["histogram"].as_object().unwrap().values().map(|count| count.as_u64().unwrap());
    assert_eq!(counts.sum::<u64>(), json["thread"]["0"]["cycles"].as_u64().unwrap());
    assert_eq!(json["rt_test_version:"], "2.40");
}

#[test]
fn causes_go_to_a_file_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("causes.json");
    let line = ["-q", "-t2", "-i", "500", "-l", "300", "--json=-"];
    let mut command = ours(&line);
    command.env("PUNCTUAL_CAUSES", &file);
    let left = run(command);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert!(left.stderr.contains("# The worst of "), "{}", left.stderr);
    assert_eq!(shape(&left.stdout), shape(&run(ours(&line)).stdout), "nothing else is on stdout");
    let record = punctual_record::Run::from_json(&std::fs::read(&file).unwrap()[..]).unwrap();
    for (series, (interval_ns, line)) in record
        .series
        .iter()
        .zip([500_000, 1_000_000].into_iter().zip(left.stdout.lines().filter(|line| line.starts_with("T:"))))
    {
        assert_eq!(series.experiment.cyclic().unwrap().parameters.interval_ns, interval_ns);
        // Theirs are whole microseconds.
        let max_us: i64 = line.rsplit("Max:").next().unwrap().trim().parse().unwrap();
        assert_eq!(series.summary.max, Some(max_us * 1000), "{line}");
    }
    assert_eq!(record.series.len(), 2);
    let refused = |name: &str| {
        let mut command = ours(&["-q", "-l", "2"]);
        command.env("PUNCTUAL_CAUSES", name);
        run(command)
    };
    assert!(refused("-").stderr.contains("invalid PUNCTUAL_CAUSES: stdout has the figures"));
    assert_ne!(refused("/nonexistent/file").code, Some(0));
    assert!(!run(ours(&["-q", "-l", "2"])).stderr.contains("The worst of"));
}

#[test]
fn a_plain_user_measures_and_hears_why_a_priority_is_refused() {
    if !as_plain_user("ends::a_plain_user_measures_and_hears_why_a_priority_is_refused") {
        return;
    }
    let program = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_punctual"));
        command.arg("cyclic").args(arguments).stdin(Stdio::null());
        run(command)
    };
    let other = program(&["-q", "-l", "3"]);
    assert_eq!(other.code, Some(0), "{}", other.stderr);
    let fifo = program(&["-q", "-l", "3", "-p", "80"]);
    assert_eq!(fifo.code, Some(1), "{}", fifo.stderr);
    assert!(fifo.stderr.contains("Unable to change scheduling policy!"), "{}", fifo.stderr);
}
