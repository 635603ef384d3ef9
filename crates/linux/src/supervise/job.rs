//! Job control: this process stops when its program stops, so that a shell sees one job: `kill(2)`, `/proc/PID/stat`.
//!
//! A stopped process does not learn that its child goes on. So a helper process looks at the program meanwhile, and continues this process
//! when the program runs again or has ended. Without such a helper, this process does not stop.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process, setsid};

use crate::child::Child;
use crate::signal::{change_mask, set_of};

/// Its name in `ps`.
const NAME: &str = "punctual-resume";
/// From one look to the next: the first, and the longest.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// The helper. Killed and reaped on drop.
#[derive(Debug)]
pub(super) struct Helper {
    child: Child,
}

impl Helper {
    /// Starts it. `None`: `/proc` does not show both processes, or no process can be created.
    pub(super) fn start(program: Pid) -> Option<Self> {
        let own = getpid();
        let (own_stat, program_stat) = (Stat::open(own)?, Stat::open(program)?);
        // The mounted /proc may be that of another PID namespace.
        if program_stat.read()?.parent != own.as_raw_nonzero().get() {
            return None;
        }
        let child = Child::spawn(NAME, move || {
            // What stops the process group must not stop the helper.
            let _ = setsid();
            watch(own, &own_stat, &program_stat)
        });
        child.ok().map(|child| Self { child })
    }

    pub(super) fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id())
    }
}

/// Whether a signal that stops the process has come, and the process has not stopped yet. A SIGCONT now discards it.
pub(super) fn stop_is_pending(process: Pid) -> bool {
    let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    let bits: u64 = stops.iter().map(|signal| 1 << (signal - 1)).sum();
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero())).unwrap_or_default();
    let pending = status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")));
    pending.filter_map(|set| u64::from_str_radix(set.trim(), 16).ok()).any(|set| set & bits != 0)
}

/// Continues the process whenever it is stopped and its program is not.
fn watch(process: Pid, stat: &Stat, program: &Stat) {
    let mut look = FIRST_LOOK;
    loop {
        std::thread::sleep(look);
        look = (look * 2).min(LONGEST_LOOK);
        if !program.is_stopped() && stat.is_stopped() {
            let _ = kill_process(process, Signal::CONT);
        }
    }
}

/// Stops this process by the signal that stopped the program, until another process continues it.
///
/// The kernel ignores SIGTSTP, SIGTTIN and SIGTTOU where no shell controls the process group (an orphaned one). This process then goes on.
pub(super) fn stop_by(signal: i32) {
    if !matches!(signal, libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) {
        // SAFETY: takes a number. Returns when another process continues this one.
        unsafe { libc::raise(libc::SIGSTOP) };
        return;
    }
    // SAFETY: the default action runs no code of ours; the action and the mask from before are put back. The signal is blocked, so it
    // stops this process where it is unblocked.
    unsafe {
        let action = libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        if let Ok(before) = change_mask(libc::SIG_UNBLOCK, &set_of(&[signal])) {
            drop(change_mask(libc::SIG_SETMASK, &before));
        }
        if action != libc::SIG_ERR {
            libc::signal(signal, action);
        }
    }
}

/// An open `/proc/PID/stat`, which stays that of its process.
#[derive(Debug)]
struct Stat(File);

/// The state and the parent of a process, as its `stat` says.
struct Seen {
    state: u8,
    parent: i32,
}

impl Stat {
    /// `None`: `/proc` does not show this process under this number.
    fn open(pid: Pid) -> Option<Self> {
        let pid = pid.as_raw_nonzero().get();
        let place = if pid == getpid().as_raw_nonzero().get() { "self".to_owned() } else { pid.to_string() };
        let stat = Self(File::open(format!("/proc/{place}/stat")).ok()?);
        let mut start = [0; 16];
        let length = stat.0.read_at(&mut start, 0).ok()?;
        start[..length].starts_with(format!("{pid} ").as_bytes()).then_some(stat)
    }

    /// Allocates nothing. `None`: the process was reaped.
    fn read(&self) -> Option<Seen> {
        let mut text = [0; 512];
        let length = self.0.read_at(&mut text, 0).ok()?;
        // The name may hold spaces and parentheses.
        let end = text[..length].iter().rposition(|byte| *byte == b')')?;
        let mut fields = std::str::from_utf8(&text[end + 1..length]).ok()?.split_ascii_whitespace();
        Some(Seen { state: *fields.next()?.as_bytes().first()?, parent: fields.next()?.parse().ok()? })
    }

    /// T: by a signal; t: by a debugger.
    fn is_stopped(&self) -> bool {
        self.read().is_some_and(|seen| matches!(seen.state, b'T' | b't'))
    }
}
