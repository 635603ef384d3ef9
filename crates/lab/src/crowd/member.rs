//! One member of a crowd: a counting loop, as a process or as a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use punctual::conditions::{Conditions, Refused};
use punctual_linux as linux;
use punctual_linux::child::Child;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::futex::{self, Scope};
use punctual_linux::shared::Shared;

use super::terms::{BURST, Complaint, Control, Line, Restraint};
use crate::frame::{Failure, Unavailable};

/// States of a member; 0: not started yet.
pub(super) const RESTING: u32 = 1;
pub(super) const WORKING: u32 = 2;

/// Its name in `ps` and `top`.
const NAME: &str = "punctual-busy";
/// The rest of a member between two checks that its parent lives.
const LOOK_NS: i64 = 1_000_000_000;
/// Steps between two checks of the control word: about a microsecond.
const STEPS: u32 = 1000;
/// Checks of the control word per check that the parent lives: some milliseconds of work.
const LOOKS: u32 = 4096;

/// A member.
#[derive(Debug)]
pub(super) enum Member {
    Process(Child),
    Thread { id: i32, ended: Arc<AtomicBool>, handle: Option<JoinHandle<()>> },
}

impl Member {
    pub(super) fn cpu_ns(&self) -> linux::Result<i64> {
        match self {
            Self::Process(child) => child.cpu_ns(),
            Self::Thread { id, .. } => linux::usage::cpu_time_of_thread_ns(*id),
        }
    }

    /// An error that says how it ended.
    pub(super) fn alive(&mut self) -> Result<(), String> {
        match self {
            Self::Process(child) => match child.ended() {
                Ok(None) => Ok(()),
                Ok(Some(ended)) => Err(format!("competitor process {} {ended}", child.id())),
                Err(error) => Err(format!("competitor process {} cannot be asked: {error}", child.id())),
            },
            Self::Thread { id, ended, .. } if ended.load(Ordering::Acquire) => {
                Err(format!("competitor thread {id} ended"))
            }
            Self::Thread { .. } => Ok(()),
        }
    }

    pub(super) fn process_id(&self) -> Option<i32> {
        match self {
            Self::Process(child) => Some(child.id()),
            Self::Thread { .. } => None,
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Self::Thread { handle, .. } = self {
            // A thread sees the end in the control word within microseconds of its CPU time. A panic was printed
            // already.
            drop(handle.take().map(JoinHandle::join));
        }
    }
}

/// Runs `work` in a child process under these conditions. A refusal by the kernel is a failure.
pub(crate) fn child_under(
    name: &str,
    conditions: &Conditions,
    work: impl FnOnce() + 'static,
) -> linux::Result<Result<Child, Failure>> {
    let complaint = Shared::<Complaint>::new()?;
    let (theirs, conditions) = (complaint.clone(), conditions.clone());
    let child = Child::spawn(name, move || {
        if settle(&conditions, &theirs) {
            work();
        }
    })?;
    Ok(await_settled(child, &complaint))
}

/// A member that is a process.
pub(super) fn process(
    index: u32,
    lines: &Shared<[Line]>,
    control: &Shared<Control>,
    (conditions, restraint): (&Conditions, Restraint),
) -> linux::Result<Result<Member, Failure>> {
    let (lines, control) = (lines.clone(), control.clone());
    let parent = std::process::id();
    let child = child_under(NAME, conditions, move || {
        perform(restraint, index, &lines[index as usize], &control, || {
            std::os::unix::process::parent_id() == parent && !linux::deadline::passed()
        });
    })?;
    Ok(child.map(Member::Process))
}

/// A member that is a thread.
pub(super) fn thread(
    index: u32,
    lines: &Shared<[Line]>,
    control: &Shared<Control>,
    (conditions, restraint): (&Conditions, Restraint),
) -> linux::Result<Result<Member, Failure>> {
    let (lines, control) = (lines.clone(), control.clone());
    let conditions = conditions.clone().allow_irreversible();
    let ended = Arc::new(AtomicBool::new(false));
    let its_end = Arc::clone(&ended);
    let (tell, told) = channel();
    let handle = std::thread::Builder::new().name(NAME.into()).spawn(move || {
        let guard = conditions.apply();
        let refused = guard.refused().first().cloned();
        let go_on = refused.is_none();
        drop(tell.send((linux::sched::current_thread_id(), refused)));
        if go_on {
            perform(restraint, index, &lines[index as usize], &control, || !linux::deadline::passed());
        }
        its_end.store(true, Ordering::Release);
    });
    let handle = handle.map_err(|e| linux::Error::from_errno("pthread_create", e.raw_os_error().unwrap_or(0)))?;
    Ok(match told.recv() {
        Ok((id, None)) => Ok(Member::Thread { id, ended, handle: Some(handle) }),
        Ok((_, Some(refused))) => Err(refusal(&refused)),
        Err(_) => Err(Unavailable::because("the competitor thread ended before it began").into()),
    })
}

fn refusal(refused: &Refused) -> Failure {
    Unavailable::but(format!("a competitor was refused: {refused}"), refused.remedy.clone()).into()
}

/// Applies the conditions in a child until it ends, and reports the result. False: refused.
pub(super) fn settle(conditions: &Conditions, complaint: &Complaint) -> bool {
    let guard = conditions.clone().allow_irreversible().apply();
    let refused = guard.refused().first().map(|r| format!("{r}\n{}", r.remedy));
    let text = refused.clone().unwrap_or_default();
    let length = text.len().min(complaint.1.len());
    for (place, byte) in complaint.1.iter().zip(text.bytes()) {
        place.store(byte, Ordering::Relaxed);
    }
    // Length + 1: 0 means no report yet.
    complaint.0.store(length as u32 + 1, Ordering::Release);
    drop(futex::wake(&complaint.0, 1, Scope::Shared));
    // The conditions hold until the process ends.
    std::mem::forget(guard);
    refused.is_none()
}

/// Waits until the child has applied its conditions.
pub(super) fn await_settled(mut child: Child, complaint: &Complaint) -> Result<Child, Failure> {
    let impossible = |why: String, remedy: Option<String>| Failure::from(Unavailable { why, remedy });
    loop {
        let said = complaint.0.load(Ordering::Acquire);
        if said == 1 {
            return Ok(child);
        }
        if said > 1 {
            let bytes: Vec<u8> = complaint.1[..said as usize - 1].iter().map(|b| b.load(Ordering::Relaxed)).collect();
            let text = String::from_utf8_lossy(&bytes);
            let (why, remedy) = text.split_once('\n').unwrap_or((&text, ""));
            return Err(impossible(format!("a competitor was refused: {why}"), Some(remedy.to_owned())));
        }
        if linux::stop::requested() {
            return Err(Failure::Stopped);
        }
        match child.ended() {
            Ok(None) => {}
            Ok(Some(ended)) => return Err(impossible(format!("a competitor {ended} before it began"), None)),
            Err(error) => return Err(impossible(error.to_string(), None)),
        }
        let look_again = now_ns(Clock::Monotonic) + 10_000_000;
        drop(futex::wait(&complaint.0, 0, Scope::Shared, Some(look_again)));
    }
}

/// The main loop of a member.
fn perform(restraint: Restraint, index: u32, line: &Line, control: &Control, parent_lives: impl Fn() -> bool) {
    let (progress, state) = &line.0;
    let (wanted, end) = &control.0;
    while end.load(Ordering::Acquire) == 0 && parent_lives() {
        let seen = wanted.load(Ordering::Acquire);
        if index < seen {
            state.store(WORKING, Ordering::Release);
            work(restraint, index, progress, wanted, &parent_lives);
        } else {
            state.store(RESTING, Ordering::Release);
            drop(futex::wait(wanted, seen, Scope::Shared, Some(now_ns(Clock::Monotonic) + LOOK_NS)));
        }
    }
}

/// Counts until asked to rest, or until the parent is gone.
fn work(restraint: Restraint, index: u32, progress: &AtomicU64, wanted: &AtomicU32, parent_lives: &impl Fn() -> bool) {
    let mut count = progress.load(Ordering::Relaxed);
    let mut looks = 0;
    let burst_ns = BURST.as_nanos() as i64;
    let mut rest_at = now_ns(Clock::Monotonic) + burst_ns;
    while wanted.load(Ordering::Relaxed) > index {
        for _ in 0..STEPS {
            count = count.wrapping_add(1);
            progress.store(count, Ordering::Relaxed);
        }
        looks += 1;
        if u32::is_multiple_of(looks, LOOKS) && !parent_lives() {
            return;
        }
        if restraint != Restraint::None && now_ns(Clock::Monotonic) >= rest_at {
            if !parent_lives() {
                return;
            }
            match restraint {
                Restraint::Sleeps => std::thread::sleep(BURST),
                Restraint::None | Restraint::Yields => std::thread::yield_now(),
            }
            rest_at = now_ns(Clock::Monotonic) + burst_ns;
        }
    }
}
