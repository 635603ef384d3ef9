//! The activations of one subject, and their cost.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::cpufreq::Cost;
use punctual_record::experiment::boost::Metrics;

use crate::frame::figures::middle;

/// The results of one subject's turns, beside its samples.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// Every response time in ns, in order.
    pub(super) responses: Vec<i64>,
    /// Steps of work in an activation.
    pub(super) steps: u64,
    met: u64,
    costs: Vec<Cost>,
    time_in_state: BTreeMap<u64, Duration>,
    energy: Option<(u64, Duration)>,
}

/// The resources that a trial used.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Number of deadlines met.
    pub(super) met: u64,
    /// Time at each frequency.
    pub(super) time_in_state: Vec<(u64, Duration)>,
    /// Energy, in µJ, and the time it was counted for.
    pub(super) energy: Option<(u64, Duration)>,
    /// A boost's own statistics.
    pub(super) cost: Option<Cost>,
}

impl Extra {
    /// Adds a trial.
    pub(super) fn add(&mut self, responses: &[i64], trial: Trial) {
        self.responses.extend_from_slice(responses);
        self.met += trial.met;
        for (khz, time) in trial.time_in_state {
            *self.time_in_state.entry(khz).or_default() += time;
        }
        if let Some((uj, time)) = trial.energy {
            let (so_far, counted) = self.energy.unwrap_or_default();
            self.energy = Some((so_far + uj, counted + time));
        }
        self.costs.extend(trial.cost);
    }

    /// The metrics of the record.
    pub(super) fn metrics(&self) -> Metrics {
        let seconds: f64 = self.time_in_state.values().map(Duration::as_secs_f64).sum();
        let share = |time: &Duration| time.as_secs_f64() / seconds;
        let mean =
            || self.time_in_state.iter().map(|(khz, time)| *khz as f64 * share(time)).sum::<f64>().round() as i64;
        let residency = || self.time_in_state.iter().map(|(khz, time)| (*khz, share(time))).collect();
        let energy = self.energy.filter(|(_, time)| !time.is_zero());
        Metrics {
            steps: Some(self.steps as i64),
            met: Some(self.met),
            missed: Some(self.responses.len() as u64 - self.met),
            mean_khz: (seconds > 0.0).then(mean),
            residency: (seconds > 0.0).then(residency),
            power_mw: energy.map(|(uj, time)| (uj as f64 / 1e3 / time.as_secs_f64()).round() as i64),
            ..self.boosted()
        }
    }

    fn boosted(&self) -> Metrics {
        let Some(last) = self.costs.last() else { return Metrics::default() };
        let sum = |pick: fn(&Cost) -> u64| self.costs.iter().map(pick).sum::<u64>();
        let time = |pick: fn(&Cost) -> Duration| self.costs.iter().map(pick).sum::<Duration>();
        let switches = sum(|cost| cost.switches);
        let leads: Vec<i64> = self.costs.iter().map(|cost| cost.lead.as_nanos() as i64).collect();
        let elapsed = time(|cost| cost.elapsed).as_secs_f64().max(1e-9);
        Metrics {
            lever: Some(last.lever.to_string()),
            lead_ns: Some(middle(&leads).unwrap_or(0)),
            switches: Some(switches),
            switching_ns: Some((time(|cost| cost.switching).as_nanos() / u128::from(switches.max(1))) as i64),
            raised_share: Some(time(|cost| cost.raised).as_secs_f64() / elapsed),
            learned: Some(sum(|cost| cost.learned)),
            learning_share: Some(time(|cost| cost.learning).as_secs_f64() / elapsed),
            not_at_full_speed: Some(sum(|cost| cost.not_at_full_speed)),
            full_khz: last.full_khz.map(|khz| khz as i64),
            ..Metrics::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn turns_add_up() {
        let mut extra = Extra::default();
        let trial = |slow: u32, fast: u32| Trial {
            met: 1,
            time_in_state: vec![(1_000_000, slow * MS), (3_000_000, fast * MS)],
            energy: Some((500_000, 100 * MS)),
            cost: None,
        };
        extra.add(&[5, 6], trial(100, 0));
        extra.add(&[7], trial(50, 50));
        let metrics = extra.metrics();
        assert_eq!((metrics.met, metrics.missed), (Some(2), Some(1)));
        assert_eq!(metrics.mean_khz, Some(1_500_000));
        assert_eq!(metrics.residency.unwrap()[&3_000_000], 0.25);
        assert_eq!(metrics.power_mw, Some(5_000));
        assert_eq!(metrics.lever, None);
    }

    #[test]
    fn what_the_kernel_does_not_count_is_absent() {
        let mut extra = Extra::default();
        extra.add(&[5], Trial::default());
        assert_eq!(extra.metrics(), Metrics { steps: Some(0), met: Some(0), missed: Some(1), ..Metrics::default() });
    }
}
