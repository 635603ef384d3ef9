//! The events of all CPUs, in the order of time.

use std::time::Duration;

use punctual_linux::perf::Record;

use crate::catalog::{KNOWN, Level, Tracepoint};
use crate::clocks::Offsets;
use crate::event::Event;
use crate::filter::Threads;
use crate::source::Source;
use crate::width::Widths;
use crate::{Error, Result, Tracefs};

/// How much a CPU's ring holds until it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// 256 KiB, some 4000 events, on the CPUs that the calling thread may use. It stays in their caches: an event costs a third less,
    /// and the reader has to read often.
    Small,
    /// 8 MiB, some 120 000 events; less on machines with more than 16 CPUs. A program that starts has tens of thousands in 0.4 s.
    Large,
}

/// Pages of the rings: powers of two.
const SMALL: u32 = 6;
const LEAST: u32 = 9;
const LARGE: u32 = 11;
/// Most memory of all rings together, in pages of 4 KiB: 128 MiB.
const ALL: usize = 1 << 15;

impl Room {
    /// The online CPUs, and the pages of their rings as a power of two, where each has this many.
    fn rings(self, each: usize) -> Vec<(usize, u32)> {
        let online = online();
        online.iter().map(|cpu| (*cpu, self.order(*cpu, online.len() * each))).collect()
    }

    fn order(self, cpu: usize, cpus: usize) -> u32 {
        let may_use = |cpu: usize| rustix::thread::sched_getaffinity(None).is_ok_and(|cpus| cpus.is_set(cpu));
        if self == Self::Small && cpu < rustix::thread::CpuSet::MAX_CPU && may_use(cpu) {
            return SMALL;
        }
        (LEAST..=LARGE).rev().find(|order| cpus << order <= ALL).unwrap_or(LEAST)
    }
}

/// A CPU writes an event within this time of its stamp, even if the host takes the CPU away meanwhile.
const SETTLED: Duration = Duration::from_millis(10);

/// Recording of events.
#[derive(Debug)]
pub struct Tap {
    source: Source,
    /// By number.
    tracepoints: Vec<Tracepoint>,
    missing: Vec<&'static str>,
    lost: u64,
    /// How far this process's CLOCK_MONOTONIC is ahead of that of the events.
    ahead_ns: i64,
    /// Read, but too young: an earlier one of another CPU may still come.
    young: Vec<Event>,
    widths: Widths,
}

/// Events that were read at once.
#[derive(Debug, Default)]
pub struct Batch {
    /// In the order of time.
    pub events: Vec<Event>,
    /// From each of these times on, on this CPU, the kernel dropped that many events: (time, CPU, number).
    pub losses: Vec<(u64, u32, u64)>,
}

impl Tap {
    /// Opens the events of all online CPUs: in small rings by programs in the kernel. Otherwise, or if they are refused, by
    /// [`Tap::open_rings`]. Nothing is recorded before [`Tap::switch`].
    ///
    /// # Errors
    /// Without tracefs, without the privilege, or on a kernel without the events.
    pub fn open(threads: &Threads, level: Level, room: Room) -> Result<Self> {
        let (tracepoints, missing) = find(level)?;
        if room == Room::Small
            && let Ok(source) = Source::programs(&room.rings(2), &tracepoints, threads)
        {
            return Ok(Self::reading(source, tracepoints, missing));
        }
        Self::open_rings(threads, level, room)
    }

    /// The same by perf_event_open(2). It needs less of the kernel, and an event costs more.
    ///
    /// # Errors
    /// As [`Tap::open`].
    pub fn open_rings(threads: &Threads, level: Level, room: Room) -> Result<Self> {
        let (tracepoints, missing) = find(level)?;
        let source = Source::rings(&room.rings(1), SMALL, &tracepoints, threads).map_err(Error::Refused)?;
        Ok(Self::reading(source, tracepoints, missing))
    }

    fn reading(source: Source, tracepoints: Vec<Tracepoint>, missing: Vec<&'static str>) -> Self {
        let ahead_ns = Offsets::read().monotonic_ns;
        Self { source, tracepoints, missing, lost: 0, ahead_ns, young: Vec::new(), widths: Widths::default() }
    }

    /// Begins recording, or suspends it.
    ///
    /// # Errors
    /// As ioctl(2) says.
    pub fn switch(&self, on: bool) -> Result<()> {
        self.source.switch(on)
    }

    /// The events that this kernel lacks.
    #[must_use]
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// The events that are recorded.
    pub fn recorded(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.tracepoints.iter().map(|tracepoint| tracepoint.path)
    }

    /// How many events the kernel dropped so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        // The rings say so only with the next event that finds room: the events' own counts are exact.
        self.source.dropped().unwrap_or(0).max(self.lost)
    }

    /// Sleeps until a ring is half full or has 64 KiB to read, at most this long.
    ///
    /// # Errors
    /// As poll(2) says.
    pub fn wait(&self, timeout: Duration) -> Result<bool> {
        self.source.wait(timeout)
    }

    /// Reads what was recorded until a millisecond ago; the rest comes with the next call.
    pub fn read(&mut self) -> Batch {
        let until = now_ns().saturating_sub(SETTLED.as_nanos() as u64);
        let mut batch = self.drain();
        let settled = batch.events.partition_point(|event| event.time_ns < until);
        self.young = batch.events.split_off(settled);
        self.widths.translate(&mut batch.events);
        batch
    }

    /// Reads all that was recorded. Call it when recording is off.
    pub fn read_all(&mut self) -> Batch {
        let mut batch = self.drain();
        self.widths.translate(&mut batch.events);
        batch
    }

    fn drain(&mut self) -> Batch {
        let mut batch = Batch { events: std::mem::take(&mut self.young), losses: Vec::new() };
        let (tracepoints, ahead_ns, mut last) = (&self.tracepoints, self.ahead_ns, (usize::MAX, 0));
        self.source.drain(&mut |ring, cpu, record| {
            if last.0 != ring {
                last = (ring, 0);
            }
            match record {
                Record::Sample(sample) => {
                    // The clock goes back a little when the kernel adjusts it; the order of the ring is right.
                    last.1 = sample.time_ns.max(last.1);
                    let id = sample.raw.get(..2).map(|id| u16::from_ne_bytes([id[0], id[1]]));
                    let tracepoint = tracepoints.iter().find(|tracepoint| Some(tracepoint.id) == id);
                    if let Some((tid, kind)) = tracepoint.and_then(|tracepoint| tracepoint.decode(sample.raw)) {
                        let event = Event { time_ns: last.1, cpu: cpu as u32, tid, kind };
                        batch.events.push(event.ahead_by(ahead_ns));
                    }
                }
                Record::Lost(dropped) => {
                    batch.losses.push((last.1.saturating_add_signed(ahead_ns), cpu as u32, dropped));
                }
            }
        });
        self.lost += batch.losses.iter().map(|(_, _, number)| number).sum::<u64>();
        // Stable: events of one CPU keep their order.
        batch.events.sort_by_key(|event| event.time_ns);
        batch
    }
}

/// The events of this kernel up to this level, and those that it lacks.
fn find(level: Level) -> Result<(Vec<Tracepoint>, Vec<&'static str>)> {
    let tracefs = Tracefs::open()?;
    let (mut tracepoints, mut missing) = (Vec::new(), Vec::new());
    for known in KNOWN.iter().filter(|known| known.level <= level) {
        match known.find(&tracefs, level)? {
            Some(tracepoint) => tracepoints.push(tracepoint),
            None => missing.push(known.path),
        }
    }
    Ok((tracepoints, missing))
}

pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The CPUs that are online, from `/sys/devices/system/cpu/online`; 0 where it is missing.
pub(crate) fn online() -> Vec<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    };
    let cpus: Vec<usize> = text.trim().split(',').filter_map(range).flatten().collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_of_many_cpus_are_smaller() {
        assert_eq!([1, 2, 16].map(|cpus| Room::Large.order(0, cpus)), [LARGE; 3]);
        assert_eq!([17, 32, 64, 65, 4096].map(|cpus| Room::Large.order(0, cpus)), [10, 10, LEAST, LEAST, LEAST]);
        // A CPU that this thread cannot use, if there is one of this number at all.
        assert_eq!(Room::Small.order(1_000_000, 2), LARGE);
    }
}
