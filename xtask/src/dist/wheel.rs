//! The wheel: everything below one prefix, for `pip install FILE.whl` and `python -m punctual`.
//!
//! pip puts what is in `.data/scripts` into the `bin` of the environment and what is in `.data/data` below its prefix (PEP 427). So the
//! command finds its libraries as after any other installation. The zip file is written by Python's own module.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::release::{Release, VERSION};
use crate::install::{self, Item};
use crate::tools;

/// `punctual` is another project's in Python's package index.
const NAME: &str = "punctual_cli";
const MAIN: &str = include_str!("main.py");

/// Makes it.
pub(super) fn wheel(folder: &Path, release: &Release) -> anyhow::Result<PathBuf> {
    let (major, minor) = release.glibc;
    let tag = format!("py3-none-manylinux_{major}_{minor}_{}", release.architecture.names().machine);
    let readme = std::fs::read_to_string(tools::root().join("README.md"))?;
    let mut files: Vec<Item> = release.items.iter().map(placed).collect();
    let text = |path: String, text: String| Item { path: path.into(), bytes: text.into(), mode: 0o644 };
    let about = "\"\"\"The command punctual: see python -m punctual --help.\"\"\"\n";
    files.push(text("punctual/__init__.py".into(), about.into()));
    files.push(text("punctual/__main__.py".into(), MAIN.into()));
    let info = format!("{NAME}-{VERSION}.dist-info");
    files.push(text(format!("{info}/METADATA"), metadata(&readme)));
    let generator = format!("Wheel-Version: 1.0\nGenerator: cargo xtask dist\nRoot-Is-Purelib: false\nTag: {tag}\n");
    files.push(text(format!("{info}/WHEEL"), generator));
    let record = format!("{info}/RECORD");
    files.push(text(record.clone(), recorded(&files, &record)));
    let staged = tempfile::tempdir_in(folder)?;
    files.iter().try_for_each(|item| install::put(staged.path(), item))?;
    let file = folder.join(format!("{NAME}-{VERSION}-{tag}.whl"));
    let mut zip = Command::new("python3");
    zip.args(["-m", "zipfile", "--create"]).arg(&file).current_dir(staged.path());
    // The folders at the top, in the order in which the module takes them: the information last.
    zip.args(["punctual", &format!("{NAME}-{VERSION}.data"), &info]);
    tools::output(&mut zip).context("Debian: apt-get install python3")?;
    Ok(file)
}

fn placed(item: &Item) -> Item {
    let script = item.path.strip_prefix("bin").map(|name| Path::new("scripts").join(name));
    let below = script.unwrap_or_else(|_| Path::new("data").join(&item.path));
    let path = Path::new(&format!("{NAME}-{VERSION}.data")).join(below);
    Item { path, bytes: item.bytes.clone(), mode: item.mode }
}

fn metadata(readme: &str) -> String {
    format!(
        "Metadata-Version: 2.1\nName: {}\nVersion: {VERSION}\nSummary: {}\nLicense: {}\nRequires-Python: >=3.8\n\
         Classifier: Operating System :: POSIX :: Linux\nDescription-Content-Type: text/markdown\n\n{readme}",
        NAME.replace('_', "-"),
        "How late this Linux machine is, why, and what to use instead",
        env!("CARGO_PKG_LICENSE"),
    )
}

/// A line for each file with its digest and size; the record itself has neither.
fn recorded(files: &[Item], record: &str) -> String {
    let mut lines = String::new();
    for Item { path, bytes, .. } in files {
        let digest = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        // Writing to a string does not fail.
        let _ = writeln!(lines, "{},sha256={digest},{}", path.display(), bytes.len());
    }
    lines + record + ",,\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_where_pip_takes_them() {
        let at = |path: &str| placed(&Item { path: path.into(), bytes: Vec::new(), mode: 0o644 }).path;
        let data = format!("{NAME}-{VERSION}.data");
        assert_eq!(at("bin/punctual"), Path::new(&data).join("scripts/punctual"));
        assert_eq!(at("lib/punctual/a.so"), Path::new(&data).join("data/lib/punctual/a.so"));
    }

    #[test]
    fn the_record_has_the_digest_of_each_file() {
        let file = Item { path: "a/b".into(), bytes: Vec::new(), mode: 0o644 };
        // The SHA-256 of nothing.
        let expected = "a/b,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\nx/RECORD,,\n";
        assert_eq!(recorded(&[file], "x/RECORD"), expected);
    }
}
