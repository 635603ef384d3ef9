//! The Debian package, by dpkg-deb(1).

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::glibc::Version;
use super::release::{Release, VERSION};
use crate::install::{self, Item};
use crate::tools;

const CONTROL: &str = include_str!("control");
const COPYRIGHT: &str = include_str!("copyright");

/// Makes it. Its libraries are in a folder of their own, so ldconfig(8) has nothing to do.
pub(super) fn package(folder: &Path, release: &Release) -> anyhow::Result<PathBuf> {
    let staged = tempfile::tempdir_in(folder)?;
    let root = staged.path();
    let usr = root.join("usr");
    release.items.iter().try_for_each(|item| install::put(&usr, &placed(item)?))?;
    let document = |name: &str, bytes| Item { path: Path::new("share/doc/punctual").join(name), bytes, mode: 0o644 };
    let changes = fs::read(tools::root().join("CHANGELOG.md"))?;
    install::put(&usr, &document("NEWS.gz", gzip(&changes)?))?;
    install::put(&usr, &document("changelog.gz", gzip(changelog()?.as_bytes())?))?;
    install::put(&usr, &document("copyright", COPYRIGHT.into()))?;
    let architecture = release.architecture.names().debian;
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
fn placed(item: &Item) -> anyhow::Result<Item> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_where_debian_has_them() {
        let at = |path: &str| placed(&Item { path: path.into(), bytes: b"text".to_vec(), mode: 0o644 }).unwrap();
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
}
