//! Watches a program until it is told to end.

use std::time::Duration;

use punctual_record::{CauseSource, Causes, Program, Unseen};
use punctual_trace::{Batch, Error, Level, Target, Watch};

use super::account::Account;

/// What watches.
#[derive(Debug)]
pub struct Watcher {
    watch: Result<Watch, Error>,
    account: Account,
}

impl Watcher {
    /// Begins. Where the kernel refuses its events, only the account is kept.
    #[must_use]
    pub fn begin(target: &Target, account: Account) -> Self {
        let watch = Watch::open(target, Level::Causes).and_then(|mut watch| {
            watch.switch(true)?;
            Ok(watch)
        });
        Self { watch, account }
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

    /// Ends, and says what was found out about the program.
    #[must_use]
    pub fn end(mut self, program: Program) -> Causes {
        self.account.look();
        let mut causes = match self.watch.and_then(|mut watch| {
            watch.switch(false)?;
            Ok(watch.causes())
        }) {
            Ok(causes) => causes,
            Err(error) => Causes { source: CauseSource::RunDelay, missing: vec![unseen(&error)], ..Causes::default() },
        };
        let (threads, cpu_ns, run_delay_ns) =
            (self.account.threads(), self.account.cpu_ns(), self.account.run_delay_ns());
        causes.program = Some(Program { threads, cpu_ns, run_delay_ns, ..program });
        causes
    }
}

/// What a refusal of the kernel's events leaves unseen, and the remedy.
#[must_use]
pub fn unseen(error: &Error) -> Unseen {
    let text = error.to_string();
    match text.split_once("; remedy: ") {
        Some((why, remedy)) => Unseen { what: format!("single wake-ups: {why}"), remedy: Some(remedy.to_owned()) },
        None => Unseen { what: format!("single wake-ups: {text}"), remedy: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_remedy_apart() {
        let refused = Error::Tracefs(std::io::ErrorKind::PermissionDenied.into());
        let unseen = unseen(&refused);
        assert_eq!(unseen.what, "single wake-ups: reading tracefs: permission denied");
        assert!(unseen.remedy.unwrap().starts_with("run as root, or "));
        let missing = super::unseen(&Error::NoEvent("sched/sched_waking"));
        assert!(missing.remedy.is_none() && missing.what.contains("sched/sched_waking"));
    }
}
