//! The shared libraries of this project.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The file of the library that this package makes (`crate-type = ["cdylib"]`). `cargo test` of the workspace builds it before it runs
/// any test. Otherwise it is built now, unless it is younger than its sources.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn library(package: &str) -> PathBuf {
    let file = format!("lib{}.so", package.replace('-', "_"));
    let test = std::env::current_exe().expect("the path of this test");
    let built = test.with_file_name(&file);
    if changed(&built).is_some_and(|at| at > sources(package)) {
        return built;
    }
    let folder = test.parent().and_then(|deps| deps.parent()).expect("target/debug/deps");
    let mut cargo = Command::new(option_env!("CARGO").unwrap_or("cargo"));
    cargo.args(["build", "--quiet", "--offline", "--package", package]).env("CARGO_TARGET_DIR", folder.join(".."));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo");
    assert!(status.success(), "{package} cannot be built");
    folder.join(file)
}

fn changed(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

/// When the last source of this package changed, or of one of this project's that it uses.
fn sources(package: &str) -> SystemTime {
    let name = package.strip_prefix("punctual-").unwrap_or(package);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(name);
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("the package is one of this project");
    let used = manifest.lines().take_while(|line| *line != "[dev-dependencies]");
    let used = used.filter(|line| line.starts_with("punctual")).filter_map(|line| line.split([' ', '.']).next());
    used.map(sources).chain(newest(&folder.join("src"))).max().expect("a package has sources")
}

/// When the last file below this folder changed.
fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter_map(|path| if path.is_dir() { newest(&path) } else { changed(&path) }).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_package_that_is_used_counts() {
        let linux = sources("punctual-linux");
        assert!(sources("punctual") >= linux && sources("punctual-preload") >= linux);
        assert_eq!(changed(&library("punctual-mpi")).map(|at| at > sources("punctual-mpi")), Some(true));
    }
}
