//! Watches a program until it is told to end.

use std::time::{Duration, Instant};

use punctual_record::{CauseSource, Causes, Program};
use punctual_trace::{Batch, Error, Level, Target, Watch};

use super::account::Account;
use crate::frame::unseen::unseen;

/// Long enough for an event of each busy CPU.
const LAST: Duration = Duration::from_millis(10);

/// What watches.
#[derive(Debug)]
pub struct Watcher {
    watch: Result<Watch, Error>,
    account: Account,
    since: Instant,
}

impl Watcher {
    /// Begins. Where the kernel refuses its events, only the account is kept.
    #[must_use]
    pub fn begin(target: &Target, account: Account) -> Self {
        let watch = Watch::open(target, Level::Causes).and_then(|mut watch| {
            watch.switch(true)?;
            Ok(watch)
        });
        Self { watch, account, since: Instant::now() }
    }

    /// Takes in what happened, and waits for more at most this long. `each` sees the events.
    pub fn step(&mut self, timeout: Duration, each: &mut dyn FnMut(&Batch)) {
        match &mut self.watch {
            Ok(watch) => {
                if let Err(error) = watch.pump(timeout, each) {
                    self.watch = Err(error);
                }
            }
            Err(_) => std::thread::sleep(timeout),
        }
        self.account.look_now_and_then();
    }

    /// Ends, and says what was found out about the program. `each` sees the last events.
    #[must_use]
    pub fn end(mut self, program: Program, each: &mut dyn FnMut(&Batch)) -> Causes {
        self.account.look();
        let watched_ns = self.since.elapsed().as_nanos() as u64;
        let mut causes = match self.watch.and_then(|mut watch| {
            // The kernel says what a full ring dropped with the next event that fits.
            watch.pump(Duration::ZERO, each)?;
            watch.pump(LAST, each)?;
            watch.switch_and(false, each)?;
            Ok(watch.causes())
        }) {
            Ok(causes) => causes,
            Err(error) => {
                let missing = vec![unseen(&error)];
                Causes { source: CauseSource::RunDelay, watched_ns, missing, ..Causes::default() }
            }
        };
        let (threads, cpu_ns, run_delay_ns) =
            (self.account.threads(), self.account.cpu_ns(), self.account.run_delay_ns());
        causes.program = Some(Program { threads, cpu_ns, run_delay_ns, ..program });
        causes
    }
}
