//! Reads and writes the small files of /sys and /proc.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::{Error, FileForm};

/// The contents of a file without the line end; `None` if the file does not exist, cannot be read or reports no value.
pub(crate) fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    let absent = text.is_empty() || text.starts_with('<');
    (!absent).then(|| text.to_owned())
}

/// The number in a file.
pub(crate) fn number(path: &Path) -> Option<u64> {
    read(path)?.parse().ok()
}

/// The words of a file, separated by blanks.
pub(crate) fn words(path: &Path) -> Vec<String> {
    read(path).map(|text| text.split_whitespace().map(str::to_owned).collect()).unwrap_or_default()
}

/// The contents of a file, or the error of reading it.
pub(crate) fn must_read(path: &Path) -> Result<String, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::io("reading", path, source))?;
    Ok(text.trim().to_owned())
}

/// Writes `value` into an existing file with one call. Follows no links and creates nothing.
pub(crate) fn write(path: &Path, value: &str) -> Result<(), Error> {
    let failed = |source| Error::io(format!("writing {value} to"), path, source);
    let flags = OFlags::NOFOLLOW.bits() as i32;
    let mut file: File =
        std::fs::OpenOptions::new().write(true).truncate(true).custom_flags(flags).open(path).map_err(failed)?;
    file.write_all(format!("{value}\n").as_bytes()).map_err(failed)
}

/// Longest delay until a written value shows. The kernel applies a frequency limit in a worker thread (`schedule_work`
/// in drivers/cpufreq/cpufreq.c), which a busy machine delays.
const SHOWS_WITHIN: Duration = Duration::from_millis(200);
/// Polling interval. The thread sleeps in between, so that the worker can run.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// The contents after `value` was written: that value, or the contents at the timeout.
pub(crate) fn read_back(file: &FileForm, path: &Path, value: &str) -> Result<String, Error> {
    let give_up = Instant::now() + SHOWS_WITHIN;
    loop {
        let now = must_read(path)?;
        if now == value || !file.is_taken_up_later || Instant::now() >= give_up {
            return Ok(now);
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}
