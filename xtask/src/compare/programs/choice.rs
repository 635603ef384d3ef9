//! Which programs are played, and where.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::list;
use super::play::Place;
use super::program::Program;
use crate::tools;

/// What is asked.
#[derive(Debug)]
pub(crate) struct Choice<'a> {
    pub(crate) only: &'a [String],
    pub(crate) binary: Option<&'a Path>,
    pub(crate) packages: bool,
}

/// What all programs need.
pub(super) struct Stage {
    punctual: PathBuf,
    python: PathBuf,
}

/// A program that is set up, in a folder of its own.
pub(super) struct Ready {
    pub(super) place: Place,
    pub(super) version: String,
    // Removed on drop.
    _folder: tempfile::TempDir,
}

impl Choice<'_> {
    /// The programs asked for, of those that belong to the comparison.
    pub(super) fn programs(&self, belongs: impl Fn(&Program) -> bool) -> Vec<&'static Program> {
        let named = |program: &Program| {
            self.only.is_empty() || self.only.iter().any(|part| program.name.contains(part.as_str()))
        };
        list::programs().filter(|program| belongs(program) && named(program)).collect()
    }

    /// What the programs need; none where only the packages are asked for, which it prints.
    pub(super) fn stage(&self, programs: &[&Program]) -> anyhow::Result<Option<Stage>> {
        if self.packages {
            println!("{}", programs.iter().map(|program| program.packages).collect::<Vec<_>>().join(" "));
            return Ok(None);
        }
        let punctual = self.binary.map_or_else(tools::punctual, |path| Ok(path.canonicalize()?))?;
        let asks = ["-c", "import sys; print(sys.executable)"];
        let python = PathBuf::from(tools::output(Command::new("python3").args(asks))?.trim_end());
        Ok(Some(Stage { punctual, python }))
    }
}

impl Stage {
    /// Sets a program up. None if it is not installed.
    pub(super) fn prepare(&self, program: &Program) -> anyhow::Result<Option<Ready>> {
        let folder = tempfile::Builder::new().prefix("punctual-program").tempdir()?;
        open_to_all(folder.path())?;
        let place = Place {
            punctual: self.punctual.clone(),
            sources: tools::root().join("xtask/programs"),
            python: self.python.clone(),
            folder: folder.path().to_owned(),
        };
        let said = place.shell(program.version).output()?;
        let said = String::from_utf8_lossy(&said.stdout);
        let Some(version) = version_in(&said) else { return Ok(None) };
        tools::output(&mut place.shell(&format!("set -e; {}", program.setup))).context("its setup")?;
        Ok(Some(Ready { place, version, _folder: folder }))
    }
}

/// The first word that looks like a version: `7.0.15` of `Redis server v=7.0.15`.
fn version_in(said: &str) -> Option<String> {
    let words = said.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_ascii_digit()));
    let mut versions = words.filter(|word| word.contains('.'));
    versions.next().map(str::to_owned)
}

/// Servers that change their user have to enter it.
fn open_to_all(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?)
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (said, version) in [
            ("Redis server v=7.0.15 sha=00000000:0", "7.0.15"),
            ("nginx version: nginx/1.22.1\n", "1.22.1"),
            ("openjdk version \"17.0.15\" 2025-04-15", "17.0.15"),
            ("musl-tools\t1.2.3-1", "1.2.3-1"),
            ("cc (Debian 12.2.0-14+deb12u1) 12.2.0", "12.2.0-14+deb12u1"),
        ] {
            assert_eq!(version_in(said).as_deref(), Some(version));
        }
        assert_eq!(version_in("sh: 1: redis-server: not found"), None);
        assert_eq!(version_in(""), None);
    }
}
