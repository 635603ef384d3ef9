//! `cargo xtask bpf`: compiles the programs in the kernel, whose objects are in the repository, so that nobody needs clang to build.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::tools;

/// The compiler that made the objects: another writes other bytes.
const CLANG: &str = "clang-16";
const STRIP: &str = "llvm-strip-16";
const SOURCE: &str = "crates/trace/bpf/budget.bpf.c";
const FLAGS: [&str; 8] = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"];
/// Programs of a tracepoint take its arguments, used or not.
const ALLOWED: [&str; 3] = ["-Wno-unused-function", "-Wno-unused-parameter", "-Wno-sign-compare"];

/// Writes the object, or checks that the one in the repository is made of the source. Without the compiler, the check says so and passes.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let source = tools::root().join(SOURCE);
    let object = source.with_extension("o");
    if check && Command::new(CLANG).arg("--version").output().is_err() {
        eprintln!("skipped: {} is not compared: {CLANG} is not installed", object.display());
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let made = folder.path().join("budget.bpf.o");
    compile(&source, &made)?;
    tools::write_or_compare(&object, &std::fs::read(&made)?, check, "bpf")
}

fn compile(source: &Path, object: &Path) -> anyhow::Result<()> {
    let name = source.file_name().context("a source has a name")?;
    // In its folder, so that no path of this machine is in the object.
    let folder = source.parent().context("a source has a folder")?;
    let mut compiler = Command::new(CLANG);
    compiler
        .args(FLAGS)
        .args(ALLOWED)
        .args(["-fdebug-compilation-dir=.", "-c"])
        .arg(name)
        .arg("-o")
        .arg(object)
        .current_dir(folder);
    tools::output(&mut compiler)?;
    // What remains beside the code is BTF, by which the loader finds the fields of this kernel. It reads no relocations of .BTF.ext: the offsets
    // there are relative to their sections already.
    tools::output(Command::new(STRIP).args(["-g", "--remove-section=.rel.BTF.ext"]).arg(object)).map(drop)
}
