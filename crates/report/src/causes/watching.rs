//! How far to trust causes: what watching adds, what was split, what was lost and what could not be seen.

use punctual_record::{CauseSource, Causes, Program, Unseen, WatchEffect};

use crate::format::{listed, sanitize, sentence, spoken, unbroken, units};

use super::phrase::name;

/// Most reasons in a sentence.
const REASONS: usize = 3;

/// Who was watched, for how long: `redis-server, pid 4711: 3 threads, 12 % of a CPU, watched for 10.0 s.`
pub(super) fn program(program: &Program, causes: &Causes) -> String {
    let mut facts = vec![units::many(program.threads, "thread")];
    if let Some(cpu) = program.cpu_ns.filter(|_| causes.watched_ns > 0) {
        facts.push(format!("{} of a CPU", units::share(cpu as f64 / causes.watched_ns as f64)));
    }
    let watched = Some(causes.watched_ns).filter(|ns| *ns > 0);
    facts.extend(watched.map(|ns| format!("watched for {}", units::duration(ns))));
    facts.extend(program.status.map(status));
    let facts: Vec<String> = facts.iter().map(|fact| unbroken(fact)).collect();
    format!("{}, pid\u{a0}{}: {}.", name(&program.name), program.pid, facts.join(", "))
}

/// A shell's status: 128 + n after signal n.
fn status(status: i32) -> String {
    match status {
        129..=192 => format!("ended by signal {}", status - 128),
        _ => format!("exit status {status}"),
    }
}

/// What watching adds, what was split, what was lost.
pub(super) fn extent(causes: &Causes) -> String {
    if causes.source == CauseSource::RunDelay {
        return "Source: the run delay of /proc/TID/schedstat; single wake-ups were not watched.".to_owned();
    }
    let split = match (causes.split, causes.wake_ups) {
        (_, 0) => "No wake-up was seen".to_owned(),
        (split, all) if split >= all => format!("All {} wake-ups are split", units::count(all)),
        (split, all) => {
            let reasons: Vec<String> = causes
                .unsplit
                .iter()
                .map(|unsplit| format!("{} not: {}", units::count(unsplit.count), sanitize(&unsplit.why)))
                .collect();
            let why = if reasons.is_empty() { String::new() } else { format!(" ({})", listed(&reasons, REASONS)) };
            format!("{} of {} wake-ups are split{why}", units::count(split), units::count(all))
        }
    };
    let lost = match causes.lost_events {
        0 => "no event was lost".to_owned(),
        1 => "1 event was lost".to_owned(),
        n => format!("{} events were lost", units::count(n)),
    };
    format!("{} {split}; {lost}.", effect(causes.effect))
}

fn effect(measured: Option<WatchEffect>) -> String {
    let finite =
        |effect: &WatchEffect| [effect.p50_ns, effect.low_ns, effect.high_ns].iter().all(|figure| figure.is_finite());
    let Some(effect) = measured.filter(finite) else { return "What watching adds was not measured.".to_owned() };
    let pairs = units::count(effect.pairs);
    if effect.low_ns <= 0.0 {
        let most = spoken::fine(effect.high_ns.max(0.0));
        return format!("Watching adds nothing that {pairs} pairs of batches show: at most {most} to p50.");
    }
    let [by, low, high] = [effect.p50_ns, effect.low_ns, effect.high_ns].map(spoken::fine);
    format!("Watching adds {by} to p50 (95 %: {low} to {high}, {pairs} pairs of batches).")
}

/// `Not seen: softirqs, the kernel has no such event. Remedy: ...`.
pub(super) fn unseen(unseen: &Unseen) -> String {
    let text = |text: &str| sentence(&sanitize(text));
    let remedy = unseen.remedy.as_deref().map(text).filter(|remedy| !remedy.is_empty());
    let remedy = remedy.map_or(String::new(), |remedy| format!(" Remedy: {remedy}"));
    format!("Not seen: {}{remedy}", text(&unseen.text()))
}
