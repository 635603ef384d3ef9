//! The longest C-state exit latency that the machine may use
//! (Documentation/power/pm_qos_interface.rst).
//!
//! `/dev/cpu_dma_latency` is held open. The request ends when the file is closed, even if the process is killed.

use std::cell::LazyCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::io::Errno;

use super::set::Conditions;
use super::surroundings::{Reason, Surroundings};
use super::{Applying, Condition, Definition, Facts, Held, InvalidValue, Probe, Scope, Target, Value};
use crate::duration::{format_duration, parse_duration};
use crate::need::Need;
use crate::restore::NotRestored;

const PATH: &str = "/dev/cpu_dma_latency";
/// The kernel's value for no limit (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`).
const NO_LIMIT: Duration = Duration::from_secs(2000);

struct DmaLatency;

impl Condition {
    /// `dma-latency`.
    pub const DMA_LATENCY: Self = Self(&Facts { name: "dma-latency", scope: Scope::Machine, definition: &DmaLatency });
}

impl Conditions {
    /// Requests the longest tolerated C-state exit latency of the whole *machine*. It is rounded down to whole µs, so
    /// the kernel's limit never exceeds the request.
    pub fn dma_latency(self, latency: Duration) -> Self {
        self.with(Value::DmaLatency(latency))
    }

    /// The lowest C-state exit latency requested by any process of the machine; 2000 s without requests.
    #[must_use]
    pub fn get_dma_latency(&self) -> Option<Duration> {
        let Value::DmaLatency(duration) = self.value(Condition::DMA_LATENCY)? else { return None };
        Some(*duration)
    }
}

impl Definition for DmaLatency {
    fn parse(&self, typed: &str) -> Result<Value, InvalidValue> {
        let asked = parse_duration(typed)?;
        if asked.subsec_nanos() % 1000 != 0 {
            return Err(InvalidValue::Expected("whole microseconds, the unit of the kernel (example: 20us)"));
        }
        if asked >= NO_LIMIT {
            let range = "a duration from 0us to below 2000s, which is no limit to the kernel (example: 20us)";
            return Err(InvalidValue::Expected(range));
        }
        Ok(Value::DmaLatency(asked))
    }

    fn read(&self, _: &Target) -> Option<Value> {
        effective().map(Value::DmaLatency)
    }

    fn probe(&self, _: &Target) -> Probe {
        // Opening the file adds an unlimited request, which changes nothing.
        let opened = OpenOptions::new().read(true).write(true).open(PATH);
        Probe::Found(opened.map(drop).map_err(|error| explain(&error, &Surroundings::read())))
    }

    fn apply(&self, applying: &mut Applying<'_>) -> Result<(), Reason> {
        let Value::DmaLatency(asked) = *applying.value else { return Err(Applying::read_only()) };
        let file = hold(asked, applying.here)?;
        applying.hold(Request { asked, file });
        Ok(())
    }
}

/// The lowest latency requested on the machine. `None` if the file cannot be read.
fn effective() -> Option<Duration> {
    read_back(&File::open(PATH).ok()?).ok()
}

/// Requests `asked`, rounded down to whole µs. The caller keeps the file open.
fn hold(asked: Duration, here: &Surroundings) -> Result<File, Reason> {
    let Ok(us) = i32::try_from(asked.as_micros()) else {
        let why = format!("the kernel counts it in a signed 32-bit number of microseconds, at most {}us", i32::MAX);
        return Err(Reason::new(why, Need::LessLatency));
    };
    let failed = |error: io::Error| explain(&error, here);
    let mut file = OpenOptions::new().read(true).write(true).open(PATH).map_err(failed)?;
    file.write_all(&us.to_ne_bytes()).map_err(failed)?;
    let now = read_back(&file).map_err(failed)?;
    if now > Duration::from_micros(us as u64) {
        let why = format!(
            "the kernel accepted it, but tolerates {} now, although it takes the least of all requests",
            format_duration(now)
        );
        return Err(Reason::new(why, Need::Unknown));
    }
    Ok(file)
}

fn read_back(file: &File) -> io::Result<Duration> {
    let mut us = [0; 4];
    file.read_exact_at(&mut us, 0)?;
    Ok(Duration::from_micros(u64::try_from(i32::from_ne_bytes(us)).unwrap_or(0)))
}

/// The open file that holds the request.
#[derive(Debug)]
struct Request {
    asked: Duration,
    file: File,
}

impl Held for Request {
    fn lost(&self) -> Option<String> {
        effective().filter(|now| *now > self.asked).map(|now| Value::DmaLatency(now).to_string())
    }

    fn renew(&mut self, here: &LazyCell<Surroundings>) -> Result<(), Reason> {
        self.file = hold(self.asked, here)?;
        Ok(())
    }

    fn undo(self: Box<Self>) -> Vec<NotRestored> {
        // Closing ends the request; the kernel returns to the lowest of the others.
        drop(self.file);
        Vec::new()
    }
}

/// Why the file could not be opened or written.
pub(super) fn explain(error: &io::Error, here: &Surroundings) -> Reason {
    let why = format!("{PATH}: {error}");
    let errno = error.raw_os_error();
    let missing = error.kind() == io::ErrorKind::NotFound;
    let needs = match &here.container {
        // EPERM rather than EACCES: the container withholds the device from every user (devices cgroup).
        Some(container) if missing || errno == Some(Errno::PERM.raw_os_error()) => {
            Need::DeviceInContainer(PATH, container.clone())
        }
        _ if missing => Need::IdleStates,
        _ if error.kind() == io::ErrorKind::PermissionDenied => Need::LatencyDevice,
        _ => Need::Unknown,
    };
    Reason::new(why, needs).errno(errno)
}
