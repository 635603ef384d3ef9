//! Generated files in the repository, written or compared: the JSON Schema of the record (`cargo xtask schema`), and the object of the
//! programs in the kernel (`cargo xtask bpf`), so that nobody needs clang to build.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::tools;

#[cfg(test)]
#[path = "../../crates/record/tests/all/sample.rs"]
mod sample;

/// Writes the schema, or checks the file against it.
pub(crate) fn schema(check: bool) -> anyhow::Result<()> {
    let path = tools::root().join("docs/punctual.run-2.schema.json");
    let text = serde_json::to_string_pretty(&punctual_report::export::json_schema())? + "\n";
    write_or_compare(&path, text.as_bytes(), check, "schema")
}

/// The compiler that made the objects: another writes other bytes.
const CLANG: &str = "clang-16";
const STRIP: &str = "llvm-strip-16";
const SOURCE: &str = "crates/trace/bpf/budget.bpf.c";
const FLAGS: [&str; 8] = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"];
/// Programs of a tracepoint take its arguments, used or not.
const ALLOWED: [&str; 3] = ["-Wno-unused-function", "-Wno-unused-parameter", "-Wno-sign-compare"];

/// Writes the object, or checks that the one in the repository is made of the source. Without the compiler, the check says so and passes.
pub(crate) fn bpf(check: bool) -> anyhow::Result<()> {
    let source = tools::root().join(SOURCE);
    let object = source.with_extension("o.gz");
    if check && Command::new(CLANG).arg("--version").output().is_err() {
        eprintln!("skipped: {} is not compared: {CLANG} is not installed", object.display());
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let made = folder.path().join("budget.bpf.o");
    compile(&source, &made)?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&std::fs::read(&made)?)?;
    write_or_compare(&object, &packed.finish()?, check, "bpf")
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

/// Writes what the chore made, or checks the file against it.
fn write_or_compare(path: &Path, made: &[u8], check: bool, chore: &str) -> anyhow::Result<()> {
    if !check {
        return std::fs::write(path, made).with_context(|| format!("writing {}", path.display()));
    }
    let found = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    ensure!(found == made, "{} is out of date: run `cargo xtask {chore}`", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use jsonschema::Validator;
    use punctual_report::export::Reported as _;
    use serde_json::Value;

    fn validator() -> Validator {
        jsonschema::validator_for(&punctual_report::export::json_schema()).unwrap()
    }

    fn complaints(value: &Value) -> Vec<String> {
        validator().iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    #[test]
    fn the_schema_has_its_name() {
        let schema = punctual_report::export::json_schema();
        assert_eq!(schema["$id"], Value::from(punctual_record::SCHEMA_ID));
        assert_eq!(schema["title"], Value::from(punctual_record::SCHEMA));
    }

    #[test]
    fn a_run_keeps_to_the_schema_and_what_is_wrong_does_not() {
        let mut bytes = Vec::new();
        super::sample::sample().write_json(&mut bytes).unwrap();
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(complaints(&value), [] as [String; 0]);
        for (pointer, wrong) in
            [("/schema", Value::from("punctual.run/3")), ("/elapsed_ns", Value::from(-1)), ("/series", Value::Null)]
        {
            let mut value = value.clone();
            *value.pointer_mut(pointer).unwrap() = wrong;
            assert_ne!(complaints(&value), [] as [String; 0], "{pointer}");
        }
    }

    #[test]
    fn what_the_command_measures_keeps_to_the_schema() {
        // cargo builds the command with the tests of the workspace.
        let tests = std::env::current_exe().unwrap();
        let command = tests.parent().unwrap().with_file_name("punctual");
        if !command.exists() {
            return punctual_testing::skip("the command is not built: cargo build");
        }
        let args = ["wait", "nanosleep", "--for", "20us", "--samples", "100", "--no-keep", "--json", "-"];
        let output = Command::new(command).args(args).env("PUNCTUAL_LOCK_NAMESPACE", "").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(complaints(&serde_json::from_slice(&output.stdout).unwrap()), [] as [String; 0]);
    }
}
