//! Where events come from: programs in the kernel, or the rings of perf_event_open(2) where those are refused.

use std::time::Duration;

use punctual_linux::perf::{self, CpuEvents, Filter, Number, Record, Recorded, Recorder, Syscall};

use crate::catalog::{Keep, Tracepoint};
use crate::filter::Threads;
use crate::{Error, Result};

/// Events of all CPUs. They are off until [`Source::switch`].
#[derive(Debug)]
pub(crate) enum Source {
    Programs(Recorder),
    Rings(Vec<CpuEvents>),
}

impl Source {
    /// Programs in the kernel, with two rings of each CPU.
    pub(crate) fn programs(
        rings: &[(usize, u32)],
        tracepoints: &[Tracepoint],
        threads: &Threads,
    ) -> punctual_linux::Result<Self> {
        let mut sizes = vec![0; rings.iter().map(|(cpu, _)| cpu + 1).max().unwrap_or(0)];
        rings.iter().for_each(|(cpu, order)| sizes[*cpu] = rustix::param::page_size() << order);
        let mut recorder = Recorder::open(&sizes)?;
        for tracepoint in tracepoints {
            let about: Vec<Number> = tracepoint.about.iter().map(|offset| Number::Field(*offset)).collect();
            let numbers: Option<&[Number]> = match tracepoint.keep {
                Keep::All => None,
                Keep::Own => Some(&[Number::Thread]),
                Keep::About(_) => Some(&about),
            };
            let filter = numbers.map(|numbers| Filter { numbers, ranges: threads.ranges() });
            let syscall = match tracepoint.path {
                "raw_syscalls/sys_enter" => Some(Syscall::Enter),
                "raw_syscalls/sys_exit" => Some(Syscall::Leave),
                _ => None,
            };
            let (id, size, text) = (tracepoint.id, tracepoint.size, tracepoint.text);
            recorder.add(&Recorded { id, size, text, filter, syscall })?;
        }
        Ok(Self::Programs(recorder))
    }

    /// A ring of each CPU. It is the largest for which there is memory, up to the one asked for, at least of `2^least`
    /// pages.
    pub(crate) fn rings(
        rings: &[(usize, u32)],
        least: u32,
        tracepoints: &[Tracepoint],
        threads: &Threads,
    ) -> punctual_linux::Result<Self> {
        let open = |(cpu, order): &(usize, u32)| {
            let smaller = || (least..*order).rev().find_map(|order| CpuEvents::open(*cpu, order).ok());
            CpuEvents::open(*cpu, *order).or_else(|error| smaller().ok_or(error))
        };
        let mut cpus = rings.iter().map(open).collect::<punctual_linux::Result<Vec<_>>>()?;
        for tracepoint in tracepoints {
            let filter = threads.text(tracepoint.keep);
            for cpu in &mut cpus {
                cpu.add(tracepoint.id.into(), filter.as_deref())?;
            }
        }
        Ok(Self::Rings(cpus))
    }

    pub(crate) fn switch(&self, on: bool) -> Result<()> {
        match self {
            Self::Programs(recorder) => recorder.switch(on),
            Self::Rings(cpus) => cpus.iter().try_for_each(|cpu| cpu.switch(on)).map_err(Error::Linux)?,
        }
        Ok(())
    }

    /// How many events were dropped so far; `None` where the kernel does not count.
    pub(crate) fn dropped(&self) -> Option<u64> {
        match self {
            Self::Programs(recorder) => Some(recorder.dropped()),
            Self::Rings(cpus) => cpus.iter().map(CpuEvents::dropped).sum(),
        }
    }

    /// Sleeps until a ring is half full or has 64 KiB to read, at most this long.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<bool> {
        match self {
            Self::Programs(recorder) => Ok(recorder.wait(timeout)),
            Self::Rings(cpus) => Ok(perf::wait(cpus, timeout)?),
        }
    }

    /// What was recorded, by ring and CPU; that of one ring in its order.
    pub(crate) fn drain(&mut self, each: &mut dyn FnMut(usize, usize, Record<'_>)) {
        match self {
            Self::Programs(recorder) => recorder.drain(each),
            Self::Rings(cpus) => {
                for ring in cpus {
                    let cpu = ring.cpu();
                    ring.drain(&mut |record| each(cpu, cpu, record));
                }
            }
        }
    }
}
