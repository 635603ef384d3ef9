//! The guardian: a process that puts the program's settings back when this one ends, however that happens, or stands still.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_linux::child::Child;
use punctual_linux::child::ParentDeath;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::memory::Shared;
use punctual_linux::sched::{self, Attributes, RESET_ON_FORK};
use rustix::process::setsid;

use super::remedy::PRIORITY;
use super::saved::Saved;
use super::thread::Family;

/// Its name in `ps`.
const NAME: &str = "punctual-guard";
/// From one look at the deadline to the next.
const LOOK: Duration = Duration::from_millis(100);

/// States: it waits; it also may set and leave real-time policies.
const WAITS: u64 = 1;
const WAITS_REAL_TIME: u64 = 2;

/// Words: the state, when the trial must be over, how often it was not.
const STATE: usize = 0;
const DEADLINE: usize = 1;
const OVERDUE: usize = 2;

/// The process. Killed on drop, when this one has put everything back.
#[derive(Debug)]
pub(super) struct Guardian {
    child: Child,
    shared: Shared<[AtomicU64; 3]>,
}

impl Guardian {
    /// Starts it. It acts when the calling thread ends. `real_time`: it may run under a real-time policy.
    pub(super) fn start(saved: &Saved, family: &Family, real_time: bool) -> punctual_linux::Result<Self> {
        let shared = Shared::<[AtomicU64; 3]>::new()?;
        let (theirs, saved, family) = (shared.clone(), saved.clone(), family.clone());
        // The calling thread may have a lower one to read events, which a child inherits.
        let nice = sched::nice(std::process::id().cast_signed());
        let mut child = Child::spawn(NAME, move || {
            // It must survive a signal to the process group.
            if setsid().is_ok()
                && let Ok(death) = ParentDeath::instead_of_own()
            {
                if let Ok(nice) = nice {
                    let _ = sched::set_nice(0, nice);
                }
                let state = if real_time && takes_precedence() { WAITS_REAL_TIME } else { WAITS };
                theirs[STATE].store(state, Ordering::SeqCst);
                watch(&death, &theirs, &saved, &family);
            }
        })?;
        while shared[STATE].load(Ordering::SeqCst) == 0 && child.ended()?.is_none() {
            std::thread::yield_now();
        }
        Ok(Self { child, shared })
    }

    /// Whether it is there.
    pub(super) fn waits(&mut self) -> bool {
        matches!(self.child.ended(), Ok(None))
    }

    /// Whether it runs before threads under the real-time policy of the trial, and can end that policy.
    pub(super) fn takes_precedence(&self) -> bool {
        self.shared[STATE].load(Ordering::SeqCst) == WAITS_REAL_TIME
    }

    /// A trial begins, which is over after this time.
    pub(super) fn expect(&self, within: Duration) {
        let ns = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        self.shared[DEADLINE].store(now().saturating_add(ns), Ordering::SeqCst);
    }

    /// The trial is over. Returns whether it was in time; otherwise the settings were put back before.
    pub(super) fn over(&self) -> bool {
        self.shared[DEADLINE].store(0, Ordering::SeqCst);
        self.shared[OVERDUE].swap(0, Ordering::SeqCst) == 0
    }
}

fn watch(death: &ParentDeath, shared: &[AtomicU64; 3], saved: &Saved, family: &Family) {
    while !death.wait_for(LOOK) {
        let deadline = shared[DEADLINE].load(Ordering::SeqCst);
        if deadline > 0 && now() > deadline {
            saved.put_back(family);
            shared[OVERDUE].store(1, Ordering::SeqCst);
            shared[DEADLINE].store(0, Ordering::SeqCst);
        }
    }
    saved.put_back(family);
}

/// Puts the calling process above the priority of the trial. A privilege that allows the policy and not its end (RLIMIT_RTPRIO) does not
/// do: SCHED_FLAG_RESET_ON_FORK could not be put back.
fn takes_precedence() -> bool {
    let fifo = Attributes { policy: sched::FIFO, priority: u32::from(PRIORITY) + 1, ..Attributes::default() };
    [RESET_ON_FORK, 0].into_iter().all(|flags| sched::set_attributes(0, &Attributes { flags, ..fifo }).is_ok())
}

fn now() -> u64 {
    now_ns(Clock::Monotonic).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_nice_value_of_the_process_and_not_that_of_the_reader() {
        let process = sched::nice(std::process::id().cast_signed()).unwrap();
        let start = move || {
            if sched::set_nice(0, -20).is_err() {
                return None;
            }
            let family = Family::so_far(std::process::id().cast_signed());
            let guardian = Guardian::start(&Saved::new().unwrap(), &family, false).unwrap();
            Some(sched::nice(guardian.child.id()).unwrap())
        };
        match std::thread::spawn(start).join().unwrap() {
            Some(nice) => assert_eq!(nice, process),
            None => punctual_testing::lacks(punctual_testing::Lack::Capability("CAP_SYS_NICE", 23)),
        }
    }
}
