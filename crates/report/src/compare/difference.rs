//! The difference of one figure between two sides, with how far it can be trusted.
//!
//! In go the figure in each run of either side; out come the difference on the comparison's scale, its variance and that variance's degrees
//! of freedom. The variance is always that *between runs*. With one run a side it is what the runs' own wandering says
//! ([`super::noise`]); with several, what the runs differ by has its say too, each weighted by its degrees of freedom.

use super::noise::FREEDOM;
use super::side::Reading;
use super::student;

/// Degrees of freedom given to what the runs' own wandering says, once there are several: however many they are, it is one model.
const FREEDOM_OF_WANDERING: f64 = 2.0 * FREEDOM;

/// Of a side's variance, this part does not become smaller with more runs when the sides did not take turns: the machine wanders between
/// the two times at which they were measured.
const SHARED: f64 = 0.5;

/// A difference on the comparison's scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shift {
    /// Mean place of the old figures.
    pub(super) from: f64,
    /// New minus old.
    pub(super) by: f64,
    /// Its standard error.
    pub(super) error: f64,
    /// Degrees of freedom of that.
    pub(super) freedom: f64,
}

impl Shift {
    /// The probability of a difference at least as large where there is none.
    pub(super) fn probability(&self) -> f64 {
        if self.error > 0.0 { student::two_sided(self.by / self.error, self.freedom) } else { 1.0 }
    }

    /// Half the width of the interval that misses the true difference with this probability.
    pub(super) fn reach(&self, miss: f64) -> f64 {
        student::quantile(miss, self.freedom) * self.error
    }
}

/// A known figure.
#[derive(Debug, Clone, Copy)]
struct Known {
    place: f64,
    noise: f64,
    floor: f64,
}

fn known(reading: &Reading) -> Option<Known> {
    match *reading {
        Reading::Known { place, noise, floor } => Some(Known { place, noise, floor }),
        _ => None,
    }
}

/// The difference between two sides whose runs are independent of each other.
pub(super) fn apart(old: &[Reading], new: &[Reading]) -> Option<Shift> {
    let old: Vec<Known> = old.iter().filter_map(known).collect();
    let new: Vec<Known> = new.iter().filter_map(known).collect();
    let (from, to) = (mean(&old)?, mean(&new)?);
    let (error, freedom) = match (old.as_slice(), new.as_slice()) {
        ([one], [other]) => one_each(*one, *other),
        _ => several(&old, &new, from, to),
    };
    Some(Shift { from, by: to - from, error, freedom })
}

fn mean(side: &[Known]) -> Option<f64> {
    (!side.is_empty()).then(|| side.iter().map(|run| run.place).sum::<f64>() / side.len() as f64)
}

/// Error and freedom with one run a side. The floor is not an estimate: it adds to the freedom (F. Satterthwaite, 1946).
fn one_each(old: Known, new: Known) -> (f64, f64) {
    let variance = old.noise + new.noise + old.floor + new.floor;
    let doubt = (old.noise * old.noise + new.noise * new.noise) / FREEDOM;
    let freedom = if doubt > 0.0 { variance * variance / doubt } else { f64::MAX };
    (variance.sqrt(), freedom.clamp(FREEDOM, 1e6))
}

fn several(old: &[Known], new: &[Known], from: f64, to: f64) -> (f64, f64) {
    let squares: f64 = [(old, from), (new, to)]
        .iter()
        .flat_map(|(side, mean)| side.iter().map(move |run| (run.place - mean).powi(2)))
        .sum();
    let seen = (old.len() + new.len() - 2) as f64;
    let variance = (FREEDOM_OF_WANDERING * expected(old.iter().chain(new)) + squares) / (FREEDOM_OF_WANDERING + seen);
    let of_mean = |side: &[Known]| variance * (SHARED + (1.0 - SHARED) / side.len() as f64);
    ((of_mean(old) + of_mean(new)).sqrt(), FREEDOM_OF_WANDERING + seen)
}

/// What one run's figure scatters by, as the runs themselves say.
fn expected<'a>(runs: impl Iterator<Item = &'a Known>) -> f64 {
    let (sum, count) = runs.fold((0.0, 0.0), |(sum, count), run| (sum + run.noise + run.floor, count + 1.0));
    sum / count
}

/// The difference between two sides that took turns: each pair of neighbours saw the same times, good or bad, so that their differences
/// are independent of each other and do become smaller with more turns.
pub(super) fn in_turns(pairs: &[(Reading, Reading)]) -> Option<Shift> {
    let pairs: Vec<(Known, Known)> = pairs.iter().filter_map(|(old, new)| Some((known(old)?, known(new)?))).collect();
    if pairs.len() < 2 {
        return None;
    }
    let count = pairs.len() as f64;
    let from = pairs.iter().map(|(old, _)| old.place).sum::<f64>() / count;
    let by = pairs.iter().map(|(old, new)| new.place - old.place).sum::<f64>() / count;
    let squares: f64 = pairs.iter().map(|(old, new)| (new.place - old.place - by).powi(2)).sum();
    let wandering = 2.0 * expected(pairs.iter().flat_map(|(old, new)| [old, new]));
    let freedom = FREEDOM_OF_WANDERING + count - 1.0;
    let variance = (FREEDOM_OF_WANDERING * wandering + squares) / freedom;
    Some(Shift { from, by, error: (variance / count).sqrt(), freedom })
}
