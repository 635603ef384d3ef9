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
use crate::play::{Seen, Stage, now, pause, spin_until};

/// Each works for so long, and the first keeps the second from the CPU for as long.
const WORK_NS: u64 = 1_000_000;

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

/// Works while `slow` says so.
fn work(slow: &AtomicU32) {
    if slow.load(Ordering::Relaxed) == 1 {
        spin_until(now() + WORK_NS);
    }
}

/// `first` wakes `second`, which wakes `third`, which wakes the victim.
fn play(stage: &Stage, wanted: usize, wakers: [Waker; 3]) -> Seen {
    let slow = Shared::<AtomicU32>::new().unwrap();
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
    let (ours, waker, own_slow) = (to_victim.again(), to_second.again(), slow.clone());
    let first = spawn(
        "first",
        60,
        Box::new(move || {
            pause(5_000_000);
            work(&own_slow);
            waker.wake();
            work(&own_slow);
        }),
    );
    let (waker, next, own_slow) = (to_second, to_third.again(), slow.clone());
    let second = spawn("second", 58, Box::new(move || (waker.wait(), work(&own_slow), next.wake()).2));
    let (waker, next, own_slow) = (to_third, to_victim, slow.clone());
    let third = spawn("third", 56, Box::new(move || (waker.wait(), work(&own_slow), next.wake()).2));
    let victim = || {
        place::on(cpu);
        place::fifo(50);
        while stage.goes_on() {
            ours.wait();
            stage.waited();
            slow.store(u32::from(stage.is_on()), Ordering::Relaxed);
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
    ns.abs_diff(expected) <= WORK_NS / 10
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
    undisturbed(|_| {
        let seen = play(&Stage::on(cpu), wanted, [waker(), waker(), waker()]);
        let from_call = |wakes: Vec<LateWake>| wakes.into_iter().filter(|wake| wake.call == call).collect::<Vec<_>>();
        let (quiet, mut late) = (from_call(seen.quiet), from_call(seen.late));
        // The first may have begun before they were slow.
        late.drain(..late.len().min(2));
        let right = late.iter().filter(|wake| is_right(&wake.chain)).count();
        let slow = |wake: &&LateWake| wake.chain.iter().any(|link| link.delay_ns + link.worked_ns > WORK_NS / 2);
        let wrong = quiet.iter().filter(slow).count();
        let (hit, all) = (late.len(), quiet.len());
        let mut works: Vec<u64> = late.iter().filter_map(|wake| Some(wake.chain.first()?.worked_ns)).collect();
        works.sort_unstable();
        let ratio = works.get(works.len() / 2).map_or(0.0, |ns| *ns as f64 / WORK_NS as f64);
        let line = format!("{name}: {hit} late, chain right {right}, ratio {ratio:.3}; {all} quiet, named {wrong}");
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
