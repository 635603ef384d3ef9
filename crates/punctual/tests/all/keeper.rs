//! The keeper: what a killed process left changed is put back, by a process that outlives it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cpufreq::PATIENT;
use crate::fixture::Machine;
use punctual::cpufreq::Cpufreq;
use punctual::restore::{LockWait, StateDir};
use punctual_testing::{eventually, until};
use rustix::process::{Pid, Signal, kill_process};

/// Where the child finds its machine; unset in the parent.
const ROOT: &str = "PUNCTUAL_TEST_ROOT";

/// Set: the program forks a child that outlives it, and writes its process number to this file.
const FORKS: &str = "PUNCTUAL_TEST_FORKS";

/// Not a test of its own: the program that is killed. It changes settings, forks where it is asked to, and waits.
#[test]
fn the_program_that_is_killed() {
    let Some(root) = std::env::var_os(ROOT).map(PathBuf::from) else { return };
    let cpufreq = Cpufreq::at(&root, StateDir::at(root.join("state")));
    let mut guard = cpufreq.guard(&[], PATIENT).unwrap();
    guard.set_governor("performance").unwrap();
    guard.set_min_khz(2_200_000).unwrap();
    let _child = std::env::var_os(FORKS).map(|file| {
        punctual_linux::child::Child::spawn("lives on", move || {
            rustix::process::set_parent_process_death_signal(None).unwrap();
            // Only now does it outlive the program.
            std::fs::write(file, std::process::id().to_string()).unwrap();
            std::thread::sleep(Duration::from_secs(3600));
        })
        .unwrap()
    });
    std::fs::write(root.join("keeper"), guard.keeper().unwrap().to_string()).unwrap();
    std::thread::sleep(Duration::from_secs(3600));
}

struct Program(Child);

impl Program {
    fn start(machine: &Machine) -> Self {
        Self::start_with(machine, &[])
    }

    fn start_with(machine: &Machine, environment: &[(&str, PathBuf)]) -> Self {
        // Whoever runs the tests in the background may ignore the signals that this program is to be ended by.
        punctual_linux::signal::heed_what_ends_a_program().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "keeper::the_program_that_is_killed"])
            .env(ROOT, machine.root())
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let program = Self(child);
        number(&machine.root().join("keeper"));
        assert_eq!(machine.get(0, "scaling_governor"), "performance");
        program
    }

    fn signal(&mut self, signal: Signal) {
        kill_process(pid(self.0.id()), signal).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number as i32).unwrap()
}

/// The process number in a file, which is there before its contents are.
fn number(file: &Path) -> Pid {
    pid(eventually("a process number", || std::fs::read_to_string(file).ok()?.parse().ok()))
}

#[test]
fn a_killed_program_leaves_nothing_changed() {
    for signal in [Signal::KILL, Signal::TERM, Signal::INT, Signal::ABORT] {
        let machine = Machine::dirty();
        let before = machine.everything();
        let mut program = Program::start(&machine);
        assert_ne!(machine.everything(), before);
        program.signal(signal);
        until("everything put back", || machine.everything() == before);
        until("the journal's end", || !machine.cpufreq().has_something_to_restore());
        // The keeper lets go of the lock when it has finished.
        machine.cpufreq().guard(&[], LockWait::AtMost(Duration::from_secs(60))).map(drop).unwrap();
    }
}

#[test]
fn with_the_keeper_killed_too_the_next_start_restores() {
    let machine = Machine::dirty();
    let before = machine.everything();
    let mut program = Program::start(&machine);
    kill_process(number(&machine.root().join("keeper")), Signal::KILL).unwrap();
    program.signal(Signal::KILL);
    assert_ne!(machine.everything(), before);
    let guard = machine.cpufreq().guard(&[], LockWait::AtMost(Duration::from_secs(60))).unwrap();
    assert_eq!(machine.everything(), before);
    assert!(!guard.replayed().is_empty());
}

#[test]
fn the_keeper_does_not_end_when_it_is_asked_to() {
    let machine = Machine::dirty();
    let before = machine.everything();
    let mut program = Program::start(&machine);
    let keeper = number(&machine.root().join("keeper"));
    let signals = [Signal::TERM, Signal::INT, Signal::HUP];
    let status = format!("/proc/{}/status", keeper.as_raw_nonzero());
    until("the shell's first act", || {
        let status = std::fs::read_to_string(&status).unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
        signals.iter().all(|signal| ignored >> (signal.as_raw() - 1) & 1 == 1)
    });
    signals.into_iter().for_each(|signal| kill_process(keeper, signal).unwrap());
    program.signal(Signal::KILL);
    until("everything put back", || machine.everything() == before);
}

#[test]
fn a_forked_child_that_lives_on_delays_nothing() {
    let machine = Machine::dirty();
    let before = machine.everything();
    let file = machine.root().join("forked");
    let mut program = Program::start_with(&machine, &[(FORKS, file.clone())]);
    let forked = number(&file);
    program.signal(Signal::KILL);
    until("everything put back", || machine.everything() == before);
    // Nor does it hold the lock.
    machine.cpufreq().guard(&[], LockWait::AtMost(Duration::from_secs(60))).map(drop).unwrap();
    let lives = rustix::process::test_kill_process(forked).is_ok();
    // It is nobody's child here: only its name tells that the number is still its.
    let name = std::fs::read_to_string(format!("/proc/{}/comm", forked.as_raw_nonzero())).unwrap_or_default();
    if name.trim() == "lives on" {
        kill_process(forked, Signal::KILL).unwrap();
    }
    assert!(lives && name.trim() == "lives on", "the child is to outlive the test: {name}");
}

#[test]
fn a_guard_that_ended_gives_the_lock_back_although_a_child_was_forked() {
    let machine = Machine::dirty();
    let guard = machine.cpufreq().guard(&[], PATIENT).unwrap();
    let mut child =
        punctual_linux::child::Child::spawn("lives on", || std::thread::sleep(Duration::from_secs(3600))).unwrap();
    drop(guard);
    machine.cpufreq().guard(&[], PATIENT).map(drop).unwrap();
    assert_eq!(child.ended().unwrap(), None);
}
