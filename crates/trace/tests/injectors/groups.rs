//! A control group of the test, in the hierarchy of the controller `cpu`, of version 1 or 2.

use std::fs::{create_dir, read_to_string, remove_dir, write};
use std::path::{Path, PathBuf};

use punctual_testing::Lack;

/// Where distributions mount it.
const ROOTS: [&str; 3] = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];

/// Version 1 has them.
const SHARES: &str = "/sys/fs/cgroup/cpu/cpu.shares";
const RT_LIMIT: &str = "/sys/fs/cgroup/cpu/cpu.rt_runtime_us";

/// What the group is given, by version: files and values.
pub(crate) struct Settings {
    pub(crate) version_1: &'static [(&'static str, &'static str)],
    /// Empty where version 2 has nothing like it.
    pub(crate) version_2: &'static [(&'static str, &'static str)],
}

/// The group; removed on drop, its threads go back.
pub(crate) struct Group {
    folder: PathBuf,
    root: PathBuf,
    /// The file of its threads.
    threads: &'static str,
    /// The controller was given to the groups of version 2 by this test.
    given: bool,
}

impl Group {
    /// A new group with these settings; None where the machine has no such hierarchy, which is said.
    pub(crate) fn with(settings: &Settings) -> Option<Self> {
        let has = |root: &Path, name: &str, text: &str| {
            read_to_string(root.join(name)).is_ok_and(|all| all.split_whitespace().any(|word| word == text))
        };
        for root in ROOTS.map(PathBuf::from) {
            let one = root.join("cpu.shares").exists();
            let two = !settings.version_2.is_empty() && has(&root, "cgroup.controllers", "cpu");
            if !one && !two {
                continue;
            }
            let given = two && !has(&root, "cgroup.subtree_control", "cpu");
            if given {
                write(root.join("cgroup.subtree_control"), "+cpu").unwrap();
            }
            let folder = root.join(format!("punctual-test-{}", std::process::id()));
            create_dir(&folder).unwrap();
            let group = Self { folder, root, threads: if one { "tasks" } else { "cgroup.threads" }, given };
            let settings = if one { settings.version_1 } else { settings.version_2 };
            // Version 2 moves single threads only to such groups.
            for (name, value) in two.then_some(&("cgroup.type", "threaded")).into_iter().chain(settings) {
                let file = group.folder.join(name);
                if let Err(e) = write(&file, value) {
                    // A kernel may be built without it. Groups beside it may have the bandwidth of the machine.
                    punctual_testing::skip(&format!("{value} to {}: {e}", file.display()));
                    return None;
                }
            }
            return Some(group);
        }
        punctual_testing::lacks(Lack::File(if settings.version_2.is_empty() { RT_LIMIT } else { SHARES }));
        None
    }

    /// Puts the calling thread into the group.
    pub(crate) fn join(&self) {
        self.enter(&self.folder, &punctual_linux::sched::current_thread_id().to_string()).unwrap();
    }

    fn enter(&self, folder: &Path, thread: &str) -> std::io::Result<()> {
        write(folder.join(self.threads), thread)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for thread in read_to_string(self.folder.join(self.threads)).unwrap_or_default().lines() {
            // It may have ended since.
            let _ = self.enter(&self.root, thread);
        }
        // The kernel may still count a thread that just ended.
        for _ in 0..100 {
            if remove_dir(&self.folder).is_ok() {
                if self.given {
                    write(self.root.join("cgroup.subtree_control"), "-cpu").unwrap();
                }
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        eprintln!("{}: not removed", self.folder.display());
    }
}
