//! Causes as pictures: a stacked bar for each call, and what the CPUs did around the latest wake-ups.

use std::collections::BTreeSet;

use punctual_record::{Activity, CallCauses, Cause, Causes, LateWake, Stretch};

use crate::document::{Album, Axis, Form, Line, Picture, Table, ends};
use crate::format::units;

use super::bars::{axis, bar};
use super::head::heading;
use super::phrase::{Why, name, part};
use super::tally::{calls, each, ranked, share};
use super::worst::{WORST, title};

/// Most bars; most causes with a colour of their own.
const BARS: usize = 16;
const COLOURS: usize = 7;
/// Most CPUs and most stretches of a timeline.
const CPUS: usize = 16;
const STRETCHES: usize = 1000;

/// A bar for each call; `None` where none was late.
pub(super) fn bars(causes: &Causes, guest: bool) -> Option<Album> {
    Some(Album { pictures: vec![(String::new(), stacked(causes, guest)?)], ..Album::default() })
}

/// A picture for each of the latest wake-ups; `None` without them.
pub(super) fn timelines(causes: &Causes, guest: bool) -> Option<Album> {
    let one = |(number, wake): (usize, &LateWake)| Some((number.to_string(), timeline(wake, guest)?));
    let pictures: Vec<(String, Picture)> = (1..).zip(causes.worst.iter().take(WORST)).filter_map(one).collect();
    (!pictures.is_empty()).then(|| Album { pictures, ..Album::default() })
}

/// The lateness per wake-up of each call, cause by cause.
fn stacked(causes: &Causes, guest: bool) -> Option<Picture> {
    let calls: Vec<&CallCauses> =
        calls(causes).into_iter().filter(|call| call.late.count > 0 && call.late.total_ns > 0).take(BARS).collect();
    let longest = calls.iter().map(|call| each(call.late.total_ns, call)).reduce(f64::max)?;
    let names: Vec<String> = calls.iter().map(|call| heading(call)).collect();
    let kinds = kinds(&calls, guest);
    let mut ends = vec![0.0; calls.len()];
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    for kind in kinds.iter().copied().map(Some).chain([None]) {
        let is_its = |cause: Cause| kind.map_or(!kinds.contains(&cause), |kind| kind == cause);
        let mut points = Vec::new();
        for ((row, call), end) in (0..).zip(&calls).zip(&mut ends) {
            for lost in ranked(call, guest).iter().filter(|lost| is_its(lost.why.cause)) {
                let (from, took) = (*end, each(lost.total_ns, call));
                *end += took;
                let percent = units::share(share(lost.total_ns, call));
                let label = lost.why.label();
                let says = format!("{}: {label}, {} a wake-up, {percent}", heading(call), units::duration(took));
                rows.push(vec![heading(call), label, units::duration(took), percent]);
                points.push(bar(row, (from, *end), says, units::duration(took)));
            }
        }
        let label = kind.map_or("other causes".to_owned(), |cause| Why { cause, culprit: None, guest }.label());
        lines.push(Line { label, shown: true, form: Form::Bars, points });
    }
    lines.retain(|line| !line.points.is_empty());
    let longest = ends.into_iter().fold(longest, f64::max);
    Some(Picture {
        title: "Time lost per wake-up, by cause".into(),
        about: "A bar is the mean lateness of a call. Its pieces are causes, and add up to it.".into(),
        x: axis("per wake-up", 0.0, longest),
        y: Axis::names(&names),
        lines,
        table: Table::plain(&["call", "lost to", "a wake-up", "share"], rows),
        letters: None,
    })
}

/// The causes with the most time over all calls, most first.
fn kinds(calls: &[&CallCauses], guest: bool) -> Vec<Cause> {
    let mut all: Vec<(Cause, f64)> = Vec::new();
    for lost in calls.iter().flat_map(|call| ranked(call, guest)) {
        match all.iter_mut().find(|(cause, _)| *cause == lost.why.cause) {
            Some((_, total)) => *total += lost.total_ns as f64,
            None => all.push((lost.why.cause, lost.total_ns as f64)),
        }
    }
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.into_iter().map(|(cause, _)| cause).take(COLOURS).collect()
}

/// What the CPUs did around a wake-up, below the parts of its lateness; `None` without parts.
fn timeline(wake: &LateWake, guest: bool) -> Option<Picture> {
    let stretches: Vec<&Stretch> = wake.timeline.iter().take(STRETCHES).collect();
    let its = |stretch: &&&Stretch| stretch.cpu == wake.cpu;
    let others: BTreeSet<u32> = stretches.iter().filter(|its| its.cpu != wake.cpu).map(|its| its.cpu).collect();
    let own = stretches.iter().find(its).map(|_| wake.cpu);
    let cpus: Vec<u32> = own.into_iter().chain(others).take(CPUS).collect();
    let mut lines = vec![parts(wake, guest)];
    let mut rows = Vec::new();
    for (activity, label) in ACTIVITIES {
        let mut points = Vec::new();
        for stretch in stretches.iter().filter(|its| its.activity == activity) {
            let Some(row) = cpus.iter().position(|cpu| *cpu == stretch.cpu) else { continue };
            let (from, took) = (stretch.from_ns as f64, stretch.ns as f64);
            let who = name(&stretch.name);
            rows.push(vec![
                format!("CPU {}", stretch.cpu),
                units::duration(from),
                units::duration(took),
                label.to_owned(),
                who.clone(),
            ]);
            let says =
                format!("CPU {}: {label} {who}, {} from {}", stretch.cpu, units::duration(took), units::duration(from));
            points.push(bar(row as i32 + 1, (from, from + took), says, who));
        }
        lines.push(Line { label: label.to_owned(), shown: true, form: Form::Bars, points });
    }
    lines.retain(|line| !line.points.is_empty());
    let spans = lines.iter().flat_map(|line| &line.points).filter_map(|point| point.span);
    let (low, high) = ends(spans.flat_map(|(from, to)| [from, to]))?;
    let names: Vec<String> =
        std::iter::once("late".to_owned()).chain(cpus.iter().map(|cpu| format!("CPU {cpu}"))).collect();
    Some(Picture {
        title: title(wake),
        about: "Above, the lateness by cause; below, what the CPUs did. It should have run at 0.".into(),
        x: axis("since it should have run", low.min(0.0), high),
        y: Axis::names(&names),
        lines,
        table: Table::plain(&["CPU", "from", "took", "activity", "name"], rows),
        letters: None,
    })
}

/// What CPUs do, in the order in which it is drawn: an interrupt lies over the thread that it interrupts.
const ACTIVITIES: [(Activity, &str); 6] = [
    (Activity::Itself, "the thread itself"),
    (Activity::Thread, "another thread"),
    (Activity::Idle, "idle"),
    (Activity::Interrupt, "interrupt"),
    (Activity::Softirq, "softirq"),
    (Activity::Timer, "timer"),
];

/// The parts of the lateness, one after the other.
fn parts(wake: &LateWake, guest: bool) -> Line {
    let mut at = 0.0;
    let point = |its: &punctual_record::WakePart| {
        let from = at;
        at += its.ns as f64;
        let label = Why { cause: its.cause, culprit: its.culprit.as_deref(), guest }.label();
        let says = format!("{}: {label}, {}", part(its.part), units::duration(its.ns as f64));
        bar(0, (from, at), says, label)
    };
    let points = wake.parts.iter().take(STRETCHES).map(point).collect();
    Line { label: "the lateness".to_owned(), shown: true, form: Form::Bars, points }
}
