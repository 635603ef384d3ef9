//! Runs that are measured once and kept in a folder, one after the other, over several calls.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use punctual_record::Run;

use crate::tools;

/// How runs are measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Measuring {
    /// Folder of the runs; existing ones are not measured again
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Stop measuring after N seconds; the next call continues
    #[arg(long, default_value_t = 3600)]
    at_most: u64,
    /// Measure with this program instead of a release build
    #[arg(long)]
    binary: Option<PathBuf>,
}

impl Measuring {
    /// The folder; `usual`: the name of the default one.
    pub(super) fn folder(&self, usual: &str) -> anyhow::Result<PathBuf> {
        tools::made(self.folder.clone().unwrap_or_else(|| tools::target().join(usual)))
    }

    /// Measures the files that are missing, each with what it is of. False: some are still missing.
    pub(super) fn missing<T>(
        &self,
        files: &[(T, PathBuf)],
        measure: impl Fn(&Path, &T, &Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        let missing: Vec<&(T, PathBuf)> = files.iter().filter(|(_, path)| !path.exists()).collect();
        if missing.is_empty() {
            return Ok(true);
        }
        let binary = self.binary.clone().map_or_else(tools::punctual, Ok)?;
        let begin = Instant::now();
        for (what, path) in missing {
            if begin.elapsed() > Duration::from_secs(self.at_most) {
                return Ok(false);
            }
            measure(&binary, what, path)?;
        }
        Ok(true)
    }
}

/// Measures one run into a file. Returns what the command printed.
pub(super) fn printed(binary: &Path, words: &[&str], into: &Path) -> anyhow::Result<String> {
    let output = Command::new(binary)
        .args(words)
        .args(["--quiet", "--no-keep", "--json"])
        .arg(into)
        .stderr(Stdio::null())
        .output()
        .with_context(|| binary.display().to_string())?;
    ensure!(output.status.success(), "punctual {}: {}", words.join(" "), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Measures one run into a file.
pub(super) fn save(binary: &Path, words: &[&str], into: &Path) -> anyhow::Result<()> {
    printed(binary, words, into).map(drop)
}

/// A saved run.
pub(super) fn read(path: &Path) -> anyhow::Result<Run> {
    let run = File::open(path).map_err(anyhow::Error::from).and_then(|file| Ok(Run::from_json(file)?));
    run.with_context(|| path.display().to_string())
}
