//! Saved runs, read back.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use punctual_record::Run;

use crate::exit::BadUsage;

/// Largest file that is read. A run of an hour is a few megabytes; this keeps a device or a wrong file from filling the memory.
const LARGEST: u64 = 1 << 30;

/// Reads a run; what is wrong with it is said with the file's name.
pub(crate) fn read(path: &Path) -> anyhow::Result<Run> {
    load(path).with_context(|| path.display().to_string())
}

fn load(path: &Path) -> anyhow::Result<Run> {
    let file = File::open(path)?;
    let facts = file.metadata()?;
    if facts.is_dir() {
        bail!("it is a folder; give a file written with --json");
    }
    if facts.len() > LARGEST {
        bail!("it has {} bytes, more than the {LARGEST} that are read", facts.len());
    }
    let mut text = Vec::with_capacity(facts.len() as usize + 1);
    file.take(LARGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST {
        bail!("it has more than the {LARGEST} bytes that are read");
    }
    Ok(Run::from_slice(&text)?)
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
