//! The activations of one subject, and what they cost.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::cpufreq::Cost;
use punctual_record::{Param, SeriesTally, Usage};

use super::Subject;
use crate::governor::settle::median;
use crate::usage::Sum;

/// One subject's turns.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) subject: Subject,
    pub(super) tally: SeriesTally,
    /// Every response time in ns, turn after turn.
    pub(super) responses: Vec<i64>,
    pub(super) usage: Sum,
    pub(super) failure: Option<(String, String)>,
    met: u64,
    costs: Vec<Cost>,
    time_in_state: BTreeMap<u64, Duration>,
    energy: Option<(u64, Duration)>,
}

/// What a turn used, beside its response times.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Deadlines met.
    pub(super) met: u64,
    /// CPU time and switches.
    pub(super) used: Usage,
    /// Time at each frequency.
    pub(super) time_in_state: Vec<(u64, Duration)>,
    /// Energy, in µJ, and the time it was counted for.
    pub(super) energy: Option<(u64, Duration)>,
    /// What a boost tells of itself.
    pub(super) cost: Option<Cost>,
    /// A policy whose governor was not the one set for the turn, at its end.
    pub(super) others: Option<(usize, String)>,
}

impl Cell {
    pub(super) fn new(subject: Subject) -> Self {
        Self {
            subject,
            tally: SeriesTally::new(),
            responses: Vec::new(),
            usage: Sum::default(),
            failure: None,
            met: 0,
            costs: Vec::new(),
            time_in_state: BTreeMap::new(),
            energy: None,
        }
    }

    /// Takes in a turn.
    pub(super) fn add(&mut self, responses: &[i64], turn: Turn) {
        self.responses.extend_from_slice(responses);
        self.met += turn.met;
        for (khz, time) in turn.time_in_state {
            *self.time_in_state.entry(khz).or_default() += time;
        }
        if let Some((uj, time)) = turn.energy {
            let (so_far, counted) = self.energy.unwrap_or_default();
            self.energy = Some((so_far + uj, counted + time));
        }
        self.costs.extend(turn.cost);
    }

    /// What came of it, for the record: `met`, `missed`; `khz_N_share` for each frequency visited, and `mean_khz`; `power_mw`; and of a boost its
    /// lever, lead, learning and switching.
    pub(super) fn outcome(&self) -> BTreeMap<String, Param> {
        let missed = self.responses.len() as u64 - self.met;
        let mut all = BTreeMap::from([
            ("met".to_owned(), Param::Int(self.met as i64)),
            ("missed".to_owned(), Param::Int(missed as i64)),
        ]);
        let seconds: f64 = self.time_in_state.values().map(Duration::as_secs_f64).sum();
        if seconds > 0.0 {
            let share = |time: &Duration| time.as_secs_f64() / seconds;
            let mean: f64 = self.time_in_state.iter().map(|(khz, time)| *khz as f64 * share(time)).sum();
            all.insert("mean_khz".into(), Param::Int(mean.round() as i64));
            all.extend(
                self.time_in_state.iter().map(|(khz, time)| (format!("khz_{khz}_share"), Param::Real(share(time)))),
            );
        }
        if let Some((uj, time)) = self.energy.filter(|(_, time)| !time.is_zero()) {
            all.insert("power_mw".into(), Param::Int((uj as f64 / 1e3 / time.as_secs_f64()).round() as i64));
        }
        all.extend(self.boosted());
        all
    }

    fn boosted(&self) -> BTreeMap<String, Param> {
        let Some(last) = self.costs.last() else { return BTreeMap::new() };
        let sum = |pick: fn(&Cost) -> u64| self.costs.iter().map(pick).sum::<u64>();
        let time = |pick: fn(&Cost) -> Duration| self.costs.iter().map(pick).sum::<Duration>();
        let switches = sum(|cost| cost.switches);
        let per = |time: Duration, count: u64| Param::Int((time.as_nanos() / u128::from(count.max(1))) as i64);
        let leads: Vec<i64> = self.costs.iter().map(|cost| cost.lead.as_nanos() as i64).collect();
        let elapsed = time(|cost| cost.elapsed).as_secs_f64().max(1e-9);
        let mut all = BTreeMap::from([
            ("lever".to_owned(), Param::Text(last.lever.to_string())),
            ("lead_ns".to_owned(), Param::Int(median(&leads).unwrap_or(0))),
            ("switches".to_owned(), Param::Int(switches as i64)),
            ("switching_ns".to_owned(), per(time(|cost| cost.switching), switches)),
            ("raised_share".to_owned(), Param::Real(time(|cost| cost.raised).as_secs_f64() / elapsed)),
            ("learned".to_owned(), Param::Int(sum(|cost| cost.learned) as i64)),
            ("learning_share".to_owned(), Param::Real(time(|cost| cost.learning).as_secs_f64() / elapsed)),
            ("not_at_full_speed".to_owned(), Param::Int(sum(|cost| cost.not_at_full_speed) as i64)),
        ]);
        all.extend(last.full_khz.map(|khz| ("full_khz".to_owned(), Param::Int(khz as i64))));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn turns_add_up() {
        let mut cell = Cell::new(Subject::AsFound);
        let turn = |slow: u32, fast: u32| Turn {
            met: 1,
            used: Usage::default(),
            time_in_state: vec![(1_000_000, slow * MS), (3_000_000, fast * MS)],
            energy: Some((500_000, 100 * MS)),
            others: None,
            cost: None,
        };
        cell.add(&[5, 6], turn(100, 0));
        cell.add(&[7], turn(50, 50));
        let outcome = cell.outcome();
        assert_eq!((&outcome["met"], &outcome["missed"]), (&Param::Int(2), &Param::Int(1)));
        assert_eq!(outcome["mean_khz"], Param::Int(1_500_000));
        assert_eq!(outcome["khz_3000000_share"], Param::Real(0.25));
        assert_eq!(outcome["power_mw"], Param::Int(5_000));
        assert!(!outcome.contains_key("lever"));
    }

    #[test]
    fn what_the_kernel_does_not_count_is_absent() {
        let mut cell = Cell::new(Subject::Performance);
        cell.add(&[5], Turn::default());
        assert_eq!(cell.outcome().keys().collect::<Vec<_>>(), ["met", "missed"]);
    }
}
