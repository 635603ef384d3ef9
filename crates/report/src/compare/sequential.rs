//! Limits on a run that is measured until they can be judged.
//!
//! Takes limits, the old runs and the longest time. Looks at the new run several times while it grows, and says whether it keeps
//! its limits. Every look is a chance of a false alarm, so the error probability of 5 % is spent over them: at a look, no
//! more than what the spending function has beyond the look before. The function is that of S. J. Pocock's boundaries, a ln(1 + (e - 1) t) at the
//! part t of the longest time (K. K. G. Lan and D. L. DeMets, *Discrete sequential boundaries for clinical trials*, 1983). The
//! parts are added up as by Bonferroni, which holds however the looks depend on each other.
//!
//! A figure keeps its limit where the upper end of its interval is below. It fails where the lower end is above. When the time
//! is over, it also fails where the increase reaches the limit and is shown to be more than half of it. So a build
//! whose figure grew by no more than half of the limit fails at most one time in twenty, however often one looks.

use std::time::Duration;

use punctual_record::Run;

use crate::compare::limit::{self, Limit, What};
use crate::compare::outcome::Difference;
use crate::compare::side::Measured;
use crate::compare::{Compared, Comparison, Figure, Options, Side, SideError, compare};
use crate::evidence::distributions::student_quantile;
use crate::evidence::{LEVEL, Reading, SCALE, Shift};
use crate::verdict::gate::{Judgement, Outcome};

/// The first look. Each further one doubles the time, so that the last ones still have a part of the error probability to spend.
const FIRST: Duration = Duration::from_secs(2);
/// Length of a round: as many as show how the figures wander.
pub const ROUND: Duration = Duration::from_millis(200);

/// A gate that measures until it can decide.
#[derive(Debug, Clone)]
pub struct Gate {
    limits: Vec<Limit>,
    old: Side,
    at_most: Duration,
    /// Looks so far.
    looks: usize,
}

/// What a look says.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// The comparison and the verdict on the limits, as far as measured.
    pub compared: Compared,
    /// Whether more measuring cannot change it, or its time is over.
    pub is_last: bool,
}

impl Gate {
    /// A gate against these runs.
    #[must_use]
    pub fn new(limits: Vec<Limit>, old: Side, at_most: Duration) -> Self {
        Self { limits, old, at_most, looks: 0 }
    }

    /// How long to measure until the next look, and in how many rounds.
    #[must_use]
    pub fn next_stretch(&self) -> (Duration, u32) {
        let times = times(self.at_most);
        let before = self.looks.checked_sub(1).and_then(|last| times.get(last)).copied().unwrap_or_default();
        let stretch = times.get(self.looks).copied().unwrap_or(self.at_most).saturating_sub(before);
        (stretch, (stretch.as_millis() / ROUND.as_millis()).clamp(5, 10_000) as u32)
    }

    /// Looks at the run after the stretch.
    ///
    /// # Errors
    /// If the run cannot be compared; see [`SideError`].
    pub fn look(&mut self, name: &str, run: &Run) -> Result<Look, SideError> {
        let mut new = Side::new();
        new.add(name, run)?;
        let comparison = compare(&self.old, &new, Options::default());
        let times = times(self.at_most);
        let is_over = self.looks + 1 >= times.len();
        let figures = self.figures(&comparison);
        let level = level(&times, self.looks, self.at_most);
        self.looks += 1;
        let judgement = limit::judged(&self.limits, &comparison, |_, _, difference, bound_ns| {
            judge(difference, bound_ns, (level, figures), is_over)
        });
        let is_last = is_over || judgement.outcome() != Outcome::Undecided || !can_be_decided(&judgement);
        Ok(Look { compared: Compared { comparison, judgement: Some(judgement) }, is_last })
    }

    /// How many figures the limits are about: each may be a false alarm.
    fn figures(&self, comparison: &Comparison) -> usize {
        self.limits.iter().flat_map(|limit| limit.figures(comparison)).count().max(1)
    }

    /// How long it will probably take, if nothing has changed, by how the old runs wander. `None`: longer than it may.
    #[must_use]
    pub fn forecast(&self) -> Option<Duration> {
        let times = times(self.at_most);
        let before_ns = self.old.runs.first().map_or(0, |run| run.source.elapsed_ns) as f64;
        let known = self.old.series.iter().flat_map(|(identity, measured)| {
            let own = |limit: &&Limit| limit.is_about(&identity.experiment, &identity.subject, identity.quantity);
            self.limits.iter().filter(own).map(move |limit| (limit, measured))
        });
        let known: Vec<(&Limit, &Measured)> = known.collect();
        let is_enough = |(look, time): &(usize, &Duration)| {
            let (shorter, level) = (before_ns / time.as_nanos() as f64, level(&times, *look, self.at_most));
            let is_decided = |(limit, measured): &(&Limit, &Measured)| {
                let mut figures =
                    Figure::ALL.into_iter().filter(|own| limit.figure.is_none_or(|figure| figure == *own));
                let reading = |figure: Figure| measured.entries.first()?.readings[figure as usize].ok();
                figures.all(|figure| reading(figure).is_some_and(|read| decides(limit, read, shorter, level)))
            };
            !known.is_empty() && known.iter().all(is_decided)
        };
        times.iter().enumerate().find(is_enough).map(|(_, time)| *time)
    }
}

/// Whether a new run whose rounds scatter like those of this one shows that it keeps the limit, three times of four. `shorter`: the old
/// run's time over the new one's.
fn decides(limit: &Limit, reading: Reading, shorter: f64, level: f64) -> bool {
    /// The 75 % quantile of a normal variable.
    const THREE_OF_FOUR: f64 = 0.674_490;
    let Reading { place, noise, floor } = reading;
    let old_ns = SCALE.figure(place);
    let Some(bound) = limit.bound_ns(old_ns).map(|by_ns| on_scale(old_ns, by_ns)) else { return false };
    let variance = noise + noise * shorter + 2.0 * floor;
    // Both runs' noise has the freedom of one run's Allan variance.
    let freedom = 8.0;
    bound > (student_quantile(2.0 * level, freedom) + THREE_OF_FOUR) * variance.sqrt()
}

/// When to look: after the first stretch, then each time after twice as long, and at the end.
fn times(at_most: Duration) -> Vec<Duration> {
    let mut times: Vec<Duration> =
        std::iter::successors(Some(FIRST), |time| time.checked_mul(2)).take_while(|time| *time < at_most).collect();
    times.push(at_most);
    times
}

/// The error probability that a look may spend.
fn level(times: &[Duration], look: usize, at_most: Duration) -> f64 {
    let spent =
        |time: Duration| LEVEL * ((std::f64::consts::E - 1.0) * (time.as_secs_f64() / at_most.as_secs_f64())).ln_1p();
    let before = look.checked_sub(1).map_or(0.0, |before| spent(times[before]));
    spent(times.get(look).copied().unwrap_or(at_most)) - before
}

/// An increase on the comparison's scale.
fn on_scale(old_ns: f64, by_ns: f64) -> f64 {
    SCALE.place(old_ns + by_ns) - SCALE.place(old_ns)
}

/// What is shown of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Kept,
    Exceeded,
    Neither,
}

fn shown(shift: &Shift, bound: f64, (level, figures): (f64, usize), is_over: bool) -> Shown {
    let reach = |tail: f64| student_quantile(2.0 * tail, shift.freedom) * shift.error;
    let lower = shift.by - reach(level / figures as f64);
    if lower > bound || (is_over && shift.by >= bound && lower > bound / 2.0) {
        Shown::Exceeded
    } else if shift.by + reach(level) < bound {
        Shown::Kept
    } else {
        Shown::Neither
    }
}

/// The violation of a figure; `None` if it is shown to keep the limit.
fn judge(difference: &Difference, bound_ns: f64, level: (f64, usize), is_over: bool) -> Option<What> {
    let bound = on_scale(difference.old_ns, bound_ns);
    match shown(&difference.shift, bound, level, is_over) {
        Shown::Kept => None,
        Shown::Exceeded => Some(What::Worse),
        Shown::Neither => Some(What::Blind(difference.runs_to_show(bound_ns))),
    }
}

/// Whether more samples could decide what is open.
fn can_be_decided(judgement: &Judgement) -> bool {
    // A percentile without enough samples has them later.
    judgement.unjudged.iter().any(|finding| finding.series.is_some())
}

#[cfg(test)]
mod tests {
    use punctual_record::statistics::{Random, median};

    use super::*;
    use crate::compare::limit::Amount;
    use crate::evidence::{difference, noise};

    /// A machine whose rounds scatter, and wander slowly by as much.
    struct Machine {
        random: Random,
        scatter: f64,
        wandered: f64,
    }

    impl Machine {
        fn new(seed: u64, scatter: f64) -> Self {
            Self { random: Random::new(seed), scatter, wandered: 0.0 }
        }

        fn normal(&mut self) -> f64 {
            (0..12).map(|_| (self.random.bits() >> 11) as f64 / (1_u64 << 53) as f64).sum::<f64>() - 6.0
        }

        fn round(&mut self) -> f64 {
            self.wandered = 0.9 * self.wandered + 0.2 * self.scatter * self.normal();
            self.wandered + self.scatter * self.normal()
        }

        fn rounds(&mut self, count: u32) -> Vec<f64> {
            (0..count).map(|_| self.round()).collect()
        }
    }

    fn reading(rounds: &[f64], by: f64) -> Reading {
        let place = SCALE.place(60_000.0) + by + median(rounds).unwrap();
        Reading { place, noise: noise::wandering(rounds).unwrap(), floor: 1e-4 }
    }

    const AT_MOST: Duration = Duration::from_secs(60);

    /// What a gate of 25 % says of a figure that grew by this share, and after how long.
    fn gate(seed: u64, scatter: f64, grown: f64) -> (Shown, Duration) {
        let mut machine = Machine::new(seed, scatter);
        let old = reading(&machine.rounds(25), 0.0);
        let limit = Limit { figure: Some(Figure::P50), subject: None, amount: Amount::Share(0.25) };
        let times = times(AT_MOST);
        let mut rounds = Vec::new();
        for (look, time) in times.iter().enumerate() {
            let wanted = (time.as_millis() / ROUND.as_millis()) as usize;
            rounds.extend(machine.rounds((wanted - rounds.len()) as u32));
            let shift = difference::one_each(old, reading(&rounds, grown.ln_1p()));
            let old_ns = SCALE.figure(shift.from);
            let bound = on_scale(old_ns, limit.bound_ns(old_ns).unwrap());
            let said = shown(&shift, bound, (level(&times, look, AT_MOST), 1), look + 1 == times.len());
            if said != Shown::Neither {
                return (said, *time);
            }
        }
        (Shown::Neither, AT_MOST)
    }

    fn counted(scatter: f64, grown: f64) -> [usize; 2] {
        const GATES: u64 = 400;
        let all: Vec<Shown> = (0..GATES).map(|seed| gate(seed * 7919 + 3, scatter, grown).0).collect();
        [Shown::Exceeded, Shown::Kept]
            .map(|wanted| all.iter().filter(|said| **said == wanted).count() * 100 / GATES as usize)
    }

    /// However noisy the machine: of a hundred gates at most five fail falsely, for an increase up to half of the limit.
    #[test]
    fn false_alarms_stay_within_their_level() {
        for scatter in [0.01, 0.05, 0.1, 0.3] {
            for grown in [0.0, 0.11] {
                let [failed, _] = counted(scatter, grown);
                assert!(failed <= 5, "{failed} % fail at a scatter of {scatter}, grown by {grown}");
            }
        }
    }

    #[test]
    fn what_is_far_from_the_limit_is_decided() {
        let [failed, passed] = counted(0.03, 0.0);
        assert!(failed == 0 && passed >= 90, "{failed} {passed}");
        let [failed, passed] = counted(0.03, 1.5);
        assert!(failed >= 90 && passed == 0, "{failed} {passed}");
        let [failed, passed] = counted(0.01, 0.35);
        assert!(failed >= 80 && passed == 0, "{failed} {passed}");
        // Where the noise hides the limit, neither is said.
        let [failed, passed] = counted(1.0, 0.0);
        assert!(failed <= 5 && passed <= 5, "{failed} {passed}");
    }

    #[test]
    fn the_less_noise_the_sooner() {
        let seconds = |scatter: f64| (0..50).map(|seed| gate(seed, scatter, 0.0).1.as_secs()).sum::<u64>();
        assert!(seconds(0.01) < seconds(0.1), "{} {}", seconds(0.01), seconds(0.1));
    }

    #[test]
    fn the_looks_spend_the_level_and_no_more() {
        for at_most in [1, 2, 3, 60, 600].map(Duration::from_secs) {
            let times = times(at_most);
            assert_eq!(times.last(), Some(&at_most));
            let spent: f64 = (0..times.len()).map(|look| level(&times, look, at_most)).sum();
            assert!((spent - LEVEL).abs() < 1e-12, "{at_most:?}: {spent}");
        }
    }
}
