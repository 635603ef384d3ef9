//! Saved runs: read from a JSON file, an HTML page or standard input, by name; the last one and unwritten ones are kept.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::builder::{OsStringValueParser, TypedValueParser};
use punctual_record::{ReadError, Run};
use punctual_report::export::html;
use rustix::fs::{Access, AtFlags, Mode, accessat, chmodat, fstat};

use crate::output::{self, Output, Target};
use crate::refusal::BadUsage;

/// Largest file read. A run of an hour has a few megabytes; the limit keeps a wrong file from filling the memory.
const LARGEST: u64 = 1 << 30;

/// Bytes that show what kind of file it is.
const BEGINNING: u64 = 64 << 10;

/// The last run kept, as the name of a run.
const LAST: &str = "last";

/// The parser of a run's name: a file, `-`, or `last`.
pub(crate) fn run_name() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|name| {
        if name != LAST {
            return Ok(PathBuf::from(name));
        }
        last().ok_or("no run is kept yet; measure first, or name a file (example: ./last)")
    })
}

/// Reads a run from a file, or from standard input for `-`. A page written with `--html` holds a run too.
///
/// A missing file is bad usage; a file without a run is a failure.
pub(crate) fn read_run(path: &Path) -> anyhow::Result<Run> {
    if path == Path::new("-") {
        return from_reader(io::stdin().lock(), 0).context("standard input");
    }
    let name = path.display();
    let refused = |why: String| BadUsage::invalid("run", &name, why);
    if path.is_dir() {
        return Err(refused("expected a file that --json or --html wrote, not a folder".into()).into());
    }
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => refused("no such file; --json FILE and --html FILE write runs".into()),
        _ => refused(format!("cannot be opened: {error}")),
    })?;
    let facts = file.metadata().map_err(|error| refused(format!("cannot be looked at: {error}")))?;
    let kind = facts.file_type();
    if kind.is_block_device() || (kind.is_char_device() && !file.is_terminal()) {
        return Err(refused("expected a file that --json or --html wrote, not a device".into()).into());
    }
    let size = facts.len();
    from_reader(file, size).with_context(|| name.to_string())
}

/// `size`: the expected size in bytes, 0 if unknown. A file that is known to be too large is refused before it is read.
fn from_reader(reader: impl Read, size: u64) -> anyhow::Result<Run> {
    let too_large = || anyhow!("it has more than the {LARGEST} bytes that are read");
    if size > LARGEST {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(size as usize + 1);
    let mut reader = reader.take(LARGEST + 1);
    reader.by_ref().take(BEGINNING).read_to_end(&mut bytes).context("cannot read it")?;
    // A file that begins as neither a run nor a page needs no further reading.
    if bytes.trim_ascii_start().first().is_some_and(|first| matches!(first, b'{' | b'<')) {
        reader.read_to_end(&mut bytes).context("cannot read it")?;
    }
    if bytes.len() as u64 > LARGEST {
        return Err(too_large());
    }
    if !html::is_page(&bytes) {
        return run(&bytes);
    }
    let embedded = html::embedded_run(&bytes)
        .context("it looks like a page, but holds no run of punctual; expected a file written with --html or --json")?;
    run(embedded)
}

fn run(text: &[u8]) -> anyhow::Result<Run> {
    Run::from_slice(text).map_err(|error| match error {
        ReadError::NotJson { .. } | ReadError::NotARun { .. } => {
            anyhow!("{error}; expected a file written with --json")
        }
        error => error.into(),
    })
}

/// Refuses a file given twice, even by different names.
pub(crate) fn check_distinct(files: &[PathBuf]) -> Result<(), BadUsage> {
    let mut seen = std::collections::BTreeMap::new();
    for file in files {
        // Reading reports a missing file.
        let Ok(real) = file.canonicalize() else { continue };
        if !real.is_file() {
            continue;
        }
        if let Some(before) = seen.insert(real, file) {
            let again = if before == file { String::new() } else { format!(" (also as {})", before.display()) };
            return Err(BadUsage::invalid(
                "run",
                file.display(),
                format!("it is given twice{again}; name each run once"),
            ));
        }
    }
    Ok(())
}

// The user's private state folder, for data that outlives a run.
//
// `$XDG_STATE_HOME/punctual`, else `~/.local/state/punctual`, else `/var/tmp/punctual-UID`. Its mode is 0700. A folder that another
// user owns or may write is not used.

/// Most runs kept, and most of those kept after failed writes; the oldest are removed first.
const RUNS_KEPT: usize = 20;
/// The prefix of the names of runs.
const KEPT: &str = "run-";
/// The file of the last run.
const LAST_RUN: &str = "last.json";
/// The prefix of their names.
const UNWRITTEN: &str = "unwritten-";

/// The state folders, created if missing, best first. An unusable one is an error with the reason.
pub(crate) fn folders() -> impl Iterator<Item = io::Result<PathBuf>> {
    let user = rustix::process::geteuid().as_raw();
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // sudo may leave HOME at another user's home, where root must not write.
    let home = || absolute("HOME").filter(|home| home.metadata().is_ok_and(|home| home.uid() == user));
    let base = absolute("XDG_STATE_HOME").or_else(|| home().map(|home| home.join(".local/state")));
    let last = PathBuf::from(format!("/var/tmp/punctual-{user}"));
    base.map(|base| base.join("punctual")).into_iter().chain([last]).map(move |path| own(&path, user))
}

/// Creates a folder with mode 0700. An existing one must be writable by this user only, and gets that mode.
fn own(path: &Path, user: u32) -> io::Result<PathBuf> {
    let folder = output::folder(path)?;
    let facts = fstat(&folder)?;
    if facts.st_uid != user || facts.st_mode & 0o022 != 0 {
        return Err(io::Error::other(NotPrivate {
            path: path.to_owned(),
            owner: facts.st_uid,
            mode: facts.st_mode & 0o7777,
        }));
    }
    accessat(&folder, ".", Access::WRITE_OK, AtFlags::empty())?;
    if facts.st_mode & 0o077 != 0 {
        // Runs hold command lines and the host's name.
        chmodat(&folder, ".", Mode::RWXU, AtFlags::empty())?;
    }
    Ok(path.to_owned())
}

/// A folder that another user owns or may write to.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} is not yours alone: owner {owner}, mode {mode:o}; remove it, change its owner and mode (chown, chmod 700), or set XDG_STATE_HOME",
    path.display()
)]
struct NotPrivate {
    path: PathBuf,
    owner: u32,
    mode: u32,
}

/// Keeps a run as the last one, and under a name that no later run takes. Returns its file, and why a better folder was not used, if
/// that one is not this user's alone.
pub(crate) fn keep_last(json: &[u8]) -> anyhow::Result<(PathBuf, Option<io::Error>)> {
    let (folder, passed_over) = best()?;
    keep_in(&folder, LAST_RUN, json)?;
    Ok((keep_numbered(&folder, json).unwrap_or_else(|_| folder.join(LAST_RUN)), passed_over))
}

/// Keeps a run as `run-N.json`, N the next free number: two terminals may measure at once.
fn keep_numbered(folder: &Path, json: &[u8]) -> io::Result<PathBuf> {
    forget_all_but(folder, RUNS_KEPT - 1, |name| number(name).is_some());
    let last = names(folder).filter_map(|name| number(&name)).max().unwrap_or(0);
    for number in last.saturating_add(1)..=u64::MAX {
        let path = folder.join(format!("{KEPT}{number}.json"));
        match File::options().write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(mut file) => {
                return file.write_all(json).map(|()| path.clone()).inspect_err(|_| drop(std::fs::remove_file(&path)));
            }
        }
    }
    Err(io::Error::other("no number is free"))
}

/// The names of the files in a folder; none, if it cannot be read.
fn names(folder: &Path) -> impl Iterator<Item = String> {
    folder.read_dir().into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

fn number(name: &str) -> Option<u64> {
    name.strip_prefix(KEPT)?.strip_suffix(".json")?.parse().ok()
}

/// The file of the last run kept; `None`: none is kept.
pub(crate) fn last() -> Option<PathBuf> {
    best().ok().map(|(folder, _)| folder.join(LAST_RUN)).filter(|path| path.is_file())
}

/// The best folder that can be used, and the first that is not this user's alone. The error is that of the last one.
fn best() -> io::Result<(PathBuf, Option<io::Error>)> {
    best_of(folders())
}

fn best_of(folders: impl Iterator<Item = io::Result<PathBuf>>) -> io::Result<(PathBuf, Option<io::Error>)> {
    let mut failed = Vec::new();
    for folder in folders {
        match folder {
            Ok(folder) => {
                let is_not_private = |error: &io::Error| error.get_ref().is_some_and(|inner| inner.is::<NotPrivate>());
                return Ok((folder, failed.into_iter().find(is_not_private)));
            }
            Err(error) => failed.push(error),
        }
    }
    Err(failed.pop().unwrap_or_else(|| io::Error::other("no state folder can be used")))
}

/// Keeps a run after a failed write, in the first folder that takes it. Returns its file.
pub(crate) fn keep_unwritten(json: &[u8]) -> anyhow::Result<PathBuf> {
    let mut failed = anyhow::anyhow!("no state folder can be used");
    for folder in folders() {
        match folder.map_err(anyhow::Error::from).and_then(|folder| keep_among_others(&folder, json)) {
            Ok(path) => return Ok(path),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn keep_among_others(folder: &Path, json: &[u8]) -> anyhow::Result<PathBuf> {
    forget_all_but(folder, RUNS_KEPT - 1, |name| name.starts_with(UNWRITTEN));
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let (s, ns) = (since.as_secs(), since.subsec_nanos());
    // Names sort by time.
    keep_in(folder, &format!("{UNWRITTEN}{s:012}.{ns:09}-{}.json", std::process::id()), json)
}

fn keep_in(folder: &Path, name: &str, json: &[u8]) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    Output::open("keeping the run in", &Target::File(path.clone()))?.write(|out| {
        out.extend_from_slice(json);
        Ok(())
    })?;
    Ok(path)
}

/// Removes the oldest of these files. Their names sort by number, else by time.
fn forget_all_but(folder: &Path, most: usize, is_ours: impl Fn(&str) -> bool) {
    let mut kept: Vec<String> = names(folder).filter(|name| is_ours(name)).collect();
    kept.sort_by_key(|name| (number(name), name.clone()));
    let surplus = kept.len().saturating_sub(most);
    for name in kept.into_iter().take(surplus) {
        // A file that cannot be removed now is removed by a later run.
        let _ = std::fs::remove_file(folder.join(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};

    #[test]
    fn a_file_that_is_too_large_is_refused_unread() {
        struct Unread;
        impl Read for Unread {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                unreachable!("the size is known before")
            }
        }
        let refused = from_reader(Unread, LARGEST + 1).unwrap_err();
        assert_eq!(refused.to_string(), "it has more than the 1073741824 bytes that are read");
        assert!(from_reader(&b"{}"[..], 2).is_err_and(|error| error.to_string() != refused.to_string()));
    }

    #[test]
    fn a_folder_that_others_may_write_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let path = base.path().join("a/punctual");
        assert_eq!(own(&path, user).unwrap(), path);
        assert_eq!(own(&path, user).unwrap(), path, "found again");
        assert!(own(&path, user + 1).is_err(), "of another user");
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(own(&path, user).unwrap(), path);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700, "others may read no longer");
        std::fs::set_permissions(&path, Permissions::from_mode(0o770)).unwrap();
        let refused = own(&path, user).unwrap_err();
        assert!(refused.to_string().contains("mode 770"), "{refused}");
        let other = base.path().join("b");
        let found = best_of([Err(io::Error::other("full")), own(&path, user), own(&other, user)].into_iter()).unwrap();
        assert_eq!((found.0, found.1.unwrap().to_string()), (other.clone(), refused.to_string()));
        let found = best_of([Err(io::Error::other("full")), own(&other, user), own(&path, user)].into_iter()).unwrap();
        assert!(found.0 == other && found.1.is_none(), "a folder that fails otherwise is not reported");
        let link = base.path().join("link");
        std::fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        symlink(&path, &link).unwrap();
        assert_eq!(own(&link, user).unwrap(), link, "a link of this user");
    }

    #[test]
    fn no_folder_is_made_behind_a_link_of_another_user() {
        if !punctual_testing::needs_root("files of another user") {
            return;
        }
        let base = tempfile::tempdir().unwrap();
        let (link, behind) = (base.path().join("link"), base.path().join("behind"));
        std::fs::create_dir(&behind).unwrap();
        symlink(&behind, &link).unwrap();
        lchown(&link, Some(punctual_testing::NOBODY), None).unwrap();
        let refused = own(&link.join("state/punctual"), 0).unwrap_err();
        assert!(refused.to_string().contains("link"), "{refused}");
        assert_eq!(behind.read_dir().unwrap().count(), 0, "made behind the link");
        lchown(&link, Some(0), None).unwrap();
        own(&link.join("state/punctual"), 0).unwrap();
        assert!(behind.join("state/punctual").is_dir());
    }

    #[test]
    fn the_last_run_replaces_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        for json in [&b"a longer one"[..], b"a short one"] {
            assert_eq!(keep_in(folder.path(), LAST_RUN, json).unwrap(), folder.path().join(LAST_RUN));
            assert_eq!(std::fs::read(folder.path().join(LAST_RUN)).unwrap(), json);
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 1, "nothing else stays");
    }

    #[test]
    fn each_run_has_a_file_that_no_later_run_takes() {
        let folder = tempfile::tempdir().unwrap();
        let keep = |json: &[u8]| keep_numbered(folder.path(), json).unwrap();
        assert_eq!(keep(b"one"), folder.path().join("run-1.json"));
        std::fs::write(folder.path().join("run-9.json"), "nine").unwrap();
        std::fs::write(folder.path().join("run-x.json"), "of the user").unwrap();
        let paths: Vec<PathBuf> = (0..RUNS_KEPT).map(|_| keep(b"more")).collect();
        assert_eq!(paths[0], folder.path().join("run-10.json"), "as numbers, not as letters");
        assert!(!folder.path().join("run-1.json").exists() && !folder.path().join("run-9.json").exists());
        assert_eq!(std::fs::read(&paths[1]).unwrap(), b"more");
        assert!(folder.path().join("run-x.json").exists(), "it has no number");
    }

    #[test]
    fn the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["unwritten-2.json", "unwritten-1.json", "unwritten-3.json", "something"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        forget_all_but(folder.path(), 2, |name| name.starts_with(UNWRITTEN));
        let mut left: Vec<String> =
            folder.path().read_dir().unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["something", "unwritten-2.json", "unwritten-3.json"]);
    }
}
