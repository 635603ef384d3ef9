//! What one process inherits from another: descriptors and ignored signals.
//!
//! [`duplicate_inherited`], [`was_closed`] and [`ignored_at_start`] say what this process inherited: descriptors, which of SIGPIPE and
//! SIGCHLD were ignored and which standard descriptors closed, read before `main` (`sigaction(2)`, `fcntl(2)`). The Rust runtime ignores
//! SIGPIPE and opens `/dev/null` on closed standard descriptors before `main`. A program that waits for its children must not ignore
//! SIGCHLD. With this state, a program can pass both signals on to its children as it found them.
//!
//! [`Apart`] holds descriptors that no fork inherits: `close_range(2)` with CLOSE_RANGE_UNSHARE (Linux 5.9). A forked child has a copy of
//! every descriptor until it executes another program or ends. Close-on-exec changes nothing before. A socket whose closing should signal
//! this process's death signals nothing while such a child lives. So a thread with its own descriptor table holds it: a fork copies only
//! the table of the forking thread. The thread sleeps until it is dropped.
//!
//! [`no_fork_meanwhile`] delays `fork(2)` during a few instructions: `pthread_atfork(3)`. Some resources can be hidden from forked children
//! only shortly after their creation. A fork by another thread waits for the end of such a critical section. Only the C library's `fork()`
//! waits. `posix_spawn(3)` and `vfork(2)` need not: their child executes a program, which drops every copy.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::signal::{block_all_signals_for_this_thread, is_ignored};
use crate::{Error, Result, check, check_errno_return, descriptor, failed};

/// Signals, and whether they were ignored.
static IGNORED: [(i32, AtomicBool); 2] =
    [(libc::SIGPIPE, AtomicBool::new(false)), (libc::SIGCHLD, AtomicBool::new(false))];
/// A bit for each of the descriptors 0, 1 and 2.
static CLOSED: AtomicU8 = AtomicU8::new(0);

extern "C" fn look() {
    for (signal, ignored) in &IGNORED {
        ignored.store(is_ignored(*signal).unwrap_or(false), Ordering::Relaxed);
    }
    for number in 0..3 {
        // SAFETY: asks for the flags of a number, and changes nothing.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << number, Ordering::Relaxed);
        }
    }
}

/// The C library calls the functions of this section before `main`.
// SAFETY: the section holds pointers to functions that take what the C library gives and return nothing. `look` ignores its arguments. It makes a few system
// calls and writes a few atomics. This needs neither the runtime nor an allocator.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether standard descriptor `number` (0, 1 or 2) was closed at the start.
#[must_use]
pub fn was_closed(number: i32) -> bool {
    (0..3).contains(&number) && CLOSED.load(Ordering::Relaxed) & (1 << number) != 0
}

/// Whether this signal was ignored at the start: SIGPIPE or SIGCHLD. `false` for all others.
#[must_use]
pub fn ignored_at_start(signal: i32) -> bool {
    IGNORED.iter().any(|(known, ignored)| *known == signal && ignored.load(Ordering::Relaxed))
}

/// Whether the file of the program gave it privileges beside its caller's: set-user-ID, set-group-ID or file capabilities (`AT_SECURE` of
/// getauxval(3)).
#[must_use]
pub fn gained_privileges() -> bool {
    // SAFETY: reads a number that the kernel gave the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Resets SIGCHLD to its default action if it was ignored at the start. The kernel would otherwise reap children when they end: their
/// status would be lost and their IDs reused.
pub fn heed_children() -> Result<()> {
    if !ignored_at_start(libc::SIGCHLD) {
        return Ok(());
    }
    set(libc::SIGCHLD, libc::SIG_DFL)
}

/// Ignores both signals again if they were ignored at the start. Async-signal-safe: for a new process between fork and exec.
pub(crate) fn ignore_as_at_start() -> Result<()> {
    let ignored = IGNORED.iter().filter(|(_, ignored)| ignored.load(Ordering::Relaxed));
    ignored.map(|(signal, _)| *signal).try_for_each(|signal| set(signal, libc::SIG_IGN))
}

fn set(signal: i32, action: libc::sighandler_t) -> Result<()> {
    // SAFETY: neither the default action nor ignoring runs code of ours.
    let before = unsafe { libc::signal(signal, action) };
    if before == libc::SIG_ERR { Err(Error::last("signal")) } else { Ok(()) }
}

/// `fcntl(F_DUPFD_CLOEXEC)`: duplicates the inherited descriptor `number`; offset and flags are shared.
///
/// # Errors
/// EBADF if `number` is not open, or was opened by this process (all its own descriptors are close-on-exec); EMFILE.
pub fn duplicate_inherited(number: RawFd) -> Result<OwnedFd> {
    // SAFETY: asks for the flags of a number, and changes nothing.
    let flags = check("fcntl", unsafe { libc::fcntl(number, libc::F_GETFD) });
    let flags = flags.map_err(|e| e.on(format!("descriptor {number}")))?;
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(Error::from_errno("fcntl", libc::EBADF).on(format!("descriptor {number}")));
    }
    // SAFETY: takes numbers, and returns a descriptor of this call alone.
    let copy = unsafe { descriptor("fcntl", libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3)) };
    copy.map_err(|e| e.on(format!("descriptor {number}")))
}

/// The thread needs a few hundred bytes; the rest is room for the program's thread-local data.
const STACK: usize = 64 << 10;

/// Descriptors that only this process holds, not its forked children. Closed on drop, and by the kernel when the process ends or executes
/// another program.
#[derive(Debug)]
pub struct Apart {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Apart {
    /// Moves the descriptors apart. A simultaneous fork by another thread may still inherit them.
    ///
    /// # Errors
    /// ENOSYS before Linux 5.9; EPERM or ENOSYS under a seccomp filter without close_range; EAGAIN if no thread can be started. The error
    /// returns the descriptors, still open.
    pub fn hold(descriptors: Vec<OwnedFd>) -> std::result::Result<Self, (Error, Vec<OwnedFd>)> {
        let mut numbers: Vec<RawFd> = descriptors.iter().map(|fd| fd.as_raw_fd()).collect();
        numbers.sort_unstable();
        match start(numbers) {
            // From here on these are copies.
            Ok(apart) => Ok(apart),
            Err(error) => Err((error, descriptors)),
        }
    }
}

fn start(numbers: Vec<RawFd>) -> Result<Apart> {
    let over = Arc::new(AtomicBool::new(false));
    let (ready, told) = sync_channel(1);
    // The thread inherits the mask. No handler of the program may run in it: its descriptors are closed there.
    let blocked = block_all_signals_for_this_thread()?;
    let thread = std::thread::Builder::new().name("keeper".into()).stack_size(STACK).spawn({
        let over = Arc::clone(&over);
        move || {
            let done = close_all_but(&numbers);
            let apart = done.is_ok();
            // The creator waits for this.
            let _ = ready.send(done);
            while apart && !over.load(Ordering::Acquire) {
                std::thread::park();
            }
            if apart {
                // Close here: a joined thread may not have freed its table yet.
                for number in numbers {
                    // SAFETY: this thread's table is its own, and nothing else in it uses the number.
                    drop(unsafe { OwnedFd::from_raw_fd(number) });
                }
            }
        }
    });
    drop(blocked);
    let thread = thread.map_err(failed("pthread_create"))?;
    let done = told.recv().unwrap_or_else(|_| Err(Error::from_errno("close_range", libc::ECHILD)));
    let apart = Apart { over, thread: Some(thread) };
    done.map(|()| apart)
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread cannot panic; if it had ended, its descriptors would be closed too.
            drop(thread.join());
        }
    }
}

/// Gives the calling thread its own descriptor table, with only `numbers` (sorted) open.
fn close_all_but(numbers: &[RawFd]) -> Result<()> {
    let above = numbers.last().map_or(0, |last| *last as u32 + 1);
    close_range(above, u32::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    let mut from = 0;
    for &number in numbers {
        let number = number as u32;
        if number > from {
            close_range(from, number - 1, 0)?;
        }
        from = number + 1;
    }
    Ok(())
}

fn close_range(first: u32, last: u32, flags: libc::c_uint) -> Result<()> {
    // SAFETY: takes numbers. The first call gives the calling thread its own table. Descriptors closed here stay open for all other
    // threads; this one uses none of them.
    let returned = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    check("close_range", returned as i32).map(drop)
}

/// Threads in a critical section.
static MOMENTS: AtomicU32 = AtomicU32::new(0);
/// Forks in progress.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Interval of the checks while waiting: asleep, so that a real-time thread lets the other one run.
const LOOK_AGAIN: Duration = Duration::from_micros(50);
/// Checks before a side gives up, at least one second: a blocked fork would be worse than a copy.
const MOST_LOOKS: u32 = 20_000;

/// Runs `moment` while no other thread of this process forks. `moment` must be short and must not fork.
///
/// # Errors
/// ENOMEM if the handlers could not be registered.
pub fn no_fork_meanwhile<T>(moment: impl FnOnce() -> T) -> Result<T> {
    // No OnceLock: a child forked while another thread initialises it would wait for that thread. Two threads may both register here,
    // which is harmless.
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.load(Ordering::Acquire) {
        // SAFETY: the handlers are functions of this program that touch atomics, sleep, and neither allocate nor unwind.
        let returned = unsafe { pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork_in_child)) };
        check_errno_return("pthread_atfork", returned)?;
        REGISTERED.store(true, Ordering::Release);
    }
    // A signal handler on this thread might fork, and would wait for itself.
    let _signals = block_all_signals_for_this_thread()?;
    let mut looks = 0;
    loop {
        MOMENTS.fetch_add(1, Ordering::SeqCst);
        let over = Over;
        if FORKS.load(Ordering::SeqCst) == 0 || looks == MOST_LOOKS {
            let done = moment();
            drop(over);
            return Ok(done);
        }
        drop(over);
        looks += 1;
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Ends a critical section, even on panic.
struct Over;

impl Drop for Over {
    fn drop(&mut self) {
        MOMENTS.fetch_sub(1, Ordering::SeqCst);
    }
}

unsafe extern "C" {
    /// `pthread_atfork(3)`, which the libc crate does not declare for every Linux target.
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> libc::c_int;
}

unsafe extern "C" fn before_fork() {
    FORKS.fetch_add(1, Ordering::SeqCst);
    let mut looks = 0;
    while MOMENTS.load(Ordering::SeqCst) != 0 && looks < MOST_LOOKS {
        std::thread::sleep(LOOK_AGAIN);
        looks += 1;
    }
}

unsafe extern "C" fn after_fork() {
    // A fork that began before the registration was not counted.
    let _ = FORKS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |forks| forks.checked_sub(1));
}

/// In the child, only the forking thread exists.
unsafe extern "C" fn after_fork_in_child() {
    FORKS.store(0, Ordering::SeqCst);
    MOMENTS.store(0, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::child::{Child, Ended};

    #[test]
    fn what_was_inherited_is_duplicated_and_nothing_else() {
        let copy = duplicate_inherited(2).unwrap();
        assert!(copy.as_raw_fd() > 2);
        let own = std::fs::File::open("/proc/self/stat").unwrap();
        assert_eq!(duplicate_inherited(own.as_raw_fd()).unwrap_err().errno(), libc::EBADF);
        assert_eq!(duplicate_inherited(1 << 20).unwrap_err().errno(), libc::EBADF);
        assert_eq!(duplicate_inherited(-1).unwrap_err().errno(), libc::EBADF);
    }

    #[test]
    fn closed_when_it_is_dropped_and_not_before_whatever_was_forked() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let other = std::fs::File::open("/proc/self/stat").unwrap();
        let apart = match Apart::hold(vec![theirs.into()]) {
            Ok(apart) => apart,
            Err((error, _)) => {
                assert_eq!(error.call, "close_range", "{error}");
                punctual_testing::lacks(punctual_testing::Lack::Call("close_range", error.errno()));
                return;
            }
        };
        let mut child = Child::spawn("lives on", || std::thread::sleep(Duration::from_secs(1000))).unwrap();
        ours.set_nonblocking(true).unwrap();
        assert_eq!(ours.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        drop(apart);
        // The child was forked while it was held, and lives. A child that another test forked before it was held may have a copy for a moment.
        punctual_testing::until("the end of the stream", || matches!(ours.read(&mut [0]), Ok(0)));
        assert_eq!(child.ended().unwrap(), None);
        // Other descriptors stay open.
        assert!((&other).read(&mut [0]).unwrap() == 1);
    }

    #[test]
    fn a_fork_waits_until_the_moment_is_over() {
        let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                no_fork_meanwhile(|| {
                    begun.store(true, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(20));
                    over.store(true, Ordering::SeqCst);
                })
                .unwrap();
            });
            while !begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let seen = over.load(Ordering::SeqCst);
            let mut child = Child::spawn("after", || {
                // A moment within the child works as well: it does not wait for the parent's.
                no_fork_meanwhile(|| ()).unwrap();
            })
            .unwrap();
            assert!(seen || over.load(Ordering::SeqCst), "the fork came after the moment");
            assert_eq!(child.wait().unwrap(), Ended::Exited(0));
        });
    }
}
