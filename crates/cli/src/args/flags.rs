//! The flag that stands for each part of a plan, for what a plan refuses.

use punctual_lab::{Input, PlanError};
use punctual_record::{Ask, Hint, Notice, Run};
use punctual_report::document::Phrase;

use crate::refusal::BadUsage;

/// The flag; `None`: it is no flag.
const fn flag(input: Input) -> Option<&'static str> {
    Some(match input {
        Input::Rounds => "--rounds",
        Input::Samples => "--samples",
        Input::Time => "--duration",
        Input::Wait => "--for",
        Input::Cpu => "--cpu",
        Input::Policy => "--policy",
        Input::SenderCpu => "--sender-cpu",
        Input::Competitors => "--competitors",
        Input::Polls => "--polls",
        Input::Size => "--size",
        Input::Depth => "--depth",
        Input::Places => "--cpus",
        Input::Matrix => "--matrix",
        Input::Interval => "--every",
        Input::Target => "--to",
        Input::Sweep => "--sweep",
        Input::Check => "--check",
        Input::Loops => "--loops",
        Input::Work => "--work",
        Input::Periods => "--periods",
        Input::Deadline => "--deadline",
        Input::Switches => "--switches",
        Input::Methods | Input::Datagrams => return None,
    })
}

/// What to type instead, where the reason does not say.
const fn hint(input: Input) -> &'static str {
    match input {
        Input::Samples => " (example: --duration 60s)",
        Input::Time => " (example: --duration 10s)",
        Input::Matrix => " (example: --matrix --cpu 0,1)",
        Input::Datagrams => " (--yes confirms it)",
        _ => "",
    }
}

impl From<PlanError> for BadUsage {
    fn from(PlanError { input, why }: PlanError) -> Self {
        Self(format!("invalid {}: {why}{}", flag(input).unwrap_or(input.noun()), hint(input)))
    }
}

/// The flags that do what a hint asks for: the first that the command has is named.
const fn flags(ask: Ask) -> &'static [&'static str] {
    match ask {
        Ask::MoreTime => &["--duration", "--thorough"],
        Ask::Samples => &["--samples"],
        Ask::MoreRounds => &["--rounds", "--thorough"],
        Ask::Address => &["--to ADDRESS:PORT"],
        Ask::SmallerSizeOrDepth => &["--size, --depth"],
        Ask::SmallerSize => &["--size"],
        Ask::SmallerDepth => &["--depth"],
        Ask::Polling => &["--receive poll"],
        Ask::SenderCpu => &["--sender-cpu"],
        Ask::AnotherCpu | Ask::QuietCpu | Ask::MeasuredCpus | Ask::FewerCpus => &["--cpu"],
        Ask::Cpus => &["--cpus A,B"],
    }
}

/// The flags of one command, for what it says.
pub(crate) struct Flags(clap::Command);

impl Flags {
    /// Those of `wait`, `governor ramp`; none of a command that there is not.
    pub(crate) fn taken_by(command: &str) -> Self {
        let none = || clap::Command::new("none");
        let mut found = super::definition();
        found.build();
        for word in command.split(' ') {
            found = found.find_subcommand(word).cloned().unwrap_or_else(none);
        }
        Self(found)
    }

    /// Whether the command has all flags in this text, `--size, --depth`.
    fn has(&self, flags: &str) -> bool {
        let names = flags.split([' ', ',']).filter_map(|word| word.strip_prefix("--"));
        names.into_iter().all(|name| self.0.get_arguments().any(|arg| arg.get_long() == Some(name)))
    }

    /// The hint with the flags that it takes in this command.
    pub(crate) fn in_hint(&self, hint: impl Into<Hint>) -> Hint {
        let mut named = hint.into();
        named.name(|ask| flags(ask).iter().copied().find(|flag| self.has(flag)));
        named
    }

    /// The notice with the flags that its remedy takes in this command.
    pub(crate) fn named(&self, phrase: &Phrase) -> Phrase {
        Phrase { remedy: phrase.remedy.clone().map(|remedy| self.in_hint(remedy)), ..phrase.clone() }
    }

    /// Names the flags in what a run says to do: where conditions were refused, and where nothing could be measured.
    pub(crate) fn name_in(&self, run: &mut Run) {
        let of_sets = run.conditions.iter_mut().flat_map(|set| &mut set.refused).map(|refusal| &mut refusal.remedy);
        let of_notices = run.notices.iter_mut().filter_map(|notice| match notice {
            Notice::ConditionRefused { refusal, .. } | Notice::ConditionsSkipped { refusal, .. } => {
                Some(&mut refusal.remedy)
            }
            _ => None,
        });
        let of_missing = run.not_measured.iter_mut().filter_map(|missing| missing.remedy.as_mut());
        let all = of_sets.chain(of_notices).chain(of_missing);
        all.for_each(|hint| *hint = self.in_hint(std::mem::take(hint)));
    }
}

#[cfg(test)]
mod tests;
