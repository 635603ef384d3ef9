//! Holding `/dev/cpu_dma_latency` open: the longest C-state exit latency that the machine may take
//! (Documentation/power/pm_qos_interface.rst). The request ends when the file is closed, also when the process is killed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use super::guard::{Steps, Undo};
use super::remedy;
use super::surroundings::Surroundings;
use super::{Condition, NotRestored, Refused};
use crate::duration::format_duration;

pub(super) const PATH: &str = "/dev/cpu_dma_latency";

/// The least latency that anybody on the machine asked for. `None` when the file cannot be read.
pub(super) fn effective() -> Option<Duration> {
    // Opening adds a request without a bound, which changes nothing.
    read_back(&File::open(PATH).ok()?).ok()
}

/// Asks for `asked`, rounded down to whole µs, and keeps the file open.
pub(super) fn hold(asked: Duration, here: &Surroundings, steps: &mut Steps) -> Result<(), Refused> {
    let refuse = |why: String, remedy: String, errno| Refused {
        condition: Condition::DmaLatency,
        asked: format_duration(asked),
        why,
        remedy,
        errno,
    };
    let Ok(us) = i32::try_from(asked.as_micros()) else {
        let why = format!("the kernel counts it in a signed 32-bit number of microseconds, at most {}us", i32::MAX);
        return Err(refuse(why, "choose less; the longest C-state of any CPU leaves within milliseconds".into(), None));
    };
    let failed = |error: io::Error| {
        let (why, remedy) = remedy::dma_latency(&error, here);
        refuse(why, remedy, error.raw_os_error())
    };
    let mut file = OpenOptions::new().read(true).write(true).open(PATH).map_err(failed)?;
    file.write_all(&us.to_ne_bytes()).map_err(failed)?;
    let now = read_back(&file).map_err(failed)?;
    if now > Duration::from_micros(us as u64) {
        let why = format!("the kernel accepted it, but tolerates {} now", format_duration(now));
        return Err(refuse(why, "none known: the kernel takes the least of all requests".into(), None));
    }
    steps.push(Box::new(Held { file }));
    Ok(())
}

fn read_back(file: &File) -> io::Result<Duration> {
    let mut us = [0; 4];
    file.read_exact_at(&mut us, 0)?;
    Ok(Duration::from_micros(u64::try_from(i32::from_ne_bytes(us)).unwrap_or(0)))
}

#[derive(Debug)]
struct Held {
    file: File,
}

impl Undo for Held {
    fn undo(self: Box<Self>) -> Result<(), NotRestored> {
        // Closing ends the request; the kernel goes back to the least of the others'.
        drop(self.file);
        Ok(())
    }
}
