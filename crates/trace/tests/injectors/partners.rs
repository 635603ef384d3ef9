//! Partners that are slow to wake the thread: the delay is theirs, and the chain of wake-ups names them.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_linux::child::Child;
use punctual_linux::futex::{self, Scope};
use punctual_linux::memory::Shared;
use punctual_record::{ChainLink, LateWake};
use punctual_testing::{Disturbed, alone_on_this_machine, undisturbed};
use rustix::io::dup;

use crate::place;
use crate::play::{Host, Seen, Stage, now, pause, spin_on_top_until};

/// Each works for so long, and the first keeps the second from the CPU for as long.
const WORK_NS: u64 = 3_000_000;
/// Interrupts, and what the host takes of a CPU that it shares, are mostly shorter.
const TOLERANCE_NS: u64 = WORK_NS / 10;

/// A way to wake the next.
enum Waker {
    Pipe(File, File),
    Futex(Shared<AtomicU32>),
}

impl Waker {
    fn pipe() -> Self {
        let (read, write) = std::io::pipe().unwrap();
        Self::Pipe(OwnedFd::from(read).into(), OwnedFd::from(write).into())
    }

    fn futex() -> Self {
        Self::Futex(Shared::new().unwrap())
    }

    fn again(&self) -> Self {
        match self {
            Self::Pipe(read, write) => Self::Pipe(dup(read).unwrap().into(), dup(write).unwrap().into()),
            Self::Futex(word) => Self::Futex(word.clone()),
        }
    }

    fn wake(&self) {
        match self {
            Self::Pipe(_, write) => (&*write).write_all(&[1]).unwrap(),
            Self::Futex(word) => {
                word.fetch_add(1, Ordering::Release);
                futex::wake(word, 1, Scope::Shared).unwrap();
            }
        }
    }

    fn wait(&self) {
        match self {
            Self::Pipe(read, _) => (&*read).read_exact(&mut [0]).unwrap(),
            Self::Futex(word) => {
                while word.load(Ordering::Acquire) == 0 {
                    let _ = futex::wait(word, 0, Scope::Shared, None).unwrap();
                }
                word.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}

/// What makes the partners slow.
#[derive(Clone)]
struct Work {
    /// 1 while they are.
    slow: Shared<AtomicU32>,
    host: Host,
}

impl Work {
    fn work(&self) {
        if self.slow.load(Ordering::Relaxed) == 1 {
            spin_on_top_until(now() + WORK_NS, &self.host);
        }
    }
}

/// `first` wakes `second`, which wakes `third`, which wakes the victim.
fn play(stage: &Stage, wanted: usize, wakers: [Waker; 3]) -> Seen {
    let work = Work { slow: Shared::new().unwrap(), host: stage.host.clone() };
    let cpu = stage.cpu;
    let spawn = |name: &str, priority: u32, mut act: Box<dyn FnMut()>| {
        Child::spawn(name, move || {
            place::on(cpu);
            place::fifo(priority);
            loop {
                act();
            }
        })
        .unwrap()
    };
    let [to_second, to_third, to_victim] = wakers;
    let (ours, waker, own) = (to_victim.again(), to_second.again(), work.clone());
    let first = spawn(
        "first",
        60,
        Box::new(move || {
            // The others have ended by then.
            pause(4 * WORK_NS);
            own.work();
            waker.wake();
            own.work();
        }),
    );
    let (waker, next, own) = (to_second, to_third.again(), work.clone());
    let second = spawn("second", 58, Box::new(move || (waker.wait(), own.work(), next.wake()).2));
    let (waker, next, own) = (to_third, to_victim, work.clone());
    let third = spawn("third", 56, Box::new(move || (waker.wait(), own.work(), next.wake()).2));
    let victim = || {
        place::on(cpu);
        place::fifo(50);
        while stage.goes_on() {
            ours.wait();
            stage.waited();
            work.slow.store(u32::from(stage.is_on()), Ordering::Relaxed);
            if stage.is_on() {
                stage.hit();
            }
        }
    };
    let seen = stage.play(wanted, victim, || ());
    drop((first, second, third));
    seen
}

fn is_near(ns: u64, expected: u64) -> bool {
    ns.abs_diff(expected) <= TOLERANCE_NS
}

fn is_right(chain: &[ChainLink]) -> bool {
    let names: Vec<&str> = chain.iter().map(|link| link.name.as_str()).collect();
    names == ["third", "second", "first"]
        && chain.iter().all(|link| is_near(link.worked_ns, WORK_NS))
        && chain.iter().zip([0, WORK_NS, 0]).all(|(link, delay)| is_near(link.delay_ns, delay))
}

fn names_the_chain(wanted: usize, name: &str, call: &str, waker: fn() -> Waker) {
    let Some(cpu) = place::cpu() else { return };
    if !punctual_testing::needs_root("real-time priorities") {
        return;
    }
    let _alone = alone_on_this_machine();
    place::away_from(cpu);
    undisturbed(|longer| {
        let seen = play(&Stage::on(cpu), wanted * longer.min(4) as usize, [waker(), waker(), waker()]);
        let from_call = |wakes: Vec<LateWake>| wakes.into_iter().filter(|wake| wake.call == call).collect::<Vec<_>>();
        let (quiet, mut late) = (from_call(seen.quiet), from_call(seen.late));
        // The first may have begun before they were slow.
        late.drain(..late.len().min(2));
        // Of all that the chain is about, four times the work.
        let by_host = |wake: &LateWake| {
            seen.host.longest_ns(wake.at_ns.saturating_sub(5 * WORK_NS), wake.at_ns + wake.late_ns) > TOLERANCE_NS
        };
        let before = late.len();
        late.retain(|wake| !by_host(wake));
        let by_host = before - late.len();
        let right = late.iter().filter(|wake| is_right(&wake.chain)).count();
        let slow = |wake: &&LateWake| wake.chain.iter().any(|link| link.delay_ns + link.worked_ns > WORK_NS / 2);
        let wrong = quiet.iter().filter(slow).count();
        let (hit, all) = (late.len(), quiet.len());
        let mut works: Vec<u64> = late.iter().filter_map(|wake| Some(wake.chain.first()?.worked_ns)).collect();
        works.sort_unstable();
        let ratio = works.get(works.len() / 2).map_or(0.0, |ns| *ns as f64 / WORK_NS as f64);
        let line = format!(
            "{name}: {hit} late, chain right {right}, ratio {ratio:.3}, {by_host} beside them by the host; {all} quiet, named {wrong}"
        );
        println!("{line}");
        if hit >= wanted && all * 10 >= wanted * 8 && right * 100 >= hit * 95 && wrong * 100 <= all {
            return Ok(());
        }
        let other = late.iter().find(|wake| !is_right(&wake.chain)).map(|wake| &wake.chain);
        Err(Disturbed(format!("{line}: {other:?}")))
    });
}

pub(crate) fn pipes(wanted: usize) {
    names_the_chain(wanted, "slow partners, pipes", "read", Waker::pipe);
}

pub(crate) fn futexes(wanted: usize) {
    names_the_chain(wanted, "slow partners, futexes", "futex", Waker::futex);
}
