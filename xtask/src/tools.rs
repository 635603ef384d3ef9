//! Paths of the repository, and running programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// cargo's target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Builds the release binary, with the libraries that it loads into programs, and returns its path.
pub(crate) fn punctual() -> anyhow::Result<PathBuf> {
    Ok(release()?.join("punctual"))
}

/// The command `cargo build --release`.
pub(crate) fn build() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--release", "--quiet"]).current_dir(root());
    command
}

/// Runs `cargo build --release`, and returns the folder of the results. With packages named, cargo would build what they depend on once more,
/// with other features.
pub(crate) fn release() -> anyhow::Result<PathBuf> {
    if !build().status().context("cargo build")?.success() {
        bail!("cargo build --release failed");
    }
    Ok(target().join("release"))
}

/// Runs a command and returns its stdout.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("running {shown}"))?;
    if !output.status.success() {
        bail!("{shown}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).with_context(|| format!("what {shown} wrote"))
}

/// Makes a folder with those above it.
pub(crate) fn made(folder: PathBuf) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}
