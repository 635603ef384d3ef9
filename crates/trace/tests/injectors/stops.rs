//! A process that is stopped.

use std::sync::atomic::Ordering;

use punctual_linux::child::Child;
use punctual_record::Cause;
use rustix::process::{Pid, Signal, kill_process};

use crate::judge::Injector;
use crate::place;
use crate::play::{Seen, Stage, VICTIM, Watcher, now, pause};

/// SIGSTOP, and SIGCONT 3 ms later.
pub(crate) const STOPPED: Injector =
    Injector { name: "SIGSTOP, SIGCONT", cause: Cause::Stopped, least_ns: 500_000, play: stopped, ..Injector::SLEEP };

fn stopped(stage: &Stage, wanted: usize) -> Option<Seen> {
    let cpu = stage.cpu;
    let victim = Child::spawn(VICTIM, move || {
        place::on(cpu);
        place::fifo(50);
        loop {
            pause(2_000_000);
        }
    })
    .unwrap();
    let pid = Pid::from_raw(victim.id()).unwrap();
    // It waits for 2 ms each.
    let mut watcher = Watcher::on(&[victim.id()]);
    watcher.watch(wanted, || (now() / 2_300_000) as usize);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            place::fifo(60);
            while stage.goes_on() {
                kill_process(pid, Signal::STOP).unwrap();
                let begin = now();
                pause(4_000_000);
                kill_process(pid, Signal::CONT).unwrap();
                stage.injected(begin, now());
                pause(3_000_000);
            }
        });
        watcher.watch(wanted * 5 / 4, || stage.hits.load(Ordering::Relaxed));
        stage.end();
    });
    Some(stage.seen(watcher))
}
