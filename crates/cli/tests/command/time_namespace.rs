//! `why` in a time namespace: there the clocks of programs are off those that stamp the kernel's events.

use punctual_record::{Causes, Run};
use punctual_testing::{Lack, lacks, needs_root};
use tempfile::TempDir;

use crate::support::{Left, punctual};

/// Clocks that are a day ahead, and two.
const AHEAD: [&str; 6] = ["--time", "--monotonic", "86400", "--boottime", "172800", "--fork"];

/// Whether such a namespace can be made here.
fn can_be_made() -> bool {
    if !needs_root("a time namespace") {
        return false;
    }
    let made = std::path::Path::new("/proc/self/ns/time").exists();
    if !made {
        lacks(Lack::File("/proc/self/ns/time"));
    }
    made
}

/// Runs the command in the namespace; it writes its run to the file.
fn inside(args: &[&str]) -> Left {
    let command = punctual(args);
    let mut outer = std::process::Command::new("unshare");
    outer.args(AHEAD).arg(command.get_program()).args(command.get_args());
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.output().expect("unshare starts").into()
}

/// The causes that it wrote there, and how long it took; none where the kernel refuses its events.
fn causes(folder: &TempDir, left: &Left) -> Option<(Causes, u64)> {
    if left.stderr.contains("the kernel's events are refused") {
        lacks(Lack::Events);
        return None;
    }
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    let run = Run::from_slice(&std::fs::read(folder.path().join("run.json")).unwrap()).unwrap();
    Some((run.causes.expect("causes"), run.elapsed_ns))
}

#[test]
fn own_waits_are_split_whatever_their_clock() {
    if !can_be_made() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (json, trace) = (path("run.json"), path("trace.json"));
    let methods =
        ["clock_nanosleep", "clock_nanosleep_abs", "clock_nanosleep_boottime", "clock_nanosleep_abs_boottime"];
    let options = ["--for", "1ms", "--samples", "40", "--rounds", "2", "--no-keep", "--json", &json, "--trace", &trace];
    let left = inside(&[&["wait", "--why"], &methods[..], &options].concat());
    let Some((causes, took_ns)) = causes(&folder, &left) else { return };
    assert!(causes.wake_ups > 0 && causes.split > 0, "{causes:?}");
    // A clock taken for another would make waits a day late, or none.
    assert!(causes.calls.iter().all(|call| call.late.max_ns < took_ns), "{causes:?}");
    let trace = std::fs::read_to_string(trace).unwrap();
    assert!(trace.contains("\"late: "), "{}", left.stderr);
}

#[test]
fn a_program_is_watched_from_within_and_from_outside() {
    if !can_be_made() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("run.json");
    let json = json.to_str().unwrap();
    let watch = ["why", "--full", "--no-keep", "--json", json, "--"];
    let outside =
        punctual(&[&watch[..], &["unshare"], &AHEAD[..], &["sleep", "0.02"]].concat()).output().unwrap().into();
    for left in [inside(&[&watch[..], &["sleep", "0.02"]].concat()), outside] {
        let Some((causes, took_ns)) = causes(&folder, &left) else { return };
        assert!(causes.wake_ups > 0, "{causes:?}");
        assert!(causes.calls.iter().all(|call| call.late.max_ns < took_ns), "{causes:?}");
        if let Some(budget) = &causes.budget {
            assert!(budget.threads.iter().all(|thread| thread.wall_ns < took_ns), "{budget:?}");
            assert!(budget.threads.iter().any(|thread| thread.thread == "sleep"), "{budget:?}");
        }
    }
}
