//! A control group of the test, in version 1's hierarchy of the controller `cpu`.

use std::fs::{create_dir, read_to_string, remove_dir, write};
use std::path::{Path, PathBuf};

/// Where distributions mount it.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];

/// The group; removed on drop, its threads go back.
pub(crate) struct Group {
    folder: PathBuf,
    root: PathBuf,
}

impl Group {
    /// A new group with these settings; None where the machine has no such hierarchy, which is said.
    pub(crate) fn with(settings: &[(&str, &str)]) -> Option<Self> {
        let root = ROOTS.iter().map(PathBuf::from).find(|root| root.join("cpu.cfs_quota_us").exists());
        let Some(root) = root else {
            punctual_testing::lacks("the controller cpu of cgroup version 1");
            return None;
        };
        let folder = root.join(format!("punctual-test-{}", std::process::id()));
        create_dir(&folder).unwrap();
        let group = Self { folder, root };
        for (name, value) in settings {
            let file = group.folder.join(name);
            if !file.exists() {
                punctual_testing::lacks(&format!("{name} of cgroup version 1"));
                return None;
            }
            write(&file, value).unwrap_or_else(|e| panic!("{value} to {}: {e}", file.display()));
        }
        Some(group)
    }

    /// Puts the calling thread into the group.
    pub(crate) fn join(&self) {
        enter(&self.folder, &punctual_linux::sched::current_thread_id().to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for thread in read_to_string(self.folder.join("tasks")).unwrap_or_default().lines() {
            // It may have ended since.
            let _ = enter(&self.root, thread);
        }
        // The kernel may still count a thread that just ended.
        for _ in 0..100 {
            if remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        eprintln!("{}: not removed", self.folder.display());
    }
}

fn enter(folder: &Path, thread: &str) -> std::io::Result<()> {
    write(folder.join("tasks"), thread)
}
