//! Debian's kernels: fetched with apt and unpacked, with the ELF image extracted.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context as _, bail, ensure};

use crate::tools;

/// A kernel of Debian 12 for amd64.
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
}

impl Kernel {
    /// All kernels.
    pub const ALL: [Self; 4] = [Self::V6_1, Self::V6_1Rt, Self::V6_12, Self::V6_12Rt];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V6_1 => "6.1",
            Self::V6_1Rt => "6.1-rt",
            Self::V6_12 => "6.12",
            Self::V6_12Rt => "6.12-rt",
        }
    }

    /// The meta-package that depends on the current kernel.
    const fn meta_package(self) -> &'static str {
        match self {
            Self::V6_1 => "linux-image-amd64",
            Self::V6_1Rt => "linux-image-rt-amd64",
            Self::V6_12 => "linux-image-6.12-amd64",
            Self::V6_12Rt => "linux-image-6.12-rt-amd64",
        }
    }

    /// Whether it is a PREEMPT_RT kernel.
    #[must_use]
    pub const fn is_real_time(self) -> bool {
        matches!(self, Self::V6_1Rt | Self::V6_12Rt)
    }

    /// The folder in the cache: `vmlinux`, and the package's `lib/modules`.
    pub(crate) fn folder(self) -> PathBuf {
        crate::cache().join("kernels").join(self.name())
    }

    /// Whether the cache has it.
    #[must_use]
    pub fn is_here(self) -> bool {
        self.folder().join("vmlinux").is_file()
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

    /// Fetches it with `apt-get download`, unless cached. Needs package lists (`apt-get update`), but no privilege.
    pub fn fetch(self) -> anyhow::Result<()> {
        if self.is_here() {
            return Ok(());
        }
        let package = self.package()?;
        let cache = crate::cache().join("kernels");
        std::fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
        let work = tempfile::Builder::new().prefix("fetch-").tempdir_in(&cache)?;
        tools::output(
            Command::new("apt-get")
                .args(["-qq", "-o", "APT::Sandbox::User=root", "download", &package])
                .current_dir(work.path()),
        )
        .with_context(|| format!("fetching {package}; the package lists may be missing (apt-get update)"))?;
        let deb = only_file(work.path(), "deb")?;
        let unpacked = work.path().join("unpacked");
        tools::output(tools::command("dpkg")?.arg("-x").arg(&deb).arg(&unpacked))?;
        let version = package.trim_start_matches("linux-image-");
        tools::output(tools::command("depmod")?.arg("-b").arg(&unpacked).arg(version))?;
        let compressed = unpacked.join("boot").join(format!("vmlinuz-{version}"));
        let image = std::fs::read(&compressed).with_context(|| format!("reading {}", compressed.display()))?;
        std::fs::write(unpacked.join("vmlinux"), elf_of(&image)?)?;
        // An interrupted run left no vmlinux; the folder has no other user.
        let folder = self.folder();
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::rename(&unpacked, &folder).with_context(|| format!("moving it to {}", folder.display()))
    }

    /// The package that the meta-package depends on.
    fn package(self) -> anyhow::Result<String> {
        let meta = self.meta_package();
        let told = tools::output(Command::new("apt-cache").args(["depends", meta]))
            .with_context(|| format!("apt does not know {meta}; run apt-get update"))?;
        let told = String::from_utf8_lossy(&told).into_owned();
        let depends = told.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        let package = depends.map(str::trim).find(|name| name.starts_with("linux-image-"));
        package.map(str::to_owned).with_context(|| format!("{meta} depends on no kernel:\n{told}"))
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kernel {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|k| k.name() == typed)
            .ok_or_else(|| format!("unknown kernel '{typed}': expected {known}"))
    }
}

fn only_file(folder: &Path, extension: &str) -> anyhow::Result<PathBuf> {
    let entries = std::fs::read_dir(folder)?.filter_map(Result::ok).map(|e| e.path());
    let mut found: Vec<PathBuf> = entries.filter(|p| p.extension().is_some_and(|e| e == extension)).collect();
    match (found.pop(), found.is_empty()) {
        (Some(file), true) => Ok(file),
        _ => bail!("expected one .{extension} file in {}", folder.display()),
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
