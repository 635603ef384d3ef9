//! The proof of a calibration: waits shortened by what was found, beside plain ones and the library's compensated sleep.

use std::time::Duration;

use punctual::{Moment, SleeperOptions, Strategy};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{Recorder, Usage};

use crate::usage::{Meter, Sum};
use crate::wait::method::Waiter;

/// Waits of each kind.
pub(super) const WAITS: u32 = 400;
/// Waits in a row of one kind before the next: they take turns.
const TURN: u32 = 20;

/// The error of each wait: elapsed minus asked, signed.
pub(super) struct Proof {
    pub(super) asked_ns: i64,
    pub(super) shortened_by_ns: f64,
    plain: (Recorder, Usage),
    /// None where the wait is shorter than what a sleep adds.
    compensated: Option<(Recorder, Usage)>,
    sleeper: (Recorder, Usage),
}

impl Proof {
    /// The figures by name.
    pub(super) fn figures(&self) -> impl Iterator<Item = (&'static str, (&Recorder, Usage))> {
        let all = [
            ("plain", Some(&self.plain)),
            ("compensated", self.compensated.as_ref()),
            ("compensated_sleeper", Some(&self.sleeper)),
        ];
        all.into_iter().filter_map(|(name, figures)| figures.map(|(recorder, usage)| (name, (recorder, *usage))))
    }
}

/// Waits for `asked` in three ways, in turns.
pub(super) fn prove(waiter: &mut dyn Waiter, shortened_by_ns: f64, asked: Duration) -> linux::Result<Proof> {
    let asked_ns = asked.as_nanos() as i64;
    let shorter = asked_ns - shortened_by_ns.round() as i64;
    let mut sleeper = SleeperOptions::new().strategy(Strategy::Compensated).open();
    let mut recorders = [Recorder::new(), Recorder::new(), Recorder::new()];
    let mut uses = [Sum::default(), Sum::default(), Sum::default()];
    let mut time = |which: usize, wait: &mut dyn FnMut(i64) -> linux::Result<()>| -> linux::Result<()> {
        let meter = Meter::start();
        for _ in 0..TURN {
            let begin = now_ns(Clock::Monotonic);
            wait(begin)?;
            recorders[which].record(now_ns(Clock::Monotonic) - begin - asked_ns);
            if linux::stop::requested() {
                return Err(linux::Error::from_errno("calibrate", linux::EINTR));
            }
        }
        uses[which].add(meter.stop());
        Ok(())
    };
    for _ in 0..WAITS / TURN {
        time(0, &mut |begin| waiter.wait(begin, asked_ns))?;
        if shorter > 0 {
            time(1, &mut |begin| waiter.wait(begin, shorter))?;
        }
        time(2, &mut |begin| {
            sleeper.sleep_until_unless(Moment::from_nanos(begin + asked_ns), linux::stop::requested);
            Ok(())
        })?;
        sleeper.rest();
    }
    let [plain, compensated, own] = recorders;
    let [plain_use, compensated_use, own_use] = uses.map(Sum::usage);
    Ok(Proof {
        asked_ns,
        shortened_by_ns,
        plain: (plain, plain_use),
        compensated: (shorter > 0).then_some((compensated, compensated_use)),
        sleeper: (own, own_use),
    })
}
