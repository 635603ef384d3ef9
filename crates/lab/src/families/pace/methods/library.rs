//! The library's pacer, with each of its strategies.

use punctual::{Moment, Pacer, Rate, SleeperOptions, Strategy};
use punctual_linux as linux;

use crate::families::pace::method::{Mode, PacingMethod, PacingSession, Terms};
use crate::frame::Unavailable;

pub(super) static METHODS: &[PacingMethod] = &[
    PacingMethod {
        name: "compensated",
        about: "the library's pacer; sleeps end sooner by the typical wake-up latency",
        call: "Pacer::options(rate).sleeper(SleeperOptions::new().strategy(Strategy::Compensated)).build()",
        needs: "",
        mode: Mode::Single,
        open: |_: &Terms| open(Strategy::Compensated, None),
    },
    PacingMethod {
        name: "hybrid",
        about: "the library's pacer: sleeps until a learned margin before each event, then spins",
        call: "Pacer::new(rate)",
        needs: "",
        mode: Mode::Single,
        open: |_: &Terms| open(Strategy::Hybrid, None),
    },
    PacingMethod {
        name: "hybrid_batch",
        about: "the same in batches as large as the jitter allows, each sent by one sendmmsg",
        call: "Pacer::options(rate).jitter(jitter).build()",
        needs: "",
        mode: Mode::Batch,
        open: |terms: &Terms| open(Strategy::Hybrid, Some(terms.jitter)),
    },
];

struct Paced {
    pacer: Pacer,
}

fn open(strategy: Strategy, jitter: Option<std::time::Duration>) -> Result<Box<dyn PacingSession>, Unavailable> {
    let any = Rate::per_second(1_000).map_err(|e| Unavailable { why: e.to_string(), remedy: None })?;
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
