//! Notices in words: the event, its effect on the figures, the remedy.
//!
//! The text of a [`Phrase`] is as the run has it; whoever shows it neutralises it.

use punctual_record::{Ask, Hint, Notice, PauseCause, Refusal};

use crate::document::{Level, Phrase};
use crate::format::{listed, sentence, units};

/// The notice in words, in Unicode.
#[must_use]
pub fn phrase(notice: &Notice) -> Phrase {
    let on_screen = matches!(
        notice,
        Notice::BusyMachine { .. } | Notice::Steal { .. } | Notice::Unsteady { .. } | Notice::ConditionsSkipped { .. }
    );
    let at_once = matches!(notice, Notice::Unsupervised { .. });
    Phrase { on_screen, at_once, ..in_words(notice) }
}

fn in_words(notice: &Notice) -> Phrase {
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
        Notice::Interrupted { .. } | Notice::Overdue | Notice::Unsupervised { .. } | Notice::PeerEnded { .. } => {
            ended(notice)
        }
        Notice::SameCore { pairs } | Notice::CoresUnknown { pairs } => about_cores(notice, pairs),
        Notice::WatchdogTripped { conditions, busy_ns } => {
            let busy = units::duration(*busy_ns);
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
        Notice::Unseen(unseen) => {
            let phrase = Phrase::new(Level::Note, format!("Not watched: {}", sentence(&unseen.text())));
            unseen.remedy.iter().fold(phrase, |phrase, remedy| phrase.remedy(remedy))
        }
        Notice::NotRestored { what, why, remedy } => {
            Phrase::new(Level::Failure, format!("{what} could not be put back: {}", sentence(why))).remedy(remedy)
        }
        Notice::CausesNotMerged => {
            let text = "The causes of wake-ups are not merged: their percentiles do not add up.";
            Phrase::new(Level::Note, text.into()).remedy("report each run by itself for its causes")
        }
        Notice::Other { text } => Phrase::new(Level::Note, sentence(text)),
    }
}

fn ended(notice: &Notice) -> Phrase {
    match notice {
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
            Phrase::new(Level::Note, format!("Nothing may be able to end this run in time: {why}.")).remedy(remedy)
        }
        Notice::PeerEnded { subject, how, after_ns } => {
            let after = units::duration(*after_ns);
            let text = format!(
                "{subject}: the other process {how} in the middle, {after} after the run began. The run ended there: what had been \
                 measured until then is reported, the rest is missing."
            );
            Phrase::new(Level::Failure, text)
                .remedy("find out who ended it (the kernel's log tells of the OOM killer), and repeat the run")
        }
        other => Phrase::new(Level::Note, format!("{other:?}")),
    }
}

fn refused(refusal: &Refusal, consequence: &str) -> Phrase {
    let Refusal { condition, asked, why, remedy } = refusal;
    let text = format!("The kernel refused {condition} {asked}: {} {consequence}", sentence(why));
    Phrase::new(Level::Warning, text).remedy(remedy.clone())
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
    let after = units::duration(after_ns);
    let first = if times > 1 { "first " } else { "" };
    format!("{first}{after} after the run began")
}

fn stepped(by_ns: i64, after_ns: u64, times: u32) -> Phrase {
    let by = units::duration(by_ns.saturating_abs());
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
    let gap = units::duration(gap_ns);
    let (what, remedy) = match cause {
        PauseCause::Stopped => {
            ("This program was stopped by a signal", "let it run without Ctrl-Z, SIGSTOP or a debugger")
        }
        PauseCause::Suspended => ("The machine was suspended", "keep it awake meanwhile: systemd-inhibit punctual ..."),
        PauseCause::Machine => ("The virtual machine stood still", "repeat when its host neither pauses nor moves it"),
    };
    let out = match times {
        0 => "What came late by that is among the figures.".to_owned(),
        n => format!("The samples of that time are left out ({}).", batches(n)),
    };
    let text = format!("{what} for about {gap} while measuring, {}. {out}", when(after_ns, times));
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
            Phrase::new(Level::Warning, text).remedy(Hint::from("stop what else is running, or ").and(Ask::QuietCpu))
        }
        Notice::Unsteady { series, judged } => {
            let text = format!(
                "{series} of the {judged} series that could be judged differ between rounds by more than their samples explain: \
                 the machine drifted or was disturbed, and the intervals are too narrow."
            );
            Phrase::new(Level::Warning, text).remedy(Hint::from("repeat with ").and(Ask::MoreRounds).and(", on a quieter machine"))
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
            Hint::from(Ask::Cpus).and(" of two cores, where this program may use two"),
        ),
        _ => (
            format!(
                "Whether {cpus} are of one core or of two is not known: the kernel has no topology/thread_siblings_list of them."
            ),
            Hint::from("see what lies under the machine (a hypervisor hides it), and ").and(Ask::Cpus),
        ),
    };
    Phrase::new(Level::Note, text).remedy(remedy)
}

fn about_subject(notice: &Notice) -> Phrase {
    match notice {
        Notice::Coarse { subject, asked_ns, effective_ns } => Phrase::new(
            Level::Note,
            format!(
                "{subject} cannot wait {}: it counts in coarser units and makes it {}.",
                units::exact(*asked_ns),
                units::exact(*effective_ns)
            ),
        ),
        Notice::Early { subject, count, min_ns } => Phrase::new(
            Level::Warning,
            format!(
                "{subject} came back before its time in {} waits, at worst {} early.",
                units::count(*count),
                units::duration(min_ns.saturating_neg())
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
