//! A stacked bar for each thread: its wall time by parts.

use punctual_record::{Budget, Spent, ThreadBudget};

use crate::document::{Axis, Form, Line, Picture, Table};
use crate::format::units;

use super::super::bars::{axis, bar};
use super::super::phrase::name;
use super::words::label;

/// Most threads.
const THREADS: usize = 16;
/// Most parts with a colour of their own.
const COLOURS: usize = 8;

/// The picture; `None` without time.
pub(super) fn bars(budget: &Budget) -> Option<Picture> {
    let threads: Vec<&ThreadBudget> = budget.threads.iter().filter(|thread| thread.wall_ns > 0).take(THREADS).collect();
    let longest = threads.iter().map(|thread| thread.wall_ns).max()?;
    let kinds = kinds(&threads);
    let names: Vec<String> = threads.iter().map(|thread| name(&thread.thread)).collect();
    let mut ends = vec![0u64; threads.len()];
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    for kind in kinds.iter().copied().map(Some).chain([None]) {
        let is_it = |spent: Spent| kind.map_or(!kinds.contains(&spent), |kind| kind == spent);
        let label = kind.map_or("other", |kind| label(kind, budget.source));
        let mut points = Vec::new();
        for ((row, thread), end) in (0..).zip(&threads).zip(&mut ends) {
            let ns = sum(thread, is_it);
            if ns == 0 {
                continue;
            }
            let from = *end;
            *end = end.saturating_add(ns);
            let (took, share) = (units::duration(ns), units::share(ns as f64 / thread.wall_ns as f64));
            let says = format!("{}: {label}, {took}, {share}", name(&thread.thread));
            rows.push(vec![name(&thread.thread), label.to_owned(), took.clone(), share]);
            points.push(bar(row, (from as f64, *end as f64), says, took));
        }
        lines.push(Line { label: label.to_owned(), shown: true, form: Form::Bars, points });
    }
    lines.retain(|line| !line.points.is_empty());
    Some(Picture {
        title: "Where the time of the threads went".into(),
        about: "A bar is the wall time of a thread. Its pieces add up to it.".into(),
        x: axis("wall time", 0.0, longest as f64),
        y: Axis::names(&names),
        lines,
        table: Table::plain(&["thread", "where the time went", "time", "share"], rows),
        letters: None,
    })
}

/// The kinds with the most time over all threads, most first.
fn kinds(threads: &[&ThreadBudget]) -> Vec<Spent> {
    let mut all: Vec<(Spent, u64)> = Vec::new();
    for part in threads.iter().flat_map(|thread| &thread.parts) {
        match all.iter_mut().find(|(spent, _)| *spent == part.spent) {
            Some((_, ns)) => *ns = ns.saturating_add(part.ns),
            None => all.push((part.spent, part.ns)),
        }
    }
    all.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    all.into_iter().map(|(spent, _)| spent).take(COLOURS).collect()
}

fn sum(thread: &ThreadBudget, is_it: impl Fn(Spent) -> bool) -> u64 {
    thread.parts.iter().filter(|part| is_it(part.spent)).fold(0, |sum, part| sum.saturating_add(part.ns))
}
