//! The flag that stands for each part of a plan, for what a plan refuses.

use punctual_lab::{Input, PlanError};
use punctual_record::Run;
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
        Input::Period => "--period",
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

/// What remedies ask for, and the flags that do it: the first that the command has is named.
const FLAGS: [(&str, &[&str]); 15] = [
    ("give more time", &["--duration", "--thorough"]),
    ("ask for a number of samples", &["--samples"]),
    ("more samples", &["--samples", "--thorough"]),
    ("more rounds", &["--rounds", "--thorough"]),
    ("send datagrams to an address", &["--to ADDRESS:PORT"]),
    ("a smaller size or depth", &["--size, --depth"]),
    ("a smaller size", &["--size"]),
    ("a smaller depth", &["--depth"]),
    ("receive by polling", &["--receive poll"]),
    ("give the sender another CPU", &["--sender-cpu"]),
    ("choose another CPU", &["--cpu"]),
    ("name a quiet CPU", &["--cpu"]),
    ("name the CPUs", &["--cpus A,B"]),
    ("name the measured CPUs", &["--cpu"]),
    ("measure on fewer CPUs", &["--cpu"]),
];

/// The flags of one command, for what it says.
pub(crate) struct Flags(clap::Command);

impl Flags {
    /// Those of `wait`, `governor ramp`; none of a command that there is not.
    pub(crate) fn of(command: &str) -> Self {
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

    /// The remedy with the flags that it takes in this command.
    pub(crate) fn in_remedy(&self, remedy: &str) -> String {
        let mut named = remedy.to_owned();
        for (words, flags) in FLAGS {
            let Some(flag) = flags.iter().find(|flag| self.has(flag)) else { continue };
            let with_flag = format!("{words} ({flag})");
            // The longer words come first and hold the shorter ones.
            if named.contains(words) && !named.contains(&with_flag) && !named.contains(&format!("{words} or")) {
                named = named.replacen(words, &with_flag, 1);
            }
        }
        named
    }

    /// The notice with the flags that its remedy takes in this command.
    pub(crate) fn named(&self, phrase: &Phrase) -> Phrase {
        Phrase { remedy: phrase.remedy.as_deref().map(|remedy| self.in_remedy(remedy)), ..phrase.clone() }
    }

    /// Names the flags in all remedies of what could not be measured.
    pub(crate) fn name_in(&self, run: &mut Run) {
        for remedy in run.not_measured.iter_mut().filter_map(|missing| missing.remedy.as_mut()) {
            *remedy = self.in_remedy(remedy);
        }
    }
}

#[cfg(test)]
mod tests;
