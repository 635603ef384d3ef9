//! What was built for an architecture, and which glibc it needs; the architectures, and how their parts are built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use object::Endianness;
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, VerneedIterator};

use crate::install::Item;
use crate::{install, tools};

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// That of Ubuntu 22.04. Debian 12 has 2.36.
const NEWEST_GLIBC: Version = (2, 35);

/// What was built for an architecture.
pub(super) struct Release {
    pub(super) architecture: &'static Architecture,
    pub(super) items: Vec<Item>,
    /// What the newest of them needs.
    pub(super) glibc: Version,
}

impl Release {
    /// With the glibc that the parts need.
    ///
    /// # Errors
    /// If a part needs a newer one than allowed.
    pub(super) fn from_items(architecture: &'static Architecture, items: Vec<Item>) -> anyhow::Result<Self> {
        let mut glibc = (0, 0);
        for item in items.iter().filter(|item| item.bytes.starts_with(b"\x7fELF")) {
            let needed = newest_glibc(&item.bytes).with_context(|| format!("reading {}", item.path.display()))?;
            let (major, minor) = needed;
            ensure!(needed <= NEWEST_GLIBC, "{} needs glibc {major}.{minor}", item.path.display());
            glibc = glibc.max(needed);
        }
        Ok(Self { architecture, items, glibc })
    }
}

/// An architecture: its names.
#[derive(Debug)]
pub(crate) struct Architecture {
    /// Debian's, and the option's.
    pub(super) debian: &'static str,
    /// In names of files, and of wheels.
    pub(super) machine: &'static str,
    /// Rust's target with glibc, and that of a static command.
    pub(super) glibc: &'static str,
    pub(super) musl: &'static str,
    /// The cross compiler that links, and Debian's package of it.
    linker: [&'static str; 2],
}

static ARCHITECTURES: [Architecture; 3] = [
    Architecture {
        debian: "amd64",
        machine: "x86_64",
        glibc: "x86_64-unknown-linux-gnu",
        musl: "x86_64-unknown-linux-musl",
        linker: ["x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu"],
    },
    Architecture {
        debian: "arm64",
        machine: "aarch64",
        glibc: "aarch64-unknown-linux-gnu",
        musl: "aarch64-unknown-linux-musl",
        linker: ["aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"],
    },
    Architecture {
        debian: "armhf",
        machine: "armv7l",
        glibc: "armv7-unknown-linux-gnueabihf",
        musl: "armv7-unknown-linux-musleabihf",
        linker: ["arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"],
    },
];

impl Architecture {
    /// The parser of an architecture's name.
    pub(super) fn parser() -> impl TypedValueParser<Value = &'static Self> {
        let by_name = |name: String| ARCHITECTURES.iter().find(|known| known.debian == name).ok_or("unknown");
        PossibleValuesParser::new(ARCHITECTURES.iter().map(|known| known.debian)).try_map(by_name)
    }

    /// Whether it is that of this machine.
    fn is_own(&self) -> bool {
        let name = self.glibc.split('-').next();
        name.is_some_and(|name| name.trim_end_matches("v7") == std::env::consts::ARCH)
    }

    /// Builds all parts with glibc, and returns their folder; or what is missing, with the command that installs it.
    pub(super) fn parts(&self) -> anyhow::Result<Result<PathBuf, String>> {
        self.build(self.glibc, &install::BUILT.map(|(package, ..)| package))
    }

    /// The same for the static command.
    pub(super) fn static_command(&self) -> anyhow::Result<Result<PathBuf, String>> {
        self.build(self.musl, &["punctual-cli"])
    }

    fn build(&self, target: &str, packages: &[&str]) -> anyhow::Result<Result<PathBuf, String>> {
        if self.is_own() && target == self.glibc {
            return Ok(Ok(tools::release()?));
        }
        let libraries = tools::output(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?;
        if !Path::new(libraries.trim()).exists() {
            return Ok(Err(format!("rustup target add {target}")));
        }
        let mut build = tools::build();
        if !self.is_own() {
            let [linker, package] = self.linker;
            if tools::output(Command::new(linker).arg("--version")).is_err() {
                return Ok(Err(format!("apt-get install {package}")));
            }
            build.env(format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_")), linker);
        }
        build.args(["--target", target]);
        build.args(packages.iter().flat_map(|package| ["--package", package]));
        if !build.status().context("cargo build")?.success() {
            bail!("cargo build --release --target {target} failed");
        }
        Ok(Ok(tools::target().join(target).join("release")))
    }
}

/// Major and minor number.
pub(super) type Version = (u32, u32);

/// The newest version of glibc that a program or library needs: that of its newest symbol: its `GLIBC_` versions (`.gnu.version_r`). 0.0 if it needs no glibc.
pub(super) fn newest_glibc(elf: &[u8]) -> anyhow::Result<Version> {
    match FileHeader64::<Endianness>::parse(elf) {
        Ok(header) => newest_needed(header, elf),
        Err(_) => newest_needed(FileHeader32::<Endianness>::parse(elf)?, elf),
    }
}

fn newest_needed<Header: FileHeader<Endian = Endianness>>(header: &Header, elf: &[u8]) -> anyhow::Result<Version> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_needs_what_the_newest_of_its_programs_needs() {
        let item = |bytes: Vec<u8>| Item { path: "bin/x".into(), bytes, mode: 0o755 };
        let text = item(b"#!/bin/sh".to_vec());
        assert_eq!(Release::from_items(&ARCHITECTURES[0], vec![text]).unwrap().glibc, (0, 0));
        let own = item(std::fs::read(std::env::current_exe().unwrap()).unwrap());
        let needed = newest_glibc(&own.bytes).unwrap();
        match Release::from_items(&ARCHITECTURES[0], vec![own]) {
            Ok(release) => assert_eq!(release.glibc, needed),
            Err(refused) => assert!(needed > NEWEST_GLIBC && refused.to_string().contains("bin/x needs glibc ")),
        }
    }

    #[test]
    fn the_glibc_of_a_program_is_read() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needed = newest_glibc(&own).unwrap();
        // Rust's standard library needs at least 2.17.
        assert!(((2, 17)..(3, 0)).contains(&needed), "{needed:?}");
        assert!(newest_glibc(b"no program").is_err());
    }
}
