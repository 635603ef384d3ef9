//! What a cycling thread shows while it runs ([`Gauge`]): its counts, extremes, histograms and last values, in memory that never grows. What
//! all of them share ([`Bell`]): the request to end, who hit the limit first, spikes, and a mark in the kernel's trace.
//!
//! Only its thread writes a [`Gauge`], and any thread reads it. Writing allocates nothing, locks nothing and makes no system
//! call. A reader that sees a cycle counted sees its value too.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, AtomicUsize, Ordering};

/// Values that a reader may be behind: at 10 ms between looks, an interval of 1 us fits.
pub const KEPT: usize = 16_384;
/// Buckets to each power of two: a value is known to 1/128.
const FINE: u32 = 7;
/// Powers of two above the first: up to some 9 hours.
const POWERS: usize = 39;

/// What a gauge keeps beside counts and extremes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keep {
    /// Buckets of one unit each (0: none), and as many cycle numbers of larger values.
    pub units: usize,
    /// The last [`KEPT`] values.
    pub values: bool,
    /// The spread of all latenesses in ns, in buckets of less than 1 %, whatever the unit of the values.
    pub spread: bool,
}

/// The figures of one thread.
#[derive(Debug, Default)]
pub struct Gauge {
    tid: AtomicI32,
    cycles: AtomicU64,
    missed: AtomicU64,
    rested: AtomicU64,
    smis: AtomicU64,
    min: AtomicI64,
    max: AtomicI64,
    last: AtomicI64,
    sum: AtomicI64,
    units: Box<[AtomicU64]>,
    beyond: AtomicU64,
    beyond_at: Box<[AtomicU64]>,
    values: Box<[AtomicI64]>,
    smi_steps: Box<[AtomicU64]>,
    spread: Box<[AtomicU64]>,
}

/// Zeroed and touched: no page of it faults later.
fn touched<A: Default>(length: usize) -> Box<[A]> {
    (0..length).map(|_| A::default()).collect()
}

/// Adds to what only this thread writes.
#[inline]
fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

impl Gauge {
    /// A gauge without cycles. `smis`: whether it keeps the SMIs of each value too.
    #[must_use]
    pub fn new(keep: Keep, smis: bool) -> Self {
        let counts = touched::<AtomicU64>;
        let kept = if keep.values { KEPT } else { 0 };
        Self {
            min: AtomicI64::new(i64::MAX),
            max: AtomicI64::new(i64::MIN),
            units: counts(keep.units),
            beyond_at: counts(keep.units),
            values: touched(kept),
            smi_steps: counts(if smis { kept } else { 0 }),
            spread: counts(if keep.spread { (POWERS + 1) << FINE } else { 0 }),
            ..Self::default()
        }
    }

    pub(super) fn is_of(&self, tid: i32) {
        self.tid.store(tid, Ordering::Relaxed);
    }

    /// Counts SMIs since the last cycle. Before [`Gauge::record`] of the cycle.
    #[inline]
    pub(super) fn smis_were(&self, more: u64) {
        add(&self.smis, more);
        if !self.smi_steps.is_empty() {
            self.smi_steps[self.cycles.load(Ordering::Relaxed) as usize % KEPT].store(more, Ordering::Relaxed);
        }
    }

    /// Counts a cycle of this value, which is `late_ns` in the unit of the run, and what was missed after it.
    #[inline]
    pub(super) fn record(&self, value: i64, late_ns: i64, missed: u64) {
        let cycle = self.cycles.load(Ordering::Relaxed);
        if value < self.min.load(Ordering::Relaxed) {
            self.min.store(value, Ordering::Relaxed);
        }
        if value > self.max.load(Ordering::Relaxed) {
            self.max.store(value, Ordering::Relaxed);
        }
        self.last.store(value, Ordering::Relaxed);
        self.sum.store(self.sum.load(Ordering::Relaxed).saturating_add(value), Ordering::Relaxed);
        if missed > 0 {
            add(&self.missed, missed);
        }
        if !self.units.is_empty() {
            self.place(value, cycle);
        }
        if !self.values.is_empty() {
            self.values[cycle as usize % KEPT].store(value, Ordering::Relaxed);
        }
        if !self.spread.is_empty() {
            add(&self.spread[bucket(late_ns)], 1);
        }
        self.cycles.store(cycle.wrapping_add(1), Ordering::Release);
    }

    /// Counts a rest, and what was missed meanwhile.
    pub(super) fn rested_over(&self, missed: u64) {
        add(&self.rested, 1);
        add(&self.missed, missed);
    }

    #[inline]
    fn place(&self, value: i64, cycle: u64) {
        // A negative value is none of the units either.
        if let Some(unit) = usize::try_from(value).ok().and_then(|value| self.units.get(value)) {
            return add(unit, 1);
        }
        let beyond = self.beyond.load(Ordering::Relaxed);
        if let Some(at) = self.beyond_at.get(beyond as usize) {
            at.store(cycle, Ordering::Relaxed);
        }
        self.beyond.store(beyond + 1, Ordering::Relaxed);
    }

    /// The thread's id; 0 before it runs.
    #[must_use]
    pub fn tid(&self) -> i32 {
        self.tid.load(Ordering::Relaxed)
    }

    /// Cycles so far.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.cycles.load(Ordering::Acquire)
    }

    /// Expected wake-ups without a cycle so far.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Rests so far.
    pub(crate) fn rested(&self) -> u64 {
        self.rested.load(Ordering::Relaxed)
    }

    /// SMIs so far.
    #[must_use]
    pub fn smis(&self) -> u64 {
        self.smis.load(Ordering::Relaxed)
    }

    /// The smallest and the largest value; `None` before the first cycle.
    #[must_use]
    pub fn extremes(&self) -> Option<(i64, i64)> {
        (self.cycles() > 0).then(|| (self.min.load(Ordering::Relaxed), self.max.load(Ordering::Relaxed)))
    }

    /// The value of the last cycle.
    #[must_use]
    pub fn last(&self) -> i64 {
        self.last.load(Ordering::Relaxed)
    }

    /// The sum of all values.
    #[must_use]
    pub fn sum(&self) -> i64 {
        self.sum.load(Ordering::Relaxed)
    }

    /// Cycles of exactly this value, if it has a bucket.
    #[must_use]
    pub fn at(&self, unit: usize) -> u64 {
        self.units.get(unit).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Cycles beyond the buckets.
    #[must_use]
    pub fn beyond(&self) -> u64 {
        self.beyond.load(Ordering::Relaxed)
    }

    /// The numbers of those cycles, as many as there are buckets.
    pub fn beyond_at(&self) -> impl Iterator<Item = u64> + '_ {
        let known = usize::try_from(self.beyond()).unwrap_or(usize::MAX);
        self.beyond_at.iter().take(known).map(|at| at.load(Ordering::Relaxed))
    }

    /// The value of this cycle, if it is among the last [`KEPT`].
    #[must_use]
    pub fn value(&self, cycle: u64) -> Option<i64> {
        let value = self.values.get(cycle as usize % KEPT)?.load(Ordering::Relaxed);
        (self.cycles().wrapping_sub(cycle) <= KEPT as u64).then_some(value)
    }

    /// SMIs before this cycle, if it is among the last [`KEPT`].
    #[must_use]
    pub fn smis_before(&self, cycle: u64) -> Option<u64> {
        self.smi_steps.get(cycle as usize % KEPT).map(|step| step.load(Ordering::Relaxed))
    }

    /// The spread so far: how often each bucket was met.
    #[must_use]
    pub fn spread(&self) -> Vec<u64> {
        self.spread.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// The bucket of a value. Values below zero, which only a stepped clock has, count as zero.
#[inline]
fn bucket(value: i64) -> usize {
    let value = value.max(0).unsigned_abs();
    let power = (value >> FINE).checked_ilog2().map_or(0, |log| log + 1);
    let step = if power == 0 { value } else { (value >> (power - 1)) - (1 << FINE) };
    (((power as usize) << FINE) + step as usize).min(((POWERS + 1) << FINE) - 1)
}

/// The largest value of a bucket of [`Gauge::spread`].
#[must_use]
pub fn highest(bucket: usize) -> i64 {
    let (power, step) = (bucket >> FINE, (bucket & ((1 << FINE) - 1)) as i64);
    match power {
        0 => step,
        _ => (((1 << FINE) + step + 1) << (power - 1)) - 1,
    }
}

/// Where the kernel's trace is, in both places that it may be mounted.
const TRACING: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Shared by the threads of a crew.
#[derive(Debug, Default)]
pub struct Bell {
    rung: AtomicBool,
    ended: AtomicUsize,
    breaker: AtomicI32,
    break_value: AtomicI64,
    spikes: Option<Spikes>,
    mark: Option<TraceMark>,
}

impl Bell {
    /// It records spikes, and marks the kernel's trace, if there is something to do so with.
    #[must_use]
    pub fn with(spikes: Option<Spikes>, mark: Option<TraceMark>) -> Self {
        Self { spikes, mark, ..Self::default() }
    }

    /// Asks all threads to end after their cycle.
    pub fn ring(&self) {
        self.rung.store(true, Ordering::Release);
    }

    /// Whether the threads are to end.
    #[inline]
    #[must_use]
    pub fn rung(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    /// A thread met a value above the limit: all end, and the first one is remembered.
    #[cold]
    pub(super) fn broken_by(&self, tid: i32, value: i64, limit: i64) {
        if self.breaker.compare_exchange(0, tid, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.break_value.store(value, Ordering::Release);
            self.mark.iter().for_each(|mark| mark.write(value, limit));
        }
        self.ring();
    }

    /// The thread that first met a value above the limit, and that value.
    #[must_use]
    pub fn broken(&self) -> Option<(i32, i64)> {
        let tid = self.breaker.load(Ordering::Acquire);
        (tid != 0).then(|| (tid, self.break_value.load(Ordering::Acquire)))
    }

    /// The spikes, if they are recorded.
    #[inline]
    #[must_use]
    pub fn spikes(&self) -> Option<&Spikes> {
        self.spikes.as_ref()
    }

    pub(super) fn one_ended(&self) {
        self.ended.fetch_add(1, Ordering::AcqRel);
    }

    /// Threads that have ended.
    #[must_use]
    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }
}

/// A value above the limit of spikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spike {
    /// Number of its thread.
    pub thread: usize,
    /// The value.
    pub value: i64,
    /// When, on the measured clock.
    pub at_ns: i64,
}

/// The first spikes of all threads, and the number of all.
#[derive(Debug)]
pub struct Spikes {
    above: i64,
    count: AtomicU64,
    kept: Box<[[AtomicI64; 3]]>,
}

impl Spikes {
    /// Keeps the first `most` values above `above`.
    #[must_use]
    pub fn new(above: i64, most: usize) -> Self {
        let kept = (0..most).map(|_| Default::default()).collect();
        Self { above, count: AtomicU64::new(0), kept }
    }

    #[inline]
    pub(super) fn look(&self, spike: Spike) {
        if spike.value <= self.above {
            return;
        }
        let number = self.count.fetch_add(1, Ordering::AcqRel);
        if let Some([thread, value, at_ns]) = self.kept.get(number as usize) {
            thread.store(spike.thread as i64, Ordering::Relaxed);
            value.store(spike.value, Ordering::Relaxed);
            at_ns.store(spike.at_ns, Ordering::Release);
        }
    }

    /// The number of all spikes.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Those kept, in order.
    pub fn kept(&self) -> impl Iterator<Item = Spike> + '_ {
        self.kept.iter().take(self.count() as usize).map(|[thread, value, at_ns]| Spike {
            at_ns: at_ns.load(Ordering::Acquire),
            thread: thread.load(Ordering::Relaxed) as usize,
            value: value.load(Ordering::Relaxed),
        })
    }
}

/// The open files that mark and stop the kernel's trace.
#[derive(Debug)]
pub struct TraceMark {
    marker: File,
    on: File,
}

impl TraceMark {
    /// Opens them. The error names the file.
    pub fn open() -> Result<Self, String> {
        let folder = TRACING.iter().find(|folder| std::path::Path::new(folder).join("trace_marker").exists());
        let folder = folder.ok_or_else(|| format!("{}: no tracefs is mounted", TRACING[0]))?;
        let open = |name: &str| {
            let path = format!("{folder}/{name}");
            OpenOptions::new().write(true).open(&path).map_err(|error| format!("{path}: {error}"))
        };
        Ok(Self { marker: open("trace_marker")?, on: open("tracing_on")? })
    }

    /// Writes the mark and stops the trace.
    fn write(&self, value: i64, limit: i64) {
        let _ = (&self.marker).write_all(format!("hit latency threshold ({value} > {limit})").as_bytes());
        let _ = (&self.on).write_all(b"0\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_its_bucket_and_known_to_a_hundredth() {
        for value in (0..4096).chain((0..42).map(|bits| 1 << bits)).chain([i64::from(i32::MAX), 999_999_937]) {
            let bucket = bucket(value);
            assert!(value <= highest(bucket), "{value} is in bucket {bucket}");
            assert!(bucket == 0 || value > highest(bucket - 1), "{value} is in bucket {bucket}");
            assert!(highest(bucket) - value <= value / 100, "{value}");
        }
        assert_eq!((bucket(-7), bucket(i64::MAX)), (0, ((POWERS + 1) << FINE) - 1));
    }

    #[test]
    fn each_cycle_is_counted_in_each_place() {
        let gauge = Gauge::new(Keep { units: 3, values: true, spread: true }, false);
        [2, 7, 0, -1, 7].iter().for_each(|value| gauge.record(*value, *value, u64::from(*value == 7)));
        assert_eq!((gauge.cycles(), gauge.missed(), gauge.beyond()), (5, 2, 3));
        assert_eq!((gauge.extremes(), gauge.last(), gauge.sum()), (Some((-1, 7)), 7, 15));
        assert_eq!([0, 1, 2, 3].map(|unit| gauge.at(unit)), [1, 0, 1, 0]);
        assert_eq!(gauge.beyond_at().collect::<Vec<_>>(), [1, 3, 4]);
        assert_eq!([0, 3].map(|cycle| gauge.value(cycle)), [Some(2), Some(-1)]);
        assert_eq!(gauge.spread().iter().sum::<u64>(), 5);
    }

    #[test]
    fn old_values_are_gone() {
        let gauge = Gauge::new(Keep { values: true, ..Keep::default() }, false);
        (0..=KEPT as i64).for_each(|value| gauge.record(value, value, 0));
        assert_eq!((gauge.value(0), gauge.value(1)), (None, Some(1)));
        assert_eq!(gauge.extremes(), Some((0, KEPT as i64)));
    }

    #[test]
    fn the_first_thread_above_the_limit_is_remembered() {
        let bell = Bell::default();
        assert_eq!((bell.rung(), bell.broken()), (false, None));
        bell.broken_by(7, 120, 100);
        bell.broken_by(8, 500, 100);
        assert_eq!((bell.rung(), bell.broken()), (true, Some((7, 120))));
    }

    #[test]
    fn all_spikes_are_counted_and_the_first_ones_kept() {
        let spikes = Spikes::new(10, 2);
        for (thread, value) in [(0, 11), (1, 10), (2, 30), (0, 40)] {
            spikes.look(Spike { thread, value, at_ns: value * 5 });
        }
        assert_eq!(spikes.count(), 3);
        let kept = [Spike { thread: 0, value: 11, at_ns: 55 }, Spike { thread: 2, value: 30, at_ns: 150 }];
        assert_eq!(spikes.kept().collect::<Vec<_>>(), kept);
    }
}
