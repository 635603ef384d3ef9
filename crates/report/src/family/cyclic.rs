//! Threads that wake up at regular intervals: how late, CPU by CPU, and how many wake-ups were overslept.

use std::collections::BTreeMap;

use punctual_record::experiment::cyclic::{Metrics, Parameters, is_of};
use punctual_record::{CallCauses, Cause, ConditionSet, Distribution, Experiment, LateWake, Run, Series};

use crate::causes;
use crate::document::{Align, Block, Column, Columns, Note, Section, Table};
use crate::evidence::tail::{self, NoBound};
use crate::format::naming::under;
use crate::format::{self, Scale, grouped, spoken, units};
use crate::verdict::{Advice, Answer, is_busy};

use super::shared::{ALWAYS, Family, Measured, absent_note, measured};

type Cyclic<'a> = Measured<'a, Parameters, Metrics>;

pub(super) const FAMILY: Family =
    Family { answer, ..Family::without_answer("cyclic", "Wake-ups at regular intervals", sections) };

/// A section for the threads of each set of conditions and load, which its heading names.
fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let all = measured(series, Experiment::cyclic);
    let groups = grouped(&all, alike).into_iter();
    groups.map(|((conditions, load), threads)| section(run, (conditions, load), &threads)).collect()
}

/// The conditions and the load.
fn alike<'a>(thread: &Cyclic<'a>) -> (&'a str, Option<&'a str>) {
    (&thread.series.conditions, thread.parameters.load.as_deref())
}

fn section(run: &Run, (conditions, load): (&str, Option<&str>), all: &[Cyclic<'_>]) -> Section {
    let load = load.map_or_else(|| "no load".to_owned(), |load| format!("load: {load}"));
    let intervals = all.iter().map(|thread| thread.parameters.interval_ns);
    let [shortest, longest] = [intervals.clone().min(), intervals.max()].map(|ns| units::exact(ns.unwrap_or(0)));
    let interval = if shortest == longest { shortest } else { format!("{shortest} to {longest}") };
    let heading = format!("wake-ups every {interval}, {load}, {}", under(conditions));
    let table = Columns::new()
        .left("CPU", ALWAYS, |thread: &Cyclic<'_>| thread.subject.trim_start_matches("cpu").to_owned())
        .count("wake-ups", ALWAYS, |thread| Some(thread.summary.count))
        .count("missed", ALWAYS, |thread| thread.metrics.missed)
        .summary([("min", 30), ("p50", ALWAYS), ("p90", 40)], |thread| Some(&thread.summary))
        .summary([("p99", ALWAYS), ("p99.9", 60), ("max", ALWAYS)], |thread| Some(&thread.summary))
        .plain(all);
    let mut notes = vec![Note::always(
        "missed: wake-ups that were due while the thread had not come back from an earlier one. They are no part of the percentiles.",
    )];
    notes.extend(allowed(run, all).map(Note::always));
    notes.extend(longer(run, all).map(Note::always));
    notes.extend(all.iter().filter_map(|thread| composed(run, thread)).map(Note::always));
    notes.extend(absent_note(all.iter().map(|thread| thread.series)));
    Section::new(heading).with(Block::Table(table)).with(Block::Legend(notes))
}

/// Priority of the kernel's threads that serve interrupts (`sched_set_fifo`, kernel/sched/syscalls.c).
const OF_INTERRUPTS: u8 = 50;

/// What the kernel allows threads that are real-time, whether these rested for it, and who waits for them. Of others, what they are not.
fn allowed(run: &Run, all: &[Cyclic<'_>]) -> Option<String> {
    let is_theirs = |set: &&ConditionSet| all.iter().any(|thread| thread.conditions == set.label);
    let set = run.conditions.iter().find(is_theirs)?;
    if !set.is_real_time() {
        let text = "Without a real-time policy, other programs may go first: how late a real-time thread comes is not measured here.";
        return Some(text.to_owned());
    }
    let priority =
        set.policy().and_then(|policy| policy.split_once(':')?.1.parse().ok()).filter(|one| *one > OF_INTERRUPTS);
    let wait = priority.map_or_else(String::new, |priority: u8| {
        format!(" Kernel threads of a priority below {priority} wait while they run: those of interrupts have {OF_INTERRUPTS} unless that was changed.")
    });
    let rt = &run.host.rt;
    let throttled = match rt.runtime_us.zip(rt.period_us) {
        Some((runtime, period)) if (0..period).contains(&runtime) => {
            let [runtime, period] = [runtime, period].map(|us| units::exact(us.saturating_mul(1000)));
            format!("RT throttling leaves real-time threads {runtime} of {period} on a CPU.")
        }
        Some(_) => "RT throttling is off.".to_owned(),
        None => "Whether real-time threads are throttled is not known: /proc/sys/kernel/sched_rt_runtime_us was not readable.".to_owned(),
    };
    let kept = match (rt.fair_server, run.host.has_fair_servers()) {
        (Some(server), _) if server.runtime_ns > 0 => {
            let [runtime, period] = [server.runtime_ns, server.period_ns].map(units::exact);
            format!(" The fair server keeps {runtime} of {period} for other threads.")
        }
        (Some(_), _) => " The fair server keeps nothing for other threads.".to_owned(),
        (None, Some(false)) => String::new(),
        (None, _) => {
            " What the fair server keeps for other threads is not known: /sys/kernel/debug/sched/fair_server was not readable.".to_owned()
        }
    };
    let rested = match all.iter().filter_map(|thread| thread.metrics.rested).sum() {
        0 => String::new(),
        times => format!(
            " The threads stayed below what is allowed by {}, in which wake-ups were missed: they have too little time for this interval.",
            units::many(times, "rest")
        ),
    };
    Some(throttled + &kept + &wait + &rested)
}

/// What the causes add up to if each comes at its worst in one wake-up, beside the worst that was seen.
fn composed(run: &Run, thread: &Cyclic<'_>) -> Option<String> {
    let call = causes_of(run, thread)?;
    let mut worst = BTreeMap::new();
    for one in &call.causes {
        let most = worst.entry((one.part, one.cause)).or_insert(0);
        *most = one.time.max_ns.max(*most);
    }
    let sum = worst.values().fold(0u64, |sum, ns| sum.saturating_add(*ns));
    let [sum, seen] = [sum, call.late.max_ns].map(units::duration);
    let cpu = thread.subject.trim_start_matches("cpu");
    Some(format!("CPU {cpu}: each cause at its worst, added, takes {sum}. The worst wake-up that was cut took {seen}."))
}

/// The causes of the waits of a thread.
fn causes_of<'r>(run: &'r Run, thread: &Cyclic<'_>) -> Option<&'r CallCauses> {
    let calls = &run.causes.as_ref()?.calls;
    calls.iter().find(|call| is_of(&call.thread, &thread.subject)).filter(|call| call.late.count > 0)
}

/// The events and the clock of the thread agree on a wake-up to this: the way from the kernel to the reading of the clock.
const AGREE_NS: i64 = 20_000;

/// The cause that took most of the worst wake-up of a thread, and how much; `None`: it was not cut.
fn of_the_worst<'a>(run: &'a Run, thread: &Cyclic<'_>) -> Option<((Cause, Option<&'a str>), u64)> {
    let max = thread.summary.max?;
    let agrees = |wake: &&LateWake| {
        is_of(&wake.thread, &thread.subject)
            && (max - i64::try_from(wake.late_ns).unwrap_or(i64::MAX)).abs() <= AGREE_NS
    };
    let wake = run.causes.as_ref()?.worst.iter().find(agrees)?;
    let mut lost: BTreeMap<_, u64> = BTreeMap::new();
    for part in &wake.parts {
        *lost.entry((part.cause, part.culprit.as_deref())).or_default() += part.ns;
    }
    lost.into_iter().max_by_key(|(_, ns)| *ns)
}

/// A longer run, in terms of the one that was measured.
const TIMES: f64 = 10.0;

/// How late the worst wake-up of a longer run may come, or why that cannot be said; nothing without samples.
fn longer(run: &Run, all: &[Cyclic<'_>]) -> Option<String> {
    // No bound of a series that was recorded in a virtual machine held. Whether host or load was the cause is not known.
    let never = is_busy(run).then_some(NoBound::Busy).or(run.host.hypervisor.is_some().then_some(NoBound::Guest));
    if let Some(why) = never {
        return Some(format!("No bound for a longer run: {}.", why.words()));
    }
    let one = |thread: &Cyclic<'_>| {
        let samples = Distribution::from_series(thread.series).ok()?;
        let maxima: Vec<i64> = thread.rounds.iter().filter_map(|round| round.summary.max).collect();
        Some((tail::bound(&samples, &maxima, TIMES), thread.subject.trim_start_matches("cpu").to_owned()))
    };
    let bounds: Vec<_> = all.iter().filter_map(one).collect();
    if let Some((why, cpu)) = bounds.iter().find_map(|(bound, cpu)| Some((bound.err()?, cpu))) {
        return Some(format!("No bound for a longer run, because of CPU {cpu}: {}.", why.words()));
    }
    let (bound, cpu) =
        bounds.iter().filter_map(|(bound, cpu)| Some((bound.ok()?, cpu))).max_by_key(|(bound, _)| bound.ns)?;
    Some(format!(
        "In ten times as many wake-ups, the worst comes at most {} late (95 % for each CPU; CPU {cpu}, shape of the tail {:.2}). That holds \
         for a machine that stays as it was: what never happened here is no part of it.",
        units::duration(bound.ns),
        bound.shape
    ))
}

/// The worst wake-up, what was missed, and what an idle machine does not show.
fn answer(run: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let all = measured(series, Experiment::cyclic);
    let Some(worst) = all.iter().max_by_key(|thread| thread.summary.max) else { return Answer::default() };
    let Some(max) = worst.summary.max else { return Answer::default() };
    let count = all.iter().map(|thread| thread.summary.count).sum();
    let missed: u64 = all.iter().filter_map(|thread| thread.metrics.missed).sum();
    let cpu = worst.subject.trim_start_matches("cpu");
    let late = spoken::duration(max);
    let mut sentences = vec![format!("The worst of {} came {late} late, on CPU {cpu}.", units::many(count, "wake-up"))];
    let guest = run.host.hypervisor.is_some();
    if let Some(((cause, culprit), ns)) = of_the_worst(run, worst) {
        let ns = spoken::duration(ns);
        sentences.push(format!("{ns} of that {}.", causes::predicate(cause, culprit, guest)));
    } else if run.causes.is_some() {
        sentences.push("The kernel's events lack the wait that ended with it, so its cause is unknown.".to_owned());
    }
    sentences.push(match missed {
        0 => "None was missed.".to_owned(),
        1 => "1 more was missed.".to_owned(),
        missed => format!("{} more were missed.", units::count(missed)),
    });
    if run.conditions.iter().any(|set| set.label == *worst.series.conditions && !set.is_real_time()) {
        sentences.push("The threads had no real-time policy.".to_owned());
    }
    if worst.parameters.load.is_none() && !is_busy(run) {
        sentences.push(
            "Nothing was added to the load of the machine: an idle machine says little of its worst case. --load adds some.".to_owned(),
        );
    }
    Answer { table: Some(first_figures(run, &all, worst)), ..Answer::in_words(sentences) }
}

/// Rows for which a first screen has room.
const MOST_IN_ORDER: usize = 8;

/// Letters of a histogram.
const DRAWING: usize = 12;

/// The figures of the first screen: a row for each CPU; of many, the worst first. That of the worst stays.
fn first_figures(run: &Run, all: &[Cyclic<'_>], worst: &Cyclic<'_>) -> Table {
    let alike = all.iter().all(|thread| alike(thread) == alike(worst));
    let name = |thread: &Cyclic<'_>| {
        let cpu = thread.subject.trim_start_matches("cpu");
        let (conditions, load) = self::alike(thread);
        match (alike, load) {
            (true, _) => cpu.to_owned(),
            (false, None) => format!("{cpu}, {conditions}"),
            (false, Some(load)) => format!("{cpu}, {conditions}, load: {load}"),
        }
    };
    let guest = run.host.hypervisor.is_some();
    let lost_to = |thread: &Cyclic<'_>| {
        let lost = of_the_worst(run, thread);
        lost.map_or("-".to_owned(), |((cause, culprit), _)| causes::label(cause, culprit, guest))
    };
    let scale = Scale::over(all.iter().map(|thread| thread.series));
    let heading = scale.map_or_else(String::new, |scale| {
        let [low, high] = [scale.low_ns, scale.high_ns].map(units::duration);
        format!("{low} to {high}")
    });
    let columns = Columns::new()
        .left("CPU", ALWAYS, name)
        .count("wake-ups", 40, |thread: &Cyclic<'_>| Some(thread.summary.count))
        .count("missed", ALWAYS, |thread| thread.metrics.missed)
        .summary([("p50", ALWAYS), ("p99", ALWAYS), ("p99.9", 60), ("max", ALWAYS)], |one| Some(&one.summary))
        .column(Column::new(heading, Align::Drawn, 30), |thread| {
            let bins = scale.and_then(|scale| format::bins(thread.series, scale, DRAWING));
            units::or_absent(bins, |bins| format::draw(&bins))
        });
    let mut by_max = all.to_vec();
    by_max.sort_by_key(|thread| thread.summary.max);
    let figures = by_max.iter().map(|thread| (name(thread), units::known(thread.summary.max))).collect();
    // As long as all have room, CPUs stand in their own order.
    let in_order = if all.len() > MOST_IN_ORDER { by_max.into_iter().rev().collect() } else { all.to_vec() };
    let columns = columns.when(run.causes.is_some(), |columns| columns.left("max lost to", ALWAYS, lost_to));
    let table = columns.plain(&in_order);
    table.ranked_by("max", figures, vec![name(worst)])
}
