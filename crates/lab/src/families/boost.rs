//! `boost`: the benefit of a boost for a periodic task. It compares the governor as found, a boost around each
//! activation, and full speed all the time.
//!
//! Each of the three has one turn per round: the CPU rests, and then a thread is activated N times. Each time it does a fixed
//! piece of work, which has a deadline. The figures are the response times (from activation to the end of the work), the
//! deadlines met, and the cost: time at each frequency, energy if it is counted, CPU time, and writes.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use punctual::cpufreq::{self, Boost, Cost, Cpufreq, CpufreqPolicy, Energy, GovernorGuard, Lever, Work};
use punctual::format_duration;
use punctual_linux as linux;
use punctual_record::experiment::boost;
use punctual_record::experiment::boost::Metrics;
use punctual_record::statistics::lower_median;
use punctual_record::{About, Experiment, Notice, Quantity, Recorder, Typed, Usage};

use crate::frame::{
    self, Bench, CellId, Error, Failure, Family, Gathered, Input, Layout, Ledger, Measured, Meter, PlanError, Report,
    Scene, Schedule, Session, Shared, Unavailable, at_least_one,
};
use crate::speed::{Looping, PATIENCE, PERFORMANCE, Thread, WARM_UP, check_work, give_back, governor_lost};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::BOOST;

/// The subjects of every run.
pub fn subjects() -> impl Iterator<Item = &'static str> {
    Subject::ALL.into_iter().map(Subject::name)
}

/// Runs the plan and enters its measurements in the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    frame::run(plan, session).map(drop)
}

/// A cell for each subject.
impl Family for Plan {
    type Extra = Extra;

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.looping.request, [0; Subject::ALL.len()])
    }

    fn identity(&self, cell: usize) -> CellId {
        let experiment = Experiment::Boost(Typed::asked(self.parameters()));
        CellId { subject: Subject::ALL[cell].name().into(), about: About::default(), experiment }
    }

    fn schedule(&self) -> Schedule {
        let each = self.asked.rest / self.asked.periods + self.asked.period;
        self.looping.schedule(self.asked.periods, each, self.cells())
    }

    /// As found: the guard first restores whatever an earlier program has left behind.
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<(), Error> {
        match Machine::new(self.looping.cpu).performance() {
            Ok((guard, found)) => {
                for text in guard.replayed() {
                    session.notice(Notice::Other { text: text.clone() });
                }
                (self.found.governor, self.found.max_khz) = (found.governor, found.max_khz);
                *self.found.full.open() = Some(guard);
            }
            Err(error) if self.looping.request.require => return Err(error.into()),
            Err(error) => self.found.failure = Some(Unavailable::from(&error)),
        }
        Ok(())
    }

    fn forbidden(&self, cell: usize) -> Option<Unavailable> {
        self.found.failure.clone().filter(|_| Subject::ALL[cell] != Subject::AsFound)
    }

    /// Full speed, until the work is calibrated.
    fn gather<'a>(&'a self, _: &Scene<'a>) -> Gathered<'a, Extra> {
        let full = self.found.full.take();
        Ok(Box::new(move |scene| Ok(Box::new(BoostBench::open(self, full, scene.ledger.clone())))))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, Extra>) -> Report {
        let metrics = boost::Metrics {
            cpu: self.looping.cpu.and_then(|cpu| u32::try_from(cpu).ok()),
            governor: self.found.governor.clone().filter(|_| Subject::ALL[cell] != Subject::Performance),
            max_khz: self.found.max_khz.map(|khz| khz as i64),
            ..measured.extra.metrics()
        };
        let experiment = Experiment::Boost(Typed { parameters: self.parameters(), metrics });
        let mut series = measured.series(measured.tally, Quantity::Response, experiment);
        series.samples = Some(measured.extra.responses.clone());
        Report::with_series(vec![series])
    }
}

impl Plan {
    fn parameters(&self) -> boost::Parameters {
        let ns = |duration: Duration| duration.as_nanos() as i64;
        let (period_ns, work_ns, deadline_ns) = (ns(self.asked.period), ns(self.asked.work), ns(self.deadline));
        boost::Parameters { period_ns, work_ns, deadline_ns, periods: self.asked.periods }
    }
}

/// The request for a plan.
#[derive(Debug, Clone)]
pub struct Request {
    /// Period of the activations.
    pub period: Duration,
    /// The work of each activation, as its duration at full speed.
    pub work: Duration,
    /// Deadline of the work, relative to its activation. None: 1.5 times the duration of the work at full speed, or
    /// the period if that is shorter.
    pub deadline: Option<Duration>,
    /// Activations per turn.
    pub periods: u32,
    /// Number of turns of each subject.
    pub rounds: u32,
    /// Rest of the CPU before each turn.
    pub rest: Duration,
    /// The way to raise the speed. None: the cheapest one available.
    pub lever: Option<Lever>,
    /// The periodic thread.
    pub thread: Thread,
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    asked: Request,
    deadline: Duration,
    looping: Looping,
    found: Found,
}

/// The machine as found before the run.
#[derive(Debug, Clone, Default)]
struct Found {
    governor: Option<String>,
    max_khz: Option<u64>,
    /// Full speed, for the calibration of the work.
    full: Shared<Option<GovernorGuard>>,
    /// Why the speed cannot be set.
    failure: Option<Unavailable>,
}

impl Plan {
    /// Checks the request.
    pub fn new(request: Request) -> Result<Self, PlanError> {
        let Request { period, work, deadline, periods, rounds, rest, .. } = request;
        at_least_one(Input::Periods, periods)?;
        at_least_one(Input::Rounds, rounds)?;
        check_work(work)?;
        let check = |holds, input: Input, must: &str, than: Duration, not: Duration| {
            input.check(holds, || format!("must be {must} ({}), not {}", format_duration(than), format_duration(not)))
        };
        check(work < period, Input::Work, "less than the period", period, work)?;
        let deadline = deadline.unwrap_or_else(|| (work + work / 2).min(period));
        check(deadline <= period, Input::Deadline, "at most the period", period, deadline)?;
        check(deadline > work, Input::Deadline, "longer than the work takes at full speed", work, deadline)?;
        let whole =
            (rest + period.saturating_mul(periods)).saturating_mul(rounds).saturating_mul(Subject::ALL.len() as u32);
        let looping = request.thread.looping(periods, rounds, whole)?;
        Ok(Self { deadline, looping, asked: request, found: Found::default() })
    }
}

/// A subject: what is done for the speed of the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// The governor as found.
    AsFound,
    /// The same, boosted around each activation.
    Boost,
    /// The governor `performance`.
    Performance,
}

impl Subject {
    const ALL: [Self; 3] = [Self::AsFound, Self::Boost, Self::Performance];

    const fn name(self) -> &'static str {
        match self {
            Self::AsFound => "as found",
            Self::Boost => "boost",
            Self::Performance => PERFORMANCE,
        }
    }
}

/// The policy of the periodic thread's CPU.
#[derive(Debug)]
struct Machine {
    cpufreq: Cpufreq,
    cpu: usize,
}

impl Machine {
    /// The policy of this CPU, or of the first one.
    fn new(cpu: Option<usize>) -> Self {
        Self { cpufreq: Cpufreq::system(), cpu: cpu.unwrap_or(0) }
    }

    fn policy(&self) -> Result<CpufreqPolicy, cpufreq::Error> {
        self.cpufreq.policies_of(&[self.cpu])?.into_iter().next().ok_or(cpufreq::Error::NoSuchCpu { cpu: self.cpu })
    }

    /// Full speed, and the policy as it was found.
    fn performance(&self) -> Result<(GovernorGuard, CpufreqPolicy), cpufreq::Error> {
        let mut guard = self.cpufreq.guard(&[self.cpu], PATIENCE)?;
        let found = self.policy()?;
        guard.set_governor(PERFORMANCE)?;
        Ok((guard, found))
    }
}
struct BoostBench<'a> {
    plan: &'a Plan,
    machine: Machine,
    ledger: Shared<Ledger>,
    full: Option<GovernorGuard>,
    /// The work, after its calibration.
    work: Option<Work>,
    responses: Vec<i64>,
    /// The last batch's results, until it counts.
    last: Option<Trial>,
}

/// A policy with another governor than the turn's own, at its end.
type Others = Option<(usize, String)>;

impl<'a> BoostBench<'a> {
    fn open(plan: &'a Plan, full: Option<GovernorGuard>, ledger: Shared<Ledger>) -> Self {
        let responses = Vec::with_capacity(plan.asked.periods as usize);
        Self { plan, machine: Machine::new(plan.looping.cpu), ledger, full, work: None, responses, last: None }
    }

    /// The work, calibrated in the first turn at full speed.
    fn work(&mut self) -> Work {
        if let Some(work) = self.work {
            return work;
        }
        Work::warm_up(WARM_UP);
        let work = *self.work.insert(Work::calibrate(self.plan.asked.work));
        give_back(self.full.take(), &self.ledger);
        work
    }

    /// Sets what the subject needs, lets the CPU rest, runs the activations, and restores the settings.
    fn trial(&mut self, subject: Subject, work: Work) -> Result<(Trial, Usage, Others), cpufreq::Error> {
        let machine = &self.machine;
        let full = || machine.performance().map(|(guard, _)| guard);
        let guard = (subject == Subject::Performance).then(full).transpose()?;
        let boost = || Boost::new(&machine.cpufreq, machine.cpu, self.plan.asked.lever, PATIENCE);
        let mut boost = (subject == Subject::Boost).then(boost).transpose()?;
        std::thread::sleep(self.plan.asked.rest);
        let before = machine.policy().ok();
        let (energy, since) = (machine.cpufreq.energy(), Instant::now());
        let meter = Meter::start();
        let outcome = activations(self.plan, boost.as_mut(), work, &mut self.responses);
        let used = meter.stop();
        let counted = since.elapsed();
        let energy = energy.as_ref().and_then(Energy::since_uj).map(|uj| (uj, counted));
        let states =
            |before: &CpufreqPolicy| machine.policy().map(|now| now.time_in_state_since(before)).unwrap_or_default();
        let time_in_state = before.as_ref().map(states).unwrap_or_default();
        let cost = boost.as_ref().map(Boost::cost);
        self.ledger.not_restored(&boost.map(Boost::restore).unwrap_or_default());
        let others = guard.as_ref().and_then(|guard| guard.other_governor(PERFORMANCE));
        give_back(guard, &self.ledger);
        Ok((Trial { met: outcome?, time_in_state, energy, cost }, used, others))
    }
}

impl Bench for BoostBench<'_> {
    type Extra = Extra;

    fn doing(&self, cell: usize) -> String {
        Subject::ALL[cell].name().to_owned()
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let work = self.work();
        self.responses.clear();
        let trial = self.trial(Subject::ALL[cell], work);
        let (trial, used, others) = trial.map_err(|error| Unavailable::from(&error))?;
        if (self.responses.len() as u64) < operations {
            return Err(Failure::Stopped);
        }
        self.responses.iter().for_each(|&ns| into.record(ns));
        if let Some(other) = others {
            return Err(governor_lost(&self.plan.looping.request, PERFORMANCE, other));
        }
        self.last = Some(trial);
        Ok(used)
    }

    fn keep(&mut self, _: usize, _: (u32, u64), extra: &mut Extra) {
        if let Some(trial) = self.last.take() {
            extra.steps = self.work.map_or(0, |work| work.steps);
            extra.responses.extend_from_slice(&self.responses);
            extra.trials.push(trial);
        }
    }

    fn end(&mut self) {
        give_back(self.full.take(), &self.ledger);
    }
}

/// Runs the activations of a turn, and returns the number of deadlines met.
fn activations(
    plan: &Plan,
    mut boost: Option<&mut Boost>,
    work: Work,
    responses: &mut Vec<i64>,
) -> Result<u64, cpufreq::Error> {
    let deadline = plan.deadline.as_nanos() as i64;
    let mut at = Instant::now() + plan.asked.period;
    let mut met = 0;
    while responses.len() < plan.asked.periods as usize && !linux::stop::requested() {
        let activation = match &mut boost {
            Some(boost) => Some(boost.wait_until(at)?),
            None => {
                sleep_until(at);
                None
            }
        };
        black_box(work.perform(black_box(responses.len() as u64)));
        let response = at.elapsed().as_nanos() as i64;
        if let (Some(boost), Some(activation)) = (&mut boost, activation) {
            boost.done(activation, at + plan.deadline)?;
        }
        responses.push(response);
        met += u64::from(response <= deadline);
        at += plan.asked.period;
    }
    Ok(met)
}

fn sleep_until(at: Instant) {
    while let Some(left) = at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::sleep(left);
    }
}

/// The results of one subject's turns, beside its samples.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// Every response time in ns, in order.
    responses: Vec<i64>,
    /// Steps of work in an activation.
    steps: u64,
    trials: Vec<Trial>,
}

/// The resources that a trial used.
#[derive(Debug, Default)]
struct Trial {
    /// Number of deadlines met.
    met: u64,
    /// Time at each frequency.
    time_in_state: Vec<(u64, Duration)>,
    /// Energy, in µJ, and the time it was counted for.
    energy: Option<(u64, Duration)>,
    /// A boost's own statistics.
    cost: Option<Cost>,
}

impl Extra {
    /// The metrics of the record.
    fn metrics(&self) -> Metrics {
        let mut time_in_state = BTreeMap::<u64, Duration>::new();
        for (khz, time) in self.trials.iter().flat_map(|trial| &trial.time_in_state) {
            *time_in_state.entry(*khz).or_default() += *time;
        }
        let seconds: f64 = time_in_state.values().map(Duration::as_secs_f64).sum();
        let share = |time: &Duration| time.as_secs_f64() / seconds;
        let mean = || time_in_state.iter().map(|(khz, time)| *khz as f64 * share(time)).sum::<f64>().round() as i64;
        let residency = || time_in_state.iter().map(|(khz, time)| (*khz, share(time))).collect();
        let counted = self.trials.iter().filter_map(|trial| trial.energy);
        let energy = counted.reduce(|(uj, time), (more_uj, more_time)| (uj + more_uj, time + more_time));
        let energy = energy.filter(|(_, time)| !time.is_zero());
        let met = self.trials.iter().map(|trial| trial.met).sum();
        Metrics {
            steps: Some(self.steps as i64),
            met: Some(met),
            missed: Some(self.responses.len() as u64 - met),
            mean_khz: (seconds > 0.0).then(mean),
            residency: (seconds > 0.0).then(residency),
            power_mw: energy.map(|(uj, time)| (uj as f64 / 1e3 / time.as_secs_f64()).round() as i64),
            ..self.boosted()
        }
    }

    fn boosted(&self) -> Metrics {
        let costs = || self.trials.iter().filter_map(|trial| trial.cost.as_ref());
        let Some(last) = costs().next_back() else { return Metrics::default() };
        let sum = |pick: fn(&Cost) -> u64| costs().map(pick).sum::<u64>();
        let time = |pick: fn(&Cost) -> Duration| costs().map(pick).sum::<Duration>();
        let switches = sum(|cost| cost.switches);
        let leads: Vec<i64> = costs().map(|cost| cost.lead.as_nanos() as i64).collect();
        let elapsed = time(|cost| cost.elapsed).as_secs_f64().max(1e-9);
        Metrics {
            lever: Some(last.lever.to_string()),
            lead_ns: Some(lower_median(&leads).unwrap_or(0)),
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
    use crate::frame::tests::made_up_report;
    use crate::speed::Thread;

    #[test]
    fn a_series_says_how_many_deadlines_were_met() {
        let ms = Duration::from_millis;
        let request = Request {
            period: ms(10),
            work: ms(1),
            deadline: None,
            periods: 2,
            rounds: 1,
            rest: ms(1),
            lever: None,
            thread: Thread { cpu: Some(0), ..Thread::default() },
        };
        let found = Found { governor: Some("powersave".into()), max_khz: Some(3_000_000), ..Found::default() };
        let plan = Plan { found, ..Plan::new(request).unwrap() };
        let extra = turns(&[900, 2_000], [Trial { met: 1, ..Trial::default() }]);
        let extras = [extra, Extra::default(), Extra::default()];
        let report = made_up_report(&plan, 0, &[900, 2_000], &extras);
        let series = &report.series[0];
        assert_eq!((series.subject.as_str(), series.samples.as_deref()), ("as found", Some(&[900, 2_000][..])));
        let typed = series.experiment.boost().unwrap();
        assert_eq!((typed.parameters.period_ns, typed.parameters.work_ns), (10_000_000, 1_000_000));
        assert_eq!((typed.parameters.deadline_ns, typed.parameters.periods), (1_500_000, 2));
        let metrics = &typed.metrics;
        assert_eq!((metrics.met, metrics.missed, metrics.cpu), (Some(1), Some(1), Some(0)));
        assert_eq!((metrics.governor.as_deref(), metrics.max_khz), (Some("powersave"), Some(3_000_000)));
        let full = made_up_report(&plan, 2, &[900], &extras);
        assert_eq!(full.series[0].experiment.boost().unwrap().metrics.governor, None, "another was set");
    }

    fn turns(responses: &[i64], trials: impl Into<Vec<Trial>>) -> Extra {
        Extra { responses: responses.to_vec(), steps: 0, trials: trials.into() }
    }

    const MS: Duration = Duration::from_millis(1);

    fn usual() -> Request {
        Request {
            period: 10 * MS,
            work: MS,
            deadline: None,
            periods: 100,
            rounds: 3,
            rest: 300 * MS,
            lever: None,
            thread: Thread::default(),
        }
    }

    #[test]
    fn without_a_deadline_it_is_half_as_long_again_as_the_work_but_within_the_period() {
        assert_eq!(Plan::new(usual()).unwrap().deadline, MS + MS / 2);
        assert_eq!(Plan::new(Request { work: 9 * MS, ..usual() }).unwrap().deadline, 10 * MS);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |request| Plan::new(request).unwrap_err();
        assert_eq!(refused(Request { periods: 0, ..usual() }).input, Input::Periods);
        assert_eq!(refused(Request { rounds: 0, ..usual() }).input, Input::Rounds);
        assert!(
            refused(Request { work: Duration::from_nanos(5), ..usual() })
                .to_string()
                .starts_with("invalid work: must be 10us")
        );
        assert!(refused(Request { work: 10 * MS, ..usual() }).why.contains("less than the period (10ms), not 10ms"));
        assert!(refused(Request { deadline: Some(MS), ..usual() }).why.contains("at full speed (1ms), not 1ms"));
        let late = refused(Request { deadline: Some(11 * MS), ..usual() });
        assert_eq!(late.to_string(), "invalid deadline: must be at most the period (10ms), not 11ms");
        assert!(refused(Request { rounds: 1_000_000, ..usual() }).why.contains("would take"));
    }

    #[test]
    fn turns_add_up() {
        let trial = |slow: u32, fast: u32| Trial {
            met: 1,
            time_in_state: vec![(1_000_000, slow * MS), (3_000_000, fast * MS)],
            energy: Some((500_000, 100 * MS)),
            cost: None,
        };
        let metrics = turns(&[5, 6, 7], [trial(100, 0), trial(50, 50)]).metrics();
        assert_eq!((metrics.met, metrics.missed), (Some(2), Some(1)));
        assert_eq!(metrics.mean_khz, Some(1_500_000));
        assert_eq!(metrics.residency.unwrap()[&3_000_000], 0.25);
        assert_eq!(metrics.power_mw, Some(5_000));
        assert_eq!(metrics.lever, None);
    }

    #[test]
    fn what_the_kernel_does_not_count_is_absent() {
        let extra = turns(&[5], [Trial::default()]);
        assert_eq!(extra.metrics(), Metrics { steps: Some(0), met: Some(0), missed: Some(1), ..Metrics::default() });
    }
}
