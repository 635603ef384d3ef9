//! The library's own sleeper, compared with the system's calls.

use punctual::{Moment, Sleeper, SleeperOptions, Strategy};
use punctual_linux as linux;
use punctual_linux::clock::Clock;

use super::waiters::Opened;
use crate::ways::wait::{Kind, Method, Waiter};

/// Waits that train a sleeper before the first recorded one: a block of the learner, and some more.
const LEARNING: u32 = 40;
/// A longer wait is not rehearsed: forty of them would take too long.
const LONGEST_LEARNED_NS: i64 = 5_000_000;

const LIBRARY: Method = Method {
    system_calls: &["clock_nanosleep", "clock_nanosleep_time64"],
    // The first wait sets the timer slack. The sleeper learns a sleep's cost from the thread's CPU clock, a system
    // call.
    also: &["prctl", "clock_gettime"],
    absolute: true,
    ..Method::unnamed(Kind::Library)
};

pub(super) static METHODS: &[Method] = &[
    Method {
        name: "native",
        about: "the library's plain sleep: an absolute deadline and a timer slack of 1 ns",
        call: "Sleeper::options().strategy(Strategy::Native)",
        code: "Sleeper::options().strategy(Strategy::Native).build().sleep_until(deadline);",
        open: || open(Strategy::Native),
        ..LIBRARY
    },
    Method {
        name: "compensated",
        about: "the same, woken sooner by the typical wake-up latency, which is followed as it drifts",
        call: "Sleeper::options().strategy(Strategy::Compensated)",
        code: "Sleeper::options().strategy(Strategy::Compensated).build().sleep_until(deadline);",
        open: || open(Strategy::Compensated),
        ..LIBRARY
    },
    Method {
        name: "hybrid",
        about: "sleeps until a learned margin before the deadline, then spins: on time at little CPU time",
        call: "Sleeper::new()",
        code: "let mut sleeper = punctual::Sleeper::new(); sleeper.sleep_until(deadline);",
        open: || open(Strategy::Hybrid),
        ..LIBRARY
    },
];

/// A sleeper for each condition set: training under one does not apply to another.
struct Library {
    strategy: Strategy,
    sleepers: Vec<Option<Sleeper>>,
    now: usize,
}

fn open(strategy: Strategy) -> Opened {
    let mut library = Library { strategy, sleepers: Vec::new(), now: 0 };
    library.ensure(0);
    Ok(Box::new(library))
}

impl Library {
    /// Whether a sleeper had to be opened.
    fn ensure(&mut self, conditions: usize) -> bool {
        if self.sleepers.len() <= conditions {
            self.sleepers.resize_with(conditions + 1, || None);
        }
        let is_new = self.sleepers[conditions].is_none();
        if is_new {
            self.sleepers[conditions] = Some(SleeperOptions::new().strategy(self.strategy).build());
        }
        self.now = conditions;
        is_new
    }
}

impl Waiter for Library {
    fn begin(&mut self, conditions: usize, asked_ns: i64) -> linux::Result<()> {
        self.ensure(conditions);
        let sleeper = self.sleepers[conditions].as_ref();
        let knows = sleeper.is_some_and(|s| s.learner().typical_latency_ns(asked_ns).is_some());
        if self.strategy != Strategy::Native && !knows && asked_ns <= LONGEST_LEARNED_NS {
            for _ in 0..LEARNING {
                let from_ns = linux::clock::now_ns(Clock::Monotonic);
                self.wait(from_ns, asked_ns)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        let deadline = Moment::from_nanos(from_ns.saturating_add(asked_ns));
        let Some(sleeper) = self.sleepers[self.now].as_mut() else { return Ok(()) };
        match sleeper.sleep_until_unless(deadline, linux::stop::requested) {
            Some(_) => Ok(()),
            None => Err(linux::Error::from_errno("clock_nanosleep", linux::EINTR)),
        }
    }

    fn end(&mut self) {
        for sleeper in self.sleepers.iter_mut().flatten() {
            sleeper.restore_timer_slack();
        }
    }
}
