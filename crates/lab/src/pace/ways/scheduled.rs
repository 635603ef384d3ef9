//! Waiting for each event's time on a schedule: lateness does not add up.

use std::os::fd::OwnedFd;
use std::time::Duration;

use punctual::rate::Grid;
use punctual::{Clock as _, Moment, Rate, SystemClock};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::sleep::clock_nanosleep_until;
use punctual_linux::timed::Ended;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::pace::way::{Gate, Mode, Terms, Way, go_on};
use crate::wait::method::Unavailable;

pub(super) const WAYS: &[Way] = &[
    Way {
        name: "clock_nanosleep_abs",
        about: "sleeps until each event's time: late by a wake-up, yet the rate holds",
        call: "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL); send();",
        needs: "",
        mode: Mode::Single,
        open: |_: &Terms| Ok(Box::new(Absolute { grid: nothing() })),
    },
    Way {
        name: "my_rate",
        about: "libmy's way: absolute sleeps, the period slowly corrected by measured over nominal rate, at most 1 %",
        call: "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL); next += period * correction;",
        needs: "",
        mode: Mode::Single,
        open: |_: &Terms| Ok(Box::new(Corrected::default())),
    },
    Way {
        name: "timerfd",
        about: "a periodic timer read as a descriptor: events that were missed come together",
        call: "read(timerfd, &expirations, 8); send() so many times;",
        needs: "",
        mode: Mode::Single,
        open: open_timerfd,
    },
    Way {
        name: "spin",
        about: "keeps the CPU until each event's time",
        call: "while (clock_gettime(CLOCK_MONOTONIC) < next); send();",
        needs: "",
        mode: Mode::Single,
        open: |_: &Terms| Ok(Box::new(Spin { grid: nothing(), clock: SystemClock::monotonic() })),
    },
];

/// A grid before its beginning.
fn nothing() -> Grid {
    // A period of one second is a rate.
    Grid::new(
        Rate::every(Duration::from_secs(1)).unwrap_or_else(|_| unreachable!("one second is a period")),
        Moment::default(),
    )
}

fn sleep_until(deadline: Moment) -> linux::Result<()> {
    while clock_nanosleep_until(Clock::Monotonic, deadline.as_nanos())? != Ended::TimeUp {
        go_on()?;
    }
    go_on()
}

struct Absolute {
    grid: Grid,
}

impl Gate for Absolute {
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()> {
        self.grid = Grid::new(rate, start);
        Ok(())
    }

    fn next(&mut self) -> linux::Result<u64> {
        let deadline = self.grid.next();
        self.grid.advance();
        sleep_until(deadline).map(|()| 1)
    }
}

/// The correction of libmy's `my_rate`: the period is multiplied by measured over nominal rate, clamped to 1 %.
#[derive(Default)]
struct Corrected {
    start_ns: i64,
    next_ns: f64,
    period_ns: f64,
    correction: f64,
    events: u64,
}

/// Events between two corrections: a slow one, as its author calls it.
const CORRECT_EVERY: u64 = 100;

impl Gate for Corrected {
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()> {
        let start_ns = start.as_nanos();
        let period_ns = 1e9 / rate.per_second_f64();
        *self = Self { start_ns, next_ns: 0.0, period_ns, correction: 1.0, events: 0 };
        Ok(())
    }

    fn next(&mut self) -> linux::Result<u64> {
        if self.events > 0 && self.events.is_multiple_of(CORRECT_EVERY) {
            let elapsed = (now_ns(Clock::Monotonic) - self.start_ns) as f64;
            let measured_over_nominal = self.events as f64 * self.period_ns / elapsed;
            self.correction = measured_over_nominal.clamp(0.99, 1.01);
        }
        sleep_until(Moment::from_nanos(self.start_ns + self.next_ns as i64))?;
        self.events += 1;
        self.next_ns += self.period_ns * self.correction;
        Ok(1)
    }
}

struct Periodic {
    timer: OwnedFd,
}

fn open_timerfd(_: &Terms) -> Result<Box<dyn Gate>, Unavailable> {
    let unavailable = |e: rustix::io::Errno| Unavailable { why: format!("timerfd_create: {e}"), remedy: None };
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).map_err(unavailable)?;
    Ok(Box::new(Periodic { timer }))
}

fn timespec(ns: i64) -> Timespec {
    Timespec { tv_sec: ns / 1_000_000_000, tv_nsec: (ns % 1_000_000_000) as _ }
}

impl Gate for Periodic {
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()> {
        let value = Itimerspec { it_interval: timespec(rate.time_of(1)), it_value: timespec(start.as_nanos()) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value)
            .map(drop)
            .map_err(|e| linux::Error::from_errno("timerfd_settime", e.raw_os_error()))
    }

    fn next(&mut self) -> linux::Result<u64> {
        let mut count = [0; 8];
        loop {
            go_on()?;
            match rustix::io::read(&self.timer, &mut count) {
                Ok(_) => return Ok(u64::from_ne_bytes(count).max(1)),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(linux::Error::from_errno("read", e.raw_os_error()).on("timerfd")),
            }
        }
    }

    fn end(&mut self) {
        // A timer that cannot be unset ends with its descriptor.
        let none = Itimerspec { it_interval: timespec(0), it_value: timespec(0) };
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &none);
    }
}

struct Spin {
    grid: Grid,
    clock: SystemClock,
}

/// Longest spin between two looks at the stop request.
const LONGEST_SPIN_NS: i64 = 10_000_000;

impl Gate for Spin {
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()> {
        self.grid = Grid::new(rate, start);
        Ok(())
    }

    fn next(&mut self) -> linux::Result<u64> {
        let deadline = self.grid.next();
        self.grid.advance();
        loop {
            go_on()?;
            let reach = deadline.min(self.clock.now().plus_nanos(LONGEST_SPIN_NS));
            if self.clock.spin_until(reach) >= deadline {
                return Ok(1);
            }
        }
    }
}
