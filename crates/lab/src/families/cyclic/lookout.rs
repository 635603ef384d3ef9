//! Why the threads of a crew wake up late: the kernel's events of each wake-up, cut into causes while the threads run.
//!
//! In go the threads, out come their causes by thread and, for a file, the events around each spike. Where the kernel refuses its events,
//! the threads are measured alike, and the refusal is a part of what comes out. Only the watching thread reads the events.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use punctual_linux::sleep;
use punctual_record::{Causes, Unseen, WatchEffect};
use punctual_trace::{Batch, Event, Level, Room, Target, Watch};

use super::bell::Spikes;
use super::crew::Crew;
use super::gauge::{Gauge, highest};
use crate::frame::Tracer;
use crate::frame::error::without;
use crate::frame::figures::watch_effect;

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
#[derive(Debug)]
pub struct Lookout {
    watch: Option<Watch>,
    missing: Vec<Unseen>,
    tracer: Option<Box<dyn Tracer>>,
    flight: Flight,
    blocks: Vec<f64>,
    counted: Vec<Vec<u64>>,
    /// When the causes so far were last gathered, and how long that took.
    gathered: Option<(Instant, Duration)>,
}

/// The newest events, and how much of them the tracer has.
#[derive(Debug, Default)]
struct Flight {
    /// Only events around spikes go to the tracer.
    of_spikes: bool,
    recent: VecDeque<Event>,
    taken: usize,
    until_ns: u64,
}

impl Lookout {
    /// Opens the events of threads that are yet to be started: that disturbs all CPUs. `of_spikes`: the tracer gets events around spikes
    /// only.
    #[must_use]
    pub fn open(tracer: Option<Box<dyn Tracer>>, of_spikes: bool) -> Self {
        let later = Target { tids: Vec::new(), with_children: true };
        let flight = Flight { of_spikes, ..Flight::default() };
        let mut lookout = Self { tracer, flight, ..Self::closed() };
        match Watch::open(&later, Level::Causes, Room::Small) {
            Ok(watch) => lookout.watch = Some(watch),
            Err(error) => lookout.missing.push(without("the causes of late wake-ups", &error)),
        }
        lookout.switch(true);
        lookout
    }

    /// Watches nothing.
    #[must_use]
    pub fn closed() -> Self {
        let (flight, blocks, counted) = (Flight::default(), Vec::new(), Vec::new());
        Self { watch: None, missing: Vec::new(), tracer: None, flight, blocks, counted, gathered: None }
    }

    /// Watches the threads from now on.
    pub fn begin(&mut self, crew: &Crew) {
        let Some(watch) = &mut self.watch else { return };
        let tids: Vec<i32> = crew.gauges().iter().map(|gauge| gauge.tid()).collect();
        if !watch.also(&tids) {
            let what = "the wake-ups of some threads: their numbers began anew meanwhile".to_owned();
            self.missing.push(Unseen { what, ..Unseen::default() });
        }
        self.tracer.iter_mut().for_each(|tracer| tracer.begin(&Target { tids: tids.clone(), with_children: false }));
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
    fn p50_of_block(&mut self, gauges: &[std::sync::Arc<Gauge>]) -> Option<f64> {
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
            let Self { watch: Some(watch), tracer, flight, .. } = self else {
                let _ = sleep::nanosleep(left.as_nanos() as i64);
                return;
            };
            if let Err(error) = watch.pump(left.min(PUMP), &mut |batch| flight.take(batch, tracer)) {
                self.missing.push(without("the causes of later wake-ups", &error));
                self.watch = None;
                return;
            }
            if punctual_linux::stop::requested() {
                break;
            }
        }
        if let (Some(spikes), Some(tracer)) = (spikes, &mut self.tracer) {
            self.flight.hand_on(spikes, tracer);
        }
    }

    fn switch(&mut self, on: bool) {
        let Self { watch: Some(watch), tracer, flight, .. } = self else { return };
        if let Err(error) = watch.switch_and(on, &mut |batch| flight.take(batch, tracer)) {
            self.missing.push(without("the causes of wake-ups", &error));
            self.watch = None;
        }
    }

    /// Ends the watch. Returns what was found out, or why nothing was.
    #[must_use]
    pub fn end(mut self, spikes: Option<&Spikes>) -> (Option<Causes>, Vec<Unseen>) {
        self.switch(false);
        if let (Some(spikes), Some(tracer)) = (spikes, &mut self.tracer) {
            self.flight.hand_on(spikes, tracer);
        }
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
    fn take(&mut self, batch: &Batch, tracer: &mut Option<Box<dyn Tracer>>) {
        let Some(tracer) = tracer else { return };
        if !self.of_spikes {
            return tracer.take(batch);
        }
        self.recent.extend(batch.events.iter().cloned());
        let surplus = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..surplus);
    }

    /// Hands on the events around each spike that the tracer does not have yet.
    fn hand_on(&mut self, spikes: &Spikes, tracer: &mut Box<dyn Tracer>) {
        if !self.of_spikes {
            return;
        }
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

/// The median of the differences of neighbouring blocks, and its interval.
fn effect(blocks: &[f64]) -> Option<WatchEffect> {
    let pair = |(number, two): (usize, &[f64])| if number % 2 == 0 { two[1] - two[0] } else { two[0] - two[1] };
    let differences: Vec<f64> = blocks.chunks_exact(2).enumerate().map(pair).collect();
    watch_effect(&differences)
}

#[cfg(test)]
mod tests {
    use punctual_trace::Kind;

    use super::super::bell::Spike;
    use super::*;

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
        let mut tracer: Option<Box<dyn Tracer>> = Some(Box::new(kept));
        let mut flight = Flight { of_spikes: true, ..Flight::default() };
        let spikes = Spikes::new(100_000, 8);
        let ms = |n: u64| n * 1_000_000;
        let events =
            |range: std::ops::Range<u64>| range.map(|n| Event { time_ns: ms(n), cpu: 0, tid: 1, kind: Kind::Fault });
        flight.take(&Batch { events: events(0..101).collect(), losses: Vec::new() }, &mut tracer);
        for at in [50, 55] {
            spikes.look(Spike { thread: 0, value: 1_000_000, at_ns: ms(at) as i64 });
        }
        // Its events are yet to come.
        spikes.look(Spike { thread: 0, value: 1_000_000, at_ns: ms(150) as i64 });
        let mut boxed = tracer.unwrap();
        flight.hand_on(&spikes, &mut boxed);
        assert_eq!(*seen.lock().unwrap(), (39..57).map(ms).collect::<Vec<_>>());
        let mut tracer = Some(boxed);
        flight.take(&Batch { events: events(101..200).collect(), losses: Vec::new() }, &mut tracer);
        flight.hand_on(&spikes, &mut tracer.unwrap());
        assert_eq!(seen.lock().unwrap()[18..], (139..152).map(ms).collect::<Vec<_>>());
    }
}
