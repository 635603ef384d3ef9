//! The library's file and compiled programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The library.
pub(crate) fn library() -> PathBuf {
    punctual_testing::library("punctual-preload")
}

/// Compiles a C program; none where there is no compiler.
pub(crate) fn compiled(source: &str, into: &Path) -> Option<PathBuf> {
    compiled_with(source, into, &[])
}

/// The same with more options.
pub(crate) fn compiled_with(source: &str, into: &Path, options: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all").join(source);
    let program = into.join(source.file_stem().unwrap());
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-w", "-pthread", "-o"]).arg(&program).arg(source).args(options);
    match compiler.status() {
        Ok(status) => assert!(status.success(), "cc failed"),
        Err(error) => {
            punctual_testing::skip(&format!("cc: {error}"));
            return None;
        }
    }
    Some(program)
}

/// Runs a program with the library and these settings; without it for none.
pub(crate) fn run(program: &Path, settings: Option<&str>) -> Output {
    let mut command = Command::new(program);
    if let Some(settings) = settings {
        command.env("LD_PRELOAD", library()).env("PUNCTUAL_PRELOAD", settings);
    }
    command.output().unwrap()
}
