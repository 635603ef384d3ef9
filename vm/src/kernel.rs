//! Debian's kernels: fetched with apt and unpacked, with the ELF image extracted. And Debian's packages, with apt: the names that a suite
//! has, and their files. Needs no privilege.
//!
//! The host's own suites have the host's package lists. Any other suite gets lists of its own in the cache of the lab, from the same mirror.
//! The host's lists stay as they are.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context as _, bail, ensure};

use crate::tools;

/// The suite with kernels newer than those of Debian 12.
const NEWEST: &str = "trixie-backports";

/// How the package of a kernel begins.
const IMAGE: &str = "linux-image-";

/// A kernel of Debian for amd64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Linux 6.1, the release's own.
    V6_1,
    /// Linux 6.1 with PREEMPT_RT.
    V6_1Rt,
    /// Linux 6.12, the backport.
    V6_12,
    /// Linux 6.12 with PREEMPT_RT.
    V6_12Rt,
    /// Linux 7.3, the newest backport.
    V7_3,
    /// Linux 7.3 with PREEMPT_RT.
    V7_3Rt,
}

impl Kernel {
    /// All kernels.
    pub const ALL: [Self; 6] = [Self::V6_1, Self::V6_1Rt, Self::V6_12, Self::V6_12Rt, Self::V7_3, Self::V7_3Rt];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        ["6.1", "6.1-rt", "6.12", "6.12-rt", "7.3", "7.3-rt"][self as usize]
    }

    /// Whether it is a PREEMPT_RT kernel.
    #[must_use]
    pub fn is_real_time(self) -> bool {
        self.name().ends_with("-rt")
    }

    /// The folder in the cache: `vmlinux`, and the package's `lib/modules`.
    pub(crate) fn folder(self) -> PathBuf {
        crate::cache().join("kernels").join(self.name())
    }

    /// Whether the cache has it.
    #[must_use]
    pub fn is_here(self) -> bool {
        self.image().is_file()
    }

    /// The ELF image. QEMU starts it directly (PVH), in half the time of a compressed image.
    pub(crate) fn image(self) -> PathBuf {
        self.folder().join("vmlinux")
    }

    /// The version: the name of the modules' folder.
    pub(crate) fn version(self) -> anyhow::Result<String> {
        let modules = self.folder().join("lib/modules");
        let mut entries = std::fs::read_dir(&modules).with_context(|| format!("reading {}", modules.display()))?;
        let entry = entries.next().with_context(|| format!("{} is empty", modules.display()))??;
        Ok(entry.file_name().to_string_lossy().into_owned())
    }

    /// Fetches it with apt, unless cached. Needs package lists (`apt-get update`), but no privilege.
    pub fn fetch(self) -> anyhow::Result<()> {
        if self.is_here() {
            return Ok(());
        }
        let cache = crate::cache().join("kernels");
        std::fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
        let work = tempfile::Builder::new().prefix("fetch-").tempdir_in(&cache)?;
        let unpacked = work.path().join("unpacked");
        let (version, compressed) = match self {
            Self::V6_1 => whole("linux-image-amd64", &unpacked)?,
            Self::V6_1Rt => whole("linux-image-rt-amd64", &unpacked)?,
            Self::V6_12 => whole("linux-image-6.12-amd64", &unpacked)?,
            Self::V6_12Rt => whole("linux-image-6.12-rt-amd64", &unpacked)?,
            Self::V7_3 => parts("7.3", "amd64", &unpacked)?,
            Self::V7_3Rt => parts("7.3", "rt-amd64", &unpacked)?,
        };
        tools::output(tools::command("depmod")?.arg("-b").arg(&unpacked).arg(version))?;
        let image = std::fs::read(&compressed).with_context(|| format!("reading {}", compressed.display()))?;
        std::fs::write(unpacked.join("vmlinux"), elf_of(&image)?)?;
        // An interrupted run left no vmlinux; the folder has no other user.
        let folder = self.folder();
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::rename(&unpacked, &folder).with_context(|| format!("moving it to {}", folder.display()))
    }
}

/// Unpacks the kernel that a meta-package depends on, which is one package. Returns its version and its compressed image.
fn whole(meta: &str, into: &Path) -> anyhow::Result<(String, PathBuf)> {
    let packages = Packages::default();
    let package = packages.dependencies(meta)?.into_iter().find(|name| name.starts_with(IMAGE));
    let package = package.with_context(|| format!("{meta} depends on no kernel"))?;
    let version = package.trim_start_matches(IMAGE).to_owned();
    packages.unpack(&[package], into)?;
    let compressed = into.join("boot").join(format!("vmlinuz-{version}"));
    Ok((version, compressed))
}

/// Unpacks the newest kernel of a series from [`NEWEST`], where it is several packages. Returns its version and its compressed
/// image.
fn parts(series: &str, flavour: &str, into: &Path) -> anyhow::Result<(String, PathBuf)> {
    let packages = Packages::of_suite(NEWEST)?;
    let names = packages.names(&format!("{IMAGE}{series}."))?;
    let version = newest(&names, flavour).with_context(|| format!("{NEWEST} has no Linux {series} for {flavour}"))?;
    let parts = ["base", "binary", "modules"].map(|part| format!("linux-{part}-{version}"));
    packages.unpack(&parts, into)?;
    // /lib is a link to /usr/lib on such a system; kmod 30 searches /lib.
    std::fs::rename(into.join("usr/lib"), into.join("lib"))?;
    let compressed = into.join("lib/modules").join(&version).join("vmlinuz");
    Ok((version, compressed))
}

/// The highest version of one flavour: `7.3.4+deb13-amd64` of `linux-image-7.3.4+deb13-amd64`.
fn newest(names: &[String], flavour: &str) -> Option<String> {
    let numbers = |name: &str| -> Vec<u32> {
        let version = name.split(['+', '-']).next().unwrap_or_default();
        version.split('.').filter_map(|number| number.parse().ok()).collect()
    };
    let versions = names.iter().filter_map(|name| name.strip_prefix(IMAGE));
    let of_flavour = versions.filter(|version| version.split_once('-').is_some_and(|(_, found)| found == flavour));
    of_flavour.max_by_key(|version| numbers(version)).map(str::to_owned)
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kernel {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kernel| kernel.name() == typed);
        known.ok_or_else(|| format!("unknown kernel '{typed}': expected {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// The ELF image inside a bzImage: `payload_offset` and `payload_length` of the setup header
/// (Documentation/arch/x86/boot.rst), decompressed.
fn elf_of(image: &[u8]) -> anyhow::Result<Vec<u8>> {
    let word = |at: usize| -> anyhow::Result<usize> {
        let bytes = image.get(at..at + 4).context("the image is too short")?;
        Ok(u32::from_le_bytes(bytes.try_into()?) as usize)
    };
    ensure!(image.get(0x202..0x206) == Some(b"HdrS"), "not a bzImage");
    // Zero means four, for very old loaders.
    let sectors = match image[0x1f1] {
        0 => 4,
        n => usize::from(n),
    };
    let begin = (sectors + 1) * 512 + word(0x248)?;
    let payload = image.get(begin..begin + word(0x24c)?).context("the payload lies outside the image")?;
    let elf = match payload {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => tools::filter("xz", &["-dcq"], payload)?,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => tools::filter("zstd", &["-dcq"], payload)?,
        [0x1f, 0x8b, ..] => tools::filter("gzip", &["-dcq"], payload)?,
        _ => bail!("the kernel's compression is not supported"),
    };
    ensure!(elf.starts_with(b"\x7fELF"), "the payload is not an ELF image");
    Ok(elf)
}

/// Debian's signatures (package debian-archive-keyring).
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The packages of the suites that the host's package lists name (`apt-get update`), which is the default, or of another suite.
#[derive(Debug, Default)]
struct Packages {
    options: Vec<String>,
}

impl Packages {
    /// Those of a suite. Fetches its lists into the cache.
    fn of_suite(suite: &str) -> anyhow::Result<Self> {
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
    fn dependencies(&self, package: &str) -> anyhow::Result<Vec<String>> {
        let text = tools::output(self.apt("apt-cache").args(["depends", package]))
            .with_context(|| format!("apt does not know {package}; run apt-get update"))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(text.lines().filter_map(|line| line.trim().strip_prefix("Depends: ")).map(str::to_owned).collect())
    }

    /// The packages whose names begin so.
    fn names(&self, prefix: &str) -> anyhow::Result<Vec<String>> {
        let text = tools::output(self.apt("apt-cache").args(["pkgnames", prefix]))?;
        Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
    }

    /// Fetches packages and unpacks them into a folder, which is made.
    fn unpack(&self, packages: &[String], into: &Path) -> anyhow::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_a_flavour_is_chosen_by_its_numbers() {
        let names = [
            "linux-image-7.3.4+deb13-amd64",
            "linux-image-7.3.10+deb13-amd64",
            "linux-image-7.3.9+deb13-amd64",
            "linux-image-7.3.12+deb13-cloud-amd64",
            "linux-image-7.3.12+deb13-amd64-dbg",
            "linux-image-7.3.11+deb13-rt-amd64",
        ]
        .map(str::to_owned);
        assert_eq!(newest(&names, "amd64").as_deref(), Some("7.3.10+deb13-amd64"));
        assert_eq!(newest(&names, "rt-amd64").as_deref(), Some("7.3.11+deb13-rt-amd64"));
        assert_eq!(newest(&names, "arm64"), None);
    }
}
