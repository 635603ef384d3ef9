//! `cargo xtask install`: the command, the libraries that it loads into programs, the manual and the completions, below one prefix.
//!
//! Each file is written beside its place and then renamed, so that a program that has the old library loaded keeps it. A list of the files
//! makes the next installation, and `--uninstall`, remove exactly what this one wrote.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::Args;

use crate::{manual, tools};

/// The packages of an installation, and the files that they make.
pub(crate) const BUILT: [(&str, &str, &str); 3] = [
    ("punctual-cli", "punctual", "bin/punctual"),
    ("punctual-preload", "libpunctual_preload.so", "lib/punctual/libpunctual_preload.so"),
    ("punctual-mpi", "libpunctual_mpi.so", "lib/punctual/libpunctual_mpi.so"),
];

/// What behaves as cyclictest. Its folder is none of PATH: the name belongs to the package rt-tests. It is no link: wheels have none.
const CYCLICTEST: (&str, &str) =
    ("lib/punctual/bin/cyclictest", "#!/bin/sh\nexec \"${0%/*}/../../../bin/punctual\" cyclictest \"$@\"\n");

/// The paths of all files below the prefix, one a line.
const LIST: &str = "lib/punctual/installed";

#[derive(Args)]
pub(crate) struct InstallArgs {
    /// Where to install: /usr/local for all users; by default where `cargo install` does, which is on the PATH of who has Rust
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Remove what an installation wrote there
    #[arg(long)]
    uninstall: bool,
}

/// A file to install.
pub(crate) struct Item {
    /// Its path below the prefix.
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
}

pub(crate) fn run(args: &InstallArgs) -> anyhow::Result<()> {
    let prefix =
        std::path::absolute(args.prefix.clone().or_else(of_cargo).context("no prefix: give --prefix /usr/local")?)?;
    check(&prefix)?;
    if args.uninstall {
        return uninstall(&prefix);
    }
    // Before the build, which takes minutes.
    try_writing(&prefix)?;
    let items = items(&tools::release()?)?;
    install(&prefix, &items)?;
    println!("{} files below {}", items.len(), prefix.display());
    let bin = prefix.join("bin");
    let is_on_path =
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| folder == bin));
    if !is_on_path {
        println!("{} is not on PATH", bin.display());
    }
    Ok(())
}

/// The folder of `cargo install`.
fn of_cargo() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("CARGO_INSTALL_ROOT").or_else(|| variable("CARGO_HOME")).or_else(|| Some(variable("HOME")?.join(".cargo")))
}

/// Refuses a prefix below which no library can be loaded.
fn check(prefix: &Path) -> anyhow::Result<()> {
    let is_loadable = prefix.to_str().is_some_and(|text| !text.contains([' ', ':']));
    ensure!(
        is_loadable,
        "invalid --prefix {}: ld.so(8) loads no library from a path with a space or a colon (example: /usr/local)",
        prefix.display()
    );
    Ok(())
}

/// Refuses a prefix that cannot be written, without changing it.
fn try_writing(prefix: &Path) -> anyhow::Result<()> {
    let folders = ["bin", "lib/punctual", "share"].map(|folder| prefix.join(folder));
    for folder in folders {
        let nearest = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
        let tried = tempfile::tempfile_in(nearest);
        tried.with_context(|| {
            let shown = nearest.display();
            format!("invalid --prefix {}: {shown} cannot be written (example: --prefix ~/.local)", prefix.display())
        })?;
    }
    Ok(())
}

/// All files of an installation, from the folder in which cargo built them.
pub(crate) fn items(release: &Path) -> anyhow::Result<Vec<Item>> {
    let built = BUILT.iter().map(|(_, name, path)| {
        let file = release.join(name);
        let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        let mode = if path.starts_with("bin/") { 0o755 } else { 0o644 };
        Ok(Item { path: path.into(), bytes, mode })
    });
    let mut items: Vec<Item> = built.collect::<anyhow::Result<_>>()?;
    let text = |(path, text): (PathBuf, String)| Item { path, bytes: text.into(), mode: 0o644 };
    items.extend(manual::installed()?.into_iter().map(text));
    items.push(Item { path: CYCLICTEST.0.into(), bytes: CYCLICTEST.1.into(), mode: 0o755 });
    Ok(items)
}

/// Writes all files and the list of them, and removes those of an earlier installation that are no longer part.
fn install(prefix: &Path, items: &[Item]) -> anyhow::Result<()> {
    let old = listed(prefix)?;
    let mut paths: Vec<PathBuf> = items.iter().map(|item| item.path.clone()).collect();
    // First, so that an installation that is ended halfway can be removed.
    let all: Vec<PathBuf> = [&old[..], &paths[..]].concat();
    put(prefix, &list(&all))?;
    for item in items {
        put(prefix, item)?;
    }
    let surplus = old.iter().filter(|path| !paths.contains(path) && *path != Path::new(LIST));
    surplus.for_each(|path| remove(prefix, path));
    paths.sort();
    put(prefix, &list(&paths))
}

/// The list as a file.
fn list(paths: &[PathBuf]) -> Item {
    let lines: String = paths.iter().map(|path| format!("{}\n", path.display())).collect();
    Item { path: LIST.into(), bytes: lines.into(), mode: 0o644 }
}

/// The files of the installation below the prefix; none where there is none.
fn listed(prefix: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let list = prefix.join(LIST);
    let text = match fs::read_to_string(&list) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("reading {}", list.display())),
    };
    let paths: Vec<PathBuf> = text.lines().map(PathBuf::from).collect();
    let is_below = |path: &PathBuf| path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if let Some(path) = paths.iter().find(|path| !is_below(path)) {
        bail!("{} names {}, which is not below {}", list.display(), path.display(), prefix.display());
    }
    Ok(paths)
}

/// Writes a file whole and gives it its name. What had the name stays with whoever has it open or mapped.
pub(crate) fn put(prefix: &Path, item: &Item) -> anyhow::Result<()> {
    let place = prefix.join(&item.path);
    let write = || -> std::io::Result<()> {
        let folder = place.parent().unwrap_or(prefix);
        fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&item.bytes)?;
        file.as_file().set_permissions(Permissions::from_mode(item.mode))?;
        file.as_file().sync_all()?;
        file.persist(&place)?;
        Ok(())
    };
    write().with_context(|| format!("writing {}", place.display()))
}

fn uninstall(prefix: &Path) -> anyhow::Result<()> {
    let paths = listed(prefix)?;
    ensure!(!paths.is_empty(), "nothing is installed below {}: there is no {LIST}", prefix.display());
    paths.iter().map(PathBuf::as_path).for_each(|path| remove(prefix, path));
    remove(prefix, Path::new(LIST));
    let left: Vec<String> =
        paths.iter().filter(|path| prefix.join(path).exists()).map(|path| path.display().to_string()).collect();
    ensure!(left.is_empty(), "these could not be removed: {}", left.join(", "));
    println!("{} files removed below {}", paths.len(), prefix.display());
    Ok(())
}

/// Removes a file, and its folders as far as they are empty then. The prefix itself stays.
fn remove(prefix: &Path, path: &Path) {
    // What is left is looked for afterwards; a folder that is not empty stays.
    let _ = fs::remove_file(prefix.join(path));
    let folders = path.ancestors().skip(1).filter(|folder| *folder != Path::new(""));
    folders.for_each(|folder| drop(fs::remove_dir(prefix.join(folder))));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_script_named_cyclictest_calls_the_command_beside_it() {
        let prefix = tempfile::tempdir().unwrap();
        put(prefix.path(), &Item { path: CYCLICTEST.0.into(), bytes: CYCLICTEST.1.into(), mode: 0o755 }).unwrap();
        put(prefix.path(), &item("bin/punctual", "#!/bin/sh\nprintf '%s,' \"$@\"\n")).unwrap();
        let said = std::process::Command::new(prefix.path().join(CYCLICTEST.0)).args(["-h 3500", "", "-q"]).output();
        assert_eq!(String::from_utf8(said.unwrap().stdout).unwrap(), "cyclictest,-h 3500,,-q,");
    }

    fn item(path: &str, text: &str) -> Item {
        Item { path: path.into(), bytes: text.into(), mode: 0o755 }
    }

    /// All files below a folder, with their contents.
    fn files(folder: &Path, below: &Path, found: &mut BTreeMap<PathBuf, String>) {
        for entry in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                files(&entry, below, found);
            } else {
                found.insert(entry.strip_prefix(below).unwrap().into(), fs::read_to_string(&entry).unwrap());
            }
        }
    }

    fn tree(prefix: &Path) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        files(prefix, prefix, &mut found);
        found
    }

    #[test]
    fn nothing_is_left_of_two_installations_and_nothing_else_goes() {
        let prefix = tempfile::tempdir().unwrap();
        let prefix = prefix.path();
        fs::create_dir(prefix.join("bin")).unwrap();
        fs::write(prefix.join("bin/another"), "stays").unwrap();
        install(prefix, &[item("bin/punctual", "old"), item("lib/punctual/a.so", "a"), item("share/x/old.1", "")])
            .unwrap();
        let open = fs::File::open(prefix.join("bin/punctual")).unwrap();
        install(prefix, &[item("bin/punctual", "new"), item("lib/punctual/a.so", "b")]).unwrap();
        assert_eq!(std::io::read_to_string(open).unwrap(), "old", "who has the old file keeps it");
        let installed = tree(prefix);
        assert_eq!(installed[Path::new("bin/punctual")], "new");
        assert_eq!(installed.len(), 4, "{installed:?}");
        assert_eq!(fs::metadata(prefix.join("bin/punctual")).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(!prefix.join("share").exists(), "what is no longer part goes, with its folders");
        uninstall(prefix).unwrap();
        assert_eq!(tree(prefix), BTreeMap::from([("bin/another".into(), "stays".to_owned())]));
        assert!(uninstall(prefix).unwrap_err().to_string().contains("nothing is installed"));
    }

    #[test]
    fn a_list_that_leads_out_of_the_prefix_is_refused() {
        let prefix = tempfile::tempdir().unwrap();
        for path in ["../victim", "/etc/passwd", "bin/../../victim"] {
            put(prefix.path(), &list(&[path.into()])).unwrap();
            assert!(uninstall(prefix.path()).unwrap_err().to_string().contains("is not below"), "{path}");
        }
    }

    #[test]
    fn a_prefix_that_no_library_can_be_loaded_from_is_refused() {
        for prefix in ["/tmp/two words", "/tmp/a:b"] {
            assert!(check(Path::new(prefix)).unwrap_err().to_string().contains("invalid --prefix /tmp/"));
        }
        check(Path::new("/usr/local")).unwrap();
    }

    #[test]
    fn a_prefix_that_cannot_be_written_is_refused_before_anything_is() {
        let refused = try_writing(Path::new("/proc/sys/punctual")).unwrap_err();
        assert!(refused.to_string().starts_with("invalid --prefix /proc/sys/punctual: /proc/sys cannot be written"));
        let folder = tempfile::tempdir().unwrap();
        try_writing(&folder.path().join("new/prefix")).unwrap();
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
