//! All ways to pace, one small item each. A program paces by its own waits: it sleeps for a period between two events, the
//! common first version, in which each sleep's overhead lengthens its period; or it waits for each event's deadline on a
//! schedule, where lateness does not accumulate. Or it leaves the waits to others: to the library's pacer with each of its
//! strategies, or to the kernel's queueing discipline, if the interface has one that paces.

use std::os::fd::OwnedFd;
use std::time::Duration;

use punctual::rate::Grid;
use punctual::{Clock as _, Moment, Pacer, Rate, SleeperOptions, Strategy, SystemClock};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::sleep::Ended;
use punctual_linux::sleep::{self, clock_nanosleep_until};
use punctual_record::Ask;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::datagrams::Mode;
use crate::families::pace::plan::{MOST_AHEAD_NS, PacingMethod, PacingSession, Terms};
use crate::frame::{Unavailable, go_on};

/// All methods, including those that this machine lacks, from the common first version to the best one.
pub fn all() -> impl Iterator<Item = &'static PacingMethod> {
    ALL.iter()
}

/// The method called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static PacingMethod> {
    all().find(|method| method.name == name)
}

/// What a method has unless it says otherwise: it needs nothing, and sends each event by itself.
const SINGLE: PacingMethod = PacingMethod {
    name: "",
    about: "",
    call: "",
    needs: "",
    mode: Mode::Single,
    open: |_| Err(Unavailable::because("it has no call")),
};

static ALL: &[PacingMethod] = &[
    PacingMethod {
        name: "usleep",
        about: "usleep for a period after each event: what it adds slows the rate",
        call: "send(); usleep(period_us);",
        open: |_: &Terms| {
            open_spaced(|ns| sleep::usleep((ns.max(0) as u64).div_ceil(1_000).min(u32::MAX.into()) as u32))
        },
        ..SINGLE
    },
    PacingMethod {
        name: "nanosleep",
        about: "nanosleep for a period after each event: finer arguments, the same rate",
        call: "send(); nanosleep(&period, NULL);",
        open: |_: &Terms| open_spaced(sleep::nanosleep),
        ..SINGLE
    },
    PacingMethod {
        name: "usleep_1us",
        about: "usleep(1) after each event, repeated until the next is due: the most that usleep between events lets through",
        call: "send(); do usleep(1); while (now() < next);",
        open: |_: &Terms| open_shortest(|| sleep::usleep(1)),
        ..SINGLE
    },
    PacingMethod {
        name: "nanosleep_1ns",
        about: "nanosleep of 1 ns after each event, repeated until the next is due: the most that a sleep between events lets through",
        call: "send(); do nanosleep(&one_ns, NULL); while (now() < next);",
        open: |_: &Terms| open_shortest(|| sleep::nanosleep(1)),
        ..SINGLE
    },
    PacingMethod {
        name: "clock_nanosleep_abs",
        about: "sleeps until each event's time: late by a wake-up, yet the rate holds",
        call: "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL); send();",
        open: |_: &Terms| on_grid(sleep_until),
        ..SINGLE
    },
    PacingMethod {
        name: "my_rate",
        about: "libmy's way: absolute sleeps, the period slowly corrected by measured over nominal rate, at most 1 %",
        call: "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL); next += period * correction;",
        open: |_: &Terms| Ok(Box::new(Corrected { start_ns: 0, schedule: Correction::new(1e9) })),
        ..SINGLE
    },
    PacingMethod {
        name: "timerfd",
        about: "a periodic timer read as a descriptor: events that were missed come together",
        call: "read(timerfd, &expirations, 8); send() so many times;",
        open: open_timerfd,
        ..SINGLE
    },
    PacingMethod {
        name: "spin",
        about: "keeps the CPU until each event's time",
        call: "while (clock_gettime(CLOCK_MONOTONIC) < next); send();",
        open: open_spin,
        ..SINGLE
    },
    PacingMethod {
        name: "compensated",
        about: "the library's pacer; sleeps end sooner by the typical wake-up latency",
        call: "Pacer::options(rate).sleeper(SleeperOptions::new().strategy(Strategy::Compensated)).build()",
        open: |_: &Terms| open_pacer(Strategy::Compensated, None),
        ..SINGLE
    },
    PacingMethod {
        name: "hybrid",
        about: "the library's pacer: sleeps until a learned margin before each event, then spins",
        call: "Pacer::new(rate)",
        open: |_: &Terms| open_pacer(Strategy::Hybrid, None),
        ..SINGLE
    },
    PacingMethod {
        name: "hybrid_batch",
        about: "the same in batches as large as the jitter allows, each sent by one sendmmsg",
        call: "Pacer::options(rate).jitter(jitter).build()",
        mode: Mode::Batch,
        open: |terms: &Terms| open_pacer(Strategy::Hybrid, Some(terms.jitter)),
        ..SINGLE
    },
    PacingMethod {
        name: "so_max_pacing_rate",
        about: "hands everything to the kernel, which lets it leave at the rate",
        call: "setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_second, 8); send();",
        needs: "the queueing discipline fq; above its low_rate_threshold (550 kbit/s) fq spaces bursts of its quantum, not datagrams",
        mode: Mode::KernelRate,
        open: |terms: &Terms| {
            paced_by(terms, &["fq"])?;
            Ok(Box::new(AtOnce))
        },
    },
    PacingMethod {
        name: "so_txtime",
        about: "hands each datagram over up to 5 ms ahead, with the time to leave at",
        call: "setsockopt(fd, SOL_SOCKET, SO_TXTIME, &clock, 8); sendmsg() with SCM_TXTIME;",
        needs: "the queueing discipline fq or etf",
        mode: Mode::KernelTime,
        open: |terms: &Terms| {
            paced_by(terms, &["fq", "etf"])?;
            Ok(Box::new(Ahead { grid: None, ahead_ns: 0 }))
        },
    },
];

type Opened = Result<Box<dyn PacingSession>, Unavailable>;

/// Waits for the time of each event on a grid, where lateness does not accumulate.
struct OnGrid<F> {
    grid: Option<Grid>,
    wait_until: F,
}

fn on_grid(wait_until: impl FnMut(Moment) -> linux::Result<()> + 'static) -> Opened {
    Ok(Box::new(OnGrid { grid: None, wait_until }))
}

impl<F: FnMut(Moment) -> linux::Result<()>> PacingSession for OnGrid<F> {
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()> {
        self.grid = Some(Grid::new(rate, start));
        Ok(())
    }

    fn next(&mut self) -> linux::Result<u64> {
        let due = self.grid.as_ref().map_or_else(Moment::default, Grid::next);
        self.grid.iter_mut().for_each(Grid::advance);
        (self.wait_until)(due).map(|()| 1)
    }
}

/// The shortest sleep that a call has, at least one between two events. Above the rate that this allows, it is the
/// limit of one thread that sleeps between events.
fn open_shortest(mut sleep: impl FnMut() -> linux::Result<Ended> + 'static) -> Opened {
    on_grid(move |due| {
        loop {
            // A signal ends the sleep early, as it would in such a program.
            let _ = sleep()?;
            go_on("pace")?;
            if now_ns(Clock::Monotonic) >= due.as_nanos() {
                return Ok(());
            }
        }
    })
}

struct Spaced<F> {
    sleep: F,
    start: Moment,
    period_ns: i64,
    begun: bool,
}

fn open_spaced(sleep: impl FnMut(i64) -> linux::Result<Ended> + 'static) -> Opened {
    Ok(Box::new(Spaced { sleep, start: Moment::default(), period_ns: 0, begun: false }))
}

impl<F: FnMut(i64) -> linux::Result<Ended>> PacingSession for Spaced<F> {
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()> {
        (self.start, self.period_ns, self.begun) = (start, rate.time_of(1), false);
        Ok(())
    }

    fn next(&mut self) -> linux::Result<u64> {
        go_on("pace")?;
        if self.begun {
            // A signal ends the sleep early, as it would in such a program.
            let _ = (self.sleep)(self.period_ns)?;
        } else {
            sleep_until(self.start)?;
            self.begun = true;
        }
        go_on("pace")?;
        Ok(1)
    }
}

fn sleep_until(deadline: Moment) -> linux::Result<()> {
    while clock_nanosleep_until(Clock::Monotonic, deadline.as_nanos())? != Ended::TimeUp {
        go_on("pace")?;
    }
    go_on("pace")
}

/// The schedule of libmy's `my_rate`: the period is multiplied by measured over nominal rate, clamped to 1 %.
///
/// A program that is late at a correction raises its rate, and then runs ahead of the ideal schedule. Its lead has
/// two bounds: the largest lateness less one period, and 1 % of the time since the first correction.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Correction {
    next_ns: f64,
    period_ns: f64,
    factor: f64,
    events: u64,
}

/// Events between two corrections: a slow correction, in its author's words.
const CORRECT_EVERY: u64 = 100;
/// Largest correction of a period.
const CORRECT_BY: f64 = 0.01;

impl Correction {
    fn new(period_ns: f64) -> Self {
        Self { next_ns: 0.0, period_ns, factor: 1.0, events: 0 }
    }

    /// The due time of the next event, from the beginning. `elapsed_ns`: the present time on the same scale, read
    /// only if the period is corrected.
    fn next(&mut self, elapsed_ns: impl FnOnce() -> i64) -> i64 {
        if self.events > 0 && self.events.is_multiple_of(CORRECT_EVERY) {
            let measured_over_nominal = self.events as f64 * self.period_ns / elapsed_ns() as f64;
            self.factor = measured_over_nominal.clamp(1.0 - CORRECT_BY, 1.0 + CORRECT_BY);
        }
        let due = self.next_ns as i64;
        self.events += 1;
        self.next_ns += self.period_ns * self.factor;
        due
    }
}

struct Corrected {
    start_ns: i64,
    schedule: Correction,
}

impl PacingSession for Corrected {
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()> {
        *self = Self { start_ns: start.as_nanos(), schedule: Correction::new(1e9 / rate.per_second_f64()) };
        Ok(())
    }

    fn next(&mut self) -> linux::Result<u64> {
        let start_ns = self.start_ns;
        let due = self.schedule.next(|| now_ns(Clock::Monotonic) - start_ns);
        sleep_until(Moment::from_nanos(start_ns + due)).map(|()| 1)
    }
}

struct Periodic {
    timer: OwnedFd,
}

fn open_timerfd(_: &Terms) -> Opened {
    let unavailable = |e: rustix::io::Errno| Unavailable::because(format!("timerfd_create: {e}"));
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).map_err(unavailable)?;
    Ok(Box::new(Periodic { timer }))
}

fn timespec(ns: i64) -> Timespec {
    Timespec { tv_sec: ns / 1_000_000_000, tv_nsec: (ns % 1_000_000_000) as _ }
}

impl PacingSession for Periodic {
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()> {
        let value = Itimerspec { it_interval: timespec(rate.time_of(1)), it_value: timespec(start.as_nanos()) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value)
            .map(drop)
            .map_err(|e| linux::Error::from_errno("timerfd_settime", e.raw_os_error()))
    }

    fn next(&mut self) -> linux::Result<u64> {
        let mut count = [0; 8];
        loop {
            go_on("pace")?;
            match rustix::io::read(&self.timer, &mut count) {
                Ok(_) => return Ok(u64::from_ne_bytes(count).max(1)),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(linux::Error::from_errno("read", e.raw_os_error()).on("timerfd")),
            }
        }
    }

    fn end(&mut self) {
        // A timer that cannot be disarmed ends with its descriptor.
        let none = Itimerspec { it_interval: timespec(0), it_value: timespec(0) };
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &none);
    }
}

/// Longest spin between two checks of the stop request.
const LONGEST_SPIN_NS: i64 = 10_000_000;

fn open_spin(_: &Terms) -> Opened {
    let clock = SystemClock::monotonic();
    on_grid(move |due| {
        loop {
            go_on("pace")?;
            let reach = due.min(clock.now().plus_nanos(LONGEST_SPIN_NS));
            if clock.spin_until(reach) >= due {
                return Ok(());
            }
        }
    })
}

struct Paced {
    pacer: Pacer,
}

fn open_pacer(strategy: Strategy, jitter: Option<Duration>) -> Opened {
    let any = Rate::per_second(1_000).map_err(|e| Unavailable::because(e.to_string()))?;
    let options = Pacer::options(any).sleeper(SleeperOptions::new().strategy(strategy));
    let options = match jitter {
        Some(jitter) => options.jitter(jitter),
        None => options,
    };
    Ok(Box::new(Paced { pacer: options.build() }))
}

impl PacingSession for Paced {
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()> {
        self.pacer.restart(start, rate);
        Ok(())
    }

    fn next(&mut self) -> linux::Result<u64> {
        match self.pacer.next_unless(linux::stop::requested) {
            // At high rates there is no sleep that would notice the request.
            Some(batch) if !linux::stop::requested() => Ok(batch.count),
            _ => Err(linux::Error::from_errno("pace", linux::EINTR)),
        }
    }

    fn end(&mut self) {
        self.pacer.restore_timer_slack();
    }
}

/// Most datagrams handed over in advance: fq drops datagrams beyond 100 of one flow (`flow_limit`, tc-fq(8)).
const AHEAD: i64 = 50;

/// Lead of datagrams over their departure, at a period. It is well above a wake-up latency: etf drops a late
/// datagram.
fn ahead_ns(period_ns: i64) -> i64 {
    period_ns.saturating_mul(AHEAD).min(MOST_AHEAD_NS)
}

fn paced_by(terms: &Terms, wanted: &[&str]) -> Result<(), Unavailable> {
    let Some(found) = &terms.disciplines else {
        return Err(Unavailable::but("nothing is sent, so the kernel has nothing to pace", Ask::Address));
    };
    if found.iter().any(|kind| wanted.contains(&kind.as_str())) {
        return Ok(());
    }
    let (first, wanted) = (wanted[0], wanted.join(" or "));
    Err(Unavailable::but(
        format!("the interface has {}, not {wanted}", found.first().map_or("no discipline", |kind| kind)),
        format!("tc qdisc replace dev INTERFACE root {first} (as root; needs the module sch_{first})"),
    ))
}

/// Everything is due: the socket's buffer limits the sender.
struct AtOnce;

impl PacingSession for AtOnce {
    fn begin(&mut self, start: Moment, _: Rate) -> linux::Result<()> {
        clock_nanosleep_until(Clock::Monotonic, start.as_nanos()).map(drop)
    }

    fn next(&mut self) -> linux::Result<u64> {
        go_on("pace").map(|()| 1)
    }
}

struct Ahead {
    grid: Option<Grid>,
    ahead_ns: i64,
}

impl PacingSession for Ahead {
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()> {
        self.grid = Some(Grid::new(rate, start));
        self.ahead_ns = ahead_ns(rate.time_of(1));
        Ok(())
    }

    fn next(&mut self) -> linux::Result<u64> {
        if let Some(grid) = &mut self.grid {
            let early = grid.next().plus_nanos(-self.ahead_ns);
            grid.advance();
            let _ = clock_nanosleep_until(Clock::Monotonic, early.as_nanos())?;
        }
        go_on("pace").map(|()| 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_name_is_found_and_means_one_method() {
        for method in all() {
            assert!(std::ptr::eq(find(method.name).unwrap(), method), "{} twice", method.name);
            assert!(!method.about.is_empty() && !method.call.is_empty());
        }
    }

    const PERIOD: i64 = 500_000;

    /// Wakes of a program on a manual clock with these latencies, in cyclic order.
    fn wakes(latencies: &[i64], events: usize) -> (Vec<i64>, i64) {
        let mut schedule = Correction::new(PERIOD as f64);
        let (mut now, mut most) = (0, 0);
        let mut wakes = Vec::with_capacity(events);
        for latency in latencies.iter().cycle().take(events) {
            let due = schedule.next(|| now);
            now = now.max(due) + latency;
            most = most.max(now - due);
            wakes.push(now);
        }
        (wakes, most)
    }

    #[test]
    fn what_is_always_late_alike_is_in_the_end_a_period_late_and_keeps_the_rate() {
        let (wakes, _) = wakes(&[60_000], 10_000);
        // It counts the events sent, one more than the gaps: at the first correction it considers itself too quick.
        let lateness: Vec<i64> = wakes.iter().zip(0..).map(|(wake, n)| wake - n * PERIOD).collect();
        assert!(lateness[..100].iter().all(|late| *late == 60_000), "before the first correction");
        assert!(lateness[200..].iter().all(|late| (PERIOD * 8 / 10..PERIOD * 12 / 10).contains(late)), "{lateness:?}");
    }

    #[test]
    fn a_delay_is_made_up_for_and_then_it_runs_ahead() {
        let mut latencies = vec![0; 1_000];
        latencies[99] = 5 * PERIOD;
        let (wakes, most) = wakes(&latencies, 300);
        let earliest = wakes.iter().zip(0..).map(|(wake, n)| wake - n * PERIOD).min().unwrap();
        assert_eq!(most, 5 * PERIOD);
        assert!((-PERIOD - 1..-PERIOD / 2).contains(&earliest), "ahead, by a period at most: {earliest}");
    }

    proptest! {
        #[test]
        fn it_runs_ahead_by_the_largest_lateness_less_a_period_and_by_one_percent_at_most(
            latencies in prop::collection::vec(prop_oneof![8 => 0..PERIOD / 5, 1 => 0..20 * PERIOD], 1..400),
        ) {
            let (wakes, most) = wakes(&latencies, 3_000);
            for (wake, n) in wakes.iter().zip(0_i64..) {
                let ahead = n * PERIOD - wake;
                // A nanosecond of rounding per correction.
                prop_assert!(ahead <= (most - PERIOD).max(0) + 30, "event {n}: {ahead}");
                let since_first = (n - CORRECT_EVERY as i64).max(0) * PERIOD;
                prop_assert!(ahead <= (since_first as f64 * CORRECT_BY) as i64 + 30, "event {n}: {ahead}");
            }
        }
    }
}
