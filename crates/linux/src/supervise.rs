//! Runs a program under a scheduling policy and supervises it: `fork(2)`, `exec(3)`, `signalfd(2)`, `pidfd_open(2)`,
//! `waitid(2)`.
//!
//! The program has this process's terminal, process group and streams, and ignores the signals that this process inherited as ignored.
//! Signals from other processes are passed on; signals from the terminal (Ctrl-C, Ctrl-Z, hang-up) reach the program directly, and those
//! of the program to its process group are its own.
//!
//! When the program stops, this process stops by the same signal, so that a shell sees one job. It goes on when the program does, and
//! a SIGCONT that it gets continues the program too. Only after a SIGSTOP to this process itself it needs a SIGCONT of its own.
//!
//! The program is signalled through its pidfd, and never after it was reaped. Before Linux 5.3 the process ID serves, which the kernel does
//! not reuse before then.
//!
//! A stopped process does not learn that its child goes on. So a helper process looks at the program meanwhile, and continues this process
//! when the program runs again or has ended. Without such a helper, this process does not stop.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getpid, kill_process, pidfd_open, setrlimit,
    setsid, waitid,
};

use crate::inherited::{heed_children, ignore_as_at_start};
use crate::sched::Attributes;
use crate::signal::{change_mask, every_signal, read_signalfd, set_of, signalfd};
use crate::{Error, Result, failed};

/// What a program can become.
const CHANGED: WaitIdOptions = WaitIdOptions::EXITED.union(WaitIdOptions::STOPPED).union(WaitIdOptions::CONTINUED);

/// Settings that the program does not inherit from the calling thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// Policy and parameters, which the new process sets just before exec.
    pub attributes: Option<Attributes>,
    /// Lifts `RLIMIT_MEMLOCK`, so that the program may lock its memory. Without the privilege, the limit stays.
    pub may_lock_memory: bool,
}

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The program exited with this status.
    Exited(u8),
    /// This signal ended it.
    Signalled(u8),
    /// Its status is unknown: the kernel did not keep it.
    Unknown,
}

/// A running program.
#[derive(Debug)]
pub struct Supervised {
    pid: Pid,
    /// `None` before Linux 5.3.
    handle: Option<OwnedFd>,
    signals: OwnedFd,
    before: libc::sigset_t,
}

/// Exit status of a process that could not set itself up, as in `timeout(1)` and `env(1)`.
pub const SETUP_FAILED: u8 = 125;

impl Supervised {
    /// Starts the program, behind a gate once its keeper is dropped by another thread. From then on the calling thread's signals are
    /// blocked, and [`Supervised::wait`] takes them.
    ///
    /// # Errors
    /// Those of exec (not found, not executable) and of creating a descriptor.
    pub fn spawn(mut command: Command, settings: Settings, gate: Option<Gate>) -> io::Result<Self> {
        heed_children().map_err(io::Error::other)?;
        let all = every_signal();
        let before = change_mask(libc::SIG_BLOCK, &all).map_err(io::Error::other)?;
        // SAFETY: the closure runs between fork and exec, where only async-signal-safe functions may be called. It makes
        // system calls, allocates nothing and takes no lock.
        unsafe { command.pre_exec(move || prepare(settings, &before, gate.as_ref())) };
        let started =
            signalfd(&all, true).map_err(io::Error::other).and_then(|signals| Ok((signals, command.spawn()?)));
        match started {
            Ok((signals, child)) => Ok(Self::new(&child, signals, before)),
            Err(error) => {
                unblock(&before);
                Err(error)
            }
        }
    }

    fn new(child: &Child, signals: OwnedFd, before: libc::sigset_t) -> Self {
        let pid = Pid::from_child(child);
        // The ID is the program's: it has not been reaped.
        Self { pid, handle: pidfd_open(pid, PidfdFlags::empty()).ok(), signals, before }
    }

    /// The process ID.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Passes signals on until the program has ended.
    pub fn wait(self) -> Result<Ended> {
        self.wait_and(|| {})
    }

    /// The same. `at_end` is called when the program has ended, while `/proc` still has its process.
    pub fn wait_and(self, at_end: impl FnOnce()) -> Result<Ended> {
        let (mut gone, mut at_end) = (false, Some(at_end));
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            // Before the look: a SIGCONT for this process continues a program that is stopped.
            self.pass_signals_on(None)?;
            if matches!(waitid(WaitId::Pid(self.pid), ended), Ok(Some(_))) {
                at_end.take().into_iter().for_each(|at_end| at_end());
            }
            if let Some(ended) = self.look()? {
                return Ok(ended);
            }
            let mut descriptors = vec![PollFd::new(&self.signals, PollFlags::IN)];
            descriptors.extend(self.handle.as_ref().filter(|_| !gone).map(|handle| PollFd::new(handle, PollFlags::IN)));
            // A debugger learns of the end first; the pidfd stays readable until it detaches.
            let look_again = gone.then_some(Timespec { tv_sec: 0, tv_nsec: 10_000_000 });
            match poll(&mut descriptors, look_again.as_ref()) {
                Ok(_) => gone = gone || descriptors.get(1).is_some_and(|handle| !handle.revents().is_empty()),
                // Stopping and continuing this process interrupts the wait.
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed("poll", errno)),
            }
        }
    }

    /// Passes on what has come. SIGCONT is not, if it is the helper's, or if its sender continued the program too. Returns whether SIGCONT
    /// came.
    fn pass_signals_on(&self, helper: Option<Pid>) -> Result<bool> {
        let mut continued = false;
        while let Some(signal) = next(&self.signals)? {
            let (number, sender) = (signal.ssi_signo as i32, Pid::from_raw(signal.ssi_pid as i32));
            // The program gets signals of the kernel directly, and has those that it sent to its process group.
            if signal.ssi_code > 0 || number == libc::SIGCHLD || sender == Some(self.pid) {
                continue;
            }
            if number != libc::SIGCONT {
                self.pass_on(number);
                continue;
            }
            continued = true;
            let is_helpers = helper.is_some() && sender == helper;
            if !is_helpers && (!self.was_continued() || stop_is_pending(self.pid)) {
                self.pass_on(number);
                // What follows from this one is no other sender's doing.
                self.was_continued();
            }
        }
        Ok(continued)
    }

    /// Whether the program was continued since the last look.
    fn was_continued(&self) -> bool {
        matches!(waitid(WaitId::Pid(self.pid), WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG), Ok(Some(_)))
    }

    /// How the program ended, if it did. While it is stopped, this process is stopped too.
    fn look(&self) -> Result<Option<Ended>> {
        let how = CHANGED | WaitIdOptions::NOHANG;
        loop {
            let status = match waitid(WaitId::Pid(self.pid), how) {
                Ok(Some(status)) => status,
                Ok(None) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(Errno::CHILD) => return Ok(Some(Ended::Unknown)),
                Err(errno) => return Err(self.failed("waitid", errno)),
            };
            if let Some(status) = status.exit_status() {
                return Ok(Some(Ended::Exited(status as u8)));
            }
            if let Some(signal) = status.terminating_signal() {
                return Ok(Some(Ended::Signalled(signal as u8)));
            }
            if let Some(signal) = status.stopping_signal() {
                self.stop_too(signal)?;
            }
        }
    }

    /// Stops this process until the program or this process is continued, and then continues the program if it is still stopped.
    fn stop_too(&self, signal: i32) -> Result<()> {
        let Some(helper) = helper(self.pid) else { return Ok(()) };
        let own = Pid::from_raw(helper.id());
        // Stopping discards a SIGCONT that is pending. Another thread of this process may have taken it: then the program shows it.
        if !self.pass_signals_on(own)? && Stat::open(self.pid).is_none_or(|program| program.is_stopped()) {
            stop_by(signal);
        }
        // A later SIGCONT of another process would be one with the helper's, if that still waited.
        self.pass_signals_on(own)?;
        drop(helper);
        self.pass_signals_on(own).map(drop)
    }

    /// Sends the program a signal: `pidfd_send_signal(2)`, or `kill(2)`. The program may have ended, but is not reaped.
    fn pass_on(&self, signal: i32) {
        let sent = self.handle.as_ref().map(|handle| {
            let (info, flags) = (std::ptr::null::<libc::siginfo_t>(), 0);
            // SAFETY: the descriptor is open; without a siginfo_t no memory is read.
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, handle.as_raw_fd(), signal, info, flags) }
        });
        // A seccomp filter may forbid pidfds.
        if sent.is_none_or(|sent| sent == -1 && matches!(Error::last("").errno(), libc::ENOSYS | libc::EPERM)) {
            // SAFETY: takes numbers.
            unsafe { libc::kill(self.pid(), signal) };
        }
    }

    fn failed(&self, call: &'static str, errno: Errno) -> Error {
        failed(call)(errno).on(format!("process {}", self.pid()))
    }
}

impl Drop for Supervised {
    /// Drops the signals that have come since the last look. The key that ended the program was sent to this process too, which
    /// still restores settings.
    fn drop(&mut self) {
        while let Ok(Some(_)) = next(&self.signals) {}
        unblock(&self.before);
    }
}

fn unblock(before: &libc::sigset_t) {
    // With a mask that the kernel gave it cannot fail.
    drop(change_mask(libc::SIG_SETMASK, before));
}

/// `read(2)` of a signalfd. `None`: no signal is pending.
fn next(signals: &OwnedFd) -> Result<Option<libc::signalfd_siginfo>> {
    match read_signalfd(signals.as_fd()) {
        Err(error) if matches!(error.errno(), libc::EAGAIN | libc::EINTR) => Ok(None),
        read => read,
    }
}

/// In the new process: applies the settings, and restores the inherited blocked and ignored signals.
fn prepare(settings: Settings, mask: &libc::sigset_t, gate: Option<&Gate>) -> io::Result<()> {
    if let Some(gate) = gate {
        gate.pass();
    }
    if settings.may_lock_memory {
        // A refusal leaves the limit as it is, which is documented.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
    }
    if let Some(attributes) = &settings.attributes
        && crate::sched::set_own_attributes(attributes).is_err()
    {
        // Rare, since the caller tried the same before. It must not look like a program that cannot be executed.
        let text = b"punctual: the scheduling policy was refused in the new process; the program is not run\n";
        // SAFETY: `text` is readable for its length; _exit does not return.
        unsafe {
            libc::write(2, text.as_ptr().cast(), text.len());
            libc::_exit(i32::from(SETUP_FAILED));
        }
    }
    ignore_as_at_start().map_err(|error| error.source)?;
    unblock(mask);
    Ok(())
}

/// Holds a new process back before it executes its program, until another thread has seen its number: the side of the new process.
///
/// `Command::spawn` returns only after exec, so the thread that opens the gate is not the one that starts the process. If this process
/// ends first, the socket closes and the new process goes on.
#[derive(Debug)]
pub struct Gate {
    end: OwnedFd,
    /// The new process closes its copy by number. While this one is open, no other descriptor has the number.
    keepers: Arc<OwnedFd>,
}

/// The side of this process of a [`Gate`]. Dropping it lets the new process go on.
#[derive(Debug)]
pub struct GateKeeper(Arc<OwnedFd>);

/// `socketpair(2)`: a gate and its keeper.
pub fn gate() -> Result<(Gate, GateKeeper)> {
    let (end, keepers) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(failed("socketpair"))?;
    let keepers = Arc::new(keepers);
    Ok((Gate { end, keepers: Arc::clone(&keepers) }, GateKeeper(keepers)))
}

impl Gate {
    /// In the new process: says its number, and waits. Async-signal-safe.
    fn pass(&self) {
        // SAFETY: the descriptor is this process's copy, which nothing else here uses.
        unsafe { libc::close(self.keepers.as_raw_fd()) };
        let number = getpid().as_raw_nonzero().get().to_ne_bytes();
        // Without a keeper, SIGPIPE would end a program that can do without a watcher.
        let _ = send(&self.end, &number, SendFlags::NOSIGNAL);
        let _ = retry_on_intr(|| rustix::io::read(&self.end, &mut [0_u8; 1]));
    }
}

impl GateKeeper {
    /// Waits for the new process and returns its number. `None`: it was not created.
    #[must_use]
    pub fn process(&self) -> Option<i32> {
        let mut number = [0; 4];
        // The four bytes are sent by one call.
        match retry_on_intr(|| rustix::io::read(&*self.0, &mut number)) {
            Ok(4) => Some(i32::from_ne_bytes(number)),
            _ => None,
        }
    }
}

impl Drop for GateKeeper {
    fn drop(&mut self) {
        // It fails where nobody waits at the gate any more.
        let _ = send(&*self.0, &[0], SendFlags::NOSIGNAL);
    }
}

/// Its name in `ps`.
const NAME: &str = "punctual-resume";
/// From one look to the next: the first, and the longest.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// Starts the helper, which is killed and reaped on drop. `None`: `/proc` does not show both processes, or no process can be created.
fn helper(program: Pid) -> Option<crate::child::Child> {
    let own = getpid();
    let (own_stat, program_stat) = (Stat::open(own)?, Stat::open(program)?);
    // The mounted /proc may be that of another PID namespace.
    if program_stat.read()?.parent != own.as_raw_nonzero().get() {
        return None;
    }
    let started = crate::child::Child::spawn(NAME, move || {
        // What stops the process group must not stop the helper.
        let _ = setsid();
        watch(own, &own_stat, &program_stat)
    });
    started.ok()
}

/// Whether a signal that stops the process has come, and the process has not stopped yet. A SIGCONT now discards it.
fn stop_is_pending(process: Pid) -> bool {
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
fn stop_by(signal: i32) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The signals that this thread blocks.
    fn blocked() -> Vec<i32> {
        let now = change_mask(libc::SIG_BLOCK, &crate::signal::set_of(&[])).unwrap();
        // SAFETY: reads the set.
        (1..=64).filter(|signal| unsafe { libc::sigismember(&raw const now, *signal) } == 1).collect()
    }

    #[test]
    fn the_thread_blocks_what_it_blocked_before() {
        let before = blocked();
        let program = Supervised::spawn(Command::new("true"), Settings::default(), None).unwrap();
        assert!(blocked().len() > before.len());
        assert_eq!((program.wait().unwrap(), blocked()), (Ended::Exited(0), before.clone()));
        assert!(Supervised::spawn(Command::new("/nowhere"), Settings::default(), None).is_err());
        assert_eq!(blocked(), before);
    }

    #[test]
    fn its_number_is_that_of_the_program() {
        let (mut told, tell) = io::pipe().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$"]).stdout(tell);
        let program = Supervised::spawn(shell, Settings::default(), None).unwrap();
        let pid = program.pid();
        assert_eq!(program.wait().unwrap(), Ended::Exited(0));
        let mut said = String::new();
        io::Read::read_to_string(&mut told, &mut said).unwrap();
        assert_eq!(said.trim(), pid.to_string());
    }

    #[test]
    fn a_gate_knows_the_process_that_waits_behind_it() {
        let (gate, keeper) = gate().unwrap();
        std::thread::scope(|scope| {
            let seen = scope.spawn(|| {
                let process = keeper.process();
                drop(keeper);
                process
            });
            let program = Supervised::spawn(Command::new("true"), Settings::default(), Some(gate)).unwrap();
            assert_eq!(seen.join().unwrap(), Some(program.pid()));
            assert_eq!(program.wait().unwrap(), Ended::Exited(0));
        });
    }

    #[test]
    fn a_program_behind_a_gate_without_keeper_runs() {
        let (gate, keeper) = gate().unwrap();
        drop(keeper);
        let program = Supervised::spawn(Command::new("true"), Settings::default(), Some(gate)).unwrap();
        assert_eq!(program.wait().unwrap(), Ended::Exited(0), "SIGPIPE ends it");
    }

    #[test]
    fn behind_a_gate_without_keeper_a_failed_exec_is_told() {
        // The signalfd gets its number.
        let lower = std::fs::File::open("/dev/null").unwrap();
        let (gate, keeper) = gate().unwrap();
        // Command::spawn opens a pipe for the errno of a failed exec. It must not get the keeper's number, which the child closes.
        drop((keeper, lower));
        let missing = Command::new("/nonexistent/program");
        let error = Supervised::spawn(missing, Settings::default(), Some(gate)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "the child closed the pipe for the errno: {error}");
    }

    #[test]
    fn a_stop_is_pending_until_it_is_taken() {
        let mut sleeper = Command::new("sleep");
        sleeper.arg("3600");
        let block = || {
            drop(change_mask(libc::SIG_BLOCK, &crate::signal::set_of(&[libc::SIGTSTP])));
            Ok(())
        };
        // SAFETY: makes one system call between fork and exec.
        unsafe { sleeper.pre_exec(block) };
        let mut sleeper = sleeper.spawn().unwrap();
        let pid = Pid::from_child(&sleeper);
        assert!(!stop_is_pending(pid));
        rustix::process::kill_process(pid, rustix::process::Signal::WINCH).unwrap();
        assert!(!stop_is_pending(pid));
        rustix::process::kill_process(pid, rustix::process::Signal::TSTP).unwrap();
        assert!(stop_is_pending(pid));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn a_signal_beside_the_end_of_the_program_does_not_end_this_process() {
        let program = Supervised::spawn(Command::new("true"), Settings::default(), None).unwrap();
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(program.pid), ended).unwrap();
        // SAFETY: takes a number. The signal is blocked in this thread until `wait` has returned.
        unsafe { libc::raise(libc::SIGINT) };
        assert_eq!(program.wait().unwrap(), Ended::Exited(0));
    }
}
