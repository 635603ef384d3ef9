//! Observes the system calls of a piece of code (`ptrace(2)`).
//!
//! The code runs in a traced child process, which is always reaped and never outlives the caller. It needs no privilege, but containers
//! and the Yama module may forbid it ([`ObserveError::Refused`]).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::syscall_name::name_of;
use crate::{Error, Result as LinuxResult, check};

/// An observed system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemCall {
    /// The name; `syscall 123` for a number not in the table.
    pub name: String,
    /// The number on this architecture.
    pub number: i64,
    /// The arguments as register values.
    pub args: [u64; 6],
}

/// Why the code could not be observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The kernel refuses to trace.
    #[error(
        "cannot trace a child process: {0}; allow ptrace in the container, or set /proc/sys/kernel/yama/ptrace_scope to 1 or 0"
    )]
    Refused(Error),
    /// Another call failed.
    #[error(transparent)]
    Failed(#[from] Error),
    /// The code did not end in time and was killed.
    #[error("the observed code did not end within {0:?}")]
    TimedOut(Duration),
    /// The code panicked, exited or was killed.
    #[error("the observed code did not complete: {0}")]
    Died(String),
}

/// Time limit of the observed code.
pub const LIMIT: Duration = Duration::from_secs(20);

/// The markers before and after the observed code: `close` of descriptors that cannot exist.
const BEGIN: libc::c_long = -7_001;
const END: libc::c_long = -7_002;

/// Exit status of the child after a panic.
const PANICKED: i32 = 101;

/// The system calls that `f` makes, in order. See [`system_calls_after`].
pub fn system_calls(f: impl FnOnce()) -> Result<Vec<SystemCall>, ObserveError> {
    system_calls_after(|| (), |()| f())
}

/// The system calls of `f`, which gets the result of `prepare`; without the calls of `prepare`.
///
/// Both run in a child process, on a copy of this one: they change nothing here. The child has only this thread: code that waits for
/// another thread is killed after [`LIMIT`].
pub fn system_calls_after<T>(
    prepare: impl FnOnce() -> T,
    f: impl FnOnce(&mut T),
) -> Result<Vec<SystemCall>, ObserveError> {
    // SAFETY: no arguments.
    let parent = unsafe { libc::getpid() };
    // SAFETY: the child runs `child_main` and never returns from it. The C library makes its allocator usable in the child.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last("fork").into()),
        0 => child_main(parent, prepare, f),
        pid => Tracee { pid, deadline: Instant::now() + LIMIT, reaped: false }.watch(),
    }
}

/// The child's main function: asks to be traced, stops, and runs the code between the markers.
fn child_main<T>(parent: libc::pid_t, prepare: impl FnOnce() -> T, f: impl FnOnce(&mut T)) -> ! {
    // SAFETY: plain system calls on numbers; PTRACE_TRACEME ignores its other arguments. `_exit` runs no handlers of the parent's.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
        if libc::getppid() != parent {
            libc::_exit(PANICKED);
        }
        if libc::ptrace(libc::PTRACE_TRACEME, 0, 0_usize, 0_usize) == -1 {
            libc::_exit(crate::sleep::last_errno());
        }
        libc::kill(libc::getpid(), libc::SIGSTOP);
    }
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut prepared = prepare();
        mark(BEGIN);
        f(&mut prepared);
        mark(END);
    }));
    // SAFETY: ends this process.
    unsafe { libc::_exit(if ran.is_ok() { 0 } else { PANICKED }) }
}

fn mark(which: libc::c_long) {
    // SAFETY: no such descriptor can exist, so nothing is closed.
    unsafe { libc::syscall(libc::SYS_close, which) };
}

/// A change of the traced child's state.
enum Change {
    SystemCallStop,
    Signal(i32),
    Exited(i32),
    Killed(i32),
}

/// The traced child; killed and reaped on drop.
struct Tracee {
    pid: libc::pid_t,
    deadline: Instant,
    reaped: bool,
}

impl Tracee {
    fn watch(mut self) -> Result<Vec<SystemCall>, ObserveError> {
        match self.next_change()? {
            Change::Signal(libc::SIGSTOP) => {}
            // Before its first stop, the child exits only if tracing is forbidden, with the error number as status.
            Change::Exited(errno) => {
                return Err(ObserveError::Refused(Error::from_errno("ptrace", errno).on("PTRACE_TRACEME")));
            }
            Change::Killed(signal) => return Err(ObserveError::Died(format!("killed by signal {signal}"))),
            Change::Signal(_) | Change::SystemCallStop => {
                return Err(ObserveError::Died("it stopped before it had begun".into()));
            }
        }
        let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
        self.ptrace(libc::PTRACE_SETOPTIONS as _, 0, options as usize).map_err(ObserveError::Refused)?;
        self.collect()
    }

    /// Lets the child run from system call to system call.
    fn collect(&mut self) -> Result<Vec<SystemCall>, ObserveError> {
        let mut calls: Option<Vec<SystemCall>> = None;
        let mut entering = true;
        let mut deliver = 0;
        loop {
            self.ptrace(libc::PTRACE_SYSCALL as _, 0, deliver as usize)?;
            deliver = 0;
            match self.next_change()? {
                Change::SystemCallStop => {
                    if entering {
                        let call = self.entered()?;
                        match (marker(&call), calls.as_mut()) {
                            (Some(BEGIN), _) => calls = Some(Vec::new()),
                            (Some(_), _) => return Ok(calls.unwrap_or_default()),
                            (None, Some(calls)) => calls.push(call),
                            (None, None) => {}
                        }
                    }
                    entering = !entering;
                }
                Change::Signal(signal) => deliver = signal,
                Change::Exited(PANICKED) => return Err(ObserveError::Died("it panicked".into())),
                Change::Exited(status) => return Err(ObserveError::Died(format!("it exited with status {status}"))),
                Change::Killed(signal) => return Err(ObserveError::Died(format!("killed by signal {signal}"))),
            }
        }
    }

    /// Waits for the child to stop or end, within the limit.
    fn next_change(&mut self) -> Result<Change, ObserveError> {
        let mut turns = 0_u32;
        loop {
            let mut status = 0;
            // SAFETY: `status` is writable for the call; the child is ours and not reaped.
            match unsafe { libc::waitpid(self.pid, &raw mut status, libc::WNOHANG | libc::__WALL) } {
                0 if Instant::now() >= self.deadline => return Err(ObserveError::TimedOut(LIMIT)),
                // No call waits for a child with a timeout: poll, at first often.
                0 if turns < 200 => std::thread::yield_now(),
                0 => std::thread::sleep(Duration::from_micros(100)),
                -1 if crate::sleep::last_errno() == libc::EINTR => {}
                -1 => return Err(Error::last("waitpid").into()),
                _ => return Ok(self.judge(status)),
            }
            turns = turns.saturating_add(1);
        }
    }

    fn judge(&mut self, status: i32) -> Change {
        if libc::WIFSTOPPED(status) {
            let signal = libc::WSTOPSIG(status);
            return if signal == libc::SIGTRAP | 0x80 { Change::SystemCallStop } else { Change::Signal(signal) };
        }
        self.reaped = true;
        if libc::WIFEXITED(status) {
            Change::Exited(libc::WEXITSTATUS(status))
        } else {
            Change::Killed(libc::WTERMSIG(status))
        }
    }

    fn ptrace(&self, request: i32, address: usize, data: usize) -> LinuxResult<i64> {
        // SAFETY: the child is ours and stopped; every caller passes what its request demands.
        let returned = unsafe { libc::ptrace(request as _, self.pid, address, data) };
        check("ptrace", if returned == -1 { -1 } else { 0 })?;
        Ok(returned as i64)
    }

    /// The system call that the child is entering.
    fn entered(&self) -> LinuxResult<SystemCall> {
        /// `PTRACE_GET_SYSCALL_INFO` (Linux 5.3).
        const GET_SYSCALL_INFO: i32 = 0x420e;
        let mut info = SystemCallInfo::default();
        let address = (&raw mut info).expose_provenance();
        let (number, args) = match self.ptrace(GET_SYSCALL_INFO, size_of::<SystemCallInfo>(), address) {
            Ok(_) => (info.number as i64, info.args),
            Err(_) => self.entered_by_registers()?,
        };
        Ok(SystemCall { name: name_of(number), number, args })
    }

    /// The same on older kernels: from the registers, by the calling convention of the architecture (`syscall(2)`).
    fn entered_by_registers(&self) -> LinuxResult<(i64, [u64; 6])> {
        /// `NT_PRSTATUS`: the general registers.
        const GENERAL: usize = 1;
        let mut registers = [0_usize; 64];
        let mut area = libc::iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: size_of_val(&registers) };
        self.ptrace(libc::PTRACE_GETREGSET as _, GENERAL, (&raw mut area).expose_provenance())?;
        let Some((number, places)) = REGISTERS else {
            return Err(Error::from_errno("ptrace", libc::ENOSYS).on("PTRACE_GETREGSET on this architecture"));
        };
        Ok((registers[number] as i64, places.map(|place| registers[place] as u64)))
    }
}

/// Positions of a system call's number and arguments among the general registers.
#[cfg(target_arch = "x86_64")]
const REGISTERS: Option<(usize, [usize; 6])> = Some((15, [14, 13, 12, 7, 9, 8]));
/// Positions of a system call's number and arguments among the general registers.
#[cfg(target_arch = "aarch64")]
const REGISTERS: Option<(usize, [usize; 6])> = Some((8, [0, 1, 2, 3, 4, 5]));
/// Positions of a system call's number and arguments among the general registers.
#[cfg(target_arch = "arm")]
const REGISTERS: Option<(usize, [usize; 6])> = Some((7, [17, 1, 2, 3, 4, 5]));
/// Positions of a system call's number and arguments among the general registers.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
const REGISTERS: Option<(usize, [usize; 6])> = None;

/// `struct ptrace_syscall_info` on entry.
#[repr(C)]
#[derive(Default)]
struct SystemCallInfo {
    operation: u8,
    flags: [u8; 3],
    architecture: u32,
    instruction_pointer: u64,
    stack_pointer: u64,
    number: u64,
    args: [u64; 6],
    /// The union has the size of its largest member.
    _rest: [u64; 2],
}

fn marker(call: &SystemCall) -> Option<libc::c_long> {
    if call.number != i64::from(libc::SYS_close) {
        return None;
    }
    [BEGIN, END].into_iter().find(|&which| call.args[0] as u32 == which as u32)
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        // SAFETY: the child is ours and not reaped, so its number means no other process.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            let mut status = 0;
            loop {
                let pid = libc::waitpid(self.pid, &raw mut status, libc::__WALL);
                let again = pid == -1 && crate::sleep::last_errno() == libc::EINTR;
                if !again && (pid == -1 || !libc::WIFSTOPPED(status)) {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_testing::skip;

    use super::*;

    /// The observed calls, unless tracing is forbidden.
    fn allowed(observed: Result<Vec<SystemCall>, ObserveError>) -> Option<Vec<SystemCall>> {
        match observed {
            Err(ObserveError::Refused(why)) => {
                skip(&why.to_string());
                None
            }
            other => Some(other.unwrap()),
        }
    }

    fn observed(f: impl FnOnce()) -> Option<Vec<SystemCall>> {
        allowed(system_calls(f))
    }

    #[test]
    fn sees_what_is_called_and_nothing_else() {
        let Some(calls) = observed(|| {
            crate::sleep::sched_yield().unwrap();
            // SAFETY: takes a number that is no descriptor.
            unsafe { libc::close(-5) };
        }) else {
            return;
        };
        let names: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["sched_yield", "close"]);
        assert_eq!(calls[1].args[0] as u32, -5_i32 as u32);
    }

    #[test]
    fn what_was_prepared_is_left_out() {
        let calls = system_calls_after(|| std::fs::File::open("/dev/null").unwrap(), |_| ());
        if let Some(calls) = allowed(calls) {
            assert_eq!(calls, []);
        }
    }

    #[test]
    fn a_panic_and_an_exit_are_told() {
        if observed(|| ()).is_none() {
            return;
        }
        std::panic::set_hook(Box::new(|_| ()));
        let panicked = system_calls(|| panic!("on purpose"));
        let _ = std::panic::take_hook();
        assert!(matches!(panicked, Err(ObserveError::Died(why)) if why.contains("panicked")));
        // SAFETY: ends the child only.
        let exited = system_calls(|| unsafe { libc::_exit(7) });
        assert!(matches!(exited, Err(ObserveError::Died(why)) if why.contains("status 7")));
        // SAFETY: ends the child only.
        let killed = system_calls(|| unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
        });
        assert!(matches!(killed, Err(ObserveError::Died(why)) if why.contains("signal 9")));
    }

    #[test]
    fn registers_tell_the_same_as_the_newer_call() {
        // The fallback for old kernels: reads the child's first call after its stop both ways.
        // SAFETY: no arguments.
        let parent = unsafe { libc::getpid() };
        // SAFETY: the child never returns from `child_main`.
        let pid = match unsafe { libc::fork() } {
            0 => child_main(parent, || (), |()| ()),
            pid => pid,
        };
        assert!(pid > 0);
        let mut child = Tracee { pid, deadline: Instant::now() + LIMIT, reaped: false };
        if !matches!(child.next_change(), Ok(Change::Signal(libc::SIGSTOP))) {
            return skip("tracing is refused here");
        }
        child.ptrace(libc::PTRACE_SETOPTIONS as _, 0, libc::PTRACE_O_TRACESYSGOOD as usize).unwrap();
        for _ in 0..2 {
            child.ptrace(libc::PTRACE_SYSCALL as _, 0, 0).unwrap();
            assert!(matches!(child.next_change(), Ok(Change::SystemCallStop)));
        }
        child.ptrace(libc::PTRACE_SYSCALL as _, 0, 0).unwrap();
        assert!(matches!(child.next_change(), Ok(Change::SystemCallStop)));
        let call = child.entered().unwrap();
        let (number, args) = child.entered_by_registers().unwrap();
        assert_eq!((call.number, call.args), (number, args));
    }
}
