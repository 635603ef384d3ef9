//! Remedies that are tried on a program.

use std::time::Duration;

use anyhow::Context as _;
use punctual::format_duration;
use punctual_lab::Session;
use punctual_lab::advise::{Advisor, Reach, Tried};
use punctual_record::{Causes, Trial, TrialRefused};

/// Default duration: five remedies in a dozen pairs of blocks, so that some may be disturbed.
pub(super) const USUAL: Duration = Duration::from_secs(30);
/// The part of the time in which the program is only watched.
pub(super) const BEFORE: f64 = 0.15;

/// Prepares for a process.
pub(super) fn open(pid: i32, reach: Reach) -> anyhow::Result<Advisor> {
    Advisor::open(pid, reach).context("starting the process that puts settings back")
}

/// The program ended before the time for remedies was over.
pub(super) fn ended(name: &str, after: Duration, planned: Duration) -> TrialRefused {
    let [after, planned] = [after, planned].map(|time| format_duration(Duration::from_millis(time.as_millis() as u64)));
    TrialRefused {
        why: format!("{name} ended after {after}; remedies are tried for {planned}"),
        remedy: Some("have the program run for longer, or give --duration".to_owned()),
    }
}

/// Enters what was tried. `cut` says what left less time for it.
pub(super) fn enter(tried: Tried, cut: Option<&TrialRefused>, causes: &mut Causes, session: &mut Session<'_>) {
    let with_reason = |trial: Trial| {
        let (own, cut) = (trial.refused.clone(), cut.cloned());
        Trial { refused: if trial.pairs.is_empty() { own.or(cut) } else { cut.or(own) }, ..trial }
    };
    causes.trials = tried.trials.into_iter().map(with_reason).collect();
    tried.notices.into_iter().for_each(|notice| session.notice(notice));
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    #[test]
    fn the_command_of_each_remedy_is_one() {
        for trial in punctual_lab::advise::remedies() {
            let shell = trial.code.shell.unwrap();
            let run = shell.lines().last().unwrap();
            assert!(crate::commands::Args::try_parse_from(run.split(' ')).is_ok(), "{run}");
        }
    }
}
