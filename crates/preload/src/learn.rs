//! The margin of the calling thread's waits.

use std::cell::{Cell, UnsafeCell};

use punctual::margin::{Aim, Decision, MarginLearner};

/// The longest margin: an ordinary machine wakes within it.
const LONGEST_MARGIN_NS: u32 = 250_000;

/// The learners of a thread.
struct Learned {
    /// A signal handler may wait in the middle of an update: it then waits without the margin.
    busy: Cell<bool>,
    /// For two aims, since rules may give a thread several. The second place is the latest's.
    learners: UnsafeCell<[Option<MarginLearner>; 2]>,
}

thread_local! {
    // No destructor and no lazy beginning: reading it neither allocates nor registers anything.
    static LEARNED: Learned = const { Learned { busy: Cell::new(false), learners: UnsafeCell::new([None, None]) } };
}

fn with<T>(aim: Aim, each: impl FnOnce(&mut MarginLearner) -> T) -> Option<T> {
    LEARNED.with(|learned| {
        if learned.busy.replace(true) {
            return None;
        }
        // SAFETY: only this thread has the cell, and `busy` keeps a signal handler out of it.
        let [first, second] = unsafe { &mut *learned.learners.get() };
        let place = if first.as_ref().is_none_or(|learner| learner.aim() == aim) { first } else { second };
        if place.as_ref().is_some_and(|learner| learner.aim() != aim) {
            *place = None;
        }
        let done = each(place.get_or_insert_with(|| MarginLearner::new(aim, LONGEST_MARGIN_NS)));
        learned.busy.set(false);
        Some(done)
    })
}

/// The margin of a sleep for this long; none if it should be spun.
pub(crate) fn margin_ns(aim: Aim, wait_ns: i64) -> Option<i64> {
    match with(aim, |learner| learner.decide(wait_ns)) {
        Some(Decision::Spin) => None,
        Some(Decision::Sleep { margin_ns, .. }) => Some(margin_ns.into()),
        None => Some(0),
    }
}

/// A sleep as a part of such a wait ended this late.
pub(crate) fn saw(aim: Aim, wait_ns: i64, latency_ns: i64) {
    with(aim, |learner| learner.saw(wait_ns, latency_ns));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_learns_its_margin() {
        for _ in 0..200 {
            assert!(margin_ns(Aim::default(), 1_000_000).is_some());
            saw(Aim::default(), 1_000_000, 40_000);
        }
        let margin = margin_ns(Aim::default(), 1_000_000).unwrap();
        assert!((30_000..=60_000).contains(&margin), "{margin}");
    }

    #[test]
    fn two_aims_learn_apart() {
        let (balanced, budget) = (Aim::default(), Aim::cpu_budget(1.0).unwrap());
        for _ in 0..200 {
            saw(balanced, 1_000_000, 40_000);
            saw(budget, 1_000_000, 10_000);
        }
        let margins = [balanced, budget].map(|aim| margin_ns(aim, 1_000_000).unwrap());
        assert!(margins[0] > 30_000 && margins[1] < 30_000, "{margins:?}");
        assert!(margin_ns(Aim::Typical, 1_000_000).unwrap() > 50_000, "a third begins anew");
    }

    #[test]
    fn a_handler_in_the_middle_of_an_update_waits_without_it() {
        let inside = with(Aim::default(), |_| margin_ns(Aim::default(), 1_000_000));
        assert_eq!(inside, Some(Some(0)));
    }
}
