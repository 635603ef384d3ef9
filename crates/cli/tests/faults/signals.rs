//! Signals, and a second run.

use std::hash::{BuildHasher as _, RandomState};
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use crate::commands::{Kind, SUBJECTS, Subject};
use crate::sandbox::{SOON, Scene};
use crate::table::{Depth, Fault, No, Tried};

/// Kills altogether in the whole table, and in its cut.
const KILLS: (usize, usize) = (500, 20);

pub(crate) const FAULTS: &[Fault] = &[
    Fault { name: "killed at any moment", quick: &["wait", "yield", "ipc", "run"], attempt: killed },
    Fault { name: "SIGTERM, SIGINT, SIGHUP", quick: &["yield", "ipc"], attempt: asked_to_end },
    Fault { name: "every other signal", quick: &["why --pid"], attempt: signalled },
    Fault { name: "SIGTSTP, SIGCONT", quick: &["why --"], attempt: stopped },
    Fault { name: "ignored CHLD, PIPE, HUP", quick: &["ipc", "run"], attempt: ignoring },
    Fault { name: "a second run", quick: &["polls"], attempt: second },
];

fn killed(subject: &Subject, depth: Depth) -> Tried {
    let times = depth.choose(KILLS.1 / 4, KILLS.0.div_ceil(SUBJECTS.len()));
    // A command that measures is somewhere else after a millisecond than after half a second. One that reads is over soon.
    let longest = if subject.kind == Kind::Reads { 40_000 } else { 600_000 };
    for _ in 0..times {
        let scene = Scene::new();
        let mut started = scene.start(&[], &subject.long())?;
        std::thread::sleep(Duration::from_micros(RandomState::new().hash_one(0) % longest));
        started.send(libc_signal::KILL);
        if subject.kind == Kind::Runs && started.ends_within(SOON) {
            // The program goes on without its starter, as with chrt(1) and nice(1).
            scene.end_program(&started);
        }
        started.left(SOON)?;
        scene.nothing_left()?;
        if subject.measures() {
            scene.written_run()?;
        }
    }
    Ok(())
}

fn asked_to_end(subject: &Subject, _: Depth) -> Tried {
    for (signal, code) in [(libc_signal::TERM, 143), (libc_signal::INT, 130), (libc_signal::HUP, 129)] {
        let scene = Scene::new();
        let mut started = scene.start(&[], &subject.long())?;
        started.heeds_signals();
        started.send(signal);
        let left = started.left(SOON)?;
        scene.nothing_left()?;
        match subject.kind {
            Kind::Reads => left.must(left.code() == Some(0) || left.status.signal() == Some(signal), "its status")?,
            _ => left.must(left.code() == Some(code), "its status")?,
        }
        if subject.measures() {
            let run = scene.written_run()?;
            left.must(run.is_none_or(|run| !run.complete), "a run cut short says so")?;
        }
    }
    Ok(())
}

fn signalled(subject: &Subject, depth: Depth) -> Tried {
    let asked = [libc_signal::KILL, libc_signal::TERM, libc_signal::INT, libc_signal::HUP];
    let stops = [libc_signal::STOP, libc_signal::CONT, 20, 21, 22];
    // SIGUSR1 and SIGPIPE stand for the others.
    let all = (1..32).filter(|signal| !asked.contains(signal) && !stops.contains(signal));
    for signal in all.filter(|signal| depth == Depth::Whole || [10, 13].contains(signal)) {
        let scene = Scene::new();
        let mut started = scene.start(&[], &subject.long())?;
        std::thread::sleep(Duration::from_millis(250));
        started.send(signal);
        // One that is ignored or handled leaves it running.
        let ended = started.ends_within(Duration::from_millis(300));
        if !ended {
            started.send(libc_signal::TERM);
        }
        if subject.kind == Kind::Runs && started.ended_by(signal, SOON) {
            // The program goes on without its starter, and has its streams.
            scene.end_program(&started);
        }
        let left = started.left(SOON)?;
        scene.nothing_left()?;
        let by = |signal: i32| left.status.signal() == Some(signal) || left.code() == Some(128 + signal);
        let read = subject.kind == Kind::Reads && left.code() == Some(0);
        left.must(read || by(signal) || by(libc_signal::TERM), &format!("its status after signal {signal}"))?;
    }
    Ok(())
}

/// A command that was stopped goes on, and ends as ever.
fn stopped(subject: &Subject, _: Depth) -> Tried {
    if subject.kind == Kind::Reads {
        return Err(No::NotHere);
    }
    let scene = Scene::new();
    let mut started = scene.start(&[], &subject.long())?;
    started.heeds_signals();
    for signal in [20, libc_signal::CONT, libc_signal::TERM] {
        started.send(signal);
        std::thread::sleep(Duration::from_millis(200));
    }
    let left = started.left(SOON)?;
    scene.nothing_left()?;
    left.must(left.code() == Some(128 + libc_signal::TERM), "its status")
}

fn ignoring(subject: &Subject, _: Depth) -> Tried {
    let scene = Scene::new();
    let left = scene.finish(&["env", "--ignore-signal=CHLD,PIPE,HUP"], &subject.short())?;
    scene.nothing_left()?;
    left.must(left.code() == Some(0), "its status")?;
    if subject.measures() {
        left.must(scene.written_run()?.is_some(), "the run is written")?;
    }
    Ok(())
}

fn second(subject: &Subject, _: Depth) -> Tried {
    if !subject.measures() {
        return Err(No::NotHere);
    }
    let scene = Scene::new();
    let first = scene.start(&[], &subject.long())?;
    scene.is_locked();
    let refused = scene.finish(&[], &[subject.short(), vec!["--no-wait"]].concat())?;
    refused
        .must(refused.code() == Some(1) && refused.stderr.contains("is in use by punctual"), "the second is refused")?;
    let mut waiting = scene.start(&[], &subject.short())?;
    if waiting.ends_within(Duration::from_millis(500)) {
        let left = waiting.left(SOON)?;
        return left.must(false, "the second did not wait for the first");
    }
    first.send(libc_signal::KILL);
    first.left(SOON)?;
    let left = waiting.left(crate::sandbox::HANGS)?;
    left.must(left.code() == Some(0), "the second runs when the first is gone")?;
    if !left.stderr.contains("waiting for CPU") {
        return Err(No::Late("the second began when the first was gone".into()));
    }
    scene.nothing_left()
}

/// Signals by number, as all architectures that this project knows have them.
pub(crate) mod libc_signal {
    pub(crate) const HUP: i32 = 1;
    pub(crate) const INT: i32 = 2;
    pub(crate) const KILL: i32 = 9;
    pub(crate) const TERM: i32 = 15;
    pub(crate) const CONT: i32 = 18;
    pub(crate) const STOP: i32 = 19;
}
