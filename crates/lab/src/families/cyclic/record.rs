//! The record of cycling threads: the rounds of each ([`Stretches`]), what its gauge counted since the last look, as samples; and a whole
//! run ([`Aside`]) of threads that another program shows in its own form.
//!
//! In go the threads, out comes a run with their series and the causes of their late wake-ups. It is opened before the threads are, since
//! opening the kernel's events disturbs all CPUs. Where the kernel refuses its events, the run has the reason in their place.

use std::sync::Arc;
use std::time::Duration;

use punctual::conditions::{Condition, Conditions, Scope};
use punctual_record::experiment::cyclic::{Metrics, Parameters};
use punctual_record::{
    About, Experiment, Notice, Quantity, Recorder, Run, Series, SeriesId, SeriesTally, Typed, Usage,
};

use super::crew::{Crew, Member};
use super::gauge::{Gauge, highest};
use super::lookout::Lookout;
use super::turn::Unit;
use crate::frame::{Session, Silent, Stop, condition_set};

/// The rounds of one thread.
#[derive(Debug, Clone)]
pub(super) struct Stretches {
    gauge: Arc<Gauge>,
    unit_ns: i64,
    counted: Vec<u64>,
    extremes: Option<(i64, i64)>,
    tally: SeriesTally,
}

impl Stretches {
    /// Before the first cycle. `unit`: that of the gauge's values.
    pub(super) fn new(gauge: &Arc<Gauge>, unit: Unit) -> Self {
        let (gauge, tally) = (Arc::clone(gauge), SeriesTally::new());
        Self { gauge, unit_ns: unit.ns(), counted: Vec::new(), extremes: None, tally }
    }

    /// The series of this subject; `None` without a cycle.
    pub(super) fn series(&self, subject: String, parameters: Parameters, label: &str) -> Option<Series> {
        let rested = Some(self.gauge.rested()).filter(|rested| *rested > 0);
        let metrics = Metrics { missed: Some(self.gauge.missed()), rested };
        let experiment = Experiment::Cyclic(Typed { parameters, metrics });
        let (conditions, quantity) = (label.to_owned(), Quantity::Lateness);
        let id = SeriesId { experiment, subject, about: About::default(), conditions, quantity };
        (self.tally.count() > 0).then(|| self.tally.to_series(id))
    }

    /// Enters what was counted since the last call as a round. The minimum and the maximum of the run are exact, other values are known
    /// to 1 %.
    pub(super) fn enter(&mut self, (round, started_ns): (u32, u64), recorder: &mut Recorder, usage: Usage) {
        recorder.clear();
        let now = self.gauge.spread();
        let extremes = self.gauge.extremes().map(|(min, max)| (min * self.unit_ns, max * self.unit_ns));
        let Some((min, max)) = extremes else { return };
        self.counted.resize(now.len(), 0);
        let (new_min, new_max) = match self.extremes {
            Some((old_min, old_max)) => (min < old_min, max > old_max),
            None => (true, true),
        };
        let mut more: Vec<(usize, u64)> =
            now.iter().zip(&self.counted).map(|(now, before)| now - before).enumerate().collect();
        more.retain(|(_, count)| *count > 0);
        if new_min && let Some((_, count)) = more.first_mut() {
            *count -= 1;
            recorder.record(min);
        }
        if new_max && let Some((_, count)) = more.last_mut().filter(|(_, count)| *count > 0) {
            *count -= 1;
            recorder.record(max);
        }
        for (bucket, count) in more {
            let low = if bucket == 0 { 0 } else { highest(bucket - 1) + 1 };
            recorder.record_times(i64::midpoint(low, highest(bucket)).clamp(min, max), count);
        }
        (self.counted, self.extremes) = (now, extremes);
        if recorder.count() > 0 {
            self.tally.add_round(round, started_ns, recorder, usage);
        }
    }

    pub(super) fn gauge(&self) -> &Gauge {
        &self.gauge
    }
}

/// A run beside threads that are shown elsewhere.
pub struct Aside {
    session: Session<'static>,
    lookout: Lookout,
    unit: Unit,
}

impl std::fmt::Debug for Aside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aside").field("lookout", &self.lookout).finish_non_exhaustive()
    }
}

impl Aside {
    /// Opens the record and the kernel's events. `unit`: that of the threads, which keep their spread.
    #[must_use]
    pub fn open(command: Vec<String>, unit: Unit) -> Self {
        // It has no size, so nothing leaks.
        let silent = Box::leak(Box::new(Silent));
        let session = Session::open(command, Experiment::CYCLIC, Stop::default(), silent);
        Self { session, lookout: Lookout::open(None, false), unit }
    }

    /// Watches the threads from now on.
    pub fn begin(&mut self, crew: &Crew) {
        self.lookout.begin(crew);
    }

    /// Takes in events for this long.
    pub fn look(&mut self, lasts: Duration) {
        self.lookout.look(lasts, None);
    }

    /// The run, when the threads have ended. They used what `usage` says. `held`: conditions of the process and the machine.
    #[must_use]
    pub fn end(mut self, crew: &Crew, usage: &[Option<Usage>], held: &Conditions) -> Run {
        let (causes, unseen) = self.lookout.end(None);
        causes.into_iter().for_each(|causes| self.session.set_causes(causes));
        unseen.into_iter().for_each(|unseen| self.session.notice(Notice::Unseen(unseen)));
        let mut recorder = Recorder::new();
        for (number, (name, member)) in crew.members().iter().enumerate() {
            let used = usage.get(number).copied().flatten();
            used.into_iter().for_each(|used| self.session.add_usage(used));
            let mut stretches = Stretches::new(&crew.gauges()[number], self.unit);
            stretches.enter((0, 0), &mut recorder, used.unwrap_or_default());
            let set = conditions_of(member, held);
            let parameters = Parameters { interval_ns: member.interval_ns, load: None };
            let series = stretches.series(format!("cpu{name}"), parameters, &set.label);
            self.session.add_conditions(set);
            series.into_iter().for_each(|series| self.session.add_series(series));
        }
        self.session.close()
    }
}

/// The conditions of a thread beside its CPU, which is its name.
fn conditions_of(member: &Member, held: &Conditions) -> punctual_record::ConditionSet {
    let own = member.conditions.clone().without(Condition::CPU).only(&[Scope::Thread]);
    let all = own.over(held);
    condition_set(&all, &all, &[])
}

#[cfg(test)]
mod tests {
    use punctual_linux::clock::Clock;
    use punctual_testing::in_a_process_of_its_own;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::super::bell::Bell;
    use super::super::crew::{Orders, Start};
    use super::super::gauge::Keep;
    use super::super::turn::tests::{LIMITS, Moved, stalls};
    use super::super::turn::{Cycle, Limits, Turn, Waiting};
    use super::*;

    const HOUR_NS: i64 = 3_600_000_000_000;
    const CPUS: usize = 4;

    /// Lets this process have so much memory more, whether it touches it or not: beyond that an allocation fails.
    fn allow(more: u64) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let data = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
        let kib: u64 = data.trim().trim_end_matches(" kB").parse().unwrap();
        setrlimit(Resource::Data, Rlimit { current: Some(kib * 1024 + more), ..getrlimit(Resource::Data) }).unwrap();
    }

    /// Cycles of four CPUs on a clock that waiting moves, in rounds of an hour.
    fn hours_are_counted(hours: u32, interval_ns: i64) {
        allow(16 << 20);
        let mut recorder = Recorder::new();
        let late = || (Moved::new(stalls()), Cycle::new(0, interval_ns));
        let mut cpus: Vec<_> = (0..CPUS).map(|_| late()).collect();
        let keep = Keep { spread: true, ..Keep::default() };
        let mut all: Vec<_> =
            (0..CPUS).map(|_| Stretches::new(&Arc::new(Gauge::new(keep, false)), Unit::Nanoseconds)).collect();
        for hour in 0..hours {
            for (thread, ((wait, cycle), one)) in cpus.iter_mut().zip(&mut all).enumerate() {
                let (gauge, bell) = (Arc::clone(&one.gauge), Bell::default());
                let limits = Limits { lasts_ns: Some(HOUR_NS * i64::from(hour + 1)), ..LIMITS };
                Turn { thread, tid: 1, limits, gauge: &gauge, bell: &bell, smis: None }
                    .perform(wait, cycle, 0)
                    .unwrap();
                one.enter((hour, 0), &mut recorder, Usage::default());
            }
        }
        for ((wait, _), one) in cpus.iter().zip(&all) {
            let expected = (wait.now_ns - 1) / interval_ns;
            assert_eq!(one.gauge.cycles() + one.gauge.missed(), expected.unsigned_abs());
            assert_eq!(one.tally.distribution().count(), one.gauge.cycles());
            let series = one.series("cpu0".into(), Parameters::default(), "").unwrap();
            let rounds: u64 = series.rounds.iter().map(|round| round.summary.count).sum();
            assert_eq!((rounds, series.rounds.len()), (one.gauge.cycles(), hours as usize));
            assert_eq!(
                (series.summary.min, series.summary.max),
                (Some(one.gauge.extremes().unwrap().0), one.gauge.extremes().map(|ends| ends.1))
            );
            let size = serde_json::to_vec(&series).unwrap().len();
            assert!(size < 200_000, "{size} bytes of a series");
        }
    }

    #[test]
    fn eight_hours_fit_into_16_mb_and_each_wake_up_is_counted() {
        let name = "families::cyclic::record::tests::eight_hours_fit_into_16_mb_and_each_wake_up_is_counted";
        if in_a_process_of_its_own(name) {
            hours_are_counted(8, 200_000_000);
        }
    }

    #[test]
    #[ignore = "some seconds with optimisation, a minute without: 10^8 cycles"]
    fn eight_hours_of_milliseconds_fit_too() {
        let name = "families::cyclic::record::tests::eight_hours_of_milliseconds_fit_too";
        if in_a_process_of_its_own(name) {
            hours_are_counted(8, 1_000_000);
        }
    }

    #[test]
    fn the_rounds_together_have_all_cycles_and_the_exact_extremes() {
        let gauge = Arc::new(Gauge::new(Keep { spread: true, ..Keep::default() }, false));
        let mut stretches = Stretches::new(&gauge, Unit::Nanoseconds);
        let mut recorder = Recorder::new();
        let rounds = [vec![71_234, 50_001, 60_000], vec![], vec![40_404, 55_000], vec![61_000, 100_003]];
        for (round, values) in (0..).zip(&rounds) {
            values.iter().for_each(|value| gauge.record(*value, *value, 0));
            stretches.enter((round, 0), &mut recorder, Usage::default());
        }
        let distribution = stretches.tally.distribution();
        let summary = distribution.summary();
        assert_eq!((distribution.count(), summary.min, summary.max), (7, Some(40_404), Some(100_003)));
        assert_eq!(stretches.tally.rounds().len(), 3);
        let p50 = summary.p50.unwrap();
        assert!((59_400..60_600).contains(&p50), "{p50}");
    }

    #[test]
    fn each_thread_has_a_series_in_nanoseconds() {
        let member = |interval_ns: i64| Member { conditions: Conditions::new().cpu(0), interval_ns, smis_of: None };
        let limits =
            Limits { unit: Unit::Microseconds, cycles: Some(20), lasts_ns: None, break_above: None, share: None };
        let mut aside = Aside::open(vec!["cyclictest".into(), "-t2".into()], limits.unit);
        let orders = Orders {
            members: vec![member(1_000_000), member(1_500_000)],
            clock: Clock::Monotonic,
            waiting: Waiting::Deadline,
            start: Start::Ready,
            limits,
            keep: Keep { spread: true, ..Keep::default() },
            bell: Bell::default(),
        };
        let mut crew = Crew::start(orders).unwrap();
        aside.begin(&crew);
        while crew.bell().ended() < 2 {
            aside.look(Duration::from_millis(1));
        }
        let usage = crew.end();
        let run = aside.end(&crew, &usage, &Conditions::new().lock_memory());
        let subjects: Vec<_> = run.series.iter().map(|series| series.subject.as_str()).collect();
        assert_eq!(subjects, ["cpu0", "cpu0.1"]);
        for (series, interval_ns) in run.series.iter().zip([1_000_000, 1_500_000]) {
            assert_eq!(series.experiment.cyclic().unwrap().parameters.interval_ns, interval_ns);
            // A value of 0 us is a lateness below 1 us.
            assert_eq!((series.summary.count, series.summary.max.unwrap() % 1000), (20, 0));
            assert!(series.conditions.contains("memory"), "{}", series.conditions);
        }
        let seen = run.causes.is_some() || run.notices.iter().any(|notice| matches!(notice, Notice::Unseen(_)));
        assert!(seen && run.complete, "{:?}", run.notices);
    }
}
