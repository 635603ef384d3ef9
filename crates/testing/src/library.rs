//! The shared libraries of this project.

use std::path::PathBuf;
use std::process::Command;

/// The file of the library that this package makes (`crate-type = ["cdylib"]`). `cargo test` of the workspace builds it before it runs
/// any test; otherwise it is built now.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn library(package: &str) -> PathBuf {
    let file = format!("lib{}.so", package.replace('-', "_"));
    let test = std::env::current_exe().expect("the path of this test");
    let built = test.with_file_name(&file);
    if built.is_file() {
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
