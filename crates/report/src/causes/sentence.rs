//! The answer to: why is it late? One sentence, from totals: parts of medians do not add up.

use punctual_record::{CallCauses, CauseSource, Causes, Program, Run};

use crate::format::{spoken, units};

use super::phrase::{name, several};
use super::tally::{calls, each, leading, ranked};
use super::{keeper, lost};

/// Share of the watched time that a thread without any wake-up has to run or wait for a CPU. Then it never blocked.
const THROUGHOUT: f64 = 0.9;

/// The sentences; none where the run does not say why.
pub(crate) fn sentences(run: &Run) -> Vec<String> {
    let Some(causes) = &run.causes else { return Vec::new() };
    // It speaks of single wake-ups, not of means.
    if run.subcommand == "cyclic" {
        return Vec::new();
    }
    if let Some((budget, losses)) = lost::judged(causes) {
        return lost::sentences(budget, losses);
    }
    if causes.source == CauseSource::RunDelay {
        return causes.program.iter().map(|program| run_delay(program, causes)).collect();
    }
    let Some(call) = calls(causes).into_iter().find(|call| call.late.count > 0) else {
        return vec![never_late(causes)];
    };
    let mut sentences = vec![late(run, causes, call)];
    sentences.extend(keeper::sentences(causes));
    if causes.split.saturating_mul(2) < causes.wake_ups {
        let [split, all] = [causes.split, causes.wake_ups].map(units::count);
        sentences.push(format!("Only {split} of {all} wake-ups could be split."));
    }
    sentences
}

/// `A sleep of 100 µs returns 74.3 µs late on average (p99 121 µs); 50.2 µs of it is timer slack.`
fn late(run: &Run, causes: &Causes, call: &CallCauses) -> String {
    let who = subject(causes, call);
    if call.late.total_ns == 0 {
        return format!("{who} on time.");
    }
    let each_late = spoken::duration(each(call.late.total_ns, call));
    let mut text = match watched_beside(run, causes, call) {
        Some(those) => format!("{those} are {each_late} late on average"),
        None => format!("{who} {each_late} late on average"),
    };
    if let Some(p99) = call.late.p99_ns {
        text.push_str(&format!(" (p99 {})", spoken::duration(p99)));
    }
    if let Some((total, culprits)) = leading(&ranked(call, run.host.hypervisor.is_some())) {
        let what = match culprits.as_slice() {
            [most, _, ..] if most.why.culprit.is_some() => {
                several(most.why.cause, most.why.culprit.unwrap_or_default())
            }
            [most, ..] => most.why.predicate(),
            [] => return text + ".",
        };
        text.push_str(&format!("; {} of it {what}", spoken::duration(each(total, call))));
    }
    text + "."
}

/// `212 watched sleeps of 100 µs`: the other figures of the measurement leave them out.
fn watched_beside(run: &Run, causes: &Causes, call: &CallCauses) -> Option<String> {
    let asked = call.nominal_ns.filter(|_| call.late.count > 1 && causes.program.is_none() && !super::asked(run))?;
    let (number, asked) = (units::count(call.late.count), spoken::exact(asked));
    Some(match call.call.contains("nanosleep") {
        true => format!("{number} watched sleeps of {asked}"),
        false => format!("{number} watched waits of {asked} by {}", name(&call.call)),
    })
}

/// `A sleep of 100 µs returns`, `redis-server returns from epoll_wait`.
fn subject(causes: &Causes, call: &CallCauses) -> String {
    let [thread, of] = [&call.thread, &call.call].map(|text| name(text));
    match (&causes.program, call.nominal_ns) {
        (None, Some(asked)) => {
            let asked = spoken::exact(asked);
            match call.call.contains("nanosleep") {
                true => format!("A sleep of {asked} returns"),
                false => format!("A wait of {asked} by {of} returns"),
            }
        }
        (Some(program), _) if name(&program.name) != thread => {
            format!("Thread {thread} of {} returns from {of}", name(&program.name))
        }
        _ => format!("{thread} returns from {of}"),
    }
}

/// Nothing was split: nothing blocked, nothing woke up, or nothing could be split.
fn never_late(causes: &Causes) -> String {
    let who = causes.program.as_ref().map_or("the measuring thread".to_owned(), |program| name(&program.name));
    if causes.wake_ups > 0 {
        return format!("None of the {} wake-ups of {who} could be split.", units::count(causes.wake_ups));
    }
    if causes.lost_events > 0 {
        return format!(
            "No wake-up of {who} was seen: the kernel dropped {} events.",
            units::count(causes.lost_events)
        );
    }
    match causes.program.as_ref().and_then(|program| ran(program, causes.watched_ns)) {
        Some(share) if share >= THROUGHOUT => {
            format!("{who} never gives up the CPU: it blocked in no call{}.", span("for", causes))
        }
        Some(share) => {
            let share = spoken::share(share);
            format!("No blocking call of {who} ended{}; each thread ran for {share} of that.", span("in", causes))
        }
        None => format!("No blocking call of {who} ended{}.", span("in", causes)),
    }
}

/// The share of the watched time that each thread ran or waited for a CPU, on average.
fn ran(program: &Program, watched_ns: u64) -> Option<f64> {
    let busy = program.cpu_ns?.saturating_add(program.run_delay_ns.unwrap_or(0));
    let possible = watched_ns as f64 * program.threads.max(1) as f64;
    (possible > 0.0).then(|| busy as f64 / possible)
}

/// ` in 10.0 s`; nothing where it is not known.
fn span(preposition: &str, causes: &Causes) -> String {
    if causes.watched_ns > 0 {
        format!(" {preposition} {}", spoken::duration(causes.watched_ns))
    } else {
        String::new()
    }
}

/// Only the time in the run queue is known, and no single wake-up.
fn run_delay(program: &Program, causes: &Causes) -> String {
    let who = name(&program.name);
    let span = span("in", causes);
    let threads = if program.threads > 1 {
        format!(", {} threads together", units::count(program.threads))
    } else {
        String::new()
    };
    match program.run_delay_ns {
        None => format!("How long {who} waits for a CPU is not known."),
        Some(0) => format!("{who} never waits for a CPU{span}{threads}. Other causes were not watched."),
        Some(delay) => {
            let part = delay as f64 / causes.watched_ns as f64;
            let part = if part.is_finite() { format!(" ({})", spoken::share(part)) } else { String::new() };
            format!(
                "{who} waits for a CPU for {}{span}{part}{threads}. Other causes were not watched.",
                spoken::duration(delay)
            )
        }
    }
}
