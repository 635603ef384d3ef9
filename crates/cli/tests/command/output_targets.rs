//! Output targets: files of all kinds, links, devices, pipes, descriptors; and refused ones.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use punctual_record::Run;

use punctual_testing::{is_root, needs_root, open_copy, skip};

use crate::support::{Left, punctual, run};

/// A measurement of 4 ms.
pub(crate) const TINY: [&str; 9] =
    ["wait", "nanosleep", "--for", "100us", "--samples", "20", "--rounds", "2", "--quiet"];

/// Measures a little in `folder`.
pub(crate) fn tiny(folder: &Path, args: &[&str]) -> Left {
    punctual(&[&TINY[..], args].concat()).current_dir(folder).output().unwrap().into()
}

/// A shell script in `folder`; `"$@"` is a tiny measurement.
pub(crate) fn script(folder: &Path, text: &str) -> Left {
    let mut command = Command::new("sh");
    command.args(["-c", text, "sh", env!("CARGO_BIN_EXE_punctual")]).args(TINY).current_dir(folder);
    command.env("XDG_STATE_HOME", folder.join("state")).env("LC_ALL", "C.UTF-8").env("PUNCTUAL_LOCK_NAMESPACE", "");
    command.output().unwrap().into()
}

fn is_run(path: &Path) -> bool {
    Run::from_json(File::open(path).unwrap()).is_ok()
}

/// Whether a private mount namespace can be had; says so if not.
pub(crate) fn can_mount() -> bool {
    let can = is_root() && Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !can {
        skip("mounting needs root and unshare(1)");
    }
    can
}

#[test]
fn descriptors_are_written_where_they_stand() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1", "/proc/thread-self/fd/1", "-"] {
        let left = script(folder.path(), &format!("echo before > f; \"$@\" --json {name} >> f"));
        assert_eq!((left.code, left.stderr.as_str()), (Some(0), ""), "{name}");
        let text = fs::read_to_string(folder.path().join("f")).unwrap();
        let json = text.strip_prefix("before\n").unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(Run::from_json(json.as_bytes()).is_ok(), "{name}: nothing but the run: {json}");
    }
    let left = script(folder.path(), "\"$@\" --json /dev/fd/7 7> g");
    assert_eq!((left.code, left.stdout.contains("nanosleep")), (Some(0), true), "{}", left.stderr);
    assert!(is_run(&folder.path().join("g")));
    // Where stdout goes by another name, no tables go.
    let left = script(folder.path(), "\"$@\" --json /dev/fd/7 7>&1");
    assert!(Run::from_json(left.stdout.as_bytes()).is_ok(), "{}", left.stdout);
    for (text, why) in [
        ("\"$@\" --json /dev/fd/7", "descriptor 7 is not open"),
        // Whoever starts the tests may have left it open (flock(1)).
        ("\"$@\" --json h --csv /dev/fd/3 3>&-", "descriptor 3 is not open"),
        ("\"$@\" --json /dev/fd/0 < g", "for reading only"),
        ("\"$@\" --json - >&-", "stdout is closed"),
        ("\"$@\" --json - --csv /dev/stdout", "the same place"),
        ("\"$@\" --json g >> g", "stdout goes to this file"),
    ] {
        let left = script(folder.path(), text);
        assert_eq!(left.code, Some(2), "{text}: {}", left.stderr);
        assert!(left.stderr.contains(why), "{text}: {}", left.stderr);
    }
    assert!(!folder.path().join("h").exists());
}

#[test]
fn links_lead_to_files_and_stay_links() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("sub")).unwrap();
    symlink("sub/real", path("sub-link")).unwrap();
    symlink("sub-link", path("link")).unwrap();
    for _ in 0..2 {
        let left = tiny(folder.path(), &["--json", "link"]);
        assert_eq!(left.code, Some(0), "{}", left.stderr);
        assert!(path("link").is_symlink() && path("sub-link").is_symlink() && is_run(&path("sub/real")));
    }
    symlink("loop", path("loop")).unwrap();
    let left = tiny(folder.path(), &["--json", "loop"]);
    assert!(left.code == Some(2) && left.stderr.contains("symbolic links"), "{}", left.stderr);
    assert_eq!(tiny(folder.path(), &["--json", "/dev/null"]).code, Some(0));
    let shared = path("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    symlink("/dev/null", shared.join("device")).unwrap();
    assert_eq!(tiny(&shared, &["--json", "device"]).code, Some(0), "a link of this user");
    symlink("../mine", shared.join("mine")).unwrap();
    assert_eq!(tiny(&shared, &["--json", "mine"]).code, Some(0));
    if is_root() {
        lchown(shared.join("mine"), Some(12345), None).unwrap();
        let left = tiny(&shared, &["--json", "mine"]);
        assert!(left.code == Some(2) && left.stderr.contains("link of user 12345"), "{}", left.stderr);
    }
}

#[test]
fn a_replaced_file_keeps_what_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o604)).unwrap();
    if is_root() {
        chown(&path, Some(12345), Some(54321)).unwrap();
    }
    let marked = rustix::fs::setxattr(&path, "user.mark", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
    let before = path.metadata().unwrap();
    assert_eq!(tiny(folder.path(), &["--json", "f"]).code, Some(0));
    let after = path.metadata().unwrap();
    assert_ne!(before.ino(), after.ino(), "replaced whole");
    assert_eq!((before.mode(), before.uid(), before.gid()), (after.mode(), after.uid(), after.gid()));
    let mut value = [0; 8];
    assert_eq!(rustix::fs::getxattr(&path, "user.mark", &mut value[..]).is_ok(), marked);
    let other = folder.path().join("other");
    fs::hard_link(&path, &other).unwrap();
    assert_eq!(tiny(folder.path(), &["--csv", "f"]).code, Some(0));
    assert_eq!(path.metadata().unwrap().ino(), other.metadata().unwrap().ino(), "written in place");
    assert_eq!(fs::read_to_string(other).unwrap().lines().count(), 2);
}

#[test]
fn a_file_that_cannot_be_replaced_is_written_in_place() {
    if !needs_root("becoming another user") {
        return;
    }
    let (_copy, program) = open_copy(env!("CARGO_BIN_EXE_punctual").as_ref());
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("own");
    fs::write(&path, "old".repeat(100_000)).unwrap();
    chown(&path, Some(12345), Some(12345)).unwrap();
    let as_user = |name: &str| -> Left {
        let mut command = Command::new(&program);
        command.args(TINY).args(["--json", name]).uid(12345).gid(12345).current_dir(folder.path());
        command
            .env_remove("HOME")
            .env_remove("XDG_STATE_HOME")
            .env("PUNCTUAL_LOCK_NAMESPACE", "")
            .output()
            .unwrap()
            .into()
    };
    let left = as_user("own");
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert!(is_run(&path));
    let left = as_user("new");
    assert!(left.code == Some(2) && left.stderr.contains("Permission denied"), "{}", left.stderr);
    assert!(left.stdout.is_empty(), "nothing was measured");
    // A run that reaches no file is kept, also without a home.
    let left = as_user("/dev/full");
    assert_eq!(left.code, Some(1), "{}", left.stderr);
    let kept = left.stderr.split("kept in ").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
    assert!(kept.starts_with("/var/tmp/punctual-12345/") && is_run(Path::new(kept)), "{}", left.stderr);
    let state = Path::new("/var/tmp/punctual-12345");
    assert_eq!((state.metadata().unwrap().mode() & 0o777, state.metadata().unwrap().uid()), (0o700, 12345));
    fs::remove_dir_all(state).unwrap();
    if can_mount() {
        fs::write(folder.path().join("host"), "old").unwrap();
        fs::write(folder.path().join("inner"), "").unwrap();
        let left = script(folder.path(), "unshare -m sh -c 'mount --bind host inner && \"$@\" --json inner' sh \"$@\"");
        assert_eq!(left.code, Some(0), "{}", left.stderr);
        assert!(is_run(&folder.path().join("host")), "a file that is a mount of its own");
        let text =
            "unshare -m sh -c 'mount -t tmpfs none /mnt && mount -o remount,ro /mnt && \"$@\" --json /mnt/x' sh \"$@\"";
        let left = script(folder.path(), text);
        assert!(left.code == Some(2) && left.stderr.contains("Read-only file system"), "{}", left.stderr);
    }
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("dir")).unwrap();
    let long = "x".repeat(256);
    let begin = Instant::now();
    for (args, why) in [
        (&["--json", ""][..], "the name is empty"),
        (&["--json", "dir"][..], "is a folder"),
        (&["--json", "dir/../dir/"][..], "is a folder"),
        (&["--json", "none/"][..], "there is no folder"),
        (&["--json", "none/f"][..], "there is no folder none"),
        (&["--json", &long][..], "File name too long"),
        (&["--json", "F", "--html", "./dir/../F"][..], "the same place"),
        (&["--json", "-", "--csv", "-"][..], "--json - has stdout already"),
        (&["--json", "dir/ok", "--html", "dir"][..], "is a folder"),
    ] {
        let long = ["wait", "nanosleep", "--for", "100us", "--duration", "500s"];
        let left: Left = punctual(&long).args(args).current_dir(folder.path()).output().unwrap().into();
        assert_eq!((left.code, left.stdout.as_str()), (Some(2), ""), "{args:?}: {}", left.stderr);
        assert!(left.stderr.contains(why), "{args:?}: {}", left.stderr);
    }
    assert!(begin.elapsed() < Duration::from_secs(400), "nothing was measured");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(fs::read_dir(folder.path().join("dir")).unwrap().count(), 0);
    let left = script(folder.path(), "mkdir gone && cd gone && rmdir ../gone && \"$@\" --json x");
    assert!(left.code == Some(2) && left.stderr.contains("its folder was removed"), "{}", left.stderr);
    fs::create_dir(folder.path().join("run-2.json")).unwrap();
    let left: Left = punctual(&["--quick", "--repeat", "2", "--json", "run.json"])
        .current_dir(folder.path())
        .output()
        .unwrap()
        .into();
    assert!(left.code == Some(2) && left.stderr.contains("run-2.json': is a folder"), "{}", left.stderr);
    assert!(!folder.path().join("run-1.json").exists(), "all were tried before the first was measured");
}

#[test]
fn what_is_read_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (a, b, hard, link) = (path("a"), path("b"), path("hard"), path("link"));
    for name in ["a", "b"] {
        assert_eq!(tiny(folder.path(), &["--json", name]).code, Some(0));
    }
    fs::hard_link(&a, &hard).unwrap();
    symlink("a", &link).unwrap();
    let before = fs::read(&a).unwrap();
    for args in [
        &["compare", &a, &b, "--html", &a][..],
        &["report", &a, "--csv", "-o", &link][..],
        &["report", &link, "--csv", "-o", &a][..],
        &["merge", &a, &b, "-o", &hard][..],
    ] {
        let left = run(args);
        assert!(left.code == Some(2) && left.stderr.contains("is read"), "{args:?}: {:?} {}", left.code, left.stderr);
    }
    let left = script(folder.path(), "\"$1\" report - --csv -o a < a");
    assert_eq!(left.code, Some(2), "{}", left.stderr);
    assert_eq!(fs::read(&a).unwrap(), before);
}

#[test]
fn a_name_that_is_not_utf_8_is_written_and_shown_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let name = OsStr::from_bytes(b"n\xff\x1b[31m.json");
    let output = punctual(&TINY).arg("--json").arg(name).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(is_run(&folder.path().join(name)));
    let mut command = punctual(&TINY);
    let output = command.arg("--json").arg(folder.path().join("none").join(name)).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(!output.stderr.contains(&0x1b), "{}", String::from_utf8_lossy(&output.stderr));
}
