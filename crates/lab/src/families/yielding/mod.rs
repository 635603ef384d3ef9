//! `yield`: the cost of each way of giving up the CPU, and which programs gain by it.
//!
//! The input is a [`Plan`]. The [`Session`] receives the series of each method, situation and variant of conditions; a
//! situation is to be alone, or with N competitors on the same CPU. The series are `call_cost` (each call between two clock
//! readings) and `away` (the calls during which a competitor ran). `call_cost` also has the results that are no distribution:
//! the cost in a bare loop, user and system time, the calls that let a competitor run, and the shares of the CPU.
//!
//! A competitor's own progress proves that it ran, not the caller's clock: see [`crate::crowd`].

mod bench;
pub mod methods;
pub mod plan;

use punctual::Policy;
use punctual_linux::usage::{CpuClocks, tick_ns};
use punctual_record::experiment::yielding;
use punctual_record::{About, Experiment, Quantity, Typed};

use crate::crowd::Crowd;
use crate::frame::error::more_time;
use crate::frame::schedule::{CellCost, Schedule};
use crate::frame::{
    self, Asked, Bench, Error, Failure, Family, Layout, Measured, Place, Report, Scene, Session, Unavailable, names,
};
use bench::{Extra, YieldBench};
use plan::{Cell, CompetitorSpec};
pub use plan::{CompetitorPolicy, Plan, Request};

/// The first estimate of a call's cost. Alone it is a sleep with the default slack, with competitors a part of their
/// time slice.
const USUAL_NS: (f64, f64) = (20_000.0, 500_000.0);
/// The weights of the time shares. A cell with competitors gets 2.6 times the share of one without. A slice lasts
/// milliseconds, and a share of the CPU needs many slices. One without needs ticks for its user and system time. The
/// schedule takes the square root.
const IDEAL_NS: (f64, f64) = (150_000.0, 1_000_000.0);

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::YIELD;

/// Runs the plan and enters its measurements in the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    frame::run(plan, session).map(drop)
}

impl Family for Plan {
    type Extra = Extra;
    /// The competitors, indexed like [`Plan::specs`].
    type Company = Vec<Result<Crowd, Failure>>;
    const PECULIAR: &'static [&'static str] =
        names!(yielding::Parameters: competitors, competitor_kind, competitor_policy, competitor_rank);
    const PER_VARIANT: bool = true;

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.request, self.cells.iter().map(|cell| cell.variant))
    }

    fn asked(&self, cell: usize) -> Asked {
        let method = self.methods[self.cells[cell].method];
        Asked {
            subject: method.name.into(),
            about: About { call: Some(method.call.into()), ..About::default() },
            experiment: Experiment::Yield(Typed::asked(self.parameters(cell))),
        }
    }

    fn schedule(&self) -> Schedule {
        let cost = |cell: &Cell| match cell.competitors {
            0 => CellCost { ideal_ns: IDEAL_NS.0, expected_ns: USUAL_NS.0 },
            _ => CellCost { ideal_ns: IDEAL_NS.1, expected_ns: USUAL_NS.1 },
        };
        Schedule::new(self.request.amount, self.request.rounds, self.cells.iter().map(cost))
    }

    fn place(&self) -> Place {
        let competes = |spec: &CompetitorSpec| spec.policy.as_ref().is_some_and(Policy::is_real_time);
        Place::on_cpu(Some(self.cpu), self.request.is_real_time() || self.specs.iter().any(competes))
    }

    fn prepare(&mut self, _: &mut Session<'_>) -> Result<(), Error> {
        self.observed = self.methods.iter().map(|method| methods::system_calls_in_words(method)).collect();
        Ok(())
    }

    fn too_short(&self, _: usize) -> Unavailable {
        Unavailable::but("its share of the time did not pay for one call", more_time())
    }

    fn gather(&self, _: &Scene<'_>) -> Result<Self::Company, Failure> {
        let gather = |(index, spec): (usize, &CompetitorSpec)| {
            Crowd::gather(spec.kind, self.most_of(index), &spec.conditions(self.cpu), spec.restraint())
        };
        Ok(self.specs.iter().enumerate().map(gather).collect())
    }

    fn open<'a>(&'a self, crowds: Self::Company, _: &Scene<'a>) -> Result<Box<dyn Bench<Extra = Extra> + 'a>, Error> {
        Ok(Box::new(YieldBench::open(self, crowds)))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, Extra>) -> Report {
        let experiment = |metrics| Experiment::Yield(Typed { parameters: self.parameters(cell), metrics });
        let extra = measured.extra;
        let metrics = metrics(self.cells[cell].competitors, extra, &self.observed[self.cells[cell].method]);
        let mut calls = measured.series(measured.tally, Quantity::CallCost, experiment(metrics));
        if self.cells[cell].competitors > 0 {
            let shares = calls.rounds.iter_mut().zip(&extra.shares);
            shares.for_each(|(round, shares)| {
                round.competitor_cpu_share = shares.competitors;
                round.own_cpu_share = shares.own;
            });
        }
        let mut series = vec![calls];
        if extra.away.count() > 0 {
            series.push(measured.series(&extra.away, Quantity::Away, experiment(yielding::Metrics::default())));
        }
        Report::with_series(series)
    }
}

impl Plan {
    fn parameters(&self, cell: usize) -> yielding::Parameters {
        let cell = &self.cells[cell];
        let spec = cell.spec.map(|spec| &self.specs[spec]);
        yielding::Parameters {
            competitors: cell.competitors,
            competitor_kind: spec.map(|spec| spec.kind),
            competitor_policy: spec.map(CompetitorSpec::label),
            competitor_rank: spec.map(|spec| spec.rank),
        }
    }
}

/// The results that are no distribution.
fn metrics(competitors: u32, extra: &Extra, observed: &str) -> yielding::Metrics {
    let sums = &extra.sums;
    let per = |sum: f64, all: f64| Some(sum / all).filter(|share| share.is_finite());
    let of_time = |ns: i64| per(ns as f64, sums.elapsed_ns as f64).filter(|_| competitors > 0);
    let mut bare = extra.bare_ns.clone();
    bare.sort_by(f64::total_cmp);
    let bare_cpu_ns = per(sums.bare_cpu.exact_ns as f64, sums.bare_calls as f64);
    let user = user_share(sums.bare_cpu, tick_ns().unwrap_or(i64::MAX));
    yielding::Metrics {
        observed: Some(observed.to_owned()),
        bare_ns: bare.get(bare.len() / 2).copied(),
        bare_cpu_ns,
        user_ns_per_op: bare_cpu_ns.zip(user).map(|(ns, user)| ns * user),
        system_ns_per_op: bare_cpu_ns.zip(user).map(|(ns, user)| ns * (1.0 - user)),
        yielded_share: per(sums.calls_with_competitor as f64, sums.calls as f64).filter(|_| competitors > 0),
        competitor_cpu_share: of_time(sums.competitors_cpu_ns),
        own_cpu_share: of_time(sums.own_cpu_ns),
    }
}

/// The widest half of a 95 % interval that a share of user mode may have.
const SPLIT_ERROR: f64 = 0.2;

/// The share of user mode. Most kernels sample it: each tick counts as user or as system time, whole. `None` where the
/// ticks are too few for [`SPLIT_ERROR`], by the interval of E. B. Wilson (1927).
fn user_share(cpu: CpuClocks, tick_ns: i64) -> Option<f64> {
    const Z: f64 = 1.96;
    let ticks = cpu.sampled_ns as f64 / tick_ns as f64;
    let share = (cpu.user_ns as f64 / cpu.sampled_ns as f64).clamp(0.0, 1.0);
    let half = Z * (share * (1.0 - share) / ticks + (Z / (2.0 * ticks)).powi(2)).sqrt() / (1.0 + Z * Z / ticks);
    (half <= SPLIT_ERROR).then_some(share)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual_record::experiment::yielding::{CompetitorKind, Rank};

    use super::bench::{Shares, Sums};
    use super::*;
    use crate::frame::Amount;
    use crate::frame::Request as Frame;
    use crate::frame::tests::{made_up_report, made_up_tally};

    #[test]
    fn user_and_system_time_need_enough_ticks() {
        let share = |user: i64, ticks: i64| {
            user_share(CpuClocks { exact_ns: 0, user_ns: user * 4_000_000, sampled_ns: ticks * 4_000_000 }, 4_000_000)
        };
        assert_eq!((share(0, 0), share(1, 2), share(5, 10), share(0, 4)), (None, None, None, None));
        // The same number of ticks says more of a share near 0 or 1.
        assert_eq!((share(0, 8), share(8, 8), share(20, 40)), (Some(0.0), Some(1.0), Some(0.5)));
    }

    #[test]
    fn a_series_says_who_had_the_cpu() {
        let plan = Plan::new(Request {
            methods: vec![methods::find("sched_yield").unwrap()],
            competitors: vec![0, 2],
            kinds: vec![CompetitorKind::Thread],
            competitor_policies: vec![CompetitorPolicy::AsFound],
            competitor_nice: None,
            frame: Frame::as_found(Amount::Time(Duration::from_secs(1)), 3),
        });
        let plan = Plan { observed: vec!["sched_yield".into()], ..plan.unwrap() };
        let sums = Sums {
            calls: 4,
            calls_with_competitor: 1,
            elapsed_ns: 100,
            own_cpu_ns: 60,
            competitors_cpu_ns: 30,
            ..Sums::default()
        };
        let shares = Shares { competitors: Some(0.3), own: Some(0.6) };
        let with_others = Extra { sums, away: made_up_tally(&[7]), shares: vec![shares], ..Extra::default() };
        let alone = Extra { bare_ns: vec![9.0, 5.0, 6.0], ..Extra::default() };
        let extras = [alone, with_others];
        let report = made_up_report(&plan, 0, &[10], &extras);
        let typed = report.series[0].experiment.yields().unwrap();
        assert_eq!((typed.parameters.competitors, typed.parameters.competitor_kind), (0, None));
        assert_eq!((typed.metrics.bare_ns, typed.metrics.yielded_share, report.series.len()), (Some(6.0), None, 1));
        let report = made_up_report(&plan, 1, &[10], &extras);
        let typed = report.series[0].experiment.yields().unwrap();
        assert_eq!(typed.parameters.competitor_kind, Some(CompetitorKind::Thread));
        assert_eq!(typed.parameters.competitor_rank, Some(Rank::Same));
        assert_eq!(typed.parameters.competitor_policy.as_deref(), Some("as found"));
        let metrics = &typed.metrics;
        assert_eq!(
            (metrics.yielded_share, metrics.competitor_cpu_share, metrics.own_cpu_share),
            (Some(0.25), Some(0.3), Some(0.6))
        );
        assert_eq!((metrics.user_ns_per_op, metrics.observed.as_deref()), (None, Some("sched_yield")));
        assert_eq!(report.series[1].quantity, Quantity::Away);
        let round = &report.series[0].rounds[0];
        assert_eq!((round.competitor_cpu_share, round.own_cpu_share), (Some(0.3), Some(0.6)));
    }
}
