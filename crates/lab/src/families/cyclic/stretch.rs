//! The rounds of a run of cycling threads: what each gauge counted since the last look, as samples.

use std::sync::Arc;

use punctual_record::experiment::cyclic::{Metrics, Parameters};
use punctual_record::{About, Experiment, Quantity, Recorder, Series, SeriesId, SeriesTally, Typed, Usage};

use super::gauge::{Gauge, highest};
use super::turn::Unit;

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

#[cfg(test)]
mod tests {
    use punctual_testing::in_a_process_of_its_own;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::super::bell::Bell;
    use super::super::cycle::Cycle;
    use super::super::gauge::Keep;
    use super::super::turn::tests::{LIMITS, Moved, stalls};
    use super::super::turn::{Limits, Turn};
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
        let name = "families::cyclic::stretch::tests::eight_hours_fit_into_16_mb_and_each_wake_up_is_counted";
        if in_a_process_of_its_own(name) {
            hours_are_counted(8, 200_000_000);
        }
    }

    #[test]
    #[ignore = "some seconds with optimisation, a minute without: 10^8 cycles"]
    fn eight_hours_of_milliseconds_fit_too() {
        let name = "families::cyclic::stretch::tests::eight_hours_of_milliseconds_fit_too";
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
}
