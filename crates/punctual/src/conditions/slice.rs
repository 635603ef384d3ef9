//! The time slice of a thread under SCHED_OTHER or SCHED_BATCH.
//!
//! The time slice is how long the scheduler (EEVDF) runs the thread before it considers others. A shorter slice brings the thread's
//! deadline nearer. A thread that wakes seldom and runs briefly gets the CPU earlier; a busy one is switched more often. Requires Linux
//! 6.12. Older kernels accept `sched_runtime` for these policies and ignore it, so it is read back.

use std::cell::LazyCell;
use std::time::Duration;

use punctual_linux::Error;
use punctual_linux::sched::{self, Attributes};

use super::set::{Conditions, of_another_thread};
use super::surroundings::{Reason, Surroundings};
use super::{
    Applying, Condition, Definition, Facts, Held, InvalidValue, Probe, Scope, Target, Thread, Value, not_restored,
    shown,
};
use crate::duration::parse_duration;
use crate::need::Need;
use crate::restore::NotRestored;

/// The kernel clamps a slice to this range (kernel/sched/fair.c and syscalls.c, `__setparam_fair`).
const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(100);

struct Slice;

impl Condition {
    /// `slice`.
    pub const SLICE: Self = Self(&Facts { name: "slice", scope: Scope::Thread, definition: &Slice });
}

impl Conditions {
    /// Requests a time slice of the calling thread, 100 µs to 100 ms, under SCHED_OTHER and SCHED_BATCH. Its threads
    /// and child processes inherit it.
    pub fn slice(self, slice: Duration) -> Self {
        self.with(Value::Slice(slice))
    }

    /// The time slice. Absent under other policies, and before Linux 6.12.
    #[must_use]
    pub fn get_slice(&self) -> Option<Duration> {
        let Value::Slice(duration) = self.value(Condition::SLICE)? else { return None };
        Some(*duration)
    }
}

impl Definition for Slice {
    fn parse(&self, typed: &str) -> Result<Value, InvalidValue> {
        let slice = parse_duration(typed)?;
        let fits = (SHORTEST..=LONGEST).contains(&slice);
        fits.then_some(Value::Slice(slice))
            .ok_or(InvalidValue::Expected("a duration from 100us to 100ms (example: 100us)"))
    }

    fn read(&self, target: &Target) -> Option<Value> {
        let ns = current(target.thread).ok()??;
        Some(Value::Slice(Duration::from_nanos(ns))).filter(|_| ns != 0)
    }

    fn probe(&self, _: &Target) -> Probe {
        Probe::Try(Value::Slice(Duration::from_millis(1)))
    }

    fn apply(&self, applying: &mut Applying<'_>) -> Result<(), Reason> {
        let Value::Slice(slice) = *applying.value else { return Err(Applying::read_only()) };
        let thread = applying.thread();
        let ns = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
        // Real-time policies have no slice; `settle` checks again once the requested policy is set.
        let Some(before) = fair(thread) else {
            applying.hold(OwnSlice { thread, ns, before_ns: None });
            return Ok(());
        };
        write(thread, &before, ns).map_err(|error| explain(&error, thread, applying.here))?;
        applying.hold(OwnSlice { thread, ns, before_ns: Some(before.runtime_ns) });
        verify(thread, ns)
    }
}

/// The slice that was set, and the previous one, which is absent under a policy without slices.
#[derive(Debug)]
struct OwnSlice {
    thread: Thread,
    ns: u64,
    before_ns: Option<u64>,
}

impl Held for OwnSlice {
    fn lost(&self) -> Option<String> {
        fair(self.thread).filter(|now| now.runtime_ns != self.ns).map(|now| shown(now.runtime_ns))
    }

    fn renew(&mut self, _: &LazyCell<Surroundings>) -> Result<(), Reason> {
        self.settle()
    }

    fn settle(&mut self) -> Result<(), Reason> {
        let Some(now) = fair(self.thread) else {
            return Err(Reason::new(
                "only threads under SCHED_OTHER and SCHED_BATCH have a time slice of their own",
                Need::FairPolicy,
            ));
        };
        if now.runtime_ns == self.ns {
            return Ok(());
        }
        let here = Surroundings::at_first_use();
        write(self.thread, &now, self.ns).map_err(|error| explain(&error, self.thread, &here))?;
        verify(self.thread, self.ns)
    }

    fn undo(self: Box<Self>) -> Vec<NotRestored> {
        self.before_ns.map(|before_ns| put_back(self.thread, before_ns)).unwrap_or_default()
    }
}

/// Puts the slice back; a thread whose policy has none now is left as it is.
pub(super) fn put_back(thread: Thread, before_ns: u64) -> Vec<NotRestored> {
    let Some(now) = fair(thread) else { return Vec::new() };
    let left = |why: String| vec![not_restored("slice", shown(before_ns), why)];
    // 0 requests the default. The previous value may be the default; writing it as a number would pin it.
    if let Err(error) = write(thread, &now, 0) {
        return left(error.to_string());
    }
    if fair(thread).is_some_and(|now| now.runtime_ns == before_ns) {
        return Vec::new();
    }
    match write(thread, &now, before_ns).map_err(|error| error.to_string()) {
        Ok(()) => verify(thread, before_ns).map_or_else(|reason| left(reason.why), |()| Vec::new()),
        Err(why) => left(why),
    }
}

/// The slice of a thread in ns, where its policy has slices; 0 before Linux 6.12.
pub(super) fn current(thread: Thread) -> punctual_linux::Result<Option<u64>> {
    let now = sched::attributes(thread.id())?;
    Ok(has_slice(&now).then_some(now.runtime_ns))
}

/// The attributes of a thread, if its policy has slices.
fn fair(thread: Thread) -> Option<Attributes> {
    sched::attributes(thread.id()).ok().filter(has_slice)
}

fn has_slice(now: &Attributes) -> bool {
    matches!(now.policy, sched::OTHER | sched::BATCH)
}

fn write(thread: Thread, now: &Attributes, runtime_ns: u64) -> punctual_linux::Result<()> {
    sched::set_attributes(thread.id(), &Attributes { runtime_ns, ..*now })
}

fn explain(error: &Error, thread: Thread, here: &LazyCell<Surroundings>) -> Reason {
    of_another_thread(error, thread, here)
        .unwrap_or_else(|| Reason::new(error, Need::Call("sched_setattr")).errno(error.errno()))
}

fn verify(thread: Thread, ns: u64) -> Result<(), Reason> {
    match fair(thread).map(|now| now.runtime_ns) {
        Some(now) if now == ns => Ok(()),
        None | Some(0) => Err(Reason::new("this kernel has no time slice per thread", Need::Linux(6, 12, None))),
        Some(now) => Err(Reason::new(
            format!("the kernel accepted it, but the slice is {} now", shown(now)),
            Need::SliceBetween(SHORTEST, LONGEST),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Applied;
    use crate::policy::Policy;

    /// Runs on a separate thread if the kernel has slices.
    fn on_thread(body: impl FnOnce() + Send + 'static) {
        std::thread::spawn(move || match Condition::SLICE.available() {
            Ok(()) => body(),
            Err(_) => punctual_testing::lacks(punctual_testing::Lack::Linux(6, 12)),
        })
        .join()
        .unwrap();
    }

    const SLICE: Duration = Duration::from_micros(300);

    #[test]
    fn what_is_no_slice_is_refused() {
        assert_eq!(Condition::SLICE.parse("0.1ms"), Ok(Value::Slice(SHORTEST)));
        for bad in ["99us", "101ms", "0s", "1", "x"] {
            assert!(Condition::SLICE.parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn it_is_set_read_back_lost_renewed_and_undone() {
        on_thread(|| {
            let before = sched::attributes(0).unwrap();
            let Applied { mut guard, refused } = Conditions::new().slice(SLICE).apply();
            assert_eq!(refused, []);
            assert_eq!(guard.applied().get_slice(), Some(SLICE));
            assert_eq!(guard.lost(), []);
            let child = std::thread::spawn(|| Conditions::inspect().get_slice()).join().unwrap();
            assert_eq!(child, Some(SLICE), "threads inherit it");
            sched::set_attributes(0, &Attributes { runtime_ns: 5_000_000, ..before }).unwrap();
            let lost = guard.lost();
            assert_eq!((lost[0].condition, lost[0].found.as_str()), (Condition::SLICE, "5ms"));
            assert_eq!(guard.renew(&lost), []);
            assert_eq!(guard.lost(), []);
            assert_eq!(guard.restore(), []);
            assert_eq!(sched::attributes(0).unwrap(), before);
        });
    }

    #[test]
    fn a_slice_out_of_bounds_is_clamped_by_the_kernel_and_refused_here() {
        on_thread(|| {
            let before = sched::attributes(0).unwrap();
            let Applied { guard, refused } = Conditions::new().slice(Duration::from_secs(1)).apply();
            assert!(refused[0].why.contains("100ms"), "{refused:?}");
            assert_eq!(guard.restore(), []);
            assert_eq!(sched::attributes(0).unwrap(), before);
        });
    }

    #[test]
    fn a_policy_set_later_carries_it_along() {
        on_thread(|| {
            let before = sched::attributes(0).unwrap();
            let outer = Conditions::new().slice(SLICE).apply().guard;
            let inner = Conditions::new().policy(Policy::Batch).apply().guard;
            assert_eq!(inner.applied().get_slice(), Some(SLICE));
            assert_eq!(outer.lost(), []);
            assert_eq!(inner.restore(), []);
            assert_eq!(outer.lost(), []);
            assert_eq!(outer.restore(), []);
            assert_eq!(sched::attributes(0).unwrap(), before);
            let Applied { guard: both, refused } = Conditions::new().policy(Policy::Batch).slice(SLICE).apply();
            assert_eq!((refused, both.applied().get_slice()), (Vec::new(), Some(SLICE)));
            assert_eq!(both.restore(), []);
            assert_eq!(sched::attributes(0).unwrap(), before);
        });
    }

    #[test]
    fn under_a_real_time_policy_there_is_none() {
        on_thread(|| {
            let before = sched::attributes(0).unwrap();
            let fifo = Conditions::new().policy(Policy::Fifo(1));
            if !fifo.apply().refused.is_empty() {
                return punctual_testing::skip("needs root and CAP_SYS_NICE");
            }
            let Applied { guard, refused } = fifo.clone().slice(SLICE).apply();
            assert_eq!(refused[0].condition, Condition::SLICE);
            assert_eq!(guard.restore(), []);
            assert_eq!(sched::attributes(0).unwrap(), before);
            // A nested real-time guard keeps the slice of the outer one.
            let base = Conditions::new().slice(SLICE).apply().guard;
            let variant = fifo.apply().guard;
            assert_eq!(base.lost(), []);
            assert_eq!(variant.restore(), []);
            assert_eq!(base.applied().get_slice(), Some(SLICE));
            assert_eq!(base.restore(), []);
            assert_eq!(sched::attributes(0).unwrap(), before);
        });
    }
}
