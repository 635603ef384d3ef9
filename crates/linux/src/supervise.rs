//! Running a program under a scheduling policy of its own, and standing aside while it runs: `fork(2)`, `exec(3)`,
//! `sigwaitinfo(2)`, `waitpid(2)`.
//!
//! The program has this process's terminal, process group and streams. Signals that somebody sends to this process are passed on; those that
//! the terminal sends (Ctrl-C, Ctrl-Z, hang-up) reach the program by themselves. When the program is stopped, this process stops too, so that
//! a shell sees one job.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use crate::sched::Attributes;
use crate::{Result, check};

/// What the program gets that it does not inherit from the calling thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// Policy and parameters, set by the program's process itself just before it becomes the program.
    pub attributes: Option<Attributes>,
    /// `RLIMIT_MEMLOCK` without limit, so that the program may lock its memory. Where that is not allowed the limit stays.
    pub may_lock_memory: bool,
}

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Exited(u8),
    /// By this signal.
    Signalled(u8),
}

/// A program that runs.
#[derive(Debug)]
pub struct Supervised {
    child: Child,
    before: libc::sigset_t,
}

/// Status of a process that could not set itself up, as `timeout(1)` and `env(1)` have it.
pub const SETUP_FAILED: u8 = 125;

impl Supervised {
    /// Starts the program. From now on the calling thread's signals are blocked, and taken in [`Supervised::wait`].
    ///
    /// Errors are those of exec: not found, not executable.
    pub fn spawn(mut command: Command, settings: Settings) -> io::Result<Self> {
        let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: both sets are writable; `all` is filled before it is used, `before` is filled by pthread_sigmask.
        let before = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
            before.assume_init()
        };
        // SAFETY: the closure runs between fork and exec, where only async-signal-safe functions may be called: it makes
        // system calls, allocates nothing and takes no lock.
        unsafe { command.pre_exec(move || prepare(settings, &before)) };
        match command.spawn() {
            Ok(child) => Ok(Self { child, before }),
            Err(error) => {
                unblock(&before);
                Err(error)
            }
        }
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Passes signals on until the program has ended.
    pub fn wait(self) -> Result<Ended> {
        let pid = self.pid();
        let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: `all` is writable.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            // SAFETY: `all` was filled, `info` is writable.
            let signal = unsafe { libc::sigwaitinfo(all.as_ptr(), info.as_mut_ptr()) };
            if signal == -1 {
                // Stopping and continuing this process interrupts the wait.
                continue;
            }
            // SAFETY: zeroed is a valid siginfo_t, and the call filled it; si_code is valid for every signal.
            let from_somebody = unsafe { info.assume_init_ref().si_code } <= 0;
            match signal {
                libc::SIGCHLD => {
                    if let Some(ended) = reap(pid)? {
                        return Ok(ended);
                    }
                }
                signal if from_somebody => pass_on(pid, signal),
                _ => {}
            }
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        unblock(&self.before);
    }
}

fn unblock(before: &libc::sigset_t) {
    // SAFETY: `before` is a mask that the kernel gave; setting it cannot fail.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}

/// In the new process: the signal mask that this process was started with, and the settings.
fn prepare(settings: Settings, mask: &libc::sigset_t) -> io::Result<()> {
    if settings.may_lock_memory {
        let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: `limit` is readable. A refusal leaves the limit as it is, which is documented.
        unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) };
    }
    if let Some(attributes) = settings.attributes
        && crate::sched::set_own_attributes(attributes).is_err()
    {
        // The caller tried the same before, so this is rare; it must not be taken for a program that cannot be executed.
        let text = b"punctual: the scheduling policy was refused to the new process; nothing was run\n";
        // SAFETY: `text` is readable for its length; _exit does not return.
        unsafe {
            libc::write(2, text.as_ptr().cast(), text.len());
            libc::_exit(i32::from(SETUP_FAILED));
        }
    }
    // SAFETY: `mask` is a mask that the kernel gave.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
    Ok(())
}

/// What became of the program, if it ended. One that was stopped stops this process too.
fn reap(pid: i32) -> Result<Option<Ended>> {
    let mut status = 0;
    // SAFETY: `status` is writable.
    let returned = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG | libc::WUNTRACED) };
    if check("waitpid", returned)? == 0 {
        return Ok(None);
    }
    if libc::WIFEXITED(status) {
        return Ok(Some(Ended::Exited(libc::WEXITSTATUS(status) as u8)));
    }
    if libc::WIFSIGNALED(status) {
        return Ok(Some(Ended::Signalled(libc::WTERMSIG(status) as u8)));
    }
    if libc::WIFSTOPPED(status) {
        // SAFETY: takes numbers. Returns when somebody continues this process.
        unsafe { libc::raise(libc::SIGSTOP) };
        pass_on(pid, libc::SIGCONT);
    }
    Ok(None)
}

fn pass_on(pid: i32, signal: i32) {
    // SAFETY: takes numbers. The program has not been waited for, so the number is its own; it may have ended all the same.
    unsafe { libc::kill(pid, signal) };
}
