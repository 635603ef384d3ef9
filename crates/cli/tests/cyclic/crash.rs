//! What is left of a run that ends badly: killed at any moment, or on a full disk.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use punctual_linux::signal::heed_what_ends_a_program;
use punctual_record::Run;
use punctual_testing::{eventually, needs_root, skip};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::run_so_far;

/// A long run that keeps its state in a folder.
fn cyclic(state: &Path) -> Command {
    // Whoever runs the tests in the background may ignore SIGINT, and so would it.
    heed_what_ends_a_program().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(["cyclic", "--duration", "1h", "--policy", "other", "--no-causes"]);
    with_state(&mut command, state);
    command
}

fn with_state(command: &mut Command, state: &Path) {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("PUNCTUAL_LOCK_NAMESPACE", "").env("XDG_STATE_HOME", state).env("LC_ALL", "C.UTF-8");
}

fn journal(state: &Path, child: &Child) -> PathBuf {
    eventually("the run so far", || run_so_far(state, child))
}

fn read(file: &Path) -> Option<Run> {
    let bytes = std::fs::read(file).ok()?;
    // Each time the file is there it is whole.
    Some(Run::from_json(&bytes[..]).unwrap())
}

fn wake_ups(run: &Run) -> u64 {
    run.series.iter().map(|series| series.summary.count).sum()
}

/// How often the measuring threads have waited: a cycle is a wait. The start takes some more.
fn waits(child: &Child) -> u64 {
    let tasks = PathBuf::from(format!("/proc/{}/task", child.id()));
    let of_thread = |task: PathBuf| {
        let status = std::fs::read_to_string(task.join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
        field("Name:").filter(|name| name.starts_with("cyclic/"))?;
        field("voluntary_ctxt_switches:")?.parse::<u64>().ok()
    };
    tasks.read_dir().unwrap().filter_map(|task| of_thread(task.unwrap().path())).sum()
}

/// Waits of all threads beside their cycles.
const BESIDE: u64 = 100;

/// A version of the file is collected after the one before got its name. So the last one has all that was measured when the one before
/// the one before was the newest: no clock is needed to say how much a kill may lose.
#[test]
fn a_kill_at_any_moment_leaves_a_whole_run_of_a_moment_before() {
    let mut random = std::process::id();
    for _ in 0..4 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let state = tempfile::tempdir().unwrap();
        let mut child = cyclic(state.path()).spawn().unwrap();
        let file = journal(state.path(), &child);
        // The newest versions, each with the waits when it was seen last.
        let mut versions: Vec<(u64, u64)> = Vec::new();
        let moment = Duration::from_millis(u64::from(random >> 16) % 900);
        let mut three = None;
        eventually("three versions, and a random moment later", || {
            // In this order: they had waited so often when this version was the newest.
            let waits = waits(&child);
            let now = (wake_ups(&read(&file)?), waits);
            match versions.last_mut() {
                Some(last) if last.0 == now.0 => *last = now,
                _ => versions.push(now),
            }
            if versions.len() >= 3 {
                three.get_or_insert_with(std::time::Instant::now);
            }
            three.filter(|at| at.elapsed() >= moment)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let left = read(&file).expect("it is there");
        let older = versions.iter().rev().filter(|seen| seen.0 < wake_ups(&left)).nth(1).expect("two are older");
        assert!(!left.complete && wake_ups(&left) >= versions.last().unwrap().0);
        assert!(wake_ups(&left) + BESIDE >= older.1, "{} of {older:?}, {versions:?}", wake_ups(&left));
        // The writing that was cut short goes with the next run.
        std::fs::write(file.with_extension("part"), "{").unwrap();
        let mut next = cyclic(state.path()).spawn().unwrap();
        eventually("the next run", || read(&journal(state.path(), &next)));
        assert!(!file.with_extension("part").exists() && !file.exists());
        kill_process(Pid::from_child(&next), Signal::INT).unwrap();
        next.wait().unwrap();
    }
}

#[test]
fn a_disk_that_fills_up_is_named_and_nothing_written_is_lost() {
    if !needs_root("a mount namespace") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [state, result, said] = ["state", "run.json", "said"].map(|name| folder.path().join(name));
    std::fs::create_dir(&state).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "mount -t tmpfs -o size=2m punctual \"$0\" || exit 77; exec \"$@\""]).arg(&state);
    let cyclic = cyclic(&state);
    command.arg(cyclic.get_program()).args(cyclic.get_args()).arg("--json").arg(&result);
    with_state(&mut command, &state);
    let mut child = command.stderr(File::create(&said).unwrap()).spawn().unwrap();
    // The same process all the way, in a name space of its own.
    let inside = PathBuf::from(format!("/proc/{}/root{}", child.id(), state.display()));
    let file = journal(&inside, &child);
    let before = eventually("the run so far", || {
        if child.try_wait().unwrap().is_some() {
            return Some(None);
        }
        read(&file).map(Some)
    });
    let Some(before) = before else {
        return skip(&format!("no tmpfs of its own: {}", std::fs::read_to_string(&said).unwrap()));
    };
    let filler = inside.join("filler");
    let mut full = File::create(&filler).unwrap();
    while full.write_all(&[0; 4096]).is_ok() {}
    drop(full);
    let says = |what: &str| {
        let said = std::fs::read_to_string(&said).unwrap();
        said.contains(what).then_some(said)
    };
    let warned = eventually("its word", || says("No space left on device"));
    assert!(
        warned.contains("warning: the run so far cannot be written to ") && warned.contains("measuring goes on"),
        "{warned}"
    );
    let kept = read(&file).expect("what was written stays");
    assert!(wake_ups(&kept) >= wake_ups(&before));
    // It is said once, and the wake-ups go on.
    let waited = waits(&child);
    eventually("a second of further wake-ups", || (waits(&child) > waited + 1000).then_some(()));
    assert_eq!(says("No space left").unwrap().matches("No space left").count(), 1);
    std::fs::remove_file(&filler).unwrap();
    eventually("that it is written again", || says("again"));
    assert!(wake_ups(&read(&file).unwrap()) > wake_ups(&kept));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap();
    assert!(wake_ups(&read(&result).unwrap()) + BESIDE >= waited);
}
