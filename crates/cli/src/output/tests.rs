//! Another user exchanges what stands in his folder while this one writes into it: nothing outside of the folder may change.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_testing::{NOBODY, needs_root};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::thread::set_thread_uid;

use super::place::{self, Place};
use super::{Output, Target};

const SECRET: &str = "of root alone";
/// Writes tried at least, and until each outcome was seen.
const TRIES: u32 = 300;

/// A folder of root with files that nobody else may write, and one of another user.
struct Folders {
    root: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        let folders = Self { root: tempfile::tempdir().unwrap() };
        fs::set_permissions(folders.root.path(), Permissions::from_mode(0o755)).unwrap();
        for (name, owner) in [("private", 0), ("shared", NOBODY)] {
            fs::create_dir(folders.path(name)).unwrap();
            chown(folders.path(name), Some(owner), Some(owner)).unwrap();
        }
        folders.write("private/run.json", SECRET);
        folders
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), Permissions::from_mode(0o600)).unwrap();
    }

    /// A link in the other user's folder that belongs to `owner`.
    fn link(&self, name: &str, to: &str, owner: u32) {
        let name = self.path("shared").join(name);
        symlink(self.path(to), &name).unwrap();
        lchown(&name, Some(owner), Some(owner)).unwrap();
    }

    /// Writes `name` of the other user's folder.
    fn output(&self, name: &str) -> anyhow::Result<()> {
        let target = Target::File(self.path("shared").join(name));
        Output::open("--json", &target)?.write(|out| {
            out.extend_from_slice(b"written");
            Ok(())
        })
    }

    #[track_caller]
    fn root_keeps_its_file(&self) {
        let private = self.path("private");
        assert_eq!(fs::read_to_string(private.join("run.json")).unwrap(), SECRET);
        assert_eq!(private.read_dir().unwrap().count(), 1, "nothing else was created there");
    }

    /// Does `work` while the other user exchanges `one` and `other`; holding the lock stops him.
    fn exchanging(&self, one: &str, other: &str, work: impl FnOnce(&Mutex<()>)) {
        let [one, other] = [one, other].map(|name| self.path("shared").join(name));
        let (over, still) = (AtomicBool::new(false), Mutex::new(()));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The user of this thread alone.
                set_thread_uid(rustix::fs::Uid::from_raw(NOBODY)).unwrap();
                while !over.load(Ordering::Relaxed) {
                    let _moves = still.lock();
                    renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let _end = Ended(&over);
            work(&still);
        });
    }

    /// Writes `name` meanwhile, until a write succeeded and one was refused. `renew` makes again what a write replaced.
    fn race(&self, name: &str, one: &str, other: &str, renew: impl Fn()) {
        self.exchanging(one, other, |still| {
            let (mut written, mut refused) = (0, 0);
            while written == 0 || refused == 0 || written + refused < TRIES {
                match self.output(name) {
                    Ok(()) => written += 1,
                    Err(_) => refused += 1,
                }
                self.root_keeps_its_file();
                let _nothing_moves = still.lock();
                renew();
            }
        });
    }
}

/// Ends the other thread, even if this one panics.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_link_of_another_user_is_followed() {
    if !needs_root("links of another user") {
        return;
    }
    let folders = Folders::new();
    folders.link("file", "private/run.json", NOBODY);
    folders.link("new", "private/new", NOBODY);
    folders.link("folder", "private", NOBODY);
    folders.link("device", "/dev/null", NOBODY);
    for name in ["file", "new", "folder/run.json", "folder/new", "folder/../private/new", "device"] {
        let refused = folders.output(name).unwrap_err().to_string();
        assert!(refused.contains(&format!("is a link of user {NOBODY}")), "{name}: {refused}");
        folders.root_keeps_its_file();
    }
    fs::hard_link(folders.path("private/run.json"), folders.path("shared/hard")).unwrap();
    let refused = folders.output("hard").unwrap_err().to_string();
    assert!(refused.contains("other hard links"), "{refused}");
    folders.root_keeps_its_file();
    folders.link("of-root", "private/run.json", 0);
    folders.output("of-root").unwrap();
    assert_eq!(fs::read_to_string(folders.path("private/run.json")).unwrap(), "written");
}

#[test]
fn what_is_exchanged_meanwhile_is_not_followed() {
    if !needs_root("another user beside this one") {
        return;
    }
    let folders = Folders::new();
    let (secret, [plain, link, single, hard]) = (
        folders.path("private/run.json"),
        ["plain", "link", "single", "hard"].map(|name| folders.path("shared").join(name)),
    );
    fs::write(&plain, "").unwrap();
    folders.link("link", "private/run.json", NOBODY);
    folders.race("plain", "plain", "link", || {
        if !plain.is_symlink() && !link.is_symlink() {
            fs::remove_file(&link).unwrap();
            folders.link("link", "private/run.json", NOBODY);
        }
    });
    fs::write(single, "").unwrap();
    fs::hard_link(&secret, &hard).unwrap();
    folders.race("single", "single", "hard", || {
        if secret.metadata().unwrap().nlink() == 1 {
            fs::remove_file(&hard).unwrap();
            fs::hard_link(&secret, &hard).unwrap();
        }
    });
    fs::create_dir(folders.path("shared/sub")).unwrap();
    folders.link("to-folder", "private", NOBODY);
    folders.race("sub/run.json", "sub", "to-folder", || ());
    folders.race("sub/new.json", "sub", "to-folder", || ());
}

/// Between the check of a link and its reading lies a microsecond. So names are only looked up here, many times.
#[test]
fn the_link_that_is_judged_is_the_one_that_is_read() {
    if !needs_root("another user beside this one") {
        return;
    }
    let folders = Folders::new();
    folders.write("allowed", "");
    folders.link("of-root", "allowed", 0);
    folders.link("of-nobody", "private/run.json", NOBODY);
    let (name, private) = (folders.path("shared/of-root"), folders.path("private").metadata().unwrap());
    folders.exchanging("of-root", "of-nobody", |_| {
        for _ in 0..100 * TRIES {
            if let Ok(Place::Named(found)) = place::find(&name) {
                assert_ne!(rustix::fs::fstat(&found.folder).unwrap().st_ino, private.ino());
            }
        }
    });
}
