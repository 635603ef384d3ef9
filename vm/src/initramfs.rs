//! The guest's file system: a cpio archive in the "newc" format (Documentation/driver-api/early-userspace/buffer-format.rst), built in
//! memory.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::tools;

const FOLDER: u32 = 0o040_755;
const LINK: u32 = 0o120_777;
const REGULAR: u32 = 0o100_000;

/// An archive under construction.
#[derive(Debug, Default)]
pub(crate) struct Initramfs {
    bytes: Vec<u8>,
    there: BTreeSet<PathBuf>,
    serial: u32,
}

impl Initramfs {
    /// The base of every guest: busybox under all its names, a shell, `/init`, two users, mount points.
    pub(crate) fn base() -> anyhow::Result<Self> {
        let mut archive = Self::default();
        for folder in ["dev", "proc", "sys", "tmp", "run", "root", "out", "lab/modules", "var", "sbin", "usr/sbin"] {
            archive.folder(Path::new(folder));
        }
        let busybox = tools::find("busybox").context("busybox is not installed")?;
        archive.host_file(&busybox, Path::new("bin/busybox"))?;
        let applets = tools::output(Command::new(&busybox).arg("--list"))?;
        // busybox's shell prefers its applets to programs in PATH, so the guest gets the host's dash.
        for applet in String::from_utf8_lossy(&applets).lines().filter(|name| !matches!(*name, "busybox" | "sh")) {
            archive.link(&Path::new("bin").join(applet), "busybox");
        }
        archive.host_file(&tools::find("dash").context("dash is not installed")?, Path::new("bin/sh"))?;
        archive.file(Path::new("init"), 0o755, include_bytes!("../init"));
        archive.file(
            Path::new("etc/passwd"),
            0o644,
            b"root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n",
        );
        archive.file(Path::new("etc/group"), 0o644, b"root:x:0:\nuser:x:1000:\n");
        Ok(archive)
    }

    /// A file or folder of the host, with the libraries that a dynamic program needs.
    pub(crate) fn host_file(&mut self, from: &Path, to: &Path) -> anyhow::Result<()> {
        let about = || format!("copying {} into the guest", from.display());
        let data = std::fs::metadata(from).with_context(about)?;
        if data.is_dir() {
            self.folder(to);
            for entry in std::fs::read_dir(from).with_context(about)? {
                let entry = entry.with_context(about)?;
                self.host_file(&entry.path(), &to.join(entry.file_name()))?;
            }
            return Ok(());
        }
        let bytes = std::fs::read(from).with_context(about)?;
        self.file(to, data.permissions().mode() & 0o7777, &bytes);
        if bytes.starts_with(b"\x7fELF") {
            self.libraries(from)?;
        }
        Ok(())
    }

    /// The libraries of a dynamic program, at the paths they have on the host.
    fn libraries(&mut self, program: &Path) -> anyhow::Result<()> {
        // ldd fails for a static program, which has none.
        let told = Command::new("ldd").arg(program).output().context("running ldd")?;
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        for library in told.split_whitespace().filter(|word| word.starts_with('/')) {
            let to = PathBuf::from(library.trim_start_matches('/'));
            if !self.there.contains(&to) {
                let bytes = std::fs::read(library).with_context(|| format!("reading {library}"))?;
                self.file(&to, 0o755, &bytes);
            }
        }
        Ok(())
    }

    /// Adds a file with these contents; the first of a name stays.
    pub(crate) fn file(&mut self, path: &Path, mode: u32, contents: &[u8]) {
        self.entry(path, REGULAR | mode, contents);
    }

    fn folder(&mut self, path: &Path) {
        self.entry(path, FOLDER, b"");
    }

    fn link(&mut self, path: &Path, to: &str) {
        self.entry(path, LINK, to.as_bytes());
    }

    fn entry(&mut self, path: &Path, mode: u32, contents: &[u8]) {
        let path: PathBuf = path.strip_prefix("/").unwrap_or(path).to_owned();
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty() && !self.there.contains(*p)) {
            self.folder(parent);
        }
        if !self.there.insert(path.clone()) {
            return;
        }
        self.serial += 1;
        self.raw(&path.to_string_lossy(), mode, contents);
    }

    fn raw(&mut self, name: &str, mode: u32, contents: &[u8]) {
        let (inode, size, name_size) = (self.serial, contents.len(), name.len() + 1);
        let header = format!(
            "070701{inode:08x}{mode:08x}{:08x}{:08x}{:08x}{:08x}{size:08x}{:08x}{:08x}{:08x}{:08x}{name_size:08x}{:08x}",
            0, 0, 1, 0, 0, 0, 0, 0, 0
        );
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The finished archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.serial = 0;
        self.raw("TRAILER!!!", 0, b"");
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_what_is_in_them_and_nothing_comes_twice() {
        let mut archive = Initramfs::default();
        archive.file(Path::new("/a/b/c"), 0o644, b"one");
        archive.file(Path::new("a/b/c"), 0o644, b"two");
        let text = String::from_utf8_lossy(&archive.finish()).into_owned();
        let at = |name: &str| text.find(name).unwrap();
        assert!(at("a\0") < at("a/b\0") && at("a/b\0") < at("a/b/c\0"));
        assert!(text.contains("one") && !text.contains("two"));
        assert_eq!(text.len() % 4, 0);
    }
}
