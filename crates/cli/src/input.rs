//! Runs that were saved: a JSON file, a page, or standard input.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use punctual_record::Run;
use punctual_report::html;

use crate::exit::BadUsage;

/// Largest file that is read. A run of an hour is a few megabytes; this keeps a device or a wrong file from filling the memory.
const LARGEST: u64 = 1 << 30;

/// Bytes from which it is seen what a file may be.
const BEGINNING: u64 = 64 << 10;

/// Reads a run from a file, or from standard input for `-`. A page that `--html` wrote is one too.
///
/// A name that leads to no file is bad usage; a file that holds no run is a failure.
pub(crate) fn read_run(path: &Path) -> anyhow::Result<Run> {
    if path == Path::new("-") {
        return from_reader(io::stdin().lock(), 0).context("standard input");
    }
    let name = path.display();
    let refused = |why: String| BadUsage(format!("{name}: {why}"));
    if path.is_dir() {
        return Err(refused("is a folder; name a file that --json or --html wrote".into()).into());
    }
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            refused("there is no such file; runs are written with --json FILE or --html FILE".into())
        }
        _ => refused(format!("cannot be opened: {error}")),
    })?;
    let facts = file.metadata().map_err(|error| refused(format!("cannot be looked at: {error}")))?;
    let kind = facts.file_type();
    if kind.is_block_device() || (kind.is_char_device() && !file.is_terminal()) {
        return Err(refused("is a device; name a file that --json or --html wrote".into()).into());
    }
    let size = facts.len();
    from_reader(file, size).with_context(|| name.to_string())
}

/// `size`: how much is expected, as far as that is known.
fn from_reader(reader: impl Read, size: u64) -> anyhow::Result<Run> {
    let mut bytes = Vec::with_capacity(size.min(LARGEST) as usize + 1);
    let mut reader = reader.take(LARGEST + 1);
    reader.by_ref().take(BEGINNING).read_to_end(&mut bytes).context("cannot read it")?;
    // What begins neither as a run nor as a page is one no more when more of it comes: the error is known.
    if bytes.trim_ascii_start().first().is_some_and(|first| matches!(first, b'{' | b'<')) {
        reader.read_to_end(&mut bytes).context("cannot read it")?;
    }
    if bytes.len() as u64 > LARGEST {
        bail!("it has more than the {LARGEST} bytes that are read");
    }
    if !html::is_page(&bytes) {
        return Ok(Run::from_slice(&bytes)?);
    }
    let run = html::embedded_run(&bytes)
        .context("it looks like a page, but holds no run of punctual; expected a file written with --html or --json")?;
    Ok(Run::from_slice(run)?)
}

/// Refuses a file that is named twice, also by another name.
pub(crate) fn check_distinct(files: &[PathBuf]) -> Result<(), BadUsage> {
    let mut seen = std::collections::BTreeMap::new();
    for file in files {
        // A file that cannot be found says so when it is read.
        let Ok(real) = file.canonicalize() else { continue };
        if !real.is_file() {
            continue;
        }
        if let Some(before) = seen.insert(real, file) {
            let again = if before == file { String::new() } else { format!(" (also as {})", before.display()) };
            return Err(BadUsage(format!("{} is given twice{again}; name each run once", file.display())));
        }
    }
    Ok(())
}
