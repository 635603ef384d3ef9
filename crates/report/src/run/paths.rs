//! The ways of calls through the kernel, side by side: depth, functions, ns.
//!
//! Takes the paths of a run. Each is the median of those that were recorded, so that a stray interrupt is not in it. Names
//! are neutralised.

use punctual_record::{CallPath, PathSource, PathStep, Run};

use crate::document::{Align, Block, Column, Paint, Row, Section, Table};
use crate::format::{sanitize, units};

/// Paths beside each other: a terminal has room for no more.
const ABREAST: usize = 3;
/// Most paths, most steps of one, and most of them on the first screen.
const PATHS: usize = 30;
const STEPS: usize = 400;
const FIRST: usize = 12;
/// Deepest indentation, and letters of a name.
const DEEPEST: u32 = 24;
const NAME: usize = 48;

/// The answer: how long each takes, through how much. Empty without paths.
pub(crate) fn sentences(run: &Run) -> Vec<String> {
    let said = |path: &CallPath| {
        let steps = (path.steps.len() as u64).saturating_add(path.cut_off);
        let what = match path.source {
            PathSource::FunctionGraph => "function",
            PathSource::Events => "event",
        };
        let passes = format!("{} of the kernel", units::many(steps, what));
        format!("{} takes {} with recording, and passes {passes}.", name(&path.method), units::duration(path.took_ns))
    };
    run.paths.iter().take(ABREAST).map(said).collect()
}

/// The first steps, for the first screen; `None` without paths.
pub(crate) fn first(run: &Run) -> Option<Block> {
    let paths = run.paths.get(..run.paths.len().min(ABREAST)).filter(|paths| !paths.is_empty())?;
    Some(Block::Table(table(paths, FIRST)))
}

/// All paths; `None` without any.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let shown = run.paths.get(..run.paths.len().min(PATHS)).filter(|paths| !paths.is_empty())?;
    let mut section = Section::new("Through the kernel");
    for paths in shown.chunks(ABREAST) {
        section.blocks.push(Block::Table(table(paths, STEPS)));
        section.blocks.push(Block::said(paths.iter().map(origin)));
    }
    Some(section)
}

fn name(text: &str) -> String {
    punctual_record::sanitize::line(text, NAME)
}

/// Two columns for each path: when or how long, and what.
fn table(paths: &[CallPath], most: usize) -> Table {
    let columns = |path: &CallPath| {
        let [time, what] = match path.source {
            PathSource::FunctionGraph => ["took", "function"],
            PathSource::Events => ["at", "event"],
        };
        let over = name(&path.method);
        [(time, Align::Right), (what, Align::Left)]
            .map(|(heading, align)| Column { over: over.clone(), ..Column::new(heading, align, Column::ALWAYS) })
    };
    let cells = |path: &CallPath, at: usize| match path.steps.get(at) {
        Some(step) => [time(path.source, step), indented(step)],
        None => [String::new(), String::new()],
    };
    let longest = paths.iter().map(|path| path.steps.len()).max().unwrap_or(0);
    let row = |at: usize| Row::Cells(paths.iter().flat_map(|path| cells(path, at)).collect(), Paint::Plain);
    let mut rows: Vec<Row> = (0..longest.min(most)).map(row).collect();
    if longest > most {
        rows.push(Row::Label(format!("and {}", units::many((longest - most) as u64, "more step"))));
    }
    Table { columns: paths.iter().flat_map(columns).collect(), rows, ranking: None }
}

fn time(source: PathSource, step: &PathStep) -> String {
    let time = match source {
        PathSource::FunctionGraph => step.took_ns,
        PathSource::Events => step.at_ns,
    };
    units::or_absent(time, units::duration)
}

/// A dot for each level: spaces would vanish from Markdown.
fn indented(step: &PathStep) -> String {
    "· ".repeat(step.depth.min(DEEPEST) as usize) + &name(&step.name)
}

/// What recorded a path, of how many calls it is the median, and what is not in it.
fn origin(path: &CallPath) -> String {
    let source = match path.source {
        PathSource::FunctionGraph => "recorded by the tracer function_graph, which takes time itself",
        PathSource::Events => "recorded from tracepoints: what happened, not the functions",
    };
    let which = match path.recorded {
        1 => "One call".to_owned(),
        n => format!("The median of {}", units::many(n, "call")),
    };
    let call = sanitize(&path.call);
    let mut text = format!("{}, {}: {source}. {which}", name(&path.method), call.trim_end_matches(';'));
    let is = |n: u64| if n == 1 { "is" } else { "are" };
    if path.interrupted > 0 {
        let (count, is) = (units::count(path.interrupted), is(path.interrupted));
        text.push_str(&format!("; {count} more with an interrupt in between {is} left out"));
    }
    if path.cut_off > 0 {
        text.push_str(&format!("; {} {} not kept", units::many(path.cut_off, "further step"), is(path.cut_off)));
    }
    text + "."
}
