//! What all cycling threads share: the request to end, who hit the limit first, spikes, and a mark in the kernel's trace.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, AtomicUsize, Ordering};

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
