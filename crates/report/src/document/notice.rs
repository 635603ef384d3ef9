//! Notices in words: the event, its effect on the figures, the remedy.
//!
//! The text of a [`Phrase`] is as the run has it; whoever shows it neutralises it.

use punctual_record::{Ask, Hint, Notice, PauseCause, Refusal};

use crate::document::Phrase;
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
            Phrase::failure(format!("The part `{part}` failed, and is missing here: {}", sentence(why))).remedy(remedy)
        }
        Notice::Steal { share } => stolen(&units::share(*share)),
        Notice::BusyMachine { share } => busy(&units::share(*share)),
        Notice::Unsteady { series, judged } => unsteady(*series, *judged),
        Notice::Coarse { subject, asked_ns, effective_ns } => {
            let [asked, effective] = [asked_ns, effective_ns].map(|ns| units::exact(*ns));
            Phrase::note(format!("{subject} cannot wait {asked}: it counts in coarser units and makes it {effective}."))
        }
        Notice::Early { subject, count, min_ns } => {
            let (count, early) = (units::count(*count), units::duration(min_ns.saturating_neg()));
            Phrase::warning(format!("{subject} came back before its time in {count} waits, at worst {early} early."))
        }
        Notice::Overflow { subject, count } => overflow(subject, *count),
        Notice::Interrupted { signal } => Phrase::warning(format!("Interrupted by {signal}: {SO_FAR}.")),
        Notice::Overdue => Phrase::warning(format!(
            "The run was ended because its announced time was over: {SO_FAR}. Another program may hold the CPU."
        )),
        Notice::Unsupervised { why, remedy } => {
            Phrase::note(format!("Nothing may be able to end this run in time: {why}.")).remedy(remedy)
        }
        Notice::PeerEnded { subject, how, after_ns } => peer_ended(subject, how, *after_ns),
        Notice::SameCore { pairs } => same_core(&cpus(pairs)),
        Notice::CoresUnknown { pairs } => cores_unknown(&cpus(pairs)),
        Notice::WatchdogTripped { conditions, busy_ns } => watchdog(conditions, *busy_ns),
        Notice::CounterUnavailable { why } => {
            Phrase::note(format!("The CPU's counter was not used: {}", sentence(why)))
        }
        Notice::Unseen(unseen) => {
            let phrase = Phrase::note(format!("Not watched: {}", sentence(&unseen.text())));
            unseen.remedy.iter().fold(phrase, |phrase, remedy| phrase.remedy(remedy))
        }
        Notice::NotRestored { what, why, remedy } => {
            Phrase::failure(format!("{what} could not be put back: {}", sentence(why))).remedy(remedy)
        }
        Notice::CausesNotMerged => {
            let text = "The causes of wake-ups are not merged: their percentiles do not add up.";
            Phrase::note(text.to_owned()).remedy("report each run by itself for its causes")
        }
        Notice::Other { text } => Phrase::note(sentence(text)),
    }
}

/// What is left of a run that ended early.
const SO_FAR: &str = "what had been measured until then is reported, the rest is missing";

fn peer_ended(subject: &str, how: &str, after_ns: u64) -> Phrase {
    let after = units::duration(after_ns);
    let text = format!(
        "{subject}: the other process {how} in the middle, {after} after the run began. The run ended there: {SO_FAR}."
    );
    Phrase::failure(text).remedy("find out who ended it (the kernel's log tells of the OOM killer), and repeat the run")
}

fn watchdog(conditions: &str, busy_ns: u64) -> Phrase {
    let busy = units::duration(busy_ns);
    let text = format!(
        "Under `{conditions}` the measuring thread held its CPU for {busy} without a break; the watchdog put it \
         back under SCHED_OTHER. What it measured after that was not measured under `{conditions}`."
    );
    Phrase::warning(text).remedy("ask for shorter waits or fewer samples, or measure on an isolated CPU")
}

fn refused(refusal: &Refusal, consequence: &str) -> Phrase {
    let Refusal { condition, asked, why, remedy } = refusal;
    let text = format!("The kernel refused {condition} {asked}: {} {consequence}", sentence(why));
    Phrase::warning(text).remedy(remedy.clone())
}

fn not_kept(conditions: &str, (condition, set, found): (&str, &str, &str), left_out: u32) -> Phrase {
    let out = match left_out {
        0 => String::new(),
        n => format!(" The samples of that time are left out ({}).", batches(n)),
    };
    let text =
        format!("Under `{conditions}`, {condition} was set to {set} and accepted, but was found to be {found}.{out}");
    Phrase::warning(text).remedy(
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
    Phrase::warning(text).remedy("repeat when the clock is synchronised: `timedatectl` or `chronyc tracking` tells")
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
    Phrase::warning(text).remedy(remedy)
}

fn stolen(share: &str) -> Phrase {
    let text = format!(
        "The hypervisor took {share} of the CPUs' time away: the upper percentiles show that too, not only this kernel."
    );
    Phrase::warning(text).remedy("repeat on a quieter host, or give the guest CPUs of its own")
}

fn busy(share: &str) -> Phrase {
    let text =
        format!("Others used {share} of all CPUs' time during the run: the figures are those of a busy machine.");
    Phrase::warning(text).remedy(Hint::from("stop what else is running, or ").and(Ask::QuietCpu))
}

fn unsteady(series: u32, judged: u32) -> Phrase {
    let text = format!(
        "{series} of the {judged} series that could be judged differ between rounds by more than their samples explain: \
         the machine drifted or was disturbed, and the intervals are too narrow."
    );
    Phrase::warning(text).remedy(Hint::from("repeat with ").and(Ask::MoreRounds).and(", on a quieter machine"))
}

fn overflow(subject: &str, count: u64) -> Phrase {
    Phrase::note(format!(
        "{} samples of {subject} are beyond what the histogram can place: they count in n, min, max, mean and the \
         ranks of percentiles; only their exact place is lost.",
        units::count(count)
    ))
}

/// `CPUs 0-1 and 2-3`; after some pairs the rest is counted.
fn cpus(pairs: &[[u32; 2]]) -> String {
    const MOST: usize = 6;
    let names: Vec<String> = pairs.iter().map(|[a, b]| format!("{a}-{b}")).collect();
    format!("CPUs {}", listed(&names, MOST))
}

fn same_core(cpus: &str) -> Phrase {
    let text = format!(
        "{cpus} are hardware threads of one core: messages between them take another time than between two cores."
    );
    Phrase::note(text).remedy(Hint::from(Ask::Cpus).and(" of two cores, where this program may use two"))
}

fn cores_unknown(cpus: &str) -> Phrase {
    let text = format!(
        "Whether {cpus} are of one core or of two is not known: the kernel has no topology/thread_siblings_list of them."
    );
    let remedy = Hint::from("see what lies under the machine (a hypervisor hides it), and ").and(Ask::Cpus);
    Phrase::note(text).remedy(remedy)
}
