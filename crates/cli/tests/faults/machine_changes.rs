//! Changes of the machine during a run: a CPU goes offline and returns, or another program occupies it. The kernel lab
//! sets the clock.

use std::time::{Duration, Instant};

use punctual::{Applied, Conditions, Policy};
use punctual_linux::child::Child;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::sched::affinity;
use punctual_testing::Lack;

use crate::commands::{Kind, Subject};
use crate::sandbox::{HANGS, Scene};
use crate::signals::libc_signal;
use crate::table::{Depth, Fault, No, Tried};

/// How long another program takes the CPU; a command that waits for it to end is seen to.
const TAKEN: Duration = Duration::from_secs(8);
/// Promised is a second.
const ALLOWED: Duration = Duration::from_secs(5);

pub(crate) const FAULTS: &[Fault] = &[
    Fault { name: "a FIFO 99 loop, SIGTERM", quick: &[], attempt: |subject, _| taken(subject, libc_signal::TERM) },
    Fault { name: "a FIFO 99 loop, SIGKILL", quick: &[], attempt: |subject, _| taken(subject, libc_signal::KILL) },
    Fault { name: "a CPU goes and comes", quick: &[], attempt: offline },
];

/// A program that holds `cpu` under FIFO 99, whatever happens not longer than it should.
fn hog(cpu: usize) -> Result<Child, No> {
    let (told, tell) = std::io::pipe().unwrap();
    let hog = Child::spawn("hog", move || {
        use rustix::process::{Resource, Rlimit, setrlimit};
        use std::io::Write as _;
        let most = (TAKEN + Duration::from_secs(1)).as_micros() as u64;
        let _ = setrlimit(Resource::Rttime, Rlimit { current: Some(most), maximum: Some(most) });
        let end = now_ns(Clock::Monotonic) + TAKEN.as_nanos() as i64;
        let Applied { guard: _guard, refused } =
            Conditions::new().policy(Policy::Fifo(99)).cpu(cpu).allow_irreversible().apply();
        let _ = (&tell).write_all(if refused.is_empty() { b"y" } else { b"n" });
        while refused.is_empty() && now_ns(Clock::Monotonic) < end {
            std::hint::spin_loop();
        }
    });
    let hog = hog.map_err(|e| No::Wrong(e.to_string()))?;
    let mut word = [0];
    std::io::Read::read_exact(&mut (&told), &mut word).unwrap();
    if word == *b"y" { Ok(hog) } else { Err(No::Skipped("SCHED_FIFO is refused here".into())) }
}

fn taken(subject: &Subject, signal: i32) -> Tried {
    if !subject.measures() {
        return Err(No::NotHere);
    }
    let cpus = affinity(0).unwrap();
    let ([_, .., last], scene) = (&cpus[..], Scene::new()) else {
        return Err(No::Lacks(Lack::Cpus(2)));
    };
    let mut started = scene.start(&[], &subject.long())?;
    started.heeds_signals();
    let hog = hog(*last)?;
    std::thread::sleep(Duration::from_millis(300));
    let begin = Instant::now();
    started.send(signal);
    let left = started.left(ALLOWED);
    let nothing = left.is_ok().then(|| scene.nothing_left());
    let took = begin.elapsed();
    drop(hog);
    let left = left?;
    nothing.transpose()?;
    if took > ALLOWED {
        return Err(No::Late(format!("what it started ended {took:?} after signal {signal}")));
    }
    left.must(signal == libc_signal::KILL || left.code() == Some(143), "its status")
}

/// A CPU that is taken offline, and brought back however this ends.
struct Offline(String);

impl Offline {
    fn new(cpu: usize) -> Result<Self, No> {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        match std::fs::write(&file, "0") {
            Ok(()) => Ok(Self(file)),
            Err(e) => Err(No::Skipped(format!("{file}: {e}"))),
        }
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        std::fs::write(&self.0, "1").expect("the CPU comes back");
    }
}

fn offline(subject: &Subject, depth: Depth) -> Tried {
    if subject.kind == Kind::Reads || depth == Depth::Quick {
        return Err(No::NotHere);
    }
    let cpus = affinity(0).unwrap();
    let [_, .., last] = cpus[..] else { return Err(No::Lacks(Lack::Cpus(2))) };
    let scene = Scene::new();
    let mut started = scene.start(&[], &subject.long())?;
    started.heeds_signals();
    let gone = Offline::new(last)?;
    std::thread::sleep(Duration::from_millis(300));
    drop(gone);
    // It may end by itself, with a reason. Otherwise it runs until the test ends it.
    if !started.ends_within(Duration::from_millis(500)) {
        started.send(libc_signal::TERM);
    }
    let left = started.left(HANGS)?;
    scene.nothing_left()?;
    left.must(matches!(left.code(), Some(0 | 1 | 143)), "its status")?;
    left.must(!left.stderr.contains("panicked"), "it panicked")
}
