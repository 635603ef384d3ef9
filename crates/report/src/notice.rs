//! Notices in words: what happened, what it means for the figures, what would help.
//!
//! The text of a [`Phrase`] is as the run has it; [`notices_text`] neutralises it for a terminal.

use punctual_record::{Notice, PauseCause, Refusal, Run};

use crate::background::sentence;
use crate::plain::plain;
use crate::story::paragraph;
use crate::style::{Paint, Style};
use crate::text::is_checkup;
use crate::units;
use crate::words::listed;

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Good to know; the figures stand.
    Note,
    /// The figures do not mean what was asked, or are less sure than they look.
    Warning,
    /// Something failed and needs attention.
    Failure,
}

impl Level {
    /// `note`, `warning` or `failure`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

/// A notice in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// How much it matters.
    pub level: Level,
    /// One or two sentences.
    pub text: String,
    /// What would help, where something would.
    pub remedy: Option<String>,
}

impl Phrase {
    fn new(level: Level, text: String) -> Self {
        Self { level, text, remedy: None }
    }

    fn remedy(mut self, remedy: &str) -> Self {
        self.remedy = Some(sentence(remedy)).filter(|remedy| !remedy.is_empty());
        self
    }
}

/// The notice in words, in Unicode.
#[must_use]
pub fn phrase(notice: &Notice) -> Phrase {
    match notice {
        Notice::ConditionRefused { conditions, refusal } => {
            refused(refusal, &format!("`{conditions}` was measured without it."))
        }
        Notice::ConditionsSkipped { conditions, refusal } => {
            refused(refusal, &format!("`{conditions}` was left out: without it, it would repeat another set."))
        }
        Notice::ConditionNotKept { conditions, condition, set, found, left_out } => {
            not_kept(conditions, (condition, set, found), *left_out)
        }
        Notice::ClockStepped { by_ns, after_ns, times } => stepped(*by_ns, *after_ns, *times),
        Notice::Paused { cause, gap_ns, after_ns, times } => paused(*cause, (*gap_ns, *after_ns), *times),
        Notice::PartFailed { part, why, remedy } => {
            let text = format!("The part `{part}` failed, and is missing here: {}", sentence(why));
            Phrase::new(Level::Failure, text).remedy(remedy)
        }
        Notice::Steal { .. } | Notice::BusyMachine { .. } | Notice::Unsteady { .. } => disturbed(notice),
        Notice::Coarse { .. } | Notice::Early { .. } | Notice::Overflow { .. } => about_subject(notice),
        Notice::Interrupted { signal } => Phrase::new(
            Level::Warning,
            format!("Interrupted by {signal}: what had been measured until then is reported, the rest is missing."),
        ),
        Notice::Overdue => Phrase::new(
            Level::Warning,
            "The run was ended because its announced time was over: what had been measured until then is reported, the rest \
             is missing. Another program may hold the CPU."
                .into(),
        ),
        Notice::Unsupervised { why, remedy } => {
            Phrase::new(Level::Warning, format!("Nothing may be able to end this run in time: {why}.")).remedy(remedy)
        }
        Notice::PeerEnded { subject, how, after_ns } => {
            let after = units::duration(signed(*after_ns), &Style::default());
            let text = format!(
                "{subject}: the other process {how} in the middle, {after} after the run began. The run ended there: what had been \
                 measured until then is reported, the rest is missing."
            );
            Phrase::new(Level::Failure, text)
                .remedy("find out who ended it (the kernel's log tells of the OOM killer), and repeat the run")
        }
        Notice::SameCore { pairs } | Notice::CoresUnknown { pairs } => about_cores(notice, pairs),
        Notice::WatchdogTripped { conditions, busy_ns } => {
            let busy = units::duration(signed(*busy_ns), &Style::default());
            let text = format!(
                "Under `{conditions}` the measuring thread held its CPU for {busy} without a break; the watchdog put it \
                 back under SCHED_OTHER. What it measured after that was not measured under `{conditions}`."
            );
            Phrase::new(Level::Warning, text)
                .remedy("ask for shorter waits or fewer samples, or measure on an isolated CPU")
        }
        Notice::CounterUnavailable { why } => {
            Phrase::new(Level::Note, format!("The CPU's counter was not used: {}", sentence(why)))
        }
        Notice::NotRestored { what, why, remedy } => {
            Phrase::new(Level::Failure, format!("{what} could not be put back: {}", sentence(why))).remedy(remedy)
        }
        Notice::Other { text } => Phrase::new(Level::Note, sentence(text)),
    }
}

fn refused(refusal: &Refusal, consequence: &str) -> Phrase {
    let Refusal { condition, asked, why, remedy } = refusal;
    let text = format!("The kernel refused {condition} {asked}: {} {consequence}", sentence(why));
    Phrase::new(Level::Warning, text).remedy(remedy)
}

fn not_kept(conditions: &str, (condition, set, found): (&str, &str, &str), left_out: u32) -> Phrase {
    let out = match left_out {
        0 => String::new(),
        n => format!(" The samples of that time are left out ({}).", batches(n)),
    };
    let text =
        format!("Under `{conditions}`, {condition} was set to {set} and accepted, but was found to be {found}.{out}");
    Phrase::new(Level::Warning, text).remedy(
        "see what else sets it: a CPU that goes offline, a cgroup, a daemon, or the program that started this one",
    )
}

fn batches(n: u32) -> String {
    if n == 1 { "1 batch".into() } else { format!("{n} batches") }
}

/// `1.2 s after the run began`; of several times `first 1.2 s after the run began`.
fn when(after_ns: u64, times: u32) -> String {
    let after = units::duration(signed(after_ns), &Style::default());
    let first = if times > 1 { "first " } else { "" };
    format!("{first}{after} after the run began")
}

fn stepped(by_ns: i64, after_ns: u64, times: u32) -> Phrase {
    let by = units::duration(by_ns.saturating_abs(), &Style::default());
    let way = if by_ns < 0 { "back" } else { "forward" };
    let most = if times > 1 { "at most " } else { "" };
    let text = format!(
        "The wall clock was set {way} by {most}{by} while measuring, {}. The samples of that time are left out ({}).",
        when(after_ns, times),
        batches(times)
    );
    Phrase::new(Level::Warning, text)
        .remedy("repeat when the clock is synchronised: `timedatectl` or `chronyc tracking` tells")
}

fn paused(cause: PauseCause, (gap_ns, after_ns): (u64, u64), times: u32) -> Phrase {
    let gap = units::duration(signed(gap_ns), &Style::default());
    let (what, remedy) = match cause {
        PauseCause::Stopped => {
            ("This program was stopped by a signal", "let it run without Ctrl-Z, SIGSTOP or a debugger")
        }
        PauseCause::Suspended => ("The machine was suspended", "keep it awake meanwhile: systemd-inhibit punctual ..."),
        PauseCause::Machine => ("The virtual machine stood still", "repeat when its host neither pauses nor moves it"),
    };
    let text = format!(
        "{what} for about {gap} while measuring, {}. The samples of that time are left out ({}).",
        when(after_ns, times),
        batches(times)
    );
    Phrase::new(Level::Warning, text).remedy(remedy)
}

fn disturbed(notice: &Notice) -> Phrase {
    match notice {
        Notice::Steal { share } => Phrase::new(
            Level::Warning,
            format!(
                "The hypervisor took {} of the CPUs' time away: the upper percentiles show that too, not only this kernel.",
                units::share(*share)
            ),
        )
        .remedy("repeat on a quieter host, or give the guest CPUs of its own"),
        Notice::BusyMachine { share } => {
            let text = format!("Others used {} of all CPUs' time during the run: the figures are those of a busy machine.", units::share(*share));
            Phrase::new(Level::Warning, text).remedy("stop what else is running, or name a quiet CPU with --cpu")
        }
        Notice::Unsteady { series, judged } => {
            let text = format!(
                "{series} of the {judged} series that could be judged differ between rounds by more than their samples explain: \
                 the machine drifted or was disturbed, and the intervals are too narrow."
            );
            Phrase::new(Level::Warning, text).remedy("repeat with more --rounds, on a quieter machine")
        }
        other => Phrase::new(Level::Note, format!("{other:?}")),
    }
}

/// Pairs that are named before the rest is counted.
const MOST_PAIRS: usize = 6;

fn about_cores(notice: &Notice, pairs: &[[u32; 2]]) -> Phrase {
    let names: Vec<String> = pairs.iter().map(|[a, b]| format!("{a}-{b}")).collect();
    let cpus = format!("CPUs {}", listed(&names, MOST_PAIRS));
    let (text, remedy) = match notice {
        Notice::SameCore { .. } => (
            format!(
                "{cpus} are hardware threads of one core: messages between them take another time than between two cores."
            ),
            "name CPUs of two cores (--cpus A,B), where this program may use two",
        ),
        _ => (
            format!(
                "Whether {cpus} are of one core or of two is not known: the kernel has no topology/thread_siblings_list of them."
            ),
            "see what lies under the machine (a hypervisor hides it), and name the CPUs (--cpus A,B)",
        ),
    };
    Phrase::new(Level::Note, text).remedy(remedy)
}

fn about_subject(notice: &Notice) -> Phrase {
    let style = Style::default();
    match notice {
        Notice::Coarse { subject, asked_ns, effective_ns } => Phrase::new(
            Level::Note,
            format!(
                "{subject} cannot wait {}: it counts in coarser units and makes it {}.",
                units::exact(signed(*asked_ns), &style),
                units::exact(signed(*effective_ns), &style)
            ),
        ),
        Notice::Early { subject, count, min_ns } => Phrase::new(
            Level::Warning,
            format!(
                "{subject} came back before its time in {} waits, at worst {} early.",
                units::count(*count),
                units::duration(min_ns.saturating_neg(), &style)
            ),
        ),
        Notice::Overflow { subject, count } => Phrase::new(
            Level::Note,
            format!(
                "{} samples of {subject} are beyond what the histogram can place: they count in n, min, max, mean and the \
                 ranks of percentiles; only their exact place is lost.",
                units::count(*count)
            ),
        ),
        other => Phrase::new(Level::Note, format!("{other:?}")),
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// All notices of a run, the gravest first, one paragraph each; empty when there are none. For stderr. What a check-up could not try stands
/// under *what to do* and not here.
#[must_use]
pub fn notices_text(run: &Run, style: &Style) -> String {
    let told = |notice: &&Notice| matches!(notice, Notice::ConditionsSkipped { .. }) && is_checkup(run);
    let here = run.notices.iter().filter(|notice| !told(notice));
    let mut phrases: Vec<Phrase> = here.map(|notice| phrase(&named(notice, run, style))).collect();
    phrases.sort_by_key(|phrase| std::cmp::Reverse(phrase.level));
    phrases.dedup();
    phrases.iter().map(|phrase| one(phrase, style)).collect()
}

/// The notice with its conditions called as everywhere in the report.
fn named(notice: &Notice, run: &Run, style: &Style) -> Notice {
    let mut notice = notice.clone();
    if let Notice::ConditionNotKept { conditions, .. } | Notice::WatchdogTripped { conditions, .. } = &mut notice {
        *conditions = crate::background::conditions(run, conditions, style);
    }
    notice
}

fn one(phrase: &Phrase, style: &Style) -> String {
    let paint = match phrase.level {
        Level::Note => Paint::Faint,
        Level::Warning => Paint::Warning,
        Level::Failure => Paint::Failure,
    };
    let mut text = format!("{}: {}", phrase.level.word(), phrase.text);
    if let Some(remedy) = &phrase.remedy {
        text.push_str(&format!(" Remedy: {remedy}"));
    }
    paragraph(&with_units(&plain(&text, style)), "", "  ", paint, style)
}

/// Numbers kept on one line with their units.
fn with_units(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut out = String::with_capacity(text.len());
    for (i, word) in words.iter().enumerate() {
        if i > 0 {
            let number = words[i - 1].ends_with(|c: char| c.is_ascii_digit());
            let unit = ["ns", "µs", "us", "ms", "s", "%"].contains(&word.trim_end_matches(['.', ',', ':']));
            out.push(if number && unit { '\u{a0}' } else { ' ' });
        }
        out.push_str(word);
    }
    out
}
