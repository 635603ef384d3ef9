//! Priority inversion: a thread of low priority holds a lock, and one between keeps it from the CPU.

use std::sync::atomic::{AtomicU32, Ordering};

use punctual_linux::futex::{self, Scope};
use punctual_record::LateWake;
use punctual_testing::{Disturbed, alone_on_this_machine, undisturbed};
use rustix::thread::futex::{Flags, lock_pi, trylock_pi, unlock_pi};

use crate::lab;
use crate::place;
use crate::play::{Stage, now, pause, sleep_until, spin_until};

/// The thread between runs for so long.
const BETWEEN_NS: u64 = 2_000_000;
/// The holder works for so long after the victim asked.
const HELD_NS: u64 = 400_000;

/// In an emulated machine the holder is often done before it is asked.
const WANTED_EMULATED: usize = 5;

/// A lock in a word, with priority inheritance or without.
struct Lock {
    word: AtomicU32,
    inherits: bool,
}

impl Lock {
    fn take(&self) {
        if self.inherits {
            // The kernel's word holds the owner; without contention it would be taken in user space.
            if !trylock_pi(&self.word, Flags::PRIVATE).unwrap_or(false) {
                lock_pi(&self.word, Flags::PRIVATE, None).unwrap();
            }
            return;
        }
        while self.word.swap(1, Ordering::Acquire) != 0 {
            let _ = futex::wait(&self.word, 1, Scope::Private, None).unwrap();
        }
    }

    fn give(&self) {
        if self.inherits {
            unlock_pi(&self.word, Flags::PRIVATE).unwrap();
            return;
        }
        self.word.store(0, Ordering::Release);
        futex::wake(&self.word, 1, Scope::Private).unwrap();
    }
}

/// The holder's delay of each wake-up of the victim by it, and whether it was lent the victim's priority.
fn delays(stage: &Stage, wanted: usize, inherits: bool) -> Vec<(u64, Option<bool>)> {
    let lock = Lock { word: AtomicU32::new(0), inherits };
    let victim = || {
        place::on(stage.cpu);
        place::fifo(50);
        while stage.goes_on() {
            stage.sleep(6_000_000);
            lock.take();
            lock.give();
            stage.hit();
        }
    };
    let between = || {
        place::on(stage.cpu);
        place::fifo(30);
        while let Some(deadline) = stage.next_deadline(1_000_000) {
            sleep_until(deadline + HELD_NS / 2);
            spin_until(now() + BETWEEN_NS);
        }
    };
    let holder = || {
        std::thread::scope(|scope| {
            scope.spawn(between);
            place::on(stage.cpu);
            place::fifo(10);
            rustix::thread::set_name(c"holder").unwrap();
            while let Some(deadline) = stage.next_deadline(500_000) {
                lock.take();
                spin_until(deadline + HELD_NS);
                lock.give();
                pause(100_000);
            }
        });
    };
    let seen = stage.play(wanted, victim, holder);
    let by_holder = |wake: &LateWake| {
        let link = wake.chain.first().filter(|link| wake.call == "futex" && link.name == "holder");
        link.map(|link| (link.delay_ns, link.inherited))
    };
    seen.late.iter().filter_map(by_holder).collect()
}

/// Without inheritance the holder waits for the thread between; with it, hardly.
pub(crate) fn holds(wanted: usize) {
    let Some(cpu) = place::cpu() else { return };
    if !punctual_testing::needs_root("real-time priorities") {
        return;
    }
    let _alone = alone_on_this_machine();
    place::away_from(cpu);
    undisturbed(|_| {
        let without = delays(&Stage::on(cpu), wanted, false);
        let with = delays(&Stage::on(cpu), wanted, true);
        let inverted = |(delay, _): &&(u64, _)| *delay > BETWEEN_NS / 2;
        let exact = |(delay, _): &&(u64, _)| delay.abs_diff(BETWEEN_NS) <= BETWEEN_NS / 10;
        let (named, wrong) = (without.iter().filter(inverted).count(), with.iter().filter(inverted).count());
        let right = without.iter().filter(exact).count();
        let (all, quiet) = (without.len(), with.len());
        let lent = |of: &[(u64, Option<bool>)], said| of.iter().filter(|(_, inherited)| *inherited == said).count();
        let (not_lent, was_lent) = (lent(&without, Some(false)), lent(&with, Some(true)));
        let line = format!(
            "priority inversion: {all} late, holder's delay named {named}, time right {right}, no priority lent {not_lent}; \
             {quiet} with inheritance, delay named {wrong}, priority lent {was_lent}"
        );
        println!("{line}");
        let most = |part: usize, whole: usize| part * 100 >= whole * 95;
        let both = lent(&without, Some(true)) + lent(&with, Some(false));
        let said_right = most(not_lent, all) && most(was_lent, quiet) && both * 100 <= all + quiet;
        let timed_right = most(named, all) && most(right, all) && wrong * 100 <= quiet;
        // An emulated machine shows nothing about time.
        let enough = if lab::slower() > 1 { WANTED_EMULATED } else { wanted };
        if all >= enough && quiet >= enough && said_right && (timed_right || lab::slower() > 1) {
            return Ok(());
        }
        Err(Disturbed(line))
    });
}
