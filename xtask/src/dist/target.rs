//! The architectures of a release, and what is built for each.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use clap::ValueEnum;

use crate::{install, tools};

/// An architecture, by Debian's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    Amd64,
    Arm64,
    Armhf,
}

/// Its names elsewhere.
pub(super) struct Names {
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

impl Architecture {
    pub(super) const fn names(self) -> Names {
        match self {
            Self::Amd64 => Names {
                debian: "amd64",
                machine: "x86_64",
                glibc: "x86_64-unknown-linux-gnu",
                musl: "x86_64-unknown-linux-musl",
                linker: ["x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu"],
            },
            Self::Arm64 => Names {
                debian: "arm64",
                machine: "aarch64",
                glibc: "aarch64-unknown-linux-gnu",
                musl: "aarch64-unknown-linux-musl",
                linker: ["aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"],
            },
            Self::Armhf => Names {
                debian: "armhf",
                machine: "armv7l",
                glibc: "armv7-unknown-linux-gnueabihf",
                musl: "armv7-unknown-linux-musleabihf",
                linker: ["arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"],
            },
        }
    }

    /// That of this machine.
    fn own() -> Option<Self> {
        Some(match std::env::consts::ARCH {
            "x86_64" => Self::Amd64,
            "aarch64" => Self::Arm64,
            "arm" => Self::Armhf,
            _ => return None,
        })
    }

    /// Builds all parts with glibc, and returns their folder; or what is missing, with the command that installs it.
    pub(super) fn parts(self) -> anyhow::Result<Result<PathBuf, String>> {
        self.build(self.names().glibc, &install::BUILT.map(|(package, ..)| package))
    }

    /// The same for the static command.
    pub(super) fn static_command(self) -> anyhow::Result<Result<PathBuf, String>> {
        self.build(self.names().musl, &["punctual-cli"])
    }

    fn build(self, target: &str, packages: &[&str]) -> anyhow::Result<Result<PathBuf, String>> {
        if Self::own() == Some(self) && target == self.names().glibc {
            return Ok(Ok(tools::release()?));
        }
        let libraries = tools::output(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?;
        if !Path::new(libraries.trim()).exists() {
            return Ok(Err(format!("rustup target add {target}")));
        }
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        if Self::own() != Some(self) {
            let [linker, package] = self.names().linker;
            if tools::output(Command::new(linker).arg("--version")).is_err() {
                return Ok(Err(format!("apt-get install {package}")));
            }
            build.env(format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_")), linker);
        }
        build.args(["build", "--release", "--quiet", "--target", target]).current_dir(tools::root());
        build.args(packages.iter().flat_map(|package| ["--package", package]));
        if !build.status().context("cargo build")?.success() {
            bail!("cargo build --release --target {target} failed");
        }
        Ok(Ok(tools::target().join(target).join("release")))
    }
}
