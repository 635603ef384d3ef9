//! The record of cycling threads: the rounds of each ([`Stretches`]), what its gauge counted since the last look, as samples; why the threads
//! of a crew wake up late ([`Lookout`]): the kernel's events of each wake-up, cut into causes while the threads run; and a whole run
//! ([`Aside`]) of threads that another program shows in its own form.
//!
//! In go the threads, out come their series, the causes of their late wake-ups by thread and, for a file, the events around each spike. The
//! record is opened before the threads are, since opening the kernel's events disturbs all CPUs. Where the kernel refuses its events, the
//! threads are measured alike, and the refusal is a part of what comes out. Only the watching thread reads the events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual::conditions::{Condition, Conditions, Scope};
use punctual_linux::sleep;
use punctual_record::experiment::cyclic::{Metrics, Parameters};
use punctual_record::{
    About, Causes, Experiment, Notice, Quantity, Recorder, Run, Series, SeriesId, SeriesTally, Typed, Unseen, Usage,
    WatchEffect,
};
use punctual_trace::{Batch, Event, Level, Room, Target, Watch};

use super::crew::Crew;
use super::gauge::{Gauge, Spikes, highest};
use super::turn::Unit;
use crate::frame::error::without;
use crate::frame::figures::watch_effect;
use crate::frame::{Session, Silent, Stop, Tracer, Unavailable, condition_set};

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
        let new_min = self.extremes.is_none_or(|(old, _)| min < old);
        let new_max = self.extremes.is_none_or(|(_, old)| max > old);
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

impl Aside {
    /// Opens the record and the kernel's events. `unit`: that of the threads, which keep their spread.
    #[must_use]
    pub fn open(command: Vec<String>, unit: Unit) -> Self {
        // It has no size, so nothing leaks.
        let silent = Box::leak(Box::new(Silent));
        let session = Session::open(command, Experiment::CYCLIC, Stop::default(), silent);
        // Without a tracer, refused events are a part of the run.
        let lookout = Lookout::open(None, false).unwrap_or_default();
        Self { session, lookout, unit }
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
            // Beside its CPU, which is its name.
            let own = member.conditions.clone().without(Condition::CPU).only(&[Scope::Thread]).over(held);
            let set = condition_set(&own, &own, &[]);
            let parameters = Parameters { interval_ns: member.interval_ns, load: None };
            let series = stretches.series(format!("cpu{name}"), parameters, &set.label);
            self.session.add_conditions(set);
            series.into_iter().for_each(|series| self.session.add_series(series));
        }
        self.session.close()
    }
}

/// Longest time between two looks at the rings: at 200 us and twenty events a wake-up, a small ring holds some 40 ms.
const PUMP: Duration = Duration::from_millis(20);
/// Time before a spike's wake-up, and after it, whose events are kept.
const AROUND_NS: [u64; 2] = [10_000_000, 2_000_000];
/// The newest events that wait for a spike: those of a second on a machine with some CPUs.
const RECENT: usize = 1 << 16;
/// Spikes whose events are kept: more fill a disk.
const SPIKES: usize = 64;
/// Blocks without and with the events, by turns, that show what watching adds.
const BLOCKS: usize = 16;
/// One block.
const BLOCK: Duration = Duration::from_millis(100);
/// All blocks.
pub(super) const COMPARED: Duration = Duration::from_millis(100 * BLOCKS as u64);

/// Shortest time between two gatherings of the causes so far.
const GATHER: Duration = Duration::from_millis(600);
/// Gathering them takes at most the time since the last one, divided by this: the names of the kernel's functions are a long
/// list, and the rings fill meanwhile.
const SHARE: u32 = 20;

/// The calls in which a thread waits, whatever their width.
const WAITS: [&str; 2] = ["nanosleep", "sigtimedwait"];

/// A watch over the threads of a crew.
#[derive(Debug, Default)]
pub struct Lookout {
    watch: Option<Watch>,
    missing: Vec<Unseen>,
    flight: Flight,
    blocks: Vec<f64>,
    counted: Vec<Vec<u64>>,
    /// When the causes so far were last gathered, and how long that took.
    gathered: Option<(Instant, Duration)>,
}

/// The tracer, the newest events, and how much of them it has.
#[derive(Debug, Default)]
struct Flight {
    tracer: Option<Box<dyn Tracer>>,
    /// Only events around spikes go to the tracer.
    of_spikes: bool,
    recent: VecDeque<Event>,
    taken: usize,
    until_ns: u64,
}

impl Lookout {
    /// Opens the events of threads that are yet to be started: that disturbs all CPUs. `of_spikes`: the tracer gets events around spikes
    /// only.
    ///
    /// # Errors
    /// If there is a tracer, and the kernel refuses its events.
    pub fn open(tracer: Option<Box<dyn Tracer>>, of_spikes: bool) -> Result<Self, Unavailable> {
        let later = Target { tids: Vec::new(), with_children: true };
        let mut lookout = Self { flight: Flight { tracer, of_spikes, ..Flight::default() }, ..Self::default() };
        match Watch::open(&later, Level::Causes, Room::Small) {
            Ok(watch) => lookout.watch = Some(watch),
            Err(error) if lookout.flight.tracer.is_some() => {
                return Err(without("the kernel's events, which the trace is to have", &error).into());
            }
            Err(error) => lookout.missing.push(without("the causes of late wake-ups", &error)),
        }
        lookout.switch(true);
        Ok(lookout)
    }

    /// Watches the threads from now on.
    pub fn begin(&mut self, crew: &Crew) {
        let Some(watch) = &mut self.watch else { return };
        let tids: Vec<i32> = crew.gauges().iter().map(|gauge| gauge.tid()).collect();
        if !watch.also(&tids) {
            let what = "the wake-ups of some threads: their numbers began anew meanwhile".to_owned();
            self.missing.push(Unseen { what, ..Unseen::default() });
        }
        let tracer = self.flight.tracer.iter_mut();
        tracer.for_each(|tracer| tracer.begin(&Target { tids: tids.clone(), with_children: false }));
    }

    /// Finds out what watching adds to a wake-up: some blocks without the events and with them. Returns early if the threads end.
    pub fn compare(&mut self, crew: &Crew) {
        if self.watch.is_none() || crew.gauges().iter().any(|gauge| gauge.spread().is_empty()) {
            return;
        }
        for block in 0..BLOCKS {
            // Off, on, on, off: a drift of the machine does not look like an effect.
            let on = matches!(block % 4, 1 | 2);
            self.switch(on);
            self.p50_of_block(crew.gauges());
            self.look(BLOCK, None);
            if crew.bell().rung() || punctual_linux::stop::requested() {
                break;
            }
            let p50 = self.p50_of_block(crew.gauges());
            self.blocks.extend(p50);
        }
        self.switch(true);
    }

    /// The median of the cycles since the last call, over all threads.
    fn p50_of_block(&mut self, gauges: &[Arc<Gauge>]) -> Option<f64> {
        let now: Vec<Vec<u64>> = gauges.iter().map(|gauge| gauge.spread()).collect();
        let before = std::mem::replace(&mut self.counted, now);
        let buckets = self.counted.first().map_or(0, Vec::len);
        let sum = |all: &[Vec<u64>], bucket: usize| all.iter().map(|counts| counts[bucket]).sum::<u64>();
        let more: Vec<u64> = (0..buckets).map(|bucket| sum(&self.counted, bucket) - sum(&before, bucket)).collect();
        let half = more.iter().sum::<u64>().div_ceil(2);
        let mut passed = 0;
        let middle = more.iter().position(|count| {
            passed += count;
            passed >= half && half > 0
        });
        middle.map(|bucket| highest(bucket) as f64)
    }

    /// Takes in events for this long, and hands on those around new spikes.
    pub fn look(&mut self, lasts: Duration, spikes: Option<&Spikes>) {
        let until = Instant::now() + lasts;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            let Self { watch: Some(watch), flight, .. } = self else {
                let _ = sleep::nanosleep(left.as_nanos() as i64);
                return;
            };
            if let Err(error) = watch.pump(left.min(PUMP), &mut |batch| flight.take(batch)) {
                self.missing.push(without("the causes of later wake-ups", &error));
                self.watch = None;
                return;
            }
            if punctual_linux::stop::requested() {
                break;
            }
        }
        self.flight.hand_on(spikes);
    }

    fn switch(&mut self, on: bool) {
        let Self { watch: Some(watch), flight, .. } = self else { return };
        if let Err(error) = watch.switch_and(on, &mut |batch| flight.take(batch)) {
            self.missing.push(without("the causes of wake-ups", &error));
            self.watch = None;
        }
    }

    /// Ends the watch. Returns what was found out, or why nothing was.
    #[must_use]
    pub fn end(mut self, spikes: Option<&Spikes>) -> (Option<Causes>, Vec<Unseen>) {
        self.switch(false);
        self.flight.hand_on(spikes);
        self.missing.extend(spikes.and_then(|spikes| self.flight.left_out(spikes)));
        let Some(mut watch) = self.watch else { return (None, self.missing) };
        let causes = watch.causes();
        watch.close_meanwhile();
        (Some(completed(causes, &self.missing, &self.blocks)), Vec::new())
    }

    /// The causes so far, while the threads run; `None`: there are none, or they were gathered a moment ago.
    pub(super) fn so_far(&mut self) -> Option<Causes> {
        let watch = self.watch.as_ref()?;
        let begun = Instant::now();
        if self.gathered.is_some_and(|(at, took)| begun - at < GATHER.max(took * SHARE)) {
            return None;
        }
        let causes = completed(watch.causes_so_far(), &self.missing, &self.blocks);
        self.gathered = Some((begun, begun.elapsed()));
        Some(causes)
    }
}

/// The causes of waits, without those of the beginning and the end of a thread, and what watching adds.
fn completed(mut causes: Causes, missing: &[Unseen], blocks: &[f64]) -> Causes {
    causes.calls.retain(|call| WAITS.iter().any(|wait| call.call.contains(wait)));
    causes.worst.retain(|wake| WAITS.iter().any(|wait| wake.call.contains(wait)));
    causes.missing.extend_from_slice(missing);
    causes.effect = effect(blocks);
    causes
}

impl Flight {
    fn take(&mut self, batch: &Batch) {
        let Some(tracer) = &mut self.tracer else { return };
        if !self.of_spikes {
            return tracer.take(batch);
        }
        self.recent.extend(batch.events.iter().cloned());
        let surplus = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..surplus);
    }

    /// Hands on the events around each spike that the tracer does not have yet.
    fn hand_on(&mut self, spikes: Option<&Spikes>) {
        let (Some(spikes), Some(tracer), true) = (spikes, &mut self.tracer, self.of_spikes) else { return };
        let newest_ns = self.recent.back().map_or(0, |event| event.time_ns);
        for spike in spikes.kept().skip(self.taken).take(SPIKES.saturating_sub(self.taken)) {
            let at_ns = spike.at_ns.max(0).cast_unsigned();
            let late_ns = spike.value.max(0).cast_unsigned();
            let from_ns = at_ns.saturating_sub(late_ns + AROUND_NS[0]).max(self.until_ns);
            let to_ns = at_ns + AROUND_NS[1];
            if at_ns == 0 || newest_ns < at_ns {
                break;
            }
            let around = self.recent.iter().filter(|event| (from_ns..to_ns).contains(&event.time_ns));
            tracer.take(&Batch { events: around.cloned().collect(), losses: Vec::new() });
            (self.taken, self.until_ns) = (self.taken + 1, self.until_ns.max(to_ns.min(newest_ns + 1)));
        }
    }
}

impl Flight {
    /// The later wake-ups whose events the trace does not have.
    fn left_out(&self, spikes: &Spikes) -> Option<Unseen> {
        let (all, taken) = (spikes.count(), self.taken as u64);
        (self.of_spikes && all > taken).then(|| Unseen {
            what: format!("the events of {} of {all} wake-ups that were later than the limit", all - taken),
            why: format!("the trace has those of the first {taken}"),
            remedy: (taken >= SPIKES as u64).then(|| "use a higher limit".to_owned()),
        })
    }
}

/// The median of the differences of neighbouring blocks, and its interval.
fn effect(blocks: &[f64]) -> Option<WatchEffect> {
    let pair = |(number, two): (usize, &[f64])| if number % 2 == 0 { two[1] - two[0] } else { two[0] - two[1] };
    let differences: Vec<f64> = blocks.chunks_exact(2).enumerate().map(pair).collect();
    watch_effect(&differences)
}

#[cfg(test)]
mod tests {
    use punctual_linux::clock::Clock;
    use punctual_testing::in_a_process_of_its_own;
    use punctual_trace::Kind;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::super::crew::{Member, Orders, Start};
    use super::super::gauge::{Bell, Keep, Spike};
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

    #[derive(Debug, Default)]
    struct Kept(std::sync::Arc<std::sync::Mutex<Vec<u64>>>);

    impl Tracer for Kept {
        fn begin(&mut self, _: &Target) {}

        fn take(&mut self, batch: &Batch) {
            self.0.lock().unwrap().extend(batch.events.iter().map(|event| event.time_ns));
        }
    }

    #[test]
    fn the_effect_is_that_of_the_blocks_with_events_in_either_order() {
        let blocks: Vec<f64> =
            (0..16).map(|block| if matches!(block % 4, 1 | 2) { 52_000.0 } else { 50_000.0 }).collect();
        let effect = effect(&blocks).unwrap();
        assert_eq!((effect.p50_ns, effect.pairs), (2_000.0, 8));
        assert!(super::effect(&blocks[..8]).is_none(), "four pairs give no interval");
    }

    #[test]
    fn the_events_around_a_spike_are_handed_on_once() {
        let kept = Kept::default();
        let seen = std::sync::Arc::clone(&kept.0);
        let mut flight = Flight { tracer: Some(Box::new(kept)), of_spikes: true, ..Flight::default() };
        let spikes = Spikes::new(100_000, 8);
        let ms = |n: u64| n * 1_000_000;
        let events =
            |range: std::ops::Range<u64>| range.map(|n| Event { time_ns: ms(n), cpu: 0, tid: 1, kind: Kind::Fault });
        flight.take(&Batch { events: events(0..101).collect(), losses: Vec::new() });
        for at in [50, 55] {
            spikes.look(Spike { thread: 0, value: 1_000_000, at_ns: ms(at) as i64 });
        }
        // Its events are yet to come.
        spikes.look(Spike { thread: 0, value: 1_000_000, at_ns: ms(150) as i64 });
        flight.hand_on(Some(&spikes));
        assert_eq!(*seen.lock().unwrap(), (39..57).map(ms).collect::<Vec<_>>());
        flight.take(&Batch { events: events(101..200).collect(), losses: Vec::new() });
        flight.hand_on(Some(&spikes));
        assert_eq!(seen.lock().unwrap()[18..], (139..152).map(ms).collect::<Vec<_>>());
    }
}
