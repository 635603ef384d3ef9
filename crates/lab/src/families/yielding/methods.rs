//! All ways to yield, and the system calls that each makes here, as the kernel sees them. A new way is one more item.

use std::hint::black_box;
use std::sync::atomic::AtomicU32;

use punctual_linux::clock::Clock;
use punctual_linux::counter::nop;
use punctual_linux::futex::{self, Scope};
use punctual_linux::observe::{ObserveError, SystemCall, system_calls_after};
use punctual_linux::sleep::{self, Epoll};
use punctual_linux::{Error, Result as LinuxResult};

use crate::frame::Unavailable;
use crate::ways::{Call, YieldMethod, Yielder};

type Opened = crate::frame::error::Opened<dyn Yielder>;

/// All ways to yield, in the order of `--list`. It is a static: a constant's functions would be compiled in each
/// crate that names it, optimised for size.
pub static ALL: &[YieldMethod] = &[
    YieldMethod {
        name: "nothing",
        about: "an empty loop: what the others are compared with",
        call: ";",
        system_calls: &[],
        open: || plain(|| ()),
    },
    YieldMethod {
        name: "nop",
        about: "the instruction that does nothing",
        call: "__asm__ volatile(\"nop\")",
        system_calls: &[],
        open: || plain(nop),
    },
    YieldMethod {
        name: "pause",
        about: "the CPU's spin hint: yields to the other hardware thread, never to another program",
        call: "_mm_pause()",
        system_calls: &[],
        open: || plain(std::hint::spin_loop),
    },
    YieldMethod {
        name: "sched_yield",
        about: "goes behind the others that are ready, and stays ready",
        call: "sched_yield()",
        system_calls: &["sched_yield"],
        open: || call("sched_yield", sleep::sched_yield),
    },
    YieldMethod {
        name: "thread_yield",
        about: "Rust's std::thread::yield_now",
        call: "std::thread::yield_now()",
        system_calls: &["sched_yield"],
        open: || plain(std::thread::yield_now),
    },
    YieldMethod {
        name: "sleep0",
        about: "a sleep of 0 seconds",
        call: "sleep(0)",
        system_calls: &["clock_nanosleep", "nanosleep"],
        open: || call("sleep(0)", || sleep::sleep(0)),
    },
    YieldMethod {
        name: "usleep0",
        about: "a sleep of 0 microseconds, as folklore has it",
        call: "usleep(0)",
        system_calls: &["clock_nanosleep", "nanosleep"],
        open: || call("usleep(0)", || sleep::usleep(0)),
    },
    YieldMethod {
        name: "usleep1",
        about: "a sleep of 1 microsecond: sleeps where one of 0 returns at once (Linux 7.2 and later)",
        call: "usleep(1)",
        system_calls: &["clock_nanosleep", "nanosleep"],
        open: || call("usleep(1)", || sleep::usleep(1)),
    },
    YieldMethod {
        name: "nanosleep0",
        about: "a sleep of 0 nanoseconds",
        call: "nanosleep({0, 0}, NULL)",
        system_calls: &["clock_nanosleep", "nanosleep"],
        open: || call("nanosleep(0)", || sleep::nanosleep(0)),
    },
    YieldMethod {
        name: "nanosleep1",
        about: "a sleep of 1 nanosecond",
        call: "nanosleep({0, 1}, NULL)",
        system_calls: &["clock_nanosleep", "nanosleep"],
        open: || call("nanosleep(1)", || sleep::nanosleep(1)),
    },
    YieldMethod {
        name: "clock_nanosleep_past",
        about: "a sleep until a time gone by",
        call: "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, {0, 1}, NULL)",
        system_calls: &["clock_nanosleep"],
        open: || call("clock_nanosleep", || sleep::clock_nanosleep_until(Clock::Monotonic, 1)),
    },
    YieldMethod {
        name: "select0",
        about: "select on nothing with a timeout of 0: what usleep(0) once was",
        call: "select(0, NULL, NULL, NULL, {0, 0})",
        system_calls: &["select", "_newselect", "pselect6"],
        open: || call("select(0)", || sleep::select(0)),
    },
    YieldMethod {
        name: "poll0",
        about: "poll on nothing with a timeout of 0",
        call: "poll(NULL, 0, 0)",
        system_calls: &["poll", "ppoll"],
        open: || call("poll(0)", || sleep::poll(0)),
    },
    YieldMethod {
        name: "ppoll0",
        about: "ppoll on nothing with a timeout of 0",
        call: "ppoll(NULL, 0, {0, 0}, NULL)",
        system_calls: &["ppoll"],
        open: || call("ppoll(0)", || sleep::ppoll(0)),
    },
    YieldMethod {
        name: "epoll_wait0",
        about: "epoll_wait on an empty set with a timeout of 0",
        call: "epoll_wait(set, &event, 1, 0)",
        system_calls: &["epoll_wait", "epoll_pwait"],
        open: epoll_wait0,
    },
    YieldMethod {
        name: "futex_changed",
        about: "a futex wait on a word that has changed already: returns at once",
        call: "futex(&word, FUTEX_WAIT_BITSET_PRIVATE, word + 1)",
        system_calls: &["futex", "futex_time64"],
        open: futex_changed,
    },
];

/// The yields of the MPICH study.
#[must_use]
pub fn usual() -> Vec<&'static YieldMethod> {
    ["sched_yield", "usleep0"].iter().filter_map(|name| find(name)).collect()
}

/// The method called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static YieldMethod> {
    ALL.iter().find(|method| method.name == name)
}

/// A way that cannot fail.
fn plain(make: impl FnMut() + 'static) -> Opened {
    Ok(Box::new(Call(make)))
}

/// A way that is unavailable if its first call fails. A signal is no failure.
fn call<T: 'static>(name: &'static str, mut make: impl FnMut() -> LinuxResult<T> + 'static) -> Opened {
    black_box(make()).map_err(|error| unavailable(name, &error))?;
    plain(move || {
        // The first call worked: a later error is an interruption by a signal. A system call is never optimised away.
        let _ = make();
    })
}

fn unavailable(name: &str, error: &Error) -> Unavailable {
    Unavailable {
        why: format!("{name}: {error}"),
        remedy: Some("a seccomp filter forbids the call: allow it in the container or service".into()),
    }
}

fn epoll_wait0() -> Opened {
    let set = Epoll::new().map_err(|error| unavailable("epoll_create1", &error))?;
    call("epoll_wait(0)", move || set.wait(0))
}

fn futex_changed() -> Opened {
    let word = AtomicU32::new(0);
    futex::wait(&word, 1, Scope::Private, None).map_err(|error| unavailable("futex", &error))?;
    plain(move || futex::wait_whatever_comes(&word, 1, Scope::Private))
}

/// The system calls of one call of the method, with their arguments. None if the method cannot be opened.
pub fn system_calls(method: &YieldMethod) -> Result<Vec<SystemCall>, ObserveError> {
    system_calls_after(
        || (method.open)().ok(),
        |yielder| {
            if let Some(yielder) = yielder {
                yielder.repeat(1);
            }
        },
    )
}

/// The calls in a few words: `clock_nanosleep`, `none`, or the reason why they are unknown.
pub(crate) fn system_calls_in_words(method: &YieldMethod) -> String {
    match system_calls(method) {
        Ok(calls) if calls.is_empty() => "none".into(),
        Ok(calls) => calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>().join(", "),
        Err(error) => format!("not known: {error}"),
    }
}
