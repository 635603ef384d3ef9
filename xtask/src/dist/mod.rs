//! `cargo xtask dist`: the files of a release, in `target/dist`.
//!
//! For each architecture: a Debian package, a tarball that runs from any folder, a wheel, and the command alone as a static program.
//! SHA256SUMS has them all. Nothing in them needs a newer C library than `NEWEST_GLIBC` (`release.rs`). What cannot be built here fails at
//! the end, by name, with the command that installs what is missing; all else is made before.

mod packages;
mod release;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use clap::Args;
use sha2::{Digest as _, Sha256};

use self::release::{Architecture, Release, VERSION, newest_glibc};
use crate::install::{self, Item};
use crate::tools;

#[derive(Args)]
pub(crate) struct DistArgs {
    /// For these architectures
    #[arg(long, value_parser = Architecture::parser(), value_delimiter = ',', default_value = "amd64,arm64,armhf")]
    architecture: Vec<&'static Architecture>,
    /// Leave out the static command
    #[arg(long)]
    no_static: bool,
}

pub(crate) fn run(args: &DistArgs) -> anyhow::Result<()> {
    let folder = tools::target().join("dist");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let (mut made, mut lacking) = (Vec::new(), Vec::new());
    for architecture in &args.architecture {
        let debian = architecture.debian;
        match architecture.parts()? {
            Ok(built) => {
                let release = Release::from_items(architecture, install::items(&built)?)?;
                made.extend([
                    tarball(&folder, &release)?,
                    packages::debian(&folder, &release)?,
                    packages::wheel(&folder, &release)?,
                ]);
            }
            Err(missing) => lacking.push(format!("no package for {debian}: {missing}")),
        }
        if args.no_static {
            continue;
        }
        match architecture.static_command()? {
            Ok(built) => made.push(static_command(&folder, architecture, &built)?),
            Err(missing) => lacking.push(format!("no static command for {debian}: {missing}")),
        }
    }
    sums(&folder, &made)?;
    ensure!(lacking.is_empty(), "the rest was made, but {}", lacking.join("; "));
    Ok(())
}

/// Everything below one folder, to be unpacked anywhere.
fn tarball(folder: &Path, release: &Release) -> anyhow::Result<PathBuf> {
    let name = format!("punctual-{VERSION}-{}-linux-gnu", release.architecture.machine);
    let staged = tempfile::tempdir_in(folder)?;
    let root = staged.path().join(&name);
    release.items.iter().try_for_each(|item| install::put(&root, item))?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(tools::root().join(file), root.join(file)).with_context(|| format!("copying {file}"))?;
    }
    let file = folder.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--owner=0", "--group=0", "--numeric-owner", "--sort=name", "--file"]);
    tools::output(tar.arg(&file).arg("--directory").arg(staged.path()).arg(&name))?;
    Ok(file)
}

/// The command as one static program, for machines without glibc.
fn static_command(folder: &Path, architecture: &Architecture, built: &Path) -> anyhow::Result<PathBuf> {
    let bytes = fs::read(built.join("punctual"))?;
    ensure!(newest_glibc(&bytes)? == (0, 0), "the static command needs glibc");
    let name = format!("punctual-{VERSION}-{}", architecture.musl);
    install::put(folder, &Item { path: name.clone().into(), bytes, mode: 0o755 })?;
    Ok(folder.join(name))
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
