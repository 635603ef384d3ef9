//! A folder, a command started in it, and a search for leftovers.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use punctual_record::Run;
use rustix::process::{Pid, Signal, kill_process};

use crate::ipc_namespace;
use crate::table::No;

/// Signals end everything within a second; this many times that on a machine that does something else meanwhile.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// A short run that takes longer hangs.
pub(crate) const HANGS: Duration = Duration::from_secs(90);

/// By this a process that the command started is known, whoever became its parent.
const MARK: &str = "PUNCTUAL_FAULT_SCENE";

/// A folder with the state folder, the output, and a set of locks of its own.
pub(crate) struct Scene {
    folder: tempfile::TempDir,
    mark: String,
    before: BTreeSet<String>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let folder = tempfile::tempdir().unwrap();
        for name in ["out", "state"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mark = format!("fault-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Self { folder, mark, before: elsewhere() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of the output, with nothing else in it.
    pub(crate) fn out_folder(&self) -> PathBuf {
        self.path().join("out")
    }

    /// The file that the command writes.
    pub(crate) fn out(&self) -> PathBuf {
        self.out_folder().join("written")
    }

    /// The command with these words, started by another program where one is named: its words come first.
    pub(crate) fn command(&self, starter: &[&str], words: &[&str]) -> Command {
        let punctual = env!("CARGO_BIN_EXE_punctual");
        let (old, new) = saved();
        let words = words.iter().map(|word| match *word {
            "OUT" => self.out().display().to_string(),
            "OLD" => old.display().to_string(),
            "NEW" => new.display().to_string(),
            "TO" => UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string(),
            "PID" => std::process::id().to_string(),
            word => word.to_owned(),
        });
        let mut command = match starter {
            [] => Command::new(punctual),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(punctual);
                command
            }
        };
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env(MARK, &self.mark).env("PUNCTUAL_LOCK_NAMESPACE", &self.mark).env("LC_ALL", "C.UTF-8");
        command.env("XDG_STATE_HOME", self.path().join("state")).env_remove("NO_COLOR").env("TMPDIR", self.path());
        command
    }

    /// Waits until a command of this scene holds the lock of a CPU.
    pub(crate) fn is_locked(&self) {
        let locks = || std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
        punctual_testing::until("a CPU is locked", || locks().lines().any(|line| line.contains(&self.mark)));
    }

    /// Starts it.
    pub(crate) fn start(&self, starter: &[&str], words: &[&str]) -> Result<Started, No> {
        self.start_as(&mut self.command(starter, words))
    }

    /// Starts a command that [`Scene::command`] made.
    pub(crate) fn start_as(&self, command: &mut Command) -> Result<Started, No> {
        match command.spawn() {
            Ok(child) => Ok(Started::new(child)),
            Err(e) => Err(No::Skipped(format!("{}: {e}", command.get_program().display()))),
        }
    }

    /// Runs it to its end.
    pub(crate) fn finish(&self, starter: &[&str], words: &[&str]) -> Result<Left, No> {
        self.start(starter, words)?.left(HANGS)
    }

    /// No process, name, lock, setting or half-written file is left.
    pub(crate) fn nothing_left(&self) -> Result<(), No> {
        let give_up = Instant::now() + SOON;
        loop {
            let left = self.left_now();
            if left.is_empty() {
                break;
            }
            if Instant::now() > give_up {
                self.clear();
                return Err(No::Wrong(format!("left behind: {}", left.join("; "))));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let strange = std::fs::read_dir(self.out_folder()).unwrap().map(|entry| entry.unwrap().file_name());
        let strange: Vec<_> = strange.filter(|name| name != "written").collect();
        if strange.is_empty() { Ok(()) } else { Err(No::Wrong(format!("files left: {strange:?}"))) }
    }

    fn left_now(&self) -> Vec<String> {
        let mut left: Vec<String> = self.processes().iter().map(|pid| format!("process {pid}")).collect();
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
        left.extend(sockets.lines().filter(|line| line.contains(&self.mark)).map(|line| format!("lock {line}")));
        left.extend(elsewhere().symmetric_difference(&self.before).cloned());
        left
    }

    /// The processes that were started here and have not ended.
    fn processes(&self) -> Vec<i32> {
        let pids = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|pid: &i32| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|words| words.split(|byte| *byte == 0).any(|word| word.ends_with(self.mark.as_bytes())))
        })
        .collect()
    }

    /// Ends what should have ended, so that the next look is not spoilt.
    fn clear(&self) {
        for pid in self.processes().into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Ends the program that the command was to run, whose streams it has. While a process executes a program, its environment is empty,
    /// so one look is not enough.
    pub(crate) fn end_program(&self, command: &Started) {
        punctual_testing::until("the program has ended", || {
            self.clear();
            command.out.iter().chain(&command.err).all(JoinHandle::is_finished)
        });
    }

    /// How many runs that reached no file are in the state folder. All there are whole.
    pub(crate) fn kept_runs(&self) -> Result<usize, No> {
        let mut folders = vec![self.path().join("state")];
        let mut runs = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    folders.push(entry);
                } else {
                    let run = Run::from_json(std::fs::File::open(&entry).unwrap());
                    run.map_err(|e| No::Wrong(format!("half a run was kept: {e}")))?;
                    runs += usize::from(entry.file_name().is_some_and(|name| name != "last.json"));
                }
            }
        }
        Ok(runs)
    }

    /// The run in the output. `None`: there is no file.
    pub(crate) fn written_run(&self) -> Result<Option<Run>, No> {
        match std::fs::File::open(self.out()) {
            Ok(file) => Run::from_json(file).map(Some).map_err(|e| No::Wrong(format!("half a run was written: {e}"))),
            Err(_) => Ok(None),
        }
    }
}

#[test]
fn what_is_left_is_seen() {
    let _alone = punctual_testing::alone_on_this_machine();
    let scene = Scene::new();
    scene.nothing_left().unwrap();
    let started = scene.start(&["sh", "-c", "exec sleep 600", "sh"], &[]).unwrap();
    // It is known by its environment, which it has from exec on.
    let process = format!("process {}", started.child.id());
    punctual_testing::until("the process is seen", || scene.left_now().contains(&process));
    drop(started);
    let lock = punctual_linux::named_lock::try_take(&format!("punctual/{}/cpu0", scene.mark)).unwrap();
    assert!(scene.left_now().iter().any(|left| left.starts_with("lock ")), "{:?}", scene.left_now());
    drop(lock);
    scene.nothing_left().unwrap();
    std::fs::write(scene.out_folder().join(".punctual-x"), "").unwrap();
    assert!(matches!(scene.nothing_left(), Err(No::Wrong(_))));
}

/// What could be left outside of the folder.
fn elsewhere() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in ["/dev/shm", "/dev/mqueue"].iter().filter(|_| ipc_namespace::has_own_objects()) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        names.extend(entries.map(|entry| format!("{folder}/{}", entry.file_name().display())));
    }
    for table in ["msg", "sem", "shm"].iter().filter(|_| ipc_namespace::has_own_objects()) {
        let text = std::fs::read_to_string(format!("/proc/sysvipc/{table}")).unwrap_or_default();
        let ids = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
        names.extend(ids.map(|id| format!("System V {table} {id}")));
    }
    for policy in std::fs::read_dir("/sys/devices/system/cpu/cpufreq").into_iter().flatten().flatten() {
        let file = policy.path().join("scaling_governor");
        names.extend(std::fs::read_to_string(&file).map(|governor| format!("{} {governor}", file.display())));
    }
    names
}

/// Two saved runs of one kind, made once.
fn saved() -> &'static (PathBuf, PathBuf) {
    static SAVED: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    SAVED.get_or_init(|| {
        let folder = tempfile::Builder::new().disable_cleanup(true).tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let [old, new] = ["old.json", "new.json"].map(|name| {
            let path = folder.path().join(name);
            let status = Command::new(env!("CARGO_BIN_EXE_punctual"))
                .args([
                    "wait",
                    "nanosleep",
                    "--for",
                    "100us",
                    "--samples",
                    "1200",
                    "--rounds",
                    "12",
                    "--quiet",
                    "--json",
                ])
                .arg(&path)
                .env("PUNCTUAL_LOCK_NAMESPACE", "")
                .stdout(Stdio::null())
                .status();
            assert!(status.unwrap().success());
            path
        });
        (old, new)
    })
}

/// What a command says on a machine that left it no time.
const NO_TIME: [&str; 3] = ["the machine left no time", "its announced time was over", "did not pay for one"];

/// What a command left that has ended.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Left {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Fails unless this is so.
    pub(crate) fn must(&self, holds: bool, what: &str) -> Result<(), No> {
        if holds {
            return Ok(());
        }
        let said: String = self.stderr.chars().take(600).collect();
        let what = format!("{what}: {}; {said}", self.status);
        let busy = NO_TIME.iter().any(|words| self.stderr.contains(words));
        Err(if busy { No::Late(what) } else { No::Wrong(what) })
    }
}

/// A command that runs; killed when it is dropped.
pub(crate) struct Started {
    child: Child,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

impl Started {
    fn new(mut child: Child) -> Self {
        let (out, err) = (child.stdout.take().map(reader), child.stderr.take().map(reader));
        Self { child, out, err }
    }

    /// Waits a little, and until it catches, blocks or ignores SIGTERM, or has ended.
    pub(crate) fn heeds_signals(&mut self) {
        std::thread::sleep(Duration::from_millis(400));
        let file = format!("/proc/{}/status", self.child.id());
        let mask = |status: &str, name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
            line.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0)
        };
        punctual_testing::until("it heeds SIGTERM, or ended", || {
            let status = std::fs::read_to_string(&file).unwrap_or_default();
            let heeded = mask(&status, "SigCgt") | mask(&status, "SigBlk") | mask(&status, "SigIgn");
            heeded >> 14 & 1 == 1 || self.child.try_wait().unwrap().is_some()
        });
    }

    /// Sends it a signal.
    pub(crate) fn send(&self, signal: i32) {
        // It may have ended already.
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }

    /// Whether it ends in time.
    pub(crate) fn ends_within(&mut self, time: Duration) -> bool {
        let give_up = Instant::now() + time;
        while self.child.try_wait().unwrap().is_none() {
            if Instant::now() > give_up {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Whether this signal ends it in time.
    pub(crate) fn ended_by(&mut self, signal: i32, time: Duration) -> bool {
        self.ends_within(time) && self.child.wait().unwrap().signal() == Some(signal)
    }

    /// What it leaves, if it ends in time.
    pub(crate) fn left(mut self, time: Duration) -> Result<Left, No> {
        if !self.ends_within(time) {
            return Err(No::Late(format!("it did not end within {time:?}")));
        }
        let status = self.child.wait().unwrap();
        let [stdout, stderr] = [self.out.take(), self.err.take()]
            .map(|thread| thread.map(|thread| thread.join().unwrap()).unwrap_or_default());
        Ok(Left { status, stdout, stderr })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reader(mut stream: impl std::io::Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
