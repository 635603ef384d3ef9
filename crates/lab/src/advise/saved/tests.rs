//! Putting back, on a process of the test.

use std::process::{Child, Command};

use punctual_linux::sched::{Attributes, BATCH, OTHER, attributes, set_attributes};

use super::super::setting::Aim;
use super::super::settings::{AFFINITY, cpus};
use super::*;

/// A process that sleeps, and its affinity, of which a trial leaves one CPU.
struct Sleeper {
    process: Child,
    thread: Thread,
    saved: Saved,
    family: Family,
    before: Value,
    set: Value,
    slot: usize,
}

impl Sleeper {
    /// `None`: with one CPU there is nothing to change.
    fn start() -> Option<Self> {
        let process = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = process.id().cast_signed();
        let thread = Thread::find(pid, pid).unwrap();
        let before = SETTINGS[AFFINITY].read(&thread).unwrap();
        let aim = Aim { cpu: cpus(&before)[0], share: None };
        let Ok(set) = SETTINGS[AFFINITY].goal(&before, aim) else {
            punctual_testing::lacks(punctual_testing::Lack::Cpus(2));
            end(process);
            return None;
        };
        let saved = Saved::new().unwrap();
        saved.begin(AFFINITY);
        let slot = saved.save(&thread, &before).unwrap();
        Some(Self { process, thread, saved, family: Family::all_of(pid), before, set, slot })
    }

    fn now(&self) -> Value {
        SETTINGS[AFFINITY].read(&self.thread).unwrap()
    }

    fn write(&self, value: &Value) {
        SETTINGS[AFFINITY].write(&self.thread, value).unwrap();
    }
}

fn end(mut process: Child) {
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn what_was_set_is_put_back_once() {
    let Some(sleeper) = Sleeper::start() else { return };
    sleeper.write(&sleeper.set);
    sleeper.saved.set(sleeper.slot, &sleeper.set);
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
    sleeper.saved.begin(AFFINITY);
    let slot = sleeper.saved.save(&earlier, &sleeper.before).unwrap();
    sleeper.saved.set(slot, &sleeper.set);
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
    sleeper.saved.begin(AFFINITY);
    let slot = sleeper.saved.save(&creator, &sleeper.before).unwrap();
    sleeper.saved.set(slot, &sleeper.set);
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
    let (saved, family) = (Saved::new().unwrap(), Family::all_of(pid));
    let slice = SETTINGS[super::super::settings::SLICE];
    let before = slice.read(&thread).unwrap();
    saved.begin(super::super::settings::SLICE);
    let slot = saved.save(&thread, &before).unwrap();
    let mut set = before;
    set[1] += 1;
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
    sleeper.saved.set(sleeper.slot, &sleeper.set);
    end(sleeper.process);
    assert_eq!(sleeper.saved.put_back(&sleeper.family), []);
}
