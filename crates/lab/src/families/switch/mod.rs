//! `switch`: the time to switch governors, for the write itself and until loops run at the new speed.
//!
//! One thread loops on one CPU and stamps every loop. Another thread, on another CPU, writes the governor at a known
//! time. Each turn switches back and forth repeatedly.

mod bench;
mod plan;

use std::collections::BTreeMap;

use punctual_record::experiment::switch;
use punctual_record::statistics::lower_median;
use punctual_record::{About, Experiment, Quantity, Recorder, Series, SeriesTally, Typed};

use crate::frame::schedule::Schedule;
use crate::frame::{self, Asked, Bench, Error, Failure, Family, Layout, Measured, Report, Scene, Session, Unavailable};
use bench::{Extra, Seen, Switch, SwitchBench, Switcher};
use plan::LOOP;
pub use plan::{Plan, Request, subjects};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::SWITCH;

/// Runs the plan and enters its measurements in the session. False: governors were switched, and the speed did not
/// follow them.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<bool, Error> {
    let done = frame::run(plan, session)?;
    let switches: Vec<&Switch> = done.extras.iter().flat_map(|extra| &extra.switches).collect();
    Ok(switches.is_empty() || [0, 1].into_iter().any(|to| follows(&switches_to(&switches, to))))
}

/// The switches to one governor.
fn switches_to<'a>(switches: &[&'a Switch], to: usize) -> Vec<&'a Switch> {
    switches.iter().copied().filter(|switch| switch.to == to).collect()
}

/// Whether most switches changed the speed. A machine that disturbs the loops shows some changes, in both directions.
fn follows(switches: &[&Switch]) -> bool {
    2 * followed(switches).len() > switches.len()
}

/// One cell for both directions, which only take turns with each other.
impl Family for Plan {
    type Extra = Extra;
    type Company = Switcher;

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.request, [0])
    }

    fn asked(&self, _: usize) -> Asked {
        let experiment = Experiment::Switch(Typed::asked(switch::Parameters {}));
        Asked { subject: self.subject(1), about: About::default(), experiment }
    }

    fn schedule(&self) -> Schedule {
        Schedule::fixed(self.request.rounds, 2 * self.switches, plan::EACH, 1, self.at_most)
    }

    fn prepare(&mut self, _: &mut Session<'_>) -> Result<(), Error> {
        self.take_over();
        Ok(())
    }

    fn forbidden(&self, _: usize) -> Option<Unavailable> {
        self.failure.clone()
    }

    fn gather(&self, _: &Scene<'_>) -> Result<Switcher, Failure> {
        Ok(self.switcher()?)
    }

    fn open<'a>(&'a self, switcher: Switcher, scene: &Scene<'a>) -> Result<Box<dyn Bench<Extra = Extra> + 'a>, Error> {
        Ok(Box::new(SwitchBench::open(self, switcher, scene)))
    }

    fn report(&self, _: usize, measured: &Measured<'_, Extra>) -> Report {
        let mut report = Report::default();
        for to in [1, 0] {
            self.report_direction(to, measured, &mut report);
        }
        report
    }
}

impl Plan {
    /// The two series of one direction.
    fn report_direction(&self, to: usize, measured: &Measured<'_, Extra>, report: &mut Report) {
        let switches = switches_to(&measured.extra.switches.iter().collect::<Vec<_>>(), to);
        if switches.is_empty() {
            return;
        }
        let levels = |pick: fn(&Seen) -> Option<i64>| {
            lower_median(&switches.iter().filter_map(|switch| pick(&switch.seen)).collect::<Vec<_>>())
        };
        let number = |cpu: Option<usize>| cpu.and_then(|cpu| u32::try_from(cpu).ok());
        let metrics = switch::Metrics {
            cpu: number(self.cpu),
            switched_from_cpu: number(self.other_cpu),
            loop_ns: Some(LOOP.as_nanos() as i64),
            before_ns: levels(|seen| seen.before_ns),
            after_ns: levels(|seen| seen.after_ns),
            not_seen: Some((switches.len() - followed(&switches).len()) as u64),
        };
        let series = |tally: &SeriesTally, quantity| {
            let experiment = Experiment::Switch(Typed { parameters: switch::Parameters {}, metrics: metrics.clone() });
            Series { subject: self.subject(to), ..measured.series(tally, quantity, experiment) }
        };
        let write = |switch: &&Switch| Some((switch.round, switch.write_ns));
        report.series.push(series(&tally(switches.iter().filter_map(write)), Quantity::CallCost));
        let followed = followed(&switches);
        if follows(&switches) {
            report.series.push(series(&tally(followed.into_iter()), Quantity::Settling));
        } else {
            let why = format!(
                "the speed does not follow the governor here: loops differed after {} of {} switches",
                followed.len(),
                switches.len()
            );
            let remedy = "measure on a CPU whose clock really changes; two governors that keep the same speed show nothing either";
            report.missing.push((self.subject(to), Unavailable::but(why, remedy)));
        }
    }
}

/// The switches that changed the speed in the direction of most, with their round and time.
fn followed(switches: &[&Switch]) -> Vec<(u32, i64)> {
    let direction = |switch: &Switch| Some((switch.seen.after_ns? - switch.seen.before_ns?).signum());
    let settled: Vec<(&Switch, i64)> =
        switches.iter().filter_map(|switch| Some((*switch, switch.seen.settled_ns?))).collect();
    let sum: i64 = settled.iter().filter_map(|(switch, _)| direction(switch)).sum();
    let same = |(switch, _): &&(&Switch, i64)| direction(switch) == Some(sum.signum());
    settled.iter().filter(same).map(|(switch, ns)| (switch.round, *ns)).collect()
}

/// One batch per round.
fn tally(samples: impl Iterator<Item = (u32, i64)>) -> SeriesTally {
    let mut rounds: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for (round, ns) in samples {
        rounds.entry(round).or_default().push(ns);
    }
    let mut tally = SeriesTally::new();
    let mut recorder = Recorder::new();
    for (round, samples) in rounds {
        tally.add_samples((round, 0), &mut recorder, samples);
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::made_up_report;
    use crate::speed::Thread;

    #[test]
    fn each_direction_has_its_series_or_says_why_not() {
        let thread = Thread { cpu: Some(0), ..Thread::default() };
        let plan = Plan::new(Request { governors: None, switches: 2, rounds: 1, thread }).unwrap();
        let plan = Plan { other_cpu: Some(1), ..plan };
        let seen = |settled_ns| Seen { before_ns: Some(150), after_ns: Some(50), settled_ns };
        let switch = |to, settled_ns| Switch { to, round: 0, write_ns: 70, seen: seen(settled_ns) };
        let switches = [switch(0, None), switch(1, Some(450)), switch(0, None), switch(1, None), switch(1, Some(460))];
        let report = made_up_report(&plan, 0, &[70; 5], &[Extra { switches: switches.to_vec(), rounds: 1 }]);
        let shown: Vec<_> = report
            .series
            .iter()
            .map(|series| (series.subject.as_str(), series.quantity, series.summary.count))
            .collect();
        assert_eq!(
            shown,
            [
                ("powersave to performance", Quantity::CallCost, 3),
                ("powersave to performance", Quantity::Settling, 2),
                ("performance to powersave", Quantity::CallCost, 2),
            ]
        );
        assert_eq!(report.missing.len(), 1);
        assert_eq!(report.missing[0].0, "performance to powersave");
        let metrics = &report.series[0].experiment.switch().unwrap().metrics;
        assert_eq!((metrics.cpu, metrics.switched_from_cpu, metrics.not_seen), (Some(0), Some(1), Some(1)));
        assert_eq!((metrics.loop_ns, metrics.before_ns, metrics.after_ns), (Some(50_000), Some(150), Some(50)));
    }
    #[test]
    fn changes_by_chance_are_not_the_governors() {
        let thread = Thread { cpu: Some(0), ..Thread::default() };
        let plan = Plan::new(Request { governors: None, switches: 6, rounds: 1, thread }).unwrap();
        // Loops that differ after every switch, as often faster as slower; and after a third of them, always faster.
        let both = |n: i64| Some(if n % 2 == 0 { 50_i64 } else { 250 });
        let rare = |n: i64| Some(if n % 3 == 0 { 50_i64 } else { 150 });
        for after in [&both as &dyn Fn(i64) -> Option<i64>, &rare] {
            let seen = |n: i64| {
                let settled_ns = after(n).filter(|ns| *ns != 150).map(|_| 300);
                Seen { before_ns: Some(150), after_ns: after(n), settled_ns }
            };
            let switches = (0..6).map(|n| Switch { to: 1, round: 0, write_ns: 70, seen: seen(n) }).collect();
            let report = made_up_report(&plan, 0, &[70; 6], &[Extra { switches, rounds: 1 }]);
            assert!(report.series.iter().all(|series| series.quantity == Quantity::CallCost));
            assert_eq!(report.missing.len(), 1);
        }
    }
}
