//! `cargo xtask dist`: the files of a release, in `target/dist`.
//!
//! A Debian package by dpkg-deb(1), a tarball that runs from any folder, the command alone as a static program, and SHA256SUMS. They are for
//! the architecture of this machine. Nothing in them needs a newer C library than [`NEWEST_GLIBC`].

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, VerneedIterator};
use sha2::{Digest as _, Sha256};

use crate::install::{self, Item};
use crate::tools;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// That of Ubuntu 22.04. Debian 12 has 2.36.
const NEWEST_GLIBC: (u32, u32) = (2, 35);
const CONTROL: &str = include_str!("dist/control");
const COPYRIGHT: &str = include_str!("dist/copyright");

pub(crate) fn run() -> anyhow::Result<()> {
    let folder = tools::target().join("dist");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let items = install::items()?;
    let mut glibc = (0, 0);
    for item in items.iter().filter(|item| item.bytes.starts_with(b"\x7fELF")) {
        let needed = newest_glibc(&item.bytes).with_context(|| format!("reading {}", item.path.display()))?;
        let (major, minor) = needed;
        ensure!(needed <= NEWEST_GLIBC, "{} needs glibc {major}.{minor}", item.path.display());
        glibc = glibc.max(needed);
    }
    let mut made = vec![tarball(&folder, &items)?, package(&folder, &items, glibc)?];
    made.extend(static_command(&folder)?);
    sums(&folder, &made)
}

/// The newest version of glibc whose symbols the program or library needs: its `GLIBC_` versions (`.gnu.version_r`).
fn newest_glibc(elf: &[u8]) -> anyhow::Result<(u32, u32)> {
    let header = FileHeader64::<Endianness>::parse(elf)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, elf)?;
    let Some((mut needed, strings)) = sections.gnu_verneed(endian, elf)? else { return Ok((0, 0)) };
    let names = sections.strings(endian, elf, strings)?;
    let mut newest = (0, 0);
    while let Some((_, mut versions)) = VerneedIterator::next(&mut needed)? {
        while let Some(version) = versions.next()? {
            let name = std::str::from_utf8(version.name(endian, names)?)?;
            let Some(number) = name.strip_prefix("GLIBC_") else { continue };
            let mut parts = number.split('.').map(str::parse::<u32>);
            if let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) {
                newest = newest.max((major, minor));
            }
        }
    }
    Ok(newest)
}

/// Everything below one folder, to be unpacked anywhere.
fn tarball(folder: &Path, items: &[Item]) -> anyhow::Result<PathBuf> {
    let name = format!("punctual-{VERSION}-{}-linux-gnu", std::env::consts::ARCH);
    let staged = tempfile::tempdir_in(folder)?;
    let root = staged.path().join(&name);
    items.iter().try_for_each(|item| install::put(&root, item))?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(tools::root().join(file), root.join(file)).with_context(|| format!("copying {file}"))?;
    }
    let file = folder.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--owner=0", "--group=0", "--numeric-owner", "--sort=name", "--file"]);
    tools::output(tar.arg(&file).arg("--directory").arg(staged.path()).arg(&name))?;
    Ok(file)
}

/// The Debian package. Its libraries are in a folder of their own, so ldconfig(8) has nothing to do.
fn package(folder: &Path, items: &[Item], glibc: (u32, u32)) -> anyhow::Result<PathBuf> {
    let missing = "Debian: apt-get install dpkg";
    let architecture = tools::output(Command::new("dpkg").arg("--print-architecture")).context(missing)?;
    let architecture = architecture.trim();
    let staged = tempfile::tempdir_in(folder)?;
    let root = staged.path();
    let usr = root.join("usr");
    for item in items {
        let is_page = item.path.starts_with("share/man");
        let path = if is_page { item.path.with_extension("1.gz") } else { item.path.clone() };
        // The folder of the distribution's own completions.
        let path = PathBuf::from(path.to_string_lossy().replace("zsh/site-functions", "zsh/vendor-completions"));
        let bytes = if is_page { gzip(&item.bytes)? } else { item.bytes.clone() };
        install::put(&usr, &Item { path, bytes, mode: item.mode })?;
    }
    let document = |name: &str, bytes| Item { path: Path::new("share/doc/punctual").join(name), bytes, mode: 0o644 };
    let changes = fs::read(tools::root().join("CHANGELOG.md"))?;
    install::put(&usr, &document("changelog.gz", gzip(&changes)?))?;
    install::put(&usr, &document("copyright", COPYRIGHT.into()))?;
    let kib = items.iter().map(|item| item.bytes.len()).sum::<usize>() / 1024;
    let control = CONTROL
        .replace("@VERSION@", VERSION)
        .replace("@ARCHITECTURE@", architecture)
        .replace("@KIB@", &kib.to_string())
        .replace("@GLIBC@", &format!("{}.{}", glibc.0, glibc.1));
    install::put(root, &Item { path: "DEBIAN/control".into(), bytes: control.into(), mode: 0o644 })?;
    tools::output(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(root))?;
    let file = folder.join(format!("punctual_{VERSION}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    tools::output(build.args(["--build", "--root-owner-group", "-Zxz"]).arg(root).arg(&file)).context(missing)?;
    Ok(file)
}

/// The command as one static program, for machines without glibc. Without its target, it is left out and said.
fn static_command(folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let libraries = tools::output(Command::new("rustc").args(["--print", "target-libdir", "--target", &target]))?;
    if !Path::new(libraries.trim()).exists() {
        println!("no static command: rustup target add {target}");
        return Ok(None);
    }
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--quiet", "--package", "punctual-cli", "--target", &target]);
    tools::output(build.current_dir(tools::root()))?;
    let bytes = fs::read(tools::target().join(&target).join("release/punctual"))?;
    if newest_glibc(&bytes)? != (0, 0) {
        bail!("the static command needs glibc");
    }
    let name = format!("punctual-{VERSION}-{target}");
    install::put(folder, &Item { path: name.clone().into(), bytes, mode: 0o755 })?;
    Ok(Some(folder.join(name)))
}

/// Prints each file with its size, and writes SHA256SUMS.
fn sums(folder: &Path, made: &[PathBuf]) -> anyhow::Result<()> {
    let mut lines = String::new();
    for file in made {
        let bytes = fs::read(file)?;
        let sum: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let name = file.file_name().context("a file")?.to_string_lossy();
        writeln!(lines, "{sum}  {name}")?;
        println!("{:5.2} MB  {}", bytes.len() as f64 / 1e6, file.display());
    }
    fs::write(folder.join("SHA256SUMS"), lines)?;
    Ok(())
}

fn gzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_glibc_of_a_program_is_read() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let needed = newest_glibc(&own).unwrap();
        // Rust's standard library needs at least 2.17.
        assert!(((2, 17)..(3, 0)).contains(&needed), "{needed:?}");
        assert!(newest_glibc(b"no program").is_err());
    }
}
