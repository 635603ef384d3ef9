//! Other threads on the CPU.

use punctual_linux::child::Child;
use punctual_linux::sched::set_nice;
use punctual_linux::sched::set_timer_slack_ns;
use punctual_record::Cause;

use crate::groups::{Group, Settings};
use crate::judge::Injector;
use crate::place;
use crate::play::{Seen, Stage, now, spin_on_top_until};

const OF_THREADS: Injector = Injector { cause: Cause::OtherThread, least_ns: 200_000, ..Injector::SLEEP };

/// A thread of higher real-time priority.
pub(crate) const BUSY_FIFO: Injector =
    Injector { name: "busy SCHED_FIFO thread", culprit: Some("injector"), play: busy_fifo, ..OF_THREADS };

fn real_time_victim(stage: &Stage) {
    place::on(stage.cpu);
    place::fifo(50);
    while stage.goes_on() {
        stage.sleep(1_500_000);
    }
}

fn busy_fifo(stage: &Stage, wanted: usize) -> Option<Seen> {
    let injector = || {
        place::on(stage.cpu);
        place::fifo(60);
        if !stage.wait_for_part() {
            return;
        }
        while let Some(deadline) = stage.next_deadline(300_000) {
            let begin = now();
            spin_on_top_until(deadline + 400_000, &stage.host);
            // What made the injector late made the victim late too.
            if begin < deadline {
                stage.injected(begin, now());
            }
        }
    };
    Some(stage.play(wanted, || real_time_victim(stage), injector))
}

/// A thread of the same policy and more weight.
pub(crate) const FAIR: Injector =
    Injector { name: "busy fair thread", culprit: Some("injector"), least_ns: 1_000_000, play: fair, ..OF_THREADS };

/// The injector did not run for as long as this: something else did.
const GAP_NS: u64 = 200_000;

fn fair(stage: &Stage, wanted: usize) -> Option<Seen> {
    // A group of much weight: compilers that run meanwhile get little.
    let weight = Settings { version_1: &[("cpu.shares", "262144")], version_2: &[("cpu.weight", "10000")] };
    let group = Group::with(&weight);
    let join = || {
        place::on(stage.cpu);
        group.iter().for_each(Group::join);
    };
    let victim = || {
        join();
        set_nice(0, 19).unwrap();
        set_timer_slack_ns(1).unwrap();
        while stage.goes_on() {
            let on = stage.is_on();
            stage.sleep(1_000_000);
            if on {
                stage.hit();
            }
        }
    };
    let injector = || {
        join();
        set_nice(0, -20).unwrap();
        if !stage.wait_for_part() {
            return;
        }
        let (mut begin, mut last) = (now(), now());
        while stage.goes_on() {
            let time = now();
            if time - last > GAP_NS {
                stage.delayed(begin, last);
                begin = time;
            }
            last = time;
        }
        stage.delayed(begin, last);
    };
    Some(stage.play(wanted, victim, injector))
}

/// Processes that begin and end. Softirqs take an unknown part of the time.
pub(crate) const FORKS: Injector =
    Injector { name: "fork storm", culprit: Some("storm"), exact: false, play: forks, ..OF_THREADS };

fn forks(stage: &Stage, wanted: usize) -> Option<Seen> {
    let injector = || {
        place::on(stage.cpu);
        place::fifo(60);
        rustix::thread::set_name(c"storm").unwrap();
        if !stage.wait_for_part() {
            return;
        }
        while let Some(deadline) = stage.next_deadline(300_000) {
            let begin = now();
            while now() < deadline + 400_000 {
                Child::spawn("storm", || ()).unwrap().wait().unwrap();
            }
            stage.injected(begin, now());
        }
    };
    Some(stage.play(wanted, || real_time_victim(stage), injector))
}
