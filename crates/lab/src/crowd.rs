//! A crowd: busy programs that compete for one CPU. Their own progress proves that they ran.
//!
//! The input is a number of competitors, their [`CompetitorKind`] and their conditions. The output is a [`Crowd`] that works
//! or rests on request. Each member, a process or a thread, increments a word of its own, alone on its cache line, in memory
//! shared with the caller. The caller reads the words before and after a measurement, outside the timed part. Counting costs
//! the caller nothing, because a member counts only while it has the CPU.
//!
//! Members never outlive the run. Processes die with the thread that started them (parent-death signal), and check from time
//! to time that their parent lives. Threads check a flag. A member under a real-time policy works in short bursts
//! ([`Restraint`]), so that it cannot monopolise the CPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use punctual::conditions::{Applied, Conditions};
use punctual_linux as linux;
use punctual_linux::child::Child;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::futex::{self, Scope};
use punctual_linux::memory::{CacheLine, Shared};
use punctual_record::experiment::yielding::CompetitorKind;
use punctual_record::remedy::of_refused;
use punctual_record::{Ask, Hint, Series};

use crate::frame::{Failure, Unavailable};

/// Most members of a crowd. With more, a share of the CPU is too small to measure.
pub const MOST: u32 = 64;
/// Longest time for the crowd to start or stop before it is a failure. A niced member on a CPU with a real-time load
/// may wait for seconds.
const PATIENCE_NS: i64 = 10_000_000_000;
/// Shortest time over which shares of the CPU are told, for each program that takes part. A slice lasts up to two ticks of
/// the kernel, some 10 ms at 100 Hz and 8 ms at 250 Hz; one slice more or less is then no more than a part of the share.
const SHARES_NS: i64 = 20_000_000;

/// Who had the CPU for a time: the caller and its competitors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) elapsed_ns: i64,
    pub(crate) own_ns: i64,
    pub(crate) competitors_ns: i64,
}

impl Shares {
    pub(crate) fn add(&mut self, more: Self) {
        self.elapsed_ns += more.elapsed_ns;
        self.own_ns += more.own_ns;
        self.competitors_ns += more.competitors_ns;
    }

    /// The share of the caller; `None` where no time passed.
    pub(crate) fn own(&self) -> Option<f64> {
        (self.elapsed_ns != 0).then(|| self.own_ns as f64 / self.elapsed_ns as f64)
    }

    /// That of the competitors.
    pub(crate) fn competitors(&self) -> Option<f64> {
        (self.elapsed_ns != 0).then(|| self.competitors_ns as f64 / self.elapsed_ns as f64)
    }

    /// Whether they were measured for several slices of this many programs. Within a slice either side has the whole CPU.
    pub(crate) fn show(&self, programs: u32) -> bool {
        self.elapsed_ns >= SHARES_NS * i64::from(programs)
    }

    /// Enters the shares of each round. That of the caller is absent where a round was shorter than some slices.
    pub(crate) fn enter(of_rounds: &[Self], programs: u32, series: &mut Series) {
        for (round, shares) in series.rounds.iter_mut().zip(of_rounds) {
            round.competitor_cpu_share = shares.competitors();
            round.own_cpu_share = shares.own().filter(|_| shares.show(programs));
        }
    }
}

/// Interval of checks whether it has started or stopped.
const LOOK: Duration = Duration::from_micros(300);
/// Busy programs on one CPU.
#[derive(Debug)]
pub struct Crowd {
    members: Vec<Member>,
    lines: Shared<[Line]>,
    control: Shared<Control>,
    working: usize,
}

impl Crowd {
    /// Starts `count` members, all at rest. They die with the calling thread.
    ///
    /// # Errors
    /// If the kernel starts no process, or refuses the conditions: without them the figures would be those of another
    /// case.
    pub fn gather(
        kind: CompetitorKind,
        count: u32,
        conditions: &Conditions,
        restraint: Restraint,
    ) -> Result<Self, Failure> {
        let failed = |error: linux::Error| {
            let why = format!("starting {count} competitors: {error}");
            Unavailable::but(why, "ask for fewer, or raise ulimit -u or the cgroup's pids.max")
        };
        let lines = Shared::<[Line]>::slice(count.max(1) as usize).map_err(failed)?;
        let control = Shared::<Control>::new().map_err(failed)?;
        let mut crowd = Self { members: Vec::new(), lines, control, working: 0 };
        for index in 0..count {
            let (lines, control) = (crowd.lines.clone(), crowd.control.clone());
            let work = move |lives: &dyn Fn() -> bool| {
                perform(restraint, index, &lines[index as usize], &control, lives);
            };
            let member = match kind {
                CompetitorKind::Process => process_member(conditions, work),
                CompetitorKind::Thread => thread_member(conditions, work),
            };
            crowd.members.push(member.map_err(failed)??);
        }
        Ok(crowd)
    }

    /// Lets the first `count` members work and the others rest, and waits until all have followed.
    pub fn set_working(&mut self, count: u32) -> Result<(), Failure> {
        self.working = (count as usize).min(self.members.len());
        if self.control.0.0.swap(self.working as u32, Ordering::AcqRel) == self.working as u32 {
            return Ok(());
        }
        // It fails only for an unmapped address.
        drop(futex::wake(&self.control.0.0, u32::MAX, Scope::Shared));
        let before: Vec<u64> = self.lines.iter().map(|line| line.0.0.load(Ordering::Relaxed)).collect();
        let begin = now_ns(Clock::Monotonic);
        while !self.has_settled(&before) {
            if linux::stop::requested() {
                return Err(Failure::Stopped);
            }
            self.all_alive()?;
            if now_ns(Clock::Monotonic) - begin > PATIENCE_NS {
                let why = format!(
                    "within 10 s not all of {count} competitors got the CPU: something of higher priority holds it"
                );
                return Err(Unavailable::but(why, Ask::AnotherCpu).into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn has_settled(&self, before: &[u64]) -> bool {
        self.lines.iter().zip(before).take(self.members.len()).enumerate().all(|(index, (line, before))| {
            let state = line.0.1.load(Ordering::Acquire);
            if index < self.working {
                state == WORKING && line.0.0.load(Ordering::Relaxed) != *before
            } else {
                state == RESTING
            }
        })
    }

    /// The words of the working members, for reading their progress between measurements.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines[..self.working]
    }

    /// CPU time of the working members so far.
    pub fn cpu_ns(&self) -> Result<i64, Failure> {
        let failed = |error: linux::Error| Unavailable::because(error.to_string()).into();
        self.members[..self.working].iter().map(Member::cpu_ns).sum::<linux::Result<i64>>().map_err(failed)
    }

    /// CPU time of all members so far, as far as the kernel reports it.
    #[must_use]
    pub fn cpu_ns_of_all(&self) -> u64 {
        self.members.iter().filter_map(|m| m.cpu_ns().ok()).map(i64::unsigned_abs).sum()
    }

    /// Checks that no member has died: figures without it would be those of another case.
    pub fn all_alive(&mut self) -> Result<(), Failure> {
        let died = |how: String| {
            let why = format!("{how} in the middle of the measurement");
            let remedy = "leave the processes named punctual-busy alone; was it the OOM killer (dmesg)?";
            Unavailable::but(why, remedy).into()
        };
        self.members.iter_mut().try_for_each(|member| member.alive().map_err(died))
    }

    /// Process ids of those members that are processes.
    #[must_use]
    pub fn process_ids(&self) -> Vec<i32> {
        self.members.iter().filter_map(Member::process_id).collect()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.control.0.1.store(1, Ordering::Release);
        self.control.0.0.store(0, Ordering::Release);
        drop(futex::wake(&self.control.0.0, u32::MAX, Scope::Shared));
        // The members' own drops kill or join them.
    }
}

/// The sum of the members' progress. Read it outside the timed part.
#[inline]
pub(crate) fn progress(lines: &[Line]) -> u64 {
    lines.iter().fold(0, |sum, line| sum.wrapping_add(line.0.0.load(Ordering::Relaxed)))
}

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
            Self::Thread { id, .. } => linux::clock::cpu_time_of_thread_ns(*id),
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
fn process_member(
    conditions: &Conditions,
    work: impl FnOnce(&dyn Fn() -> bool) + 'static,
) -> linux::Result<Result<Member, Failure>> {
    let parent = std::process::id();
    let lives = move || std::os::unix::process::parent_id() == parent && !linux::child::deadline_passed();
    Ok(child_under(NAME, conditions, move || work(&lives))?.map(Member::Process))
}

/// A member that is a thread.
fn thread_member(
    conditions: &Conditions,
    work: impl FnOnce(&dyn Fn() -> bool) + Send + 'static,
) -> linux::Result<Result<Member, Failure>> {
    let conditions = conditions.clone().allow_irreversible();
    let ended = Arc::new(AtomicBool::new(false));
    let its_end = Arc::clone(&ended);
    let (tell, told) = channel();
    let handle = std::thread::Builder::new().name(NAME.into()).spawn(move || {
        let Applied { guard: _guard, refused } = conditions.apply();
        let refused = refused.into_iter().next();
        let go_on = refused.is_none();
        drop(tell.send((linux::sched::current_thread_id(), refused)));
        if go_on {
            work(&|| !linux::child::deadline_passed());
        }
        its_end.store(true, Ordering::Release);
    });
    let handle = handle.map_err(|e| linux::Error::from_errno("pthread_create", e.raw_os_error().unwrap_or(0)))?;
    Ok(match told.recv() {
        Ok((id, None)) => Ok(Member::Thread { id, ended, handle: Some(handle) }),
        Ok((_, Some(refused))) => Err(refusal(refused.to_string(), of_refused(&refused))),
        Err(_) => Err(Unavailable::because("the competitor thread ended before it began").into()),
    })
}

fn refusal(why: String, remedy: impl Into<Hint>) -> Failure {
    Unavailable::but(format!("a competitor was refused: {why}"), remedy).into()
}

/// Leaves a text for another process. What does not fit is cut.
pub(crate) fn write_text(place: &[AtomicU8], text: &str) {
    let bytes = text.bytes().chain(std::iter::once(0));
    place.iter().zip(bytes).for_each(|(place, byte)| place.store(byte, Ordering::Relaxed));
}

/// The text that another process left.
pub(crate) fn read_text(place: &[AtomicU8]) -> String {
    let bytes = place.iter().map(|byte| byte.load(Ordering::Relaxed)).take_while(|byte| *byte != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

/// Applies the conditions in a child until it ends, and reports the result. False: refused.
pub(super) fn settle(conditions: &Conditions, complaint: &Complaint) -> bool {
    let Applied { guard, refused } = conditions.clone().allow_irreversible().apply();
    if let Some(refused) = refused.first() {
        write_text(&complaint.1[0], &refused.to_string());
        write_text(&complaint.1[1], &of_refused(refused).to_string());
    }
    complaint.0.store(if refused.is_empty() { SETTLED } else { REFUSED }, Ordering::Release);
    drop(futex::wake(&complaint.0, 1, Scope::Shared));
    // The conditions hold until the process ends.
    std::mem::forget(guard);
    refused.is_empty()
}

/// Waits until the child has applied its conditions.
pub(super) fn await_settled(mut child: Child, complaint: &Complaint) -> Result<Child, Failure> {
    let impossible = |why: String| Failure::from(Unavailable::because(why));
    loop {
        match complaint.0.load(Ordering::Acquire) {
            SETTLED => return Ok(child),
            REFUSED => {
                let [why, remedy] = complaint.1.each_ref().map(|text| read_text(text));
                return Err(refusal(why, remedy));
            }
            _ => {}
        }
        if linux::stop::requested() {
            return Err(Failure::Stopped);
        }
        match child.ended() {
            Ok(None) => {}
            Ok(Some(ended)) => return Err(impossible(format!("a competitor {ended} before it began"))),
            Err(error) => return Err(impossible(error.to_string())),
        }
        let look_again = now_ns(Clock::Monotonic) + 10_000_000;
        drop(futex::wait(&complaint.0, 0, Scope::Shared, Some(look_again)));
    }
}

/// The main loop of a member.
fn perform(restraint: Restraint, index: u32, line: &Line, control: &Control, parent_lives: &dyn Fn() -> bool) {
    let (progress, state) = &line.0;
    let (wanted, end) = &control.0;
    while end.load(Ordering::Acquire) == 0 && parent_lives() {
        let seen = wanted.load(Ordering::Acquire);
        if index < seen {
            state.store(WORKING, Ordering::Release);
            work(restraint, index, progress, wanted, parent_lives);
        } else {
            state.store(RESTING, Ordering::Release);
            drop(futex::wait(wanted, seen, Scope::Shared, Some(now_ns(Clock::Monotonic) + LOOK_NS)));
        }
    }
}

/// Counts until asked to rest, or until the parent is gone.
fn work(restraint: Restraint, index: u32, progress: &AtomicU64, wanted: &AtomicU32, parent_lives: &dyn Fn() -> bool) {
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

/// Longest uninterrupted work of a restrained member: a tick of 1000 Hz.
pub(crate) const BURST: Duration = Duration::from_millis(1);

/// The restraint of a member after each `BURST` of work: it must not monopolise the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restraint {
    /// No restraint: the scheduler shares the CPU.
    None,
    /// It sleeps for the length of a burst.
    Sleeps,
    /// It yields to threads of its own priority. Its caller must let it rest from time to time.
    Yields,
}

/// A member's words: its progress, and whether it works.
pub(crate) type Line = CacheLine<(AtomicU64, AtomicU32)>;

/// The number of members that work, and whether all end.
pub(crate) type Control = CacheLine<(AtomicU32, AtomicU32)>;

/// A member's report once it has applied its conditions: the outcome, and the reason and the remedy of a refusal.
pub(crate) type Complaint = (AtomicU32, [[AtomicU8; 1000]; 2]);

/// Outcomes; 0 before there is one.
const SETTLED: u32 = 1;
const REFUSED: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Within a slice either side has the whole CPU: such a round says nothing of shares.
    #[test]
    fn a_round_shorter_than_some_slices_has_no_shares() {
        let made = |ms: i64, programs| {
            let shares = Shares { elapsed_ns: ms * 1_000_000, own_ns: ms * 250_000, competitors_ns: ms * 500_000 };
            (shares.own().filter(|_| shares.show(programs)), shares.competitors())
        };
        assert_eq!(made(40, 2), (Some(0.25), Some(0.5)));
        assert_eq!(
            (made(39, 2), made(40, 3), made(60, 3)),
            ((None, Some(0.5)), (None, Some(0.5)), (Some(0.25), Some(0.5)))
        );
        assert_eq!(made(0, 2), (None, None));
    }
}
