//! The mean of a figure over the rounds of one series, with its interval.

use punctual_record::{RoundFigures, Series};

use super::{LEVEL, Shift, noise};

/// A mean with its 95 % interval, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mean {
    /// The mean of the rounds.
    pub(crate) ns: f64,
    /// Lower end.
    pub(crate) low: f64,
    /// Upper end.
    pub(crate) high: f64,
}

impl Mean {
    /// The mean of one figure of each round. The error is the Allan deviation of the rounds. Their standard error is
    /// too small on a machine that drifts. `None`: fewer rounds than a test takes.
    pub(crate) fn of_rounds(series: &Series, figure: impl Fn(&RoundFigures) -> Option<f64>) -> Option<Self> {
        let values: Vec<f64> = series.rounds.iter().filter_map(figure).filter(|ns| ns.is_finite()).collect();
        let variance = noise::wandering(&values)?;
        let ns = values.iter().sum::<f64>() / values.len() as f64;
        let reach =
            Shift { from: 0.0, by: ns, error: variance.sqrt(), freedom: noise::FREEDOM, pair: variance }.reach(LEVEL);
        Some(Self { ns, low: ns - reach, high: ns + reach })
    }
}

#[cfg(test)]
mod tests {
    use punctual_record::{Experiment, Quantity, Recorder, SeriesId, SeriesTally, Typed, Usage, experiment};

    use super::*;

    fn series(rounds: &[i64]) -> Series {
        let mut tally = SeriesTally::new();
        let mut recorder = Recorder::new();
        for (round, &ns) in (0..).zip(rounds) {
            recorder.clear();
            recorder.record(ns);
            tally.add_round(round, 0, &recorder, Usage::default());
        }
        tally.to_series(SeriesId {
            experiment: Experiment::Wait(Typed::asked(experiment::wait::Parameters::of(1))),
            subject: "nanosleep".into(),
            about: Default::default(),
            conditions: "other".into(),
            quantity: Quantity::Overshoot,
        })
    }

    fn mean(rounds: &[i64]) -> Option<Mean> {
        Mean::of_rounds(&series(rounds), |round| round.summary.mean)
    }

    #[test]
    fn rounds_that_differ_widen_it() {
        let narrow = mean(&[-10, -12, -10, -11, -12]).unwrap();
        assert!(narrow.ns == -11.0 && narrow.high < 0.0 && narrow.low > -16.0, "{narrow:?}");
        let wide = mean(&[-90, 70, -80, 60, -15]).unwrap();
        assert!(wide.ns == -11.0 && wide.low < -100.0 && wide.high > 80.0, "{wide:?}");
        assert_eq!(mean(&[-11, -11, -11, -11]), None, "too few rounds");
    }
}
