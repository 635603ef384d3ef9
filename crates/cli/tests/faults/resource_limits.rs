//! Too few descriptors, too little memory, no further process.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;

use crate::commands::{Kind, Subject};
use crate::sandbox::{Left, Scene};
use crate::table::{Depth, Fault, No, Tried};

/// A user who owns nothing.
const NOBODY: u32 = 12_347;
/// SIGABRT: how a Rust program ends that gets no memory.
const ABORTED: i32 = 6;
/// SIGSEGV: how the kernel ends a program whose stack it may not let grow.
const NO_STACK: i32 = 11;

pub(crate) const FAULTS: &[Fault] = &[
    Fault { name: "3 to 20 descriptors", quick: &["ipc"], attempt: descriptors },
    Fault { name: "little memory", quick: &[], attempt: memory },
    Fault { name: "no locked memory", quick: &[], attempt: locked_memory },
    Fault { name: "fork refused", quick: &["yield"], attempt: processes },
];

/// It measured, or said why not; it neither panicked nor was it killed.
fn done_or_explained(left: &Left) -> Tried {
    left.must(!left.stderr.contains("panicked"), "it panicked")?;
    match left.code() {
        Some(0) => Ok(()),
        Some(1 | 2 | 125..=127) => left.must(!left.stderr.is_empty(), "it failed and said nothing"),
        _ => left.must(false, "its status"),
    }
}

/// A run that says that it succeeded is whole.
fn written(scene: &Scene, subject: &Subject, left: &Left) -> Tried {
    if subject.measures() {
        let run = scene.written_run()?;
        left.must(left.code() != Some(0) || run.is_some(), "nothing is written, and its status says it is")?;
    }
    Ok(())
}

fn descriptors(subject: &Subject, depth: Depth) -> Tried {
    let step = depth.choose(4, if subject.is_slow() { 6 } else { 1 });
    for limit in (3..=20).step_by(step) {
        let scene = Scene::new();
        let left = scene.finish(&["prlimit", &format!("--nofile={limit}:{limit}")], &subject.short())?;
        scene.nothing_left()?;
        done_or_explained(&left).map_err(|no| at(no, &format!("{limit} descriptors")))?;
        written(&scene, subject, &left)?;
    }
    Ok(())
}

fn memory(subject: &Subject, depth: Depth) -> Tried {
    let more = depth.choose(&[8_u64][..], if subject.is_slow() { &[2, 64] } else { &[0, 1, 2, 4, 8, 16, 32, 64, 128] });
    let kinds = ["as", "data"].map(|kind| (kind, least(kind)));
    for (kind, mib) in kinds.iter().flat_map(|(kind, least)| more.iter().map(move |more| (kind, least + more))) {
        let scene = Scene::new();
        let limit = format!("--{kind}={}", mib << 20);
        let left = scene.finish(&["prlimit", &limit], &subject.short())?;
        scene.nothing_left()?;
        if !ended_without_memory(&left) {
            done_or_explained(&left).map_err(|no| at(no, &limit))?;
            written(&scene, subject, &left)?;
        }
    }
    Ok(())
}

/// Whether it ended because it got no memory, and said so. Rust's standard library says "memory allocation of 38400 bytes failed" and
/// aborts; what it does for that may need a stack that the kernel does not let grow any more. glibc says "out of memory" and aborts.
fn ended_without_memory(left: &Left) -> bool {
    let signal = left.status.signal();
    let rust_said_so = left.stderr.contains("memory allocation of ");
    let glibc_said_so = left.stderr.contains("Fatal glibc error: ") && left.stderr.contains("out of memory");
    matches!(signal, Some(ABORTED | NO_STACK)) && rust_said_so || signal == Some(ABORTED) && glibc_said_so
}

/// The least of this memory, in MiB, with which the command reads its arguments. With less, the kernel may refuse to let the stack of the
/// first thread grow, and ends the program with SIGSEGV before it can say anything.
fn least(kind: &str) -> u64 {
    let starts = |mib: &u64| {
        let mut command = std::process::Command::new("prlimit");
        command.arg(format!("--{kind}={}", mib << 20)).args([env!("CARGO_BIN_EXE_punctual"), "why", "--help"]);
        command.output().is_ok_and(|output| output.status.success())
    };
    (1..256).find(starts).unwrap_or(256)
}

fn locked_memory(subject: &Subject, _: Depth) -> Tried {
    if matches!(subject.kind, Kind::Reads | Kind::Watches)
        || matches!(subject.name, "why --" | "ramp" | "switch" | "checkup")
    {
        return Err(No::NotHere);
    }
    let scene = Scene::new();
    let mut words = subject.short();
    let at = if subject.kind == Kind::Runs { 1 } else { words.len() };
    words.insert(at, "--lock-memory");
    let left = as_nobody(&scene, &words, "--memlock=0")?;
    scene.nothing_left()?;
    left.must(left.code() == Some(0), "its status")?;
    left.must(left.stderr.contains("lock-memory") || left.stderr.contains("lock memory"), "it tells what was refused")
}

fn processes(subject: &Subject, depth: Depth) -> Tried {
    for limit in 1..=depth.choose(2, 4) {
        let scene = Scene::new();
        let left = as_nobody(&scene, &subject.short(), &format!("--nproc={limit}"))?;
        scene.nothing_left()?;
        done_or_explained(&left).map_err(|no| self::at(no, &format!("{limit} processes")))?;
        written(&scene, subject, &left)?;
    }
    Ok(())
}

/// Runs a copy of the command, which everybody may execute, as a plain user with this limit.
fn as_nobody(scene: &Scene, words: &[&str], limit: &str) -> Result<Left, No> {
    if !punctual_testing::is_root() {
        return Err(No::Skipped("only root can start a command as another user".into()));
    }
    let (_folder, copy) = punctual_testing::open_copy(std::path::Path::new(env!("CARGO_BIN_EXE_punctual")));
    for path in [scene.path().to_owned(), scene.out_folder(), scene.path().join("state")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
    // The command that is started last comes by itself: it is put in the place of this word.
    let script = "shift; exec \"$0\" \"$@\"";
    let copy = copy.display().to_string();
    let starter = ["setpriv", &user[0], &user[1], "--clear-groups", "prlimit", limit, "sh", "-c", script, &copy];
    scene.finish(&starter, words)
}

fn at(no: No, limit: &str) -> No {
    match no {
        No::Wrong(what) => No::Wrong(format!("{limit}: {what}")),
        no => no,
    }
}
