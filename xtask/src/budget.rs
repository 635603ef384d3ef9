//! The budgets of the release binary: size, start-up time, check-up time.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::tools;

/// Largest binary: 10.3 MB. The programs in the kernel, their loader and the judge of their sums take 1.5 of them, the causes of late
/// wake-ups one, the waits of programs (`run --rules`, `--observe`) 0.25.
const SIZE: u64 = 10_300_000;
/// Longest start-up: `punctual --version`, best of [`STARTS`], since other programs' load is not the binary's cost.
const START: Duration = Duration::from_millis(5);
const STARTS: u32 = 30;
/// Longest check-up: its parts add up to half a minute, and a busy machine takes longer.
const CHECKUP: Duration = Duration::from_secs(35);

/// Checks all three.
pub(crate) fn run() -> anyhow::Result<()> {
    let punctual = tools::punctual()?;
    let size = std::fs::metadata(&punctual).with_context(|| punctual.display().to_string())?.len();
    println!("size {:.2} MB (budget {:.1} MB)", size as f64 / 1e6, SIZE as f64 / 1e6);
    let time = |args: &[&str]| -> anyhow::Result<Duration> {
        let begin = Instant::now();
        let status = Command::new(&punctual).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        ensure!(status.success(), "punctual {args:?}: {status}");
        Ok(begin.elapsed())
    };
    let mut start = Duration::MAX;
    for _ in 0..STARTS {
        start = start.min(time(&["--version"])?);
    }
    println!("--version {start:.1?}, best of {STARTS} (budget {START:?})");
    let checkup = time(&[])?;
    println!("check-up {checkup:.1?} (budget {CHECKUP:?})");
    ensure!(size <= SIZE, "the binary is too large");
    ensure!(start <= START, "the binary starts too slowly");
    ensure!(checkup <= CHECKUP, "the check-up takes too long");
    Ok(())
}
