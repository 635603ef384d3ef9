//! Tracepoints on an architecture whose `perf_event_open(2)` bindings are missing: every call fails with ENOSYS.

use std::time::Duration;

use crate::{Error, Result};

pub use self::event::{Filter, Number, Record, Recorded, Sample, Syscall};

#[path = "event.rs"]
#[allow(dead_code, reason = "there is nothing to read here")]
mod event;

/// The events of one CPU. It cannot exist here.
#[derive(Debug)]
pub enum CpuEvents {}

impl CpuEvents {
    /// Fails with ENOSYS.
    pub fn open(_: usize, _: u32) -> Result<Self> {
        Err(Error::from_errno("perf_event_open", libc::ENOSYS).on("this architecture"))
    }

    /// Unreachable: no ring exists here.
    pub fn add(&mut self, _: u64, _: Option<&str>) -> Result<()> {
        match *self {}
    }

    /// Unreachable: no ring exists here.
    pub fn switch(&self, _: bool) -> Result<()> {
        match *self {}
    }

    /// Unreachable: no ring exists here.
    pub fn dropped(&self) -> Option<u64> {
        match *self {}
    }

    /// Unreachable: no ring exists here.
    pub fn cpu(&self) -> usize {
        match *self {}
    }

    /// Unreachable: no ring exists here.
    pub fn drain(&mut self, _: &mut dyn FnMut(Record<'_>)) {
        match *self {}
    }
}

/// Fails with ENOSYS.
pub fn wait(_: &[CpuEvents], _: Duration) -> Result<bool> {
    Err(Error::from_errno("perf_event_open", libc::ENOSYS).on("this architecture"))
}

/// Programs in the kernel. It cannot exist here.
#[derive(Debug)]
pub enum Recorder {}

impl Recorder {
    /// Fails with ENOSYS.
    pub fn open(_: &[usize]) -> Result<Self> {
        Err(Error::from_errno("bpf", libc::ENOSYS).on("this architecture"))
    }

    /// Unreachable: no ring exists here.
    pub fn add(&mut self, _: &Recorded<'_>) -> Result<()> {
        match *self {}
    }

    /// Unreachable: no ring exists here.
    pub fn switch(&self, _: bool) {
        match *self {}
    }

    /// Unreachable: no ring exists here.
    pub fn drain(&mut self, _: &mut dyn FnMut(usize, usize, Record<'_>)) {
        match *self {}
    }

    /// Unreachable: no ring exists here.
    pub fn dropped(&self) -> u64 {
        match *self {}
    }

    /// Unreachable: no ring exists here.
    pub fn wait(&self, _: Duration) -> bool {
        match *self {}
    }
}
