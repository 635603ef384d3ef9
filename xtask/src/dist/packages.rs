//! The packages of a release: the Debian package, by dpkg-deb(1), and the wheel for `pip install FILE.whl` and `python -m punctual`.
//!
//! pip puts what is in `.data/scripts` into the `bin` of the environment and what is in `.data/data` below its prefix (PEP 427). So the
//! command finds its libraries as after any other installation. The zip file is written by Python's own module.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use super::release::{Release, VERSION, Version};
use crate::install::{self, Item};
use crate::tools;

const CONTROL: &str = include_str!("control");
const COPYRIGHT: &str = include_str!("copyright");

/// Makes the Debian package. Its libraries are in a folder of their own, so ldconfig(8) has nothing to do.
pub(super) fn debian(folder: &Path, release: &Release) -> anyhow::Result<PathBuf> {
    let staged = tempfile::tempdir_in(folder)?;
    let root = staged.path();
    let usr = root.join("usr");
    release.items.iter().try_for_each(|item| install::put(&usr, &placed_by_debian(item)?))?;
    let document = |name: &str, bytes| Item { path: Path::new("share/doc/punctual").join(name), bytes, mode: 0o644 };
    let changes = fs::read(tools::root().join("CHANGELOG.md"))?;
    install::put(&usr, &document("NEWS.gz", gzip(&changes)?))?;
    install::put(&usr, &document("changelog.gz", gzip(changelog()?.as_bytes())?))?;
    install::put(&usr, &document("copyright", COPYRIGHT.into()))?;
    let architecture = release.architecture.debian;
    let control = control(architecture, &release.items, release.glibc);
    install::put(root, &Item { path: "DEBIAN/control".into(), bytes: control.into(), mode: 0o644 })?;
    tools::output(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(root))?;
    let file = folder.join(format!("punctual_{VERSION}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--build", "--root-owner-group", "-Zxz"]).arg(root).arg(&file);
    tools::output(&mut build).context("Debian: apt-get install dpkg")?;
    Ok(file)
}

/// Where Debian has the file: pages are compressed, and zsh's completions are in the folder of the distribution.
fn placed_by_debian(item: &Item) -> anyhow::Result<Item> {
    let is_page = item.path.starts_with("share/man");
    let path = if is_page { item.path.with_extension("1.gz") } else { item.path.clone() };
    let path = PathBuf::from(path.to_string_lossy().replace("zsh/site-functions", "zsh/vendor-completions"));
    let bytes = if is_page { gzip(&item.bytes)? } else { item.bytes.clone() };
    Ok(Item { path, bytes, mode: item.mode })
}

fn control(architecture: &str, items: &[Item], (major, minor): Version) -> String {
    let kib = items.iter().map(|item| item.bytes.len()).sum::<usize>() / 1024;
    CONTROL
        .replace("@VERSION@", VERSION)
        .replace("@ARCHITECTURE@", architecture)
        .replace("@KIB@", &kib.to_string())
        .replace("@GLIBC@", &format!("{major}.{minor}"))
}

/// The version, in the form of deb-changelog(5). What changed is in the project's own file, beside it.
fn changelog() -> anyhow::Result<String> {
    let maintainer = CONTROL.lines().find_map(|line| line.strip_prefix("Maintainer: ")).context("no Maintainer")?;
    // That of the commit, so that the same sources make the same file.
    let mut log = Command::new("git");
    log.args(["log", "-1", "--format=%cD"]).current_dir(tools::root());
    let date = tools::output(&mut log)?;
    Ok(format!(
        "punctual ({VERSION}) unstable; urgency=medium\n\n  * NEWS.gz has the changes.\n\n -- {maintainer}  {}\n",
        date.trim()
    ))
}

fn gzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// `punctual` is another project's in Python's package index.
const NAME: &str = "punctual_cli";
const MAIN: &str = include_str!("main.py");

/// Makes the wheel.
pub(super) fn wheel(folder: &Path, release: &Release) -> anyhow::Result<PathBuf> {
    let (major, minor) = release.glibc;
    let tag = format!("py3-none-manylinux_{major}_{minor}_{}", release.architecture.machine);
    let readme = fs::read_to_string(tools::root().join("README.md"))?;
    let mut files: Vec<Item> = release.items.iter().map(placed_by_pip).collect();
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

fn placed_by_pip(item: &Item) -> Item {
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
    fn files_go_where_debian_has_them() {
        let at =
            |path: &str| placed_by_debian(&Item { path: path.into(), bytes: b"text".to_vec(), mode: 0o644 }).unwrap();
        assert_eq!(at("bin/punctual").path, Path::new("bin/punctual"));
        assert_eq!(at("share/man/man1/punctual.1").path, Path::new("share/man/man1/punctual.1.gz"));
        assert!(at("share/man/man1/punctual.1").bytes.starts_with(&[0x1f, 0x8b]));
        assert_eq!(at("share/zsh/site-functions/_punctual").path, Path::new("share/zsh/vendor-completions/_punctual"));
    }

    #[test]
    fn the_control_file_has_no_blank_left() {
        let item = Item { path: "bin/punctual".into(), bytes: vec![0; 2048], mode: 0o755 };
        let control = control("arm64", &[item], (2, 34));
        assert!(!control.contains('@') || control.matches('@').count() == 1, "only the address: {control}");
        for line in ["Architecture: arm64", "Installed-Size: 2", "libc6 (>= 2.34)"] {
            assert!(control.contains(line), "{control}");
        }
    }

    #[test]
    fn files_go_where_pip_takes_them() {
        let at = |path: &str| placed_by_pip(&Item { path: path.into(), bytes: Vec::new(), mode: 0o644 }).path;
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
