//! Privileges of the command's file: a plain user sees and changes his own processes only.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use punctual_testing::{NOBODY, needs_root, open_copy, skip};
use rustix::fs::{XattrFlags, setxattr};
use tempfile::TempDir;

use crate::support::Left;

/// CAP_IPC_LOCK, CAP_SYS_NICE, CAP_PERFMON (linux/capability.h).
const HELPFUL: u64 = 1 << 14 | 1 << 23 | 1 << 38;
/// Also CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_KILL, CAP_SYS_PTRACE and CAP_SYS_ADMIN.
const HARMFUL: u64 = HELPFUL | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 19 | 1 << 21;

/// The command as an administrator may install it.
struct Installed {
    folder: TempDir,
    command: PathBuf,
}

impl Installed {
    /// With these file capabilities, permitted and effective. `None`: they have no effect here, or this is not root.
    fn with(capabilities: u64) -> Option<Self> {
        if !needs_root("setting file capabilities") {
            return None;
        }
        let (folder, command) = open_copy(Path::new(env!("CARGO_BIN_EXE_punctual")));
        // struct vfs_cap_data, revision 2, with the effective bit.
        let words = [0x0200_0001, capabilities as u32, 0, (capabilities >> 32) as u32, 0];
        let value: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        if let Err(error) = setxattr(&command, "security.capability", &value, XattrFlags::empty()) {
            skip(&format!("the file system of {} has no file capabilities: {error}", command.display()));
            return None;
        }
        let installed = Self { folder, command };
        let said = installed.run(&["about"]).stdout;
        if !said.contains("by the file of the command") {
            skip(&format!("file capabilities have no effect (nosuid, a lacking bounding set): {said}"));
            return None;
        }
        Some(installed)
    }

    /// Runs it as a plain user.
    fn run(&self, args: &[&str]) -> Left {
        let mut command = Command::new(&self.command);
        command.args(args).env("PUNCTUAL_LOCK_NAMESPACE", "").env("XDG_STATE_HOME", "/nowhere").current_dir("/");
        command.uid(NOBODY).gid(NOBODY).output().expect("the command starts").into()
    }
}

/// A program that sleeps until the test is over.
struct Sleeper(Child);

impl Sleeper {
    fn of_user(user: u32) -> Self {
        Self(Command::new("sleep").arg("1000").uid(user).gid(user).spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn processes_of_others_are_neither_watched_nor_changed() {
    for capabilities in [HELPFUL, HARMFUL] {
        let Some(installed) = Installed::with(capabilities) else { return };
        let (others, own) = (Sleeper::of_user(0), Sleeper::of_user(NOBODY));
        for more in [&[][..], &["--advise"], &["--thread", "sleep"]] {
            let watch = |pid: &str| {
                let args = [&["why", "--no-keep", "--duration", "100ms", "--pid", pid], more].concat();
                installed.run(&args)
            };
            let refused = watch(&others.pid());
            assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{more:?}: {}", refused.stderr);
            assert!(refused.stderr.contains("belongs to another user"), "{more:?}: {}", refused.stderr);
            let watched = watch(&own.pid());
            assert_eq!(watched.code, Some(0), "{more:?}: {}", watched.stderr);
        }
    }
}

#[test]
fn files_of_others_stay_closed_and_programs_get_no_privilege() {
    let Some(installed) = Installed::with(HARMFUL) else { return };
    let secret = installed.folder.path().join("secret");
    std::fs::write(&secret, "{}").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let secret = secret.to_str().unwrap();
    let read = installed.run(&["report", secret]);
    assert!(read.code != Some(0) && read.stderr.contains("denied"), "{}", read.stderr);
    let written = installed.run(&["wait", "usleep", "--samples", "100", "--no-keep", "--json", secret]);
    assert!(written.code != Some(0) && written.stderr.contains("denied"), "{}", written.stderr);
    assert_eq!(std::fs::read_to_string(secret).unwrap(), "{}");
    let script =
        ["run", "--policy", "fifo:1", "--require", "--", "grep", "-E", "^Cap(Prm|Eff|Amb)", "/proc/self/status"];
    let ran = installed.run(&script);
    if ran.stderr.contains("a condition was refused") {
        return skip("SCHED_FIFO is refused even with CAP_SYS_NICE");
    }
    let none = ["CapPrm", "CapEff", "CapAmb"].map(|set| format!("{set}:\t0000000000000000\n")).concat();
    assert_eq!((ran.code, ran.stdout), (Some(0), none), "{}", ran.stderr);
}

#[test]
fn a_set_user_id_command_is_refused() {
    if !needs_root("making a set-user-ID program") {
        return;
    }
    let (folder, command) = open_copy(Path::new(env!("CARGO_BIN_EXE_punctual")));
    std::fs::set_permissions(&command, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let said = Installed { folder, command }.run(&["about"]);
    if said.code == Some(0) && !said.stdout.contains("user     0,") {
        return skip("set-user-ID has no effect (nosuid)");
    }
    assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""), "{}", said.stderr);
    assert!(said.stderr.contains("the command is set-user-ID or set-group-ID"), "{}", said.stderr);
}
