//! Saved runs: read from a JSON file, an HTML page or standard input, by name; the last one and unwritten ones are kept.

pub(crate) mod kept;

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::builder::{OsStringValueParser, TypedValueParser};
use punctual_record::{ReadError, Run};
use punctual_report::export::html;

use crate::refusal::BadUsage;

/// Largest file read. A run of an hour has a few megabytes; the limit keeps a wrong file from filling the memory.
const LARGEST: u64 = 1 << 30;

/// Bytes that show what kind of file it is.
const BEGINNING: u64 = 64 << 10;

/// The last run kept, as the name of a run.
const LAST: &str = "last";

/// The parser of a run's name: a file, `-`, or `last`.
pub(crate) fn run_name() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|name| {
        if name != LAST {
            return Ok(PathBuf::from(name));
        }
        kept::last().ok_or("no run is kept yet; measure first, or name a file (example: ./last)")
    })
}

/// Reads a run from a file, or from standard input for `-`. A page written with `--html` holds a run too.
///
/// A missing file is bad usage; a file without a run is a failure.
pub(crate) fn read_run(path: &Path) -> anyhow::Result<Run> {
    if path == Path::new("-") {
        return from_reader(io::stdin().lock(), 0).context("standard input");
    }
    let name = path.display();
    let refused = |why: String| BadUsage::invalid("run", &name, why);
    if path.is_dir() {
        return Err(refused("expected a file that --json or --html wrote, not a folder".into()).into());
    }
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => refused("no such file; --json FILE and --html FILE write runs".into()),
        _ => refused(format!("cannot be opened: {error}")),
    })?;
    let facts = file.metadata().map_err(|error| refused(format!("cannot be looked at: {error}")))?;
    let kind = facts.file_type();
    if kind.is_block_device() || (kind.is_char_device() && !file.is_terminal()) {
        return Err(refused("expected a file that --json or --html wrote, not a device".into()).into());
    }
    let size = facts.len();
    from_reader(file, size).with_context(|| name.to_string())
}

/// `size`: the expected size in bytes, 0 if unknown.
fn from_reader(reader: impl Read, size: u64) -> anyhow::Result<Run> {
    let mut bytes = Vec::with_capacity(size.min(LARGEST) as usize + 1);
    let mut reader = reader.take(LARGEST + 1);
    reader.by_ref().take(BEGINNING).read_to_end(&mut bytes).context("cannot read it")?;
    // A file that begins as neither a run nor a page needs no further reading.
    if bytes.trim_ascii_start().first().is_some_and(|first| matches!(first, b'{' | b'<')) {
        reader.read_to_end(&mut bytes).context("cannot read it")?;
    }
    if bytes.len() as u64 > LARGEST {
        bail!("it has more than the {LARGEST} bytes that are read");
    }
    if !html::is_page(&bytes) {
        return run(&bytes);
    }
    let embedded = html::embedded_run(&bytes)
        .context("it looks like a page, but holds no run of punctual; expected a file written with --html or --json")?;
    run(embedded)
}

fn run(text: &[u8]) -> anyhow::Result<Run> {
    Run::from_slice(text).map_err(|error| match error {
        ReadError::NotJson { .. } | ReadError::NotARun { .. } => {
            anyhow!("{error}; expected a file written with --json")
        }
        error => error.into(),
    })
}

/// Refuses a file given twice, even by different names.
pub(crate) fn check_distinct(files: &[PathBuf]) -> Result<(), BadUsage> {
    let mut seen = std::collections::BTreeMap::new();
    for file in files {
        // Reading reports a missing file.
        let Ok(real) = file.canonicalize() else { continue };
        if !real.is_file() {
            continue;
        }
        if let Some(before) = seen.insert(real, file) {
            let again = if before == file { String::new() } else { format!(" (also as {})", before.display()) };
            return Err(BadUsage::invalid(
                "run",
                file.display(),
                format!("it is given twice{again}; name each run once"),
            ));
        }
    }
    Ok(())
}
