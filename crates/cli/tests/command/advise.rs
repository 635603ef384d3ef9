//! `why --advise` tries remedies on a living program and puts everything back, whatever happens.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use punctual_linux::sched::{self, Attributes};
use punctual_record::Run;
use punctual_testing::{Disturbed, alone_on_this_machine, skip, undisturbed, until};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{punctual, run};

/// The threads of the test on which remedies are tried.
const NAME: &str = "advised";

/// Threads that sleep 1 ms again and again.
struct Sleepers {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    tids: Vec<i32>,
    before: Vec<Settings>,
}

/// What remedies change in a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Settings {
    slack: Option<String>,
    attributes: Attributes,
    cpus: String,
}

impl Sleepers {
    fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (tell, told) = std::sync::mpsc::channel();
        let one = |_| {
            let (over, tell) = (Arc::clone(&over), tell.clone());
            let sleep = move || {
                tell.send(sched::current_thread_id()).unwrap();
                while !over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            std::thread::Builder::new().name(NAME.into()).spawn(sleep).unwrap()
        };
        let threads: Vec<JoinHandle<()>> = (0..3).map(one).collect();
        let tids: Vec<i32> = (0..3).map(|_| told.recv().unwrap()).collect();
        let before = tids.iter().copied().map(settings).collect();
        Self { over, threads, tids, before }
    }

    fn now(&self) -> Vec<Settings> {
        self.tids.iter().copied().map(settings).collect()
    }

    fn are_as_before(&self) -> bool {
        self.now() == self.before
    }

    /// The command on these threads.
    fn advise(&self, duration: &str, json: &str) -> Child {
        let pid = std::process::id().to_string();
        let args = ["why", "--pid", &pid, "--thread", NAME, "--advise", "--duration", duration, "--json", json];
        let mut command = punctual(&args);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
    }

    /// The command while a remedy is on; None where it ended without any. On a busy machine it needs more time for the first.
    fn changed(&self) -> Option<Child> {
        ["4s", "8s", "16s"].into_iter().find_map(|duration| {
            let mut command = self.advise(duration, "/dev/null");
            let mut ended = false;
            until("a remedy on trial", || {
                ended = command.try_wait().unwrap().is_some();
                ended || !self.are_as_before()
            });
            (!ended).then_some(command)
        })
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn settings(tid: i32) -> Settings {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
    let cpus = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap().to_owned();
    let slack = std::fs::read_to_string(format!("/proc/{tid}/timerslack_ns")).ok();
    Settings { slack, attributes: sched::attributes(tid).unwrap(), cpus }
}

fn signal(command: &Child, signal: Signal) {
    kill_process(Pid::from_child(command), signal).unwrap();
}

#[test]
fn each_remedy_is_tried_or_refused_and_everything_is_put_back() {
    let _alone = alone_on_this_machine();
    let sleepers = Sleepers::start();
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("why.json");
    let trials = undisturbed(|longer| {
        let duration = format!("{}s", 8 * longer);
        let status = sleepers.advise(&duration, json.to_str().unwrap()).wait().unwrap();
        assert!(status.success(), "{status}");
        assert_eq!(sleepers.now(), sleepers.before);
        let run = Run::from_json(std::fs::read(&json).unwrap().as_slice()).unwrap();
        let trials = run.causes.unwrap().trials;
        // Every pair was cut short, or the time was over.
        let disturbed = trials.iter().find(|trial| trial.pairs.is_empty() && trial.refused.is_none());
        disturbed.map_or(Ok(()), |trial| Err(Disturbed(format!("{trial:?}")))).map(|()| trials)
    });
    assert_eq!(trials.len(), 5);
    for trial in &trials {
        for pair in &trial.pairs {
            assert!(pair.off.ns > 0 && pair.on.ns > 0 && pair.on.cpu_ns.is_some(), "{pair:?}");
        }
    }
    if trials.iter().all(|trial| trial.pairs.is_empty()) {
        return skip("no remedy could be tried");
    }
    let woken = |trial: &&punctual_record::Trial| trial.pairs.iter().any(|pair| pair.on.timer.is_some());
    assert!(trials.iter().any(|trial| woken(&trial)), "{trials:?}");
}

/// Ends the command at some moment while a remedy is on, again and again.
fn ended_by(end: Signal, times: u64) {
    let _alone = alone_on_this_machine();
    let sleepers = Sleepers::start();
    for round in 0..times {
        let Some(mut command) = sleepers.changed() else { return skip("no remedy could be tried") };
        // Some moment of the following blocks.
        std::thread::sleep(Duration::from_millis(round * 7919 % 311));
        signal(&command, end);
        command.wait().unwrap();
        until("the settings of before", || sleepers.are_as_before());
    }
}

#[test]
fn sigkill_leaves_nothing_changed() {
    ended_by(Signal::KILL, 4);
}

#[test]
#[ignore = "slow: run by the gate"]
fn sigkill_at_random_leaves_nothing_changed() {
    ended_by(Signal::KILL, 20);
}

#[test]
fn sigterm_and_ctrl_c_leave_nothing_changed() {
    ended_by(Signal::TERM, 1);
    ended_by(Signal::INT, 1);
}

#[test]
fn a_command_that_stands_still_leaves_nothing_changed() {
    let _alone = alone_on_this_machine();
    let sleepers = Sleepers::start();
    let Some(mut command) = sleepers.changed() else { return skip("no remedy could be tried") };
    signal(&command, Signal::STOP);
    until("the settings of before", || sleepers.are_as_before());
    signal(&command, Signal::KILL);
    command.wait().unwrap();
    assert!(sleepers.are_as_before());
}

#[test]
fn a_program_that_is_started_keeps_its_exit_status() {
    let _alone = alone_on_this_machine();
    let left = run(&["why", "--advise", "--duration", "2s", "--", "sh", "-c", "sleep 1; exit 7"]);
    assert_eq!(left.code, Some(7), "{}", left.stderr);
    assert_eq!(left.stdout, "");
    assert!(left.stderr.contains("Not tried") || left.stderr.contains("Too few wake-ups"), "{}", left.stderr);
}

#[test]
fn without_a_program_or_time_for_one_it_is_refused() {
    for args in [&["why", "--advise"][..], &["why", "--duration", "1s", "--", "true"]] {
        let left = run(args);
        assert_eq!(left.code, Some(2), "{args:?}: {}", left.stderr);
        assert!(left.stderr.contains("invalid --") && left.stderr.contains("(example: "), "{}", left.stderr);
    }
}

/// A thread that sleeps, and spins from the moment at which it is under a real-time policy.
fn spinner(over: &Arc<AtomicBool>, cpu: usize) -> (i32, JoinHandle<()>) {
    let over = Arc::clone(over);
    let (tell, told) = std::sync::mpsc::channel();
    let spin = move || {
        punctual_linux::sched::set_affinity(0, &[cpu]).unwrap();
        tell.send(sched::current_thread_id()).unwrap();
        while !over.load(Ordering::Relaxed) {
            if sched::attributes(0).unwrap().policy != sched::FIFO {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        sched::set_attributes(0, &Attributes::default()).unwrap();
    };
    let thread = std::thread::Builder::new().name("spins".into()).spawn(spin).unwrap();
    (told.recv().unwrap(), thread)
}

/// The guardian of this command.
fn guardian(command: &Child) -> Option<Pid> {
    let pid = command.id();
    let children = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten().flat_map(|task| {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()).collect::<Vec<_>>()
    });
    let is_it =
        |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "punctual-guard\n");
    Pid::from_raw(children.into_iter().find(is_it)?)
}

/// The kernel is the last bound. It keeps a part of the CPU for a usual thread, with nobody there to end the trial.
#[test]
fn a_program_that_spins_when_all_that_watches_is_killed_leaves_the_cpu_to_others() {
    let _alone = alone_on_this_machine();
    undisturbed(|_| spins_without_a_watcher());
}

fn spins_without_a_watcher() -> Result<(), Disturbed> {
    let over = Arc::new(AtomicBool::new(false));
    let cpu = punctual_linux::sched::affinity(0).unwrap()[0];
    let (tid, thread) = spinner(&over, cpu);
    let own = std::process::id().to_string();
    let mut command =
        punctual(&["why", "--pid", &own, "--thread", "spins", "--advise", "--duration", "20s", "--quiet"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
    let mut ended = false;
    until("a real-time policy, or the end", || {
        ended = command.try_wait().unwrap().is_some();
        ended || sched::attributes(tid).unwrap().policy == sched::FIFO
    });
    if ended {
        over.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        skip("a real-time policy could not be tried");
        return Ok(());
    }
    // Neither may end the trial: the command stands still, and the guardian ends before it.
    signal(&command, Signal::STOP);
    kill_process(guardian(&command).expect("it has a guardian"), Signal::KILL).unwrap();
    signal(&command, Signal::KILL);
    command.wait().unwrap();
    let still = sched::attributes(tid).unwrap().policy == sched::FIFO;
    // A usual thread on the same CPU makes progress.
    let other = std::thread::spawn(move || {
        punctual_linux::sched::set_affinity(0, &[cpu]).unwrap();
        let used = || punctual_linux::clock::now_ns(punctual_linux::clock::Clock::ThreadCpu);
        let begin = used();
        while used() - begin < 50_000_000 {}
    });
    until("50 ms of the CPU for another thread", || other.is_finished());
    over.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    other.join().unwrap();
    if still { Ok(()) } else { Err(Disturbed("the policy ended before the kill".into())) }
}
