//! Debian's packages, with apt: the names that a suite has, and their files. Needs no privilege.
//!
//! The host's own suites have the host's package lists. Any other suite gets lists of its own in the cache of the lab, from the same
//! mirror. The host's lists stay as they are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::tools;

/// Debian's signatures (package debian-archive-keyring).
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The packages of the host's suites, or of another one.
#[derive(Debug, Default)]
pub(crate) struct Packages {
    options: Vec<String>,
}

impl Packages {
    /// Those that the host's package lists name (`apt-get update`).
    pub(crate) fn of_host() -> Self {
        Self::default()
    }

    /// Those of a suite. Fetches its lists into the cache.
    pub(crate) fn of_suite(suite: &str) -> anyhow::Result<Self> {
        let folder = crate::cache().join("apt").join(suite);
        for part in ["lists/partial", "archives/partial"] {
            let path = folder.join(part);
            std::fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        }
        let folder = std::path::absolute(folder)?;
        let sources = folder.join("sources.list");
        std::fs::write(&sources, format!("deb [signed-by={KEYS}] {} {suite} main\n", mirror()?))?;
        let settings = [
            ("Dir::Etc::SourceList", sources),
            ("Dir::Etc::SourceParts", PathBuf::from("-")),
            ("Dir::State::Lists", folder.join("lists")),
            ("Dir::Cache", folder),
            ("Acquire::Languages", PathBuf::from("none")),
        ];
        let options = settings.iter().map(|(name, value)| format!("-o{name}={}", value.display())).collect();
        let packages = Self { options };
        tools::output(packages.apt("apt-get").args(["-qq", "update"]))
            .with_context(|| format!("fetching the package lists of {suite}"))?;
        Ok(packages)
    }

    /// The packages that one depends on.
    pub(crate) fn dependencies(&self, package: &str) -> anyhow::Result<Vec<String>> {
        let text = tools::output(self.apt("apt-cache").args(["depends", package]))
            .with_context(|| format!("apt does not know {package}; run apt-get update"))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(text.lines().filter_map(|line| line.trim().strip_prefix("Depends: ")).map(str::to_owned).collect())
    }

    /// The packages whose names begin so.
    pub(crate) fn names(&self, prefix: &str) -> anyhow::Result<Vec<String>> {
        let text = tools::output(self.apt("apt-cache").args(["pkgnames", prefix]))?;
        Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
    }

    /// Fetches packages and unpacks them into a folder, which is made.
    pub(crate) fn unpack(&self, packages: &[String], into: &Path) -> anyhow::Result<()> {
        let work = into.with_extension("debs");
        std::fs::create_dir(&work).with_context(|| format!("creating {}", work.display()))?;
        tools::output(self.apt("apt-get").args(["-qq", "download"]).args(packages).current_dir(&work))
            .with_context(|| format!("fetching {}; run apt-get update", packages.join(", ")))?;
        let files: Vec<PathBuf> = std::fs::read_dir(&work)?.filter_map(Result::ok).map(|entry| entry.path()).collect();
        ensure!(files.len() == packages.len(), "expected {} packages in {}", packages.len(), work.display());
        for file in files {
            tools::output(tools::command("dpkg")?.arg("-x").arg(&file).arg(into))?;
        }
        Ok(())
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        // The sandbox's user may not write to the cache. Translated output would not be understood.
        command.arg("-oAPT::Sandbox::User=root").args(&self.options).env("LC_ALL", "C");
        command
    }
}

/// The address from which the host takes Debian.
fn mirror() -> anyhow::Result<String> {
    let format = "$(ORIGIN) $(LABEL) $(REPO_URI)";
    let text =
        tools::output(Command::new("apt-get").args(["indextargets", "--format", format, "Created-By: Packages"]))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let address = text.lines().find_map(|line| line.strip_prefix("Debian Debian "));
    address.map(str::to_owned).context("apt has no package list of Debian; run apt-get update")
}
