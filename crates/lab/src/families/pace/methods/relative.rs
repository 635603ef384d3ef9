//! Sleeping for a period between two events, the common first version. Each sleep's overhead lengthens its period.

use punctual::rate::Grid;
use punctual::{Moment, Rate};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::sleep;
use punctual_linux::timed::Ended;

use crate::families::pace::method::{Mode, PacingMethod, PacingSession, Terms};
use crate::frame::Unavailable;
use crate::frame::progress::go_on;

pub(super) static METHODS: &[PacingMethod] = &[
    PacingMethod {
        name: "usleep",
        about: "usleep for a period after each event: what it adds slows the rate",
        call: "send(); usleep(period_us);",
        needs: "",
        mode: Mode::Single,
        open: |_: &Terms| open(|ns| sleep::usleep((ns.max(0) as u64).div_ceil(1_000).min(u32::MAX.into()) as u32)),
    },
    PacingMethod {
        name: "nanosleep",
        about: "nanosleep for a period after each event: finer arguments, the same rate",
        call: "send(); nanosleep(&period, NULL);",
        needs: "",
        mode: Mode::Single,
        open: |_: &Terms| open(sleep::nanosleep),
    },
    PacingMethod {
        name: "usleep_1us",
        about: "usleep(1) after each event, repeated until the next is due: the most that usleep between events lets through",
        call: "send(); do usleep(1); while (now() < next);",
        needs: "",
        mode: Mode::Single,
        open: |_: &Terms| open_shortest(|| sleep::usleep(1)),
    },
    PacingMethod {
        name: "nanosleep_1ns",
        about: "nanosleep of 1 ns after each event, repeated until the next is due: the most that a sleep between events lets through",
        call: "send(); do nanosleep(&one_ns, NULL); while (now() < next);",
        needs: "",
        mode: Mode::Single,
        open: |_: &Terms| open_shortest(|| sleep::nanosleep(1)),
    },
];

/// The shortest sleep that a call has, at least one between two events. Above the rate that this allows, it is the
/// limit of one thread that sleeps between events.
struct Shortest<F> {
    sleep: F,
    grid: Option<Grid>,
}

fn open_shortest(sleep: impl FnMut() -> linux::Result<Ended> + 'static) -> Result<Box<dyn PacingSession>, Unavailable> {
    Ok(Box::new(Shortest { sleep, grid: None }))
}

impl<F: FnMut() -> linux::Result<Ended>> PacingSession for Shortest<F> {
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()> {
        self.grid = Some(Grid::new(rate, start));
        Ok(())
    }

    fn next(&mut self) -> linux::Result<u64> {
        let due = self.grid.as_ref().map_or(0, |grid| grid.next().as_nanos());
        self.grid.iter_mut().for_each(Grid::advance);
        loop {
            // A signal ends the sleep early, as it would in such a program.
            let _ = (self.sleep)()?;
            go_on("pace")?;
            if now_ns(Clock::Monotonic) >= due {
                return Ok(1);
            }
        }
    }
}

struct Spaced<F> {
    sleep: F,
    start: Moment,
    period_ns: i64,
    begun: bool,
}

fn open(sleep: impl FnMut(i64) -> linux::Result<Ended> + 'static) -> Result<Box<dyn PacingSession>, Unavailable> {
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
            while sleep::clock_nanosleep_until(Clock::Monotonic, self.start.as_nanos())? != Ended::TimeUp {
                go_on("pace")?;
            }
            self.begun = true;
        }
        go_on("pace")?;
        Ok(1)
    }
}
