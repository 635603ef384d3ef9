//! Results that cannot be written, and missing readers.

use std::process::Stdio;

use crate::commands::{Kind, Subject};
use crate::sandbox::{HANGS, Left, Scene};
use crate::table::{Depth, Fault, No, Tried};

pub(crate) const FAULTS: &[Fault] = &[
    Fault { name: "ENOSPC", quick: &["wait", "merge"], attempt: no_space },
    Fault { name: "EIO in the first file", quick: &["calibrate"], attempt: first_file },
    Fault { name: "EDQUOT in every file", quick: &[], attempt: every_file },
    Fault { name: "stdout closed", quick: &["wait", "run"], attempt: closed },
    Fault { name: "the reader is gone", quick: &["wait", "compare"], attempt: no_reader },
    Fault { name: "stdout is full", quick: &["wait"], attempt: full },
];

/// A full disk is known before anything is measured: room is reserved.
fn no_space(subject: &Subject, _: Depth) -> Tried {
    if subject.kind == Kind::Runs {
        return Err(No::NotHere);
    }
    let scene = Scene::new();
    let out = scene.out_folder();
    let mount =
        format!("mount --make-rprivate / && mount -t tmpfs -o size=4k none {} || exit 77; exec \"$@\"", out.display());
    let left = scene.finish(&["unshare", "-m", "sh", "-c", &mount, "sh"], &subject.short())?;
    if left.code() == Some(77) || left.stderr.starts_with("unshare") {
        return Err(No::Skipped(format!("no mount namespace here: {}", left.stderr.trim())));
    }
    scene.nothing_left()?;
    left.must(left.code() == Some(1) && left.stderr.contains("No space left"), "its status")?;
    left.must(!subject.measures() || left.stdout.is_empty(), "it measures although there is no room")
}

/// The first file cannot be made durable: the tables appear, and the run is kept in the state folder.
fn first_file(subject: &Subject, _: Depth) -> Tried {
    let (scene, left) = injected(subject, "inject=fsync,fdatasync:error=EIO:when=1")?;
    left.must(left.code() == Some(1) && left.stderr.contains("Input/output error"), "its status")?;
    if subject.measures() {
        left.must(!left.stdout.is_empty(), "the tables appear all the same")?;
        left.must(scene.kept_runs()? == 1, "the run is in the state folder")?;
    }
    Ok(())
}

/// No file anywhere gets its name: the tables appear.
fn every_file(subject: &Subject, _: Depth) -> Tried {
    let calls = "inject=fsync,fdatasync,rename,renameat,renameat2,linkat:error=EDQUOT";
    let (_, left) = injected(subject, calls)?;
    left.must(left.code() == Some(1) && left.stderr.contains("quota exceeded"), "its status")?;
    left.must(!subject.measures() || !left.stdout.is_empty(), "the tables appear all the same")
}

fn injected(subject: &Subject, what: &str) -> Result<(Scene, Left), No> {
    // A check-up takes minutes when it is traced.
    if subject.kind == Kind::Runs || subject.is_slow() {
        return Err(No::NotHere);
    }
    let scene = Scene::new();
    let log = scene.path().join("log").display().to_string();
    let left = scene.finish(&["strace", "-f", "-qq", "-o", &log, "-e", what], &subject.short())?;
    if !std::fs::read_to_string(&log).unwrap_or_default().contains("INJECTED") {
        return Err(No::Skipped(format!("strace injected nothing: {}", left.stderr.trim())));
    }
    scene.nothing_left()?;
    Ok((scene, left))
}

fn closed(subject: &Subject, _: Depth) -> Tried {
    let scene = Scene::new();
    // `run` says nothing by itself; what echo(1) makes of it is its own business.
    let left = scene.finish(&["sh", "-c", "exec \"$@\" >&-", "sh"], &subject.short())?;
    scene.nothing_left()?;
    let told = left.code() == Some(1) && left.stderr.contains("stdout is closed");
    left.must(left.code() == Some(0) || told || subject.kind == Kind::Runs, "its status")?;
    if subject.measures() {
        left.must(scene.written_run()?.is_some(), "the run is written")?;
    }
    Ok(())
}

fn no_reader(subject: &Subject, _: Depth) -> Tried {
    let scene = Scene::new();
    // A limit that is exceeded, and one that noise hides or exceeds: either verdict outlives the reader.
    let (gate, statuses): (&[&str], &[i32]) = match subject.name {
        "wait" => (&["--fail-above", "p50=1ns"], &[3]),
        "compare" => (&["--fail-if", "any +0.0001%"], &[3, 4]),
        _ => (&[], &[0]),
    };
    let words = [&subject.short()[..], gate].concat();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = scene.command(&[], &words);
    let left = scene.start_as(command.stdout(Stdio::from(writer)))?.left(HANGS)?;
    scene.nothing_left()?;
    match subject.kind {
        Kind::Runs => Ok(()),
        _ => left.must(left.code().is_some_and(|code| statuses.contains(&code)), "its status"),
    }
}

fn full(subject: &Subject, _: Depth) -> Tried {
    if subject.kind == Kind::Runs || matches!(subject.name, "report" | "merge") {
        return Err(No::NotHere);
    }
    let scene = Scene::new();
    let full = std::fs::File::options().write(true).open("/dev/full");
    let full = full.map_err(|e| No::Skipped(format!("/dev/full: {e}")))?;
    let mut command = scene.command(&[], &subject.short());
    let left = scene.start_as(command.stdout(full))?.left(HANGS)?;
    scene.nothing_left()?;
    left.must(left.code() == Some(1) && left.stderr.contains("No space left"), "its status")?;
    left.must(!subject.measures() || scene.written_run()?.is_some(), "the run is written all the same")
}
