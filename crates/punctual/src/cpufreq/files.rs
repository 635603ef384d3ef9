//! Reading and writing the small files of /sys.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::attribute::Attribute;
use super::error::Error;

/// Contents without the line end; `None` where the file does not exist, cannot be read or says that it has no value.
pub(super) fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    let absent = text.is_empty() || text.starts_with('<');
    (!absent).then(|| text.to_owned())
}

/// A number.
pub(super) fn number(path: &Path) -> Option<u64> {
    read(path)?.parse().ok()
}

/// Words separated by blanks.
pub(super) fn words(path: &Path) -> Vec<String> {
    read(path).map(|text| text.split_whitespace().map(str::to_owned).collect()).unwrap_or_default()
}

/// Contents, or why they cannot be read.
pub(super) fn must_read(path: &Path) -> Result<String, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::io("reading", path, source))?;
    Ok(text.trim().to_owned())
}

/// One write of `value` into a file that exists; links are not followed and nothing is created.
pub(super) fn write(path: &Path, value: &str) -> Result<(), Error> {
    let failed = |source| Error::io(format!("writing {value} to"), path, source);
    let flags = OFlags::NOFOLLOW.bits() as i32;
    let mut file: File =
        std::fs::OpenOptions::new().write(true).truncate(true).custom_flags(flags).open(path).map_err(failed)?;
    file.write_all(format!("{value}\n").as_bytes()).map_err(failed)
}

/// CPUs of a list: `0 1 2` as cpufreq writes them, or `0-3,8`.
pub(super) fn cpus(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for part in text.split([' ', ',']).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
            cpus.extend(first..=last.min(super::attribute::HIGHEST_POLICY));
        }
    }
    cpus
}

/// How long a value may take to show: the kernel takes up a frequency limit in a worker thread (`schedule_work` in
/// drivers/cpufreq/cpufreq.c), which a busy machine keeps waiting.
const SHOWS_WITHIN: Duration = Duration::from_millis(200);
/// How often it is looked for. Asleep meanwhile, so that the worker can run.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// What an attribute reads after `value` was written: that value, or what is there although it had its time.
pub(super) fn read_back(attribute: Attribute, path: &Path, value: &str) -> Result<String, Error> {
    let give_up = Instant::now() + SHOWS_WITHIN;
    loop {
        let now = must_read(path)?;
        if now == value || !attribute.is_taken_up_later() || Instant::now() >= give_up {
            return Ok(now);
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}
