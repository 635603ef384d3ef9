//! [`ThreadState`]: what a thread has of one condition, with all that restoring it takes.

use std::time::Duration;

use punctual_linux::sched::{self, Attributes};

use super::policy::Scheduling;
use super::set::{Refused, of_another_thread};
use super::surroundings::{Reason, Surroundings};
use super::{Condition, Thread, Value, cpu, nice, slice, timer_slack};
use crate::cpu_set::CpuSet;
use crate::need::Need;
use crate::policy::Policy;
use crate::restore::NotRestored;

const BITS: usize = u64::BITS as usize;
/// Words of a CPU mask, enough for 2048 CPUs.
const MASK: usize = 32;

/// What a thread has of one of its conditions. A guard restores it when it is dropped.
///
/// As words, it fits into memory that several processes share: another process can restore it after this one was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadState(State);

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// In ns; 0 under a real-time policy since Linux 6.13.
    TimerSlack(u64),
    /// In ns; absent under a policy without time slices.
    Slice(Option<u64>),
    Policy(Scheduling),
    Nice(i32),
    Cpu(CpuSet),
}

impl ThreadState {
    /// Words of a state.
    pub const WORDS: usize = 1 + MASK;

    /// What the thread of this ID has of a condition now; 0 is the calling thread.
    ///
    /// # Errors
    /// The condition is none of a thread, or the kernel does not tell.
    #[allow(clippy::result_large_err, reason = "a refusal is the same type everywhere")]
    pub fn read(condition: Condition, tid: i32) -> Result<Self, Refused> {
        let thread = Thread::with_id(tid);
        let state = match condition {
            _ if condition == Condition::TIMER_SLACK => timer_slack::current(thread).map(State::TimerSlack),
            _ if condition == Condition::SLICE => slice::current(thread).map(State::Slice),
            _ if condition == Condition::POLICY => Scheduling::read(thread).map(State::Policy),
            _ if condition == Condition::NICE => sched::nice(thread.id()).map(State::Nice),
            _ if condition == Condition::CPU => cpu::allowed(thread).map(State::Cpu),
            _ => {
                let why = "it is no condition of a thread";
                return Err(Refused::new(condition, None, Reason::new(why, Need::NoRequest)));
            }
        };
        let explained = |error: punctual_linux::Error| {
            let of_other = of_another_thread(&error, thread, &Surroundings::read());
            of_other.unwrap_or_else(|| Reason::new(&error, Need::Unknown).errno(error.errno()))
        };
        state.map(Self).map_err(|error| Refused::new(condition, None, explained(error)))
    }

    /// The value of the condition; absent where it has none, such as a time slice under a real-time policy.
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        match &self.0 {
            State::TimerSlack(ns) => Some(Value::TimerSlack(Duration::from_nanos(*ns))),
            State::Slice(ns) => ns.map(Duration::from_nanos).map(Value::Slice),
            State::Policy(scheduling) => Policy::from_attributes(&scheduling.attributes).map(Value::Policy),
            State::Nice(nice) => Some(Value::Nice(*nice)),
            State::Cpu(cpus) => Some(Value::Cpu(cpus.clone())),
        }
    }

    /// Restores it in the thread of this ID, and returns what could not be restored.
    pub fn restore(&self, tid: i32) -> Vec<NotRestored> {
        let thread = Thread::with_id(tid);
        match &self.0 {
            State::TimerSlack(ns) => timer_slack::put_back(thread, *ns),
            State::Slice(ns) => ns.map(|ns| slice::put_back(thread, ns)).unwrap_or_default(),
            State::Policy(scheduling) => scheduling.put_back(thread),
            State::Nice(before) => nice::put_back(thread, *before),
            State::Cpu(cpus) => cpu::put_back(thread, cpus),
        }
    }

    /// What a thread with this state has to get, if another one created it after a change from `before` to `set`. Absent: it has
    /// nothing of the change.
    #[must_use]
    pub fn inherited_from(&self, before: &Self, set: &Self) -> Option<Self> {
        match (&self.0, &before.0, &set.0) {
            // The policy is reset on fork, a slack of 0 is not.
            (State::Policy(now), State::Policy(before), State::Policy(set)) => {
                let has_none = now.attributes.policy == sched::OTHER && now.slack_ns == 0 && set.slack_ns == 0;
                let value = Scheduling { slack_ns: before.slack_ns, ..now.clone() };
                (has_none && value != *now).then_some(Self(State::Policy(value)))
            }
            _ => (self == set && set != before).then(|| before.clone()),
        }
    }

    /// The state as words. Absent: a CPU of it has a number above 2047.
    #[must_use]
    pub fn to_words(&self) -> Option<[u64; Self::WORDS]> {
        let mut words = [0; Self::WORDS];
        let fill = |words: &mut [u64], kind: u64, values: &[u64]| {
            words[0] = kind;
            words[1..=values.len()].copy_from_slice(values);
        };
        match &self.0 {
            State::TimerSlack(ns) => fill(&mut words, 0, &[*ns]),
            State::Slice(ns) => fill(&mut words, 1, &[u64::from(ns.is_some()), ns.unwrap_or(0)]),
            State::Policy(Scheduling { attributes: now, slack_ns }) => {
                let (policy, priority) = (now.policy.into(), now.priority.into());
                let nice = now.nice.cast_unsigned().into();
                let times = [now.runtime_ns, now.deadline_ns, now.period_ns];
                fill(&mut words, 2, &[policy, now.flags, nice, priority, times[0], times[1], times[2], *slack_ns]);
            }
            State::Nice(nice) => fill(&mut words, 3, &[nice.cast_unsigned().into()]),
            State::Cpu(cpus) => {
                words[0] = 4;
                for cpu in cpus.iter() {
                    *words[1..].get_mut(cpu / BITS)? |= 1 << (cpu % BITS);
                }
            }
        }
        Some(words)
    }

    /// The state from its words; absent for what are none.
    #[must_use]
    pub fn from_words(words: &[u64; Self::WORDS]) -> Option<Self> {
        let signed = |word: u64| (word as u32).cast_signed();
        let [kind, rest @ ..] = words;
        Some(Self(match kind {
            0 => State::TimerSlack(rest[0]),
            1 => State::Slice((rest[0] != 0).then_some(rest[1])),
            2 => State::Policy(Scheduling {
                attributes: Attributes {
                    size: sched::SIZE,
                    policy: rest[0] as u32,
                    flags: rest[1],
                    nice: signed(rest[2]),
                    priority: rest[3] as u32,
                    runtime_ns: rest[4],
                    deadline_ns: rest[5],
                    period_ns: rest[6],
                },
                slack_ns: rest[7],
            }),
            3 => State::Nice(signed(rest[0])),
            4 => State::Cpu((0..MASK * BITS).filter(|cpu| rest[cpu / BITS] >> (cpu % BITS) & 1 == 1).collect()),
            _ => return None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::conditions::{Applied, Conditions};

    /// Calls `work` with the ID of a thread that waits meanwhile.
    fn beside_a_thread(work: impl FnOnce(i32)) {
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(sched::current_thread_id()).unwrap();
            let _ = ended.recv();
        });
        work(told.recv().unwrap());
        drop(end);
        thread.join().unwrap();
    }

    /// Sets `value` in another thread, and restores it by words, as another process would. Returns a refusal.
    fn set_and_restored(value: &Value) -> Option<Refused> {
        let mut outcome = None;
        beside_a_thread(|tid| {
            let condition = value.condition();
            let read = || ThreadState::read(condition, tid).unwrap();
            let own = Conditions::inspect();
            let before = match ThreadState::read(condition, tid) {
                Ok(before) => before,
                Err(refused) => return outcome = Some(refused),
            };
            let Applied { guard, refused } = Conditions::new().with(value.clone()).allow_irreversible().apply_to(tid);
            if let Some(refused) = refused.into_iter().next() {
                drop(guard);
                assert_eq!(read(), before, "a refused change is undone");
                return outcome = Some(refused);
            }
            assert_eq!(guard.applied().value(condition), Some(value));
            assert_eq!(guard.lost(), []);
            assert_eq!(Conditions::inspect(), own, "the calling thread stays as it is");
            let set = read();
            assert_ne!(set, before);
            guard.leave_in_force();
            let words = before.to_words().unwrap();
            let left = ThreadState::from_words(&words).unwrap().restore(tid);
            if condition == Condition::NICE && !punctual_testing::is_root() && !left.is_empty() {
                // A plain user may raise a nice value, and not lower it again.
                return assert!(left.iter().all(|left| left.needs == Need::EndOfProcess), "{left:?}");
            }
            assert_eq!(left, []);
            assert_eq!(read(), before);
            let Applied { guard, refused } = Conditions::new().with(value.clone()).allow_irreversible().apply_to(tid);
            assert_eq!((refused, read()), (Vec::new(), set));
            assert_eq!(guard.restore(), []);
            assert_eq!(read(), before);
        });
        outcome
    }

    #[test]
    fn each_condition_of_another_thread_is_set_and_restored() {
        let _alone = punctual_testing::alone_on_this_machine();
        let cpus = cpu::current(Thread::Calling).unwrap();
        let values = [
            Value::TimerSlack(Duration::from_nanos(1)),
            Value::Slice(Duration::from_micros(300)),
            Value::Policy(Policy::Batch),
            Value::Policy(Policy::Fifo(1)),
            Value::Nice(5),
            Value::Cpu(CpuSet::from_iter([cpus.as_slice()[0]])),
        ];
        for value in values {
            match (&value, set_and_restored(&value)) {
                (_, None) => {}
                (Value::Slice(_), Some(refused)) if matches!(refused.needs, Need::Linux(..)) => {
                    punctual_testing::lacks(punctual_testing::Lack::Linux(6, 12));
                }
                (_, Some(refused)) => {
                    assert!(matches!(refused.needs, Need::OtherThread(_) | Need::RealTimeAllowed(_)), "{refused:?}");
                    punctual_testing::skip(&refused.to_string());
                }
            }
        }
    }

    #[test]
    fn the_memory_of_another_thread_and_a_thread_that_is_gone_are_refused() {
        beside_a_thread(|tid| {
            let Applied { guard, refused } = Conditions::new().lock_memory().apply_to(tid);
            assert_eq!(refused[0].needs, Need::OwnProcess);
            assert!(!guard.grants(Condition::LOCK_MEMORY));
        });
        let (gone, slack) = (i32::MAX, Duration::from_nanos(1));
        let Applied { guard: _guard, refused } =
            Conditions::new().timer_slack(slack).slice(slack).nice(5).policy(Policy::Batch).cpu(0).apply_to(gone);
        let refused: Vec<Condition> = refused.iter().map(|refused| refused.condition).collect();
        // A thread without a slice may get a policy that has one; that is known only at the end.
        let all = [Condition::TIMER_SLACK, Condition::CPU, Condition::NICE, Condition::POLICY, Condition::SLICE];
        assert_eq!(refused, all);
        assert_eq!(ThreadState::read(Condition::SLICE, gone).unwrap_err().condition, Condition::SLICE);
        assert!(ThreadState::read(Condition::DMA_LATENCY, 0).is_err());
    }

    #[test]
    fn a_new_thread_inherits_what_is_set_and_nothing_else() {
        let [before, set, other] = [50_000, 1, 7].map(|ns| ThreadState(State::TimerSlack(ns)));
        assert_eq!(set.inherited_from(&before, &set), Some(before.clone()));
        assert_eq!(other.inherited_from(&before, &set), None, "its own");
        assert_eq!(set.inherited_from(&set, &set), None, "as before");
        // The policy is reset on fork; a slack of 0 is not.
        let scheduled = |policy, slack_ns| {
            let attributes = Attributes { policy, ..Attributes::default() };
            ThreadState(State::Policy(Scheduling { attributes, slack_ns }))
        };
        let (was, fifo) = (scheduled(sched::OTHER, 50_000), scheduled(sched::FIFO, 0));
        assert_eq!(scheduled(sched::OTHER, 0).inherited_from(&was, &fifo), Some(was.clone()));
        assert_eq!(was.inherited_from(&was, &fifo), None);
    }

    #[test]
    fn words_are_the_state_again() {
        let attributes = Attributes { nice: -5, runtime_ns: 7, flags: 1, size: sched::SIZE, ..Attributes::default() };
        let states = [
            State::TimerSlack(50_000),
            State::Slice(None),
            State::Slice(Some(0)),
            State::Policy(Scheduling { attributes, slack_ns: 3 }),
            State::Nice(-20),
            State::Cpu(CpuSet::from_iter([0, 63, 64, 2047])),
        ];
        for state in states.map(ThreadState) {
            assert_eq!(ThreadState::from_words(&state.to_words().unwrap()), Some(state));
        }
        assert_eq!(ThreadState(State::Cpu(CpuSet::from_iter([2048]))).to_words(), None);
        assert_eq!(ThreadState::from_words(&[9; ThreadState::WORDS]), None);
    }
}
