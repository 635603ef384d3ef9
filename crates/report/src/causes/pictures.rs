//! Causes as pictures: a stacked bar for each call and for each of the worst wake-ups, and what the CPUs did around those.

use std::collections::BTreeSet;

use punctual_record::{Activity, CallCauses, Cause, Causes, LateWake, Stretch};

use crate::document::{Album, Axis, Form, Line, Picture, Table, ends};
use crate::format::units;

use super::bars::{axis, bar};
use super::head::heading;
use super::phrase::{Why, name, part};
use super::tally::{calls, each, ranked};
use super::worst::{WORST, title};

/// Most bars; most causes with a colour of their own.
const BARS: usize = 16;
const COLOURS: usize = 7;
/// Most CPUs and most stretches of a timeline.
const CPUS: usize = 16;
const STRETCHES: usize = 1000;

/// A bar for each call, and a bar for each of the worst wake-ups; none where none was late.
pub(super) fn bars(causes: &Causes, guest: bool) -> impl Iterator<Item = Album> {
    let pictures = [of_calls(causes, guest), of_the_tail(causes, guest)].into_iter().flatten();
    pictures.map(|picture| Album { pictures: vec![(String::new(), picture)], ..Album::default() })
}

/// A picture for each of the worst wake-ups; `None` without them.
pub(super) fn timelines(causes: &Causes, guest: bool) -> Option<Album> {
    let one = |(number, wake): (usize, &LateWake)| {
        Some((format!("wake-up {number}, {} late", units::duration(wake.late_ns)), timeline(wake, guest)?))
    };
    let pictures: Vec<(String, Picture)> = (1..).zip(causes.worst.iter().take(WORST)).filter_map(one).collect();
    (!pictures.is_empty()).then(|| Album { pictures, ..Album::default() })
}

/// A bar of a picture, and its pieces: the cause, what it is called, and its time in ns.
struct Bar {
    name: String,
    pieces: Vec<(Cause, String, f64)>,
}

/// The lateness per wake-up of each call, cause by cause.
fn of_calls(causes: &Causes, guest: bool) -> Option<Picture> {
    let late = |call: &&CallCauses| call.late.count > 0 && call.late.total_ns > 0;
    let bar = |call: &CallCauses| Bar {
        name: heading(call),
        pieces: ranked(call, guest)
            .iter()
            .map(|lost| (lost.why.cause, lost.why.label(), each(lost.total_ns, call)))
            .collect(),
    };
    let about = "A bar is the mean lateness of a call. Its pieces are causes, and add up to it.";
    stacked(
        ("Time lost per wake-up, by cause", about),
        calls(causes).into_iter().filter(late).take(BARS).map(bar),
        guest,
    )
}

/// The lateness of each of the worst wake-ups, cause by cause: what the tail is made of.
fn of_the_tail(causes: &Causes, guest: bool) -> Option<Picture> {
    let bar = |wake: &LateWake| {
        let mut pieces: Vec<(Cause, String, f64)> = Vec::new();
        for part in wake.parts.iter().take(STRETCHES) {
            let label = Why { cause: part.cause, culprit: part.culprit.as_deref(), guest }.label();
            match pieces.iter_mut().find(|(cause, known, _)| (*cause, &**known) == (part.cause, &*label)) {
                Some((.., ns)) => *ns += part.ns as f64,
                None => pieces.push((part.cause, label, part.ns as f64)),
            }
        }
        pieces.sort_by(|a, b| b.2.total_cmp(&a.2));
        Bar { name: format!("{}, {}", name(&wake.thread), name(&wake.call)), pieces }
    };
    let about = "A bar is one wake-up, the worst first. Its pieces are causes, and add up to its lateness.";
    stacked(("The worst wake-ups, by cause", about), causes.worst.iter().take(WORST).map(bar), guest)
}

/// Bars of pieces, one after the other; causes have a colour each, those with the most time.
fn stacked((title, about): (&str, &str), bars: impl Iterator<Item = Bar>, guest: bool) -> Option<Picture> {
    let bars: Vec<Bar> = bars.filter(|bar| !bar.pieces.is_empty()).collect();
    let names: Vec<String> = bars.iter().map(|bar| bar.name.clone()).collect();
    let kinds = kinds(&bars);
    let mut ends = vec![0.0; bars.len()];
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    for kind in kinds.iter().copied().map(Some).chain([None]) {
        let is_its = |cause: Cause| kind.map_or(!kinds.contains(&cause), |kind| kind == cause);
        let mut points = Vec::new();
        for ((row, Bar { name, pieces }), end) in (0..).zip(&bars).zip(&mut ends) {
            let total: f64 = pieces.iter().map(|(.., ns)| ns).sum();
            for (_, label, took) in pieces.iter().filter(|(cause, ..)| is_its(*cause)) {
                let from = *end;
                *end += took;
                let (took, percent) = (units::duration(*took), units::share(took / total.max(1.0)));
                let says = format!("{name}: {label}, {took} a wake-up, {percent}");
                rows.push(vec![name.clone(), label.clone(), took.clone(), percent]);
                points.push(bar(row, (from, *end), says, took));
            }
        }
        let label = kind.map_or("other causes".to_owned(), |cause| Why { cause, culprit: None, guest }.label());
        lines.push(Line { label, shown: true, form: Form::Bars, points });
    }
    lines.retain(|line| !line.points.is_empty());
    let longest = ends.into_iter().reduce(f64::max)?;
    Some(Picture {
        title: title.into(),
        about: about.into(),
        x: axis("per wake-up", 0.0, longest),
        y: Axis::names(&names),
        lines,
        table: Table::plain(&["call", "lost to", "a wake-up", "share"], rows),
        letters: None,
    })
}

/// The causes with the most time over all bars, most first.
fn kinds(bars: &[Bar]) -> Vec<Cause> {
    let mut all: Vec<(Cause, f64)> = Vec::new();
    for (cause, _, ns) in bars.iter().flat_map(|bar| &bar.pieces) {
        match all.iter_mut().find(|(known, _)| known == cause) {
            Some((_, total)) => *total += ns,
            None => all.push((*cause, *ns)),
        }
    }
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.into_iter().map(|(cause, _)| cause).take(COLOURS).collect()
}

/// What the CPUs did around a wake-up, below the parts of its lateness; `None` without parts.
fn timeline(wake: &LateWake, guest: bool) -> Option<Picture> {
    let stretches: Vec<&Stretch> = wake.timeline.iter().take(STRETCHES).collect();
    let others: BTreeSet<u32> =
        stretches.iter().filter(|stretch| stretch.cpu != wake.cpu).map(|stretch| stretch.cpu).collect();
    let own = stretches.iter().find(|stretch| stretch.cpu == wake.cpu).map(|_| wake.cpu);
    let cpus: Vec<u32> = own.into_iter().chain(others).take(CPUS).collect();
    let mut lines = vec![parts(wake, guest)];
    let mut rows = Vec::new();
    for (activity, label) in ACTIVITIES {
        let mut points = Vec::new();
        for stretch in stretches.iter().filter(|stretch| stretch.activity == activity) {
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
    let point = |taken: &punctual_record::WakePart| {
        let from = at;
        at += taken.ns as f64;
        let label = Why { cause: taken.cause, culprit: taken.culprit.as_deref(), guest }.label();
        let says = format!("{}: {label}, {}", part(taken.part), units::duration(taken.ns as f64));
        bar(0, (from, at), says, label)
    };
    let points = wake.parts.iter().take(STRETCHES).map(point).collect();
    Line { label: "the lateness".to_owned(), shown: true, form: Form::Bars, points }
}
