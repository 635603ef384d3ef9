//! Child processes that run a closure and never outlive their parent: `fork(2)`, `prctl(PR_SET_PDEATHSIG)`, `pidfd_open(2)`,
//! `waitid(2)`.
//!
//! [`Child::spawn`] takes a closure. The [`Child`] is killed and reaped on drop. The kernel sends it SIGKILL as soon as the *thread*
//! that spawned it ends, for any reason. A child whose parent ended before it began does not run the closure.
//!
//! A child is a copy of the process with only the calling thread. Locks that other threads held stay locked. So the closure must not wait
//! for other threads, take their locks (such as standard output's), or start threads. It may allocate: glibc and musl hand over a
//! consistent allocator.
//!
//! [`ParentDeath`] waits in a child for the end of the thread that forked it. A pidfd reports the end of the whole *process*, which does not end while one of its threads cannot run. The death signal reports the
//! end of the forking *thread*.
//!
//! [`ends_with_this_thread`] lets another program end with the thread that starts it.
//!
//! [`uninterrupted`] makes a few system calls that no signal to this process interrupts, not even SIGKILL. A child process in its own session runs the closure with all signals blocked. The death of this process, of its process group or of its
//! terminal does not affect the child. Only SIGKILL to the child itself, or the end of its container or machine, does.
//!
//! All children of this process must end by a deadline on `CLOCK_MONOTONIC`, in shared memory. The process sets it. Children that run a loop check it and end by themselves, even if the process died.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, setsid, waitid};

use crate::clock::{Clock, cpu_time_of_process_ns, now_ns};
use crate::futex::{self, Scope};
use crate::memory::Shared;
use crate::signal::{block_all_signals_for_this_thread, change_mask, every_signal, set_of};
use crate::{Error, Result, check, failed};

/// Exit status of a child whose closure panicked, as of a Rust program.
pub const PANICKED: i32 = 101;
/// Exit status of a child whose parent had ended, or that could not bind its life to the parent's.
const ORPHANED: i32 = 102;

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The closure returned (0) or panicked ([`PANICKED`]), or the child called exit.
    Exited(i32),
    /// A signal killed it.
    Killed(i32),
    /// Ended with an unknown status: the process ignores SIGCHLD, so the kernel reaps its children.
    Gone,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "ended with status {status}"),
            Self::Killed(signal) => write!(f, "was killed by signal {signal}"),
            Self::Gone => f.write_str("is gone"),
        }
    }
}

/// A child process. Killed and reaped on drop.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    /// `None` before Linux 5.3; the pid then names the child, which is safe until it is reaped.
    handle: Option<OwnedFd>,
    ended: Option<Ended>,
}

impl Child {
    /// `fork(2)`: runs `work` in a child process. Returns once the child's life is bound to the calling thread's.
    ///
    /// `ps` shows `name`, at most 15 bytes. The child ignores SIGINT and SIGHUP, which a terminal sends to its parent too. All other
    /// signals have their default action, and none is blocked. Policy, affinity, nice value and timer slack are those of the calling
    /// thread. When `work` returns, the child ends with status 0, without running `atexit(3)` handlers.
    ///
    /// # Errors
    /// EAGAIN at a limit of processes (RLIMIT_NPROC, pids.max of the cgroup, threads-max); ENOMEM.
    pub fn spawn(name: &str, work: impl FnOnce() + 'static) -> Result<Self> {
        let bound = Shared::<AtomicU32>::new()?;
        let parent = rustix::process::getpid();
        // None may reach the child while it has the parent's handlers.
        let signals = block_all_signals_for_this_thread()?;
        // SAFETY: the child runs on a copy of the memory in which the other threads never run again. Any of them might legally
        // do that. It ends below by `_exit`, so that nothing of the parent's stack is unwound twice. It starts no thread
        // itself. The closure owns what it uses ('static), so nothing of it lies on another thread's stack.
        match check("fork", unsafe { libc::fork() })? {
            0 => live(name, parent, &bound, work),
            pid => {
                drop(signals);
                let pid = Pid::from_raw(pid).ok_or_else(|| Error::from_errno("fork", libc::EINVAL))?;
                let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok();
                let mut child = Self { pid, handle, ended: None };
                replace_id(0, child.id());
                child.wait_until_bound(&bound)?;
                Ok(child)
            }
        }
    }

    /// The process ID.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// `waitid(2)` with WNOHANG: how the child ended; `None` if it runs.
    pub fn ended(&mut self) -> Result<Option<Ended>> {
        self.reap(WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
    }

    /// `waitid(2)`: waits until the child ends and returns how. An interruption after a request to stop ([`crate::stop`]) kills it.
    pub fn wait(&mut self) -> Result<Ended> {
        loop {
            if let Some(ended) = self.reap(WaitIdOptions::EXITED)? {
                return Ok(ended);
            }
            if crate::stop::requested() {
                return self.kill();
            }
        }
    }

    /// `pidfd_send_signal(2)` or `kill(2)` with SIGKILL, then `waitid(2)`. No effect on a child that has ended.
    ///
    /// Frees the child from its CPU and policy first ([`crate::sched`]). Otherwise it could not die while a thread of higher priority
    /// held the CPU.
    pub fn kill(&mut self) -> Result<Ended> {
        if let Some(ended) = self.ended()? {
            return Ok(ended);
        }
        crate::sched::free_process(self.id(), None);
        let sent = match &self.handle {
            Some(handle) => rustix::process::pidfd_send_signal(handle, Signal::KILL),
            None => rustix::process::kill_process(self.pid, Signal::KILL),
        };
        match sent {
            Ok(()) | Err(rustix::io::Errno::SRCH) => self.wait_for_its_end(),
            Err(errno) => Err(self.failed("pidfd_send_signal", errno)),
        }
    }

    /// `clock_gettime(2)` on its CPU clock: the CPU time of all its threads in ns. EINVAL once it is reaped.
    pub fn cpu_ns(&self) -> Result<i64> {
        cpu_time_of_process_ns(self.id())
    }

    fn wait_for_its_end(&mut self) -> Result<Ended> {
        loop {
            if let Some(ended) = self.reap(WaitIdOptions::EXITED)? {
                return Ok(ended);
            }
        }
    }

    fn wait_until_bound(&mut self, bound: &AtomicU32) -> Result<()> {
        while bound.load(Ordering::Acquire) == 0 {
            if let Some(ended) = self.ended()? {
                return Err(Error::from_errno("fork", libc::ECHILD).on(format!("child that {ended} before it began")));
            }
            if crate::stop::requested() {
                self.kill()?;
                return Err(
                    Error::from_errno("fork", libc::EINTR).on("child that had not begun when a stop was requested")
                );
            }
            // A child killed before it is bound wakes no waiter: check again now and then.
            let look_again = now_ns(Clock::Monotonic) + 10_000_000;
            futex::wait(bound, 0, Scope::Shared, Some(look_again))?;
        }
        Ok(())
    }

    fn reap(&mut self, how: WaitIdOptions) -> Result<Option<Ended>> {
        if self.ended.is_some() {
            return Ok(self.ended);
        }
        self.ended = match rustix::process::waitid(WaitId::Pid(self.pid), how) {
            Ok(status) => status.map(|s| ended_of(&s)),
            Err(rustix::io::Errno::CHILD) => Some(Ended::Gone),
            Err(rustix::io::Errno::INTR) => None,
            Err(errno) => return Err(self.failed("waitid", errno)),
        };
        if self.ended.is_some() {
            replace_id(self.id(), 0);
        }
        Ok(self.ended)
    }

    fn failed(&self, call: &'static str, errno: rustix::io::Errno) -> Error {
        failed(call)(errno).on(format!("child process {}", self.id()))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // If this fails, the kernel still ends the child with this thread.
        drop(self.kill());
    }
}

fn ended_of(status: &WaitIdStatus) -> Ended {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => Ended::Exited(status),
        (None, Some(signal)) => Ended::Killed(signal),
        (None, None) => Ended::Gone,
    }
}

/// The child's main function.
fn live(name: &str, parent: Pid, bound: &AtomicU32, work: impl FnOnce()) -> ! {
    // Everything is inside: a panic must not unwind into the copy of the parent's stack.
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let bind = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        // If the parent died before, no signal comes: the child has another parent by now.
        if bind.is_err() || rustix::process::getppid() != Some(parent) {
            exit(ORPHANED);
        }
        forget_signal_handling();
        if let Ok(name) = std::ffi::CString::new(name) {
            // The name is only for ps.
            let _ = rustix::thread::set_name(&name);
        }
        bound.store(1, Ordering::Release);
        drop(futex::wake(bound, 1, Scope::Shared));
        work();
    }));
    exit(if lived.is_ok() { 0 } else { PANICKED })
}

fn exit(status: i32) -> ! {
    // SAFETY: ends the process at once; runs nothing of ours.
    unsafe { libc::_exit(status) }
}

/// Resets every signal to its default action and unblocks all. The parent's handlers write to pipes shared with the child: they must
/// never run here.
fn forget_signal_handling() {
    for signal in 1..=libc::SIGRTMAX() {
        let action = if signal == libc::SIGINT || signal == libc::SIGHUP { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: sets an action that runs no code of ours. It fails for SIGKILL, SIGSTOP and the C library's own two signals,
        // which is fine.
        unsafe { libc::signal(signal, action) };
    }
    // With these arguments it cannot fail.
    let _ = change_mask(libc::SIG_SETMASK, &set_of(&[]));
}

/// Most children recorded at a time; a run has at most about seventy. Further ones are not recorded.
const MOST: usize = 256;

/// The present children of this process, in shared memory. The warden ends them if the process dies: the kernel gives them another parent
/// then, and keeps no record of the first.
static PRESENT: OnceLock<Option<Shared<[AtomicI32]>>> = OnceLock::new();

fn present() -> &'static [AtomicI32] {
    PRESENT.get_or_init(|| Shared::<[AtomicI32]>::slice(MOST).ok()).as_deref().unwrap_or_default()
}

/// Maps the memory of the children's IDs once; call it before forking a child that must see later ones.
pub fn share_ids() {
    present();
}

/// Process IDs of the children that have not been reaped.
#[must_use]
pub fn ids() -> Vec<i32> {
    present().iter().map(|id| id.load(Ordering::Acquire)).filter(|id| *id != 0).collect()
}

/// Puts one ID in the place of another: 0 is none.
fn replace_id(old: i32, new: i32) {
    let replaced = |id: &&AtomicI32| id.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    present().iter().find(replaced);
}

/// The signal; children get it from no other source.
const SIGNAL: i32 = libc::SIGUSR1;

/// Reports the parent's end to a child.
#[derive(Debug)]
pub struct ParentDeath(());

impl ParentDeath {
    /// `prctl(PR_SET_PDEATHSIG)`: from now on the end of the forking thread ends [`ParentDeath::wait`] instead of this process. Blocks every
    /// signal that can be blocked, on the calling thread, permanently. Call it in a child of [`Child`], on its only
    /// thread.
    pub fn instead_of_own() -> Result<Self> {
        change_mask(libc::SIG_BLOCK, &every_signal())?;
        let set = rustix::process::set_parent_process_death_signal(Some(Signal::USR1));
        set.map(|()| Self(())).map_err(failed("prctl(PR_SET_PDEATHSIG)"))
    }

    /// Sleeps until the parent's thread has ended, at most this long. Returns whether it has.
    #[must_use]
    pub fn wait_for(&self, timeout: Duration) -> bool {
        let set = set_of(&[SIGNAL]);
        let timeout = libc::timespec {
            // What a 32-bit time holds: 68 years.
            tv_sec: timeout.as_secs().min(i32::MAX as u64) as _,
            tv_nsec: timeout.subsec_nanos() as libc::c_long,
        };
        // SAFETY: set and time are readable; no information on the signal is asked for.
        unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const timeout) == SIGNAL }
    }

    /// Sleeps until the parent's thread has ended.
    pub fn wait(&self) {
        let set = set_of(&[SIGNAL]);
        // SAFETY: `set` is filled; no information on the signal is asked for. It fails with EINTR when the process was stopped and
        // continued.
        while unsafe { libc::sigwaitinfo(&raw const set, std::ptr::null_mut()) } != SIGNAL {}
    }
}

/// Lets the program end with the calling thread: the kernel then sends it SIGTERM, also after kill -9 (`PR_SET_PDEATHSIG`). It begins with
/// no signal blocked. Call it on the thread that spawns the program. A program that gets privileges by its file is not ended (prctl(2)).
pub fn ends_with_this_thread(command: &mut Command) {
    let parent = std::process::id();
    let prepare = move || {
        // The parent's handler must not take the signal before exec, and an ignored signal would stay ignored.
        // SAFETY: sets an action without a handler.
        if unsafe { libc::signal(libc::SIGTERM, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: takes numbers.
        check("prctl", unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong) })
            .map_err(|error| error.source)?;
        // SAFETY: no arguments.
        if unsafe { libc::getppid() }.unsigned_abs() != parent {
            return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
        }
        // Last: a signal that has come meanwhile ends the process now.
        change_mask(libc::SIG_SETMASK, &set_of(&[])).map(drop).map_err(|error| error.source)
    };
    // SAFETY: the closure makes system calls only, and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// Flag beside an exit status: the status is set.
const KNOWN: u32 = 1 << 8;

/// `fork(2)`: runs `work` in a child process, waits for its end and returns its status. `None`: it was killed; 255: it panicked.
///
/// The child is a copy of the process with only the calling thread. `work` must not wait for another thread or take a lock that one may
/// hold. It may allocate. The child ends with the result of `work`, without running `atexit(3)` handlers.
///
/// # Errors
/// EAGAIN at a limit of processes; ENOMEM.
pub fn uninterrupted(work: impl FnOnce() -> u8) -> Result<Option<u8>> {
    let status = Shared::<AtomicU32>::new()?;
    let signals = block_all_signals_for_this_thread()?;
    // SAFETY: the child goes on with a copy of the memory, and ends below by `_exit`. Nothing of the parent's stack is unwound
    // twice.
    let pid = match check("fork", unsafe { libc::fork() })? {
        0 => {
            // Fails only for a process group leader, which a new process is not.
            let _ = setsid();
            let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or(u8::MAX);
            status.store(KNOWN | u32::from(outcome), Ordering::Release);
            exit(0)
        }
        pid => Pid::from_raw(pid).ok_or_else(|| Error::from_errno("fork", libc::EINVAL))?,
    };
    drop(signals);
    // If SIGCHLD is ignored, the kernel reaps the child: shared memory carries the status.
    while let Ok(None) | Err(Errno::INTR) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED) {}
    let status = status.load(Ordering::Acquire);
    Ok((status & KNOWN != 0).then_some(status as u8))
}

/// Zero: no deadline. Mapped before the first child is forked, so that every child has it; without memory, there is no deadline.
static DEADLINE_NS: OnceLock<Option<Shared<AtomicI64>>> = OnceLock::new();

fn deadline() -> Option<&'static AtomicI64> {
    DEADLINE_NS.get_or_init(|| Shared::<AtomicI64>::new().ok()).as_deref()
}

/// Sets the deadline for this process, for later children, and for children forked after the first call. `None`: no deadline.
pub fn set_deadline(at_ns: Option<i64>) {
    if let Some(word) = deadline() {
        word.store(at_ns.unwrap_or(0).max(0), Ordering::Relaxed);
    }
}

/// Whether the deadline has passed. Reads the clock only if there is a deadline.
#[must_use]
pub fn deadline_passed() -> bool {
    deadline_left_ns().is_some_and(|left| left <= 0)
}

/// Time until the deadline; negative after it. `None`: no deadline.
#[must_use]
pub fn deadline_left_ns() -> Option<i64> {
    let at_ns = deadline()?.load(Ordering::Relaxed);
    (at_ns != 0).then(|| at_ns - now_ns(Clock::Monotonic))
}

/// `setitimer(ITIMER_REAL)`: SIGALRM at the deadline ends a child that does not handle it. For children that wait in the measured call
/// and cannot check the deadline. Does nothing without a deadline; ignores later changes.
pub fn alarm_at_deadline() -> Result<()> {
    let Some(left_ns) = deadline_left_ns() else { return Ok(()) };
    let left_us = (left_ns / 1000).max(1);
    let value = libc::timeval { tv_sec: (left_us / 1_000_000) as _, tv_usec: (left_us % 1_000_000) as _ };
    let once = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
    // SAFETY: `once` is readable; the previous timer is not asked for.
    check("setitimer", unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const once, std::ptr::null_mut()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    use std::time::Duration;

    use punctual_testing::until;

    use super::*;
    use crate::memory::Shared;

    fn alive(pid: i32) -> bool {
        Pid::from_raw(pid).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
    }

    #[test]
    fn runs_its_closure_in_another_process_and_is_reaped() {
        let seen = Shared::<AtomicI32>::new().unwrap();
        let theirs = seen.clone();
        let mut child = Child::spawn("works", move || {
            theirs.store(rustix::process::getpid().as_raw_nonzero().get(), Ordering::Release);
        })
        .unwrap();
        assert_eq!(child.wait().unwrap(), Ended::Exited(0));
        assert_eq!(seen.load(Ordering::Acquire), child.id());
        assert_ne!(child.id(), rustix::process::getpid().as_raw_nonzero().get());
        assert_eq!(child.ended().unwrap(), Some(Ended::Exited(0)));
        assert_eq!(child.kill().unwrap(), Ended::Exited(0));
        assert!(!alive(child.id()));
    }

    #[test]
    fn dropping_ends_a_busy_child() {
        let progress = Shared::<AtomicU64>::new().unwrap();
        let theirs = progress.clone();
        let child = Child::spawn("busy", move || {
            loop {
                theirs.fetch_add(1, Ordering::Relaxed);
            }
        })
        .unwrap();
        until("progress", || progress.load(Ordering::Relaxed) > 1000);
        until("CPU time", || child.cpu_ns().unwrap() > 0);
        let pid = child.id();
        drop(child);
        assert!(!alive(pid));
    }

    #[test]
    fn a_panic_stays_in_the_child() {
        let mut child = Child::spawn("panics", || std::panic::resume_unwind(Box::new("on purpose"))).unwrap();
        assert_eq!(child.wait().unwrap(), Ended::Exited(PANICKED));
    }

    #[test]
    fn a_killed_child_says_so() {
        let mut child = Child::spawn("sleeps", || {
            loop {
                std::thread::sleep(Duration::from_secs(1000));
            }
        })
        .unwrap();
        assert_eq!(child.ended().unwrap(), None);
        rustix::process::kill_process(Pid::from_raw(child.id()).unwrap(), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap(), Ended::Killed(libc::SIGTERM));
    }

    #[test]
    fn the_terminals_signals_are_left_to_the_parent() {
        let mut child = Child::spawn("sleeps", || std::thread::sleep(Duration::from_secs(1000))).unwrap();
        let pid = Pid::from_raw(child.id()).unwrap();
        for signal in [Signal::INT, Signal::HUP] {
            rustix::process::kill_process(pid, signal).unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(child.ended().unwrap(), None);
        assert_eq!(child.kill().unwrap(), Ended::Killed(libc::SIGKILL));
    }

    #[test]
    fn a_grandchild_dies_with_a_parent_that_is_killed() {
        let id = Shared::<AtomicI32>::new().unwrap();
        let theirs = id.clone();
        let mut parent = Child::spawn("parent", move || {
            let grandchild = Child::spawn("grandchild", || {
                loop {
                    std::hint::spin_loop();
                }
            })
            .unwrap();
            theirs.store(grandchild.id(), Ordering::Release);
            loop {
                std::thread::sleep(Duration::from_secs(1000));
            }
        })
        .unwrap();
        until("the grandchild", || id.load(Ordering::Acquire) != 0);
        let grandchild = id.load(Ordering::Acquire);
        assert!(alive(grandchild));
        assert_eq!(parent.kill().unwrap(), Ended::Killed(libc::SIGKILL));
        // Whoever inherits it (init) may take its time to reap it: dead is enough.
        until("the grandchild's end", || !alive(grandchild) || is_zombie(grandchild));
    }

    #[test]
    fn a_child_dies_with_the_thread_that_spawned_it() {
        let mut child =
            std::thread::spawn(|| Child::spawn("orphan", || std::thread::sleep(Duration::from_secs(1000))).unwrap())
                .join()
                .unwrap();
        assert_eq!(child.wait().unwrap(), Ended::Killed(libc::SIGKILL));
    }

    #[test]
    fn a_child_is_known_until_it_is_reaped() {
        let mut child = Child::spawn("known", || std::thread::sleep(std::time::Duration::from_secs(3600))).unwrap();
        assert!(ids().contains(&child.id()));
        child.kill().unwrap();
        assert!(!ids().contains(&child.id()));
    }

    fn is_zombie(pid: i32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
    }

    #[test]
    fn the_end_of_the_forking_thread_ends_the_wait() {
        let state = Shared::<AtomicU32>::new().unwrap();
        let theirs = state.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let child = Child::spawn("waits", move || {
                let death = ParentDeath::instead_of_own().unwrap();
                assert!(!death.wait_for(Duration::from_millis(1)));
                theirs.store(3, Ordering::Release);
                while !death.wait_for(Duration::from_secs(1)) {}
                theirs.store(2, Ordering::Release);
            });
            tell.send(child.unwrap()).unwrap();
            let _ = ended.recv();
        });
        let mut child = told.recv().unwrap();
        while state.load(Ordering::Acquire) != 3 {
            std::thread::yield_now();
        }
        assert_eq!(child.ended().unwrap(), None);
        drop(end);
        thread.join().unwrap();
        assert_eq!(child.wait().unwrap(), Ended::Exited(0));
        assert_eq!(state.load(Ordering::Acquire), 2);
    }

    #[test]
    fn what_it_returns_is_known() {
        assert_eq!(uninterrupted(|| 7).unwrap(), Some(7));
        assert_eq!(uninterrupted(|| panic!("as told")).unwrap(), Some(u8::MAX));
    }

    /// One test, since the deadline is the process's.
    #[test]
    fn children_see_it_move_and_end_by_it() {
        assert!(!deadline_passed() && deadline_left_ns().is_none());
        set_deadline(Some(now_ns(Clock::Monotonic) + 3_600_000_000_000));
        let mut looking = Child::spawn("looks", || {
            while !deadline_passed() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        })
        .unwrap();
        assert!(!deadline_passed());
        assert_eq!(looking.ended().unwrap(), None);
        set_deadline(Some(now_ns(Clock::Monotonic)));
        assert!(deadline_passed());
        assert_eq!(looking.wait().unwrap(), Ended::Exited(0));
        let mut now = Child::spawn("now", || {
            alarm_at_deadline().unwrap();
            std::thread::sleep(std::time::Duration::from_secs(3600));
        })
        .unwrap();
        assert_eq!(now.wait().unwrap(), Ended::Killed(libc::SIGALRM));
        set_deadline(None);
        assert!(!deadline_passed());
    }
}
