//! The guardian, and putting back, on a process of the test.

use std::process::{Child, Command};

use punctual::CpuSet;
use punctual_linux::sched::{Attributes, BATCH, OTHER, attributes, set_attributes};

use super::*;
use punctual::conditions::{Conditions, Value};

/// A process that sleeps, and its affinity, of which a trial leaves one CPU.
struct Sleeper {
    process: Child,
    thread: Thread,
    saved: Saved,
    family: Family,
    before: ThreadState,
    set: ThreadState,
    slot: usize,
}

impl Sleeper {
    /// `None`: with one CPU there is nothing to change.
    fn start() -> Option<Self> {
        let process = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = process.id().cast_signed();
        let thread = Thread::find(pid, pid).unwrap();
        let before = ThreadState::read(Condition::CPU, pid).unwrap();
        let Some(Value::Cpu(cpus)) = before.value() else { panic!("{before:?}") };
        if cpus.len() < 2 {
            punctual_testing::lacks(punctual_testing::Lack::Cpus(2));
            end(process);
            return None;
        }
        let one = CpuSet::from_iter([cpus.as_slice()[0]]);
        let of_test = std::thread::spawn(move || {
            let _bound = Conditions::new().cpus(&one).apply().guard;
            ThreadState::read(Condition::CPU, 0).unwrap()
        });
        let set = of_test.join().unwrap();
        let saved = Saved::new().unwrap();
        saved.begin(Condition::CPU);
        let slot = saved.save(&thread, &words(&before)).unwrap();
        Some(Self { process, thread, saved, family: Family::so_far(pid), before, set, slot })
    }

    fn now(&self) -> ThreadState {
        ThreadState::read(Condition::CPU, self.thread.tid).unwrap()
    }

    fn write(&self, state: &ThreadState) {
        assert_eq!(state.restore(self.thread.tid), []);
    }
}

fn words(state: &ThreadState) -> Words {
    state.to_words().unwrap()
}

fn end(mut process: Child) {
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn what_was_set_is_put_back_once() {
    let Some(sleeper) = Sleeper::start() else { return };
    sleeper.write(&sleeper.set);
    sleeper.saved.set(sleeper.slot, &words(&sleeper.set));
    assert_eq!(sleeper.saved.put_back(&sleeper.family), []);
    assert_eq!(sleeper.now(), sleeper.before);
    // Afterwards the same value is the program's own.
    sleeper.saved.clear();
    sleeper.write(&sleeper.set);
    assert_eq!(sleeper.saved.put_back(&sleeper.family), []);
    assert_eq!(sleeper.now(), sleeper.set);
    end(sleeper.process);
}

#[test]
fn a_value_that_was_saved_and_perhaps_changed_is_put_back() {
    let Some(sleeper) = Sleeper::start() else { return };
    sleeper.write(&sleeper.set);
    assert_eq!(sleeper.saved.put_back(&sleeper.family), []);
    assert_eq!(sleeper.now(), sleeper.before);
    end(sleeper.process);
}

#[test]
fn a_later_thread_of_the_same_number_is_not_touched() {
    let Some(sleeper) = Sleeper::start() else { return };
    sleeper.write(&sleeper.set);
    let earlier = Thread { started: sleeper.thread.started.saturating_sub(1), ..sleeper.thread };
    sleeper.saved.begin(Condition::CPU);
    let slot = sleeper.saved.save(&earlier, &words(&sleeper.before)).unwrap();
    sleeper.saved.set(slot, &words(&sleeper.set));
    // It began long before the trial, so that it did not inherit anything.
    sleeper.saved.header[BEGAN].store(u64::MAX, Ordering::SeqCst);
    assert_eq!(sleeper.saved.put_back(&sleeper.family), []);
    assert_eq!(sleeper.now(), sleeper.set);
    end(sleeper.process);
}

#[test]
fn a_thread_that_was_created_meanwhile_gets_what_its_creator_had() {
    let Some(sleeper) = Sleeper::start() else { return };
    sleeper.write(&sleeper.set);
    // The process stands for a new one: its creator is this slot's thread.
    let creator = Thread { tid: 1, process: 1, started: 1 };
    sleeper.saved.begin(Condition::CPU);
    let slot = sleeper.saved.save(&creator, &words(&sleeper.before)).unwrap();
    sleeper.saved.set(slot, &words(&sleeper.set));
    sleeper.saved.header[BEGAN].store(sleeper.thread.started, Ordering::SeqCst);
    assert_eq!(sleeper.saved.put_back(&sleeper.family), []);
    assert_eq!(sleeper.now(), sleeper.before);
    end(sleeper.process);
}

#[test]
fn what_the_program_changes_meanwhile_is_its_own() {
    let process = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = process.id().cast_signed();
    let thread = Thread::find(pid, pid).unwrap();
    let (saved, family) = (Saved::new().unwrap(), Family::so_far(pid));
    let before = ThreadState::read(Condition::SLICE, pid).unwrap();
    saved.begin(Condition::SLICE);
    let slot = saved.save(&thread, &words(&before)).unwrap();
    let mut set = words(&before);
    *set.iter_mut().rfind(|word| **word > 1).unwrap_or(&mut 0) += 1;
    saved.set(slot, &set);
    let other = Attributes { policy: BATCH, ..attributes(pid).unwrap() };
    assert_eq!(attributes(pid).unwrap().policy, OTHER);
    set_attributes(pid, &other).unwrap();
    assert_eq!(saved.put_back(&family), []);
    assert_eq!(attributes(pid).unwrap().policy, BATCH);
    end(process);
}

#[test]
fn a_thread_that_ended_is_no_error() {
    let Some(sleeper) = Sleeper::start() else { return };
    sleeper.write(&sleeper.set);
    sleeper.saved.set(sleeper.slot, &words(&sleeper.set));
    end(sleeper.process);
    assert_eq!(sleeper.saved.put_back(&sleeper.family), []);
}

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
