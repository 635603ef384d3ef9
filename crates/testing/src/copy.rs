//! Copies of programs.

use std::path::Path;
use std::process::Command;

/// Copies a program that is to be run, with cp(1). A child that another test forks meanwhile would inherit a descriptor that is
/// open for writing. The copy could not run until that child calls exec (ETXTBSY).
///
/// # Panics
/// If it cannot be copied.
pub fn copy(program: &Path, to: &Path) {
    let copied = Command::new("cp").arg(program).arg(to).status().expect("cp(1)");
    assert!(copied.success(), "cp {} {}: {copied}", program.display(), to.display());
}
