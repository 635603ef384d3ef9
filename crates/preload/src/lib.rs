//! A library for `LD_PRELOAD` that takes the place of a program's waits: `libpunctual_preload.so`.
//!
//! `punctual run` sets it up; by hand it is `LD_PRELOAD=/path/libpunctual_preload.so PUNCTUAL_PRELOAD="usleep0=yield" PROGRAM`.
//! Without `PUNCTUAL_PRELOAD`, every call goes to the C library unchanged.
//!
//! | setting | waits | what it does |
//! |---|---|---|
//! | `usleep0=yield\|pause\|backoff` | `usleep`, `nanosleep`, `clock_nanosleep`, `thrd_sleep` of at most 1 µs | yields, pauses, or both before it sleeps |
//! | `sched-yield=pause\|backoff\|sleep` | `sched_yield`, `pthread_yield`, `thrd_yield` | the same; `sleep` gives the CPU to any thread for at least 20 µs |
//! | `precise-sleep`, `precise-sleep=5us`, `precise-sleep=5%` | the same of more than 1 µs, and the timeouts of `poll`, `select`, `epoll`, `sem_timedwait`, `pthread_mutex_timedlock`, `mtx_timedlock` | sleeps until a learned margin before the deadline, then spins ([`punctual::margin`]) |
//! | `poll-first=20us` | `poll`, `select`, `epoll`, semaphores and mutexes with a timeout, `FUTEX_WAIT` by `syscall` | looks for this long before it blocks |
//! | `rules=FILE` | all | the same for some callers and threads only, and how threads are scheduled ([`punctual_rules`]); the last setting |
//!
//! `pause` never gives up the CPU. A thread of SCHED_FIFO or SCHED_RR that calls `sched_yield` until another one of its priority has run on
//! its CPU then goes on without end. With `backoff` and `sleep` the other one runs.
//!
//! A condition variable cannot be tried without waiting. `pthread_cond_timedwait`, `cnd_timedwait` and the timeouts of `FUTEX_WAIT` end on
//! time as far as the timer slack goes. With `precise-sleep` it is 1 ns. Sleeps of at most 1 µs that stay as they are keep the program's
//! slack. With 1 ns they would not give up the CPU. `PUNCTUAL_SLACK_NS` is the slack that they have in programs which another one
//! executes; `punctual run` sets it.
//!
//! A wait never ends before its time. A signal ends a wait as it does without the library, also while it polls: it waits for its handler
//! for at most 20 µs then. An epoll call that is stopped and continued while it polls goes on, where a blocked one fails with EINTR
//! (signal(7)). In the last microseconds before its deadline (at most 250 µs), a wait does not end before that for a signal.
//!
//! `PUNCTUAL_DISABLE=1` in the environment leaves every call alone, for a program that inherits the settings and is not to have them. With
//! `PUNCTUAL_INHERIT=0` the library takes its settings, and itself, out of the environment when it is loaded: programs that this one
//! executes run without it.
//!
//! # System calls
//!
//! A wait makes the program's own system call, for a shorter time or for none. Some remedies need others. They are tried: where one fails
//! with EPERM, EACCES or ENOSYS, the program's own call is made, then and later.
//!
//! | setting | calls beside the program's own |
//! |---|---|
//! | `precise-sleep` | `prctl(PR_GET_TIMERSLACK, PR_SET_TIMERSLACK)`, `ppoll` for `poll`, `epoll_pwait2` for `epoll_wait` and `epoll_pwait` |
//! | `poll-first` | `rt_sigprocmask` and `ppoll` around the polling phase, `ppoll` for `poll`, `epoll_pwait2` as above |
//! | `usleep0`, `sched-yield` | `sched_yield`; `nanosleep` for `sched-yield=sleep` |
//! | `rules` | `openat`, `read`, `fstat`, `mmap`, `munmap`, `close` at a first call; `prctl`, `sched_getattr`, `sched_setattr`, `sched_getaffinity`, `sched_setaffinity`, `prlimit64` |
//! | `PUNCTUAL_OBSERVE` | `openat`, `fstat`, `mmap`, `close` at the start; `clock_gettime` of the thread's CPU time, `getrusage` |
//! | all | `openat`, `read`, `close` of /proc/self/status at the start; `futex` to find out whether a pointer is good |
//!
//! A filter of system calls (seccomp(2)) may kill instead. Once the program turns on a filter through the C library, the library makes
//! none of these calls any more. Semaphores and mutexes then still end on time, and so do sleeps whose time is on the stack; `poll` and
//! epoll are the program's own.
//! Where a filter was on already when the program was loaded, they are tried, but for `epoll_pwait2`. A filter that the program turns on
//! by an instruction of its own is not seen. The clock is read without a system call where the vDSO has it (vdso(7)).
//!
//! # Rules
//!
//! Each function knows from where it is called: an entry of a few instructions adds its return address. The first call from an address
//! decides which rules hold for it. It reads /proc/self/maps and the symbol tables of the file. A table without a lock keeps the answer. A
//! table that is full (1024 addresses) leaves the rules for all callers. The table knows nothing of `dlclose`: a library at the place of
//! an unloaded one keeps that one's rules. On other architectures than x86-64, aarch64 and riscv64, rules with a place hold for nobody.
//!
//! Names of threads are compared when one changes: `pthread_create`, `pthread_setname_np` and `prctl(PR_SET_NAME)` are functions of this
//! library too. Scheduling is set then, and put back when no rule asks for it any more. A thread that another one names, or that
//! `thrd_create` or `clone` made, has it from its next wait. A name written to /proc is not seen. A program that such a thread executes
//! keeps what the thread had. Where a rule asks for SCHED_FIFO or SCHED_RR, the process has 2 s of RLIMIT_RTTIME from then on.
//!
//! # What it counts
//!
//! With `PUNCTUAL_OBSERVE=FILE` it counts each wait by call site: how often, how it ended, time asked, lateness, CPU time. Processes map
//! the file, which `punctual run --observe` makes and reads; a process that cannot map it runs unobserved. A program that cuts the file off
//! ends at its next count (SIGBUS). A call that only looks costs
//! some 30 ns more, one that can block some 200 ns.
//!
//! # What it never does
//!
//! The functions allocate nothing and take no lock, and are safe in a signal handler and after `fork` or `vfork`. They keep `errno` of the
//! C library. They are cancellation points where the C library's are: they are `extern "C-unwind"`, since cancelling a thread unwinds it
//! (pthreads(7)). An unknown setting leaves all calls as they are, and so does a file of rules with an error. The library prints nothing:
//! the streams are the program's. Only the reading of that file, before `main`, allocates.
//!
//! Programs that make system calls without the C library (static ones, Go) do not see it, and waits of io_uring(7) are not seen. The loader
//! leaves it out of set-user-ID programs (ld.so(8)). A breakpoint on the name of a wait stops in this library first.

#![allow(unsafe_code, reason = "a library for LD_PRELOAD has the types of the C library")]
#![cfg_attr(test, allow(dead_code, reason = "a test does not export the functions"))]
#![allow(unreachable_pub, reason = "the loader reaches them by name")]

mod callers;
mod filter;
mod hooks;
mod memory;
mod next;
mod observe;
mod polling;
mod rules;
mod scheduling;
mod settings;
mod zero;

/// The version, which `punctual run` compares with its own before it loads the library.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".punctual.version")]
pub static PUNCTUAL_PRELOAD_VERSION: [u8; env!("CARGO_PKG_VERSION").len()] =
    *env!("CARGO_PKG_VERSION").as_bytes().first_chunk().expect("the array has its length");
