//! The sources of a merged run: the machines, and their figures side by side.

use punctual_record::{Host, Part, Run, Series, Source};

use crate::document::{Block, Column, Columns, Note, Section};
use crate::format::naming::subject;
use crate::format::units;

/// Most rows of a table.
const MOST: usize = 300;

/// Of how many runs and machines; `None` where the run was not merged.
pub(super) fn sentence(run: &Run) -> Option<String> {
    let runs = run.merged_from.len();
    (runs > 0).then(|| format!("{}.", from(runs, machines(run).len())))
}

fn from(runs: usize, machines: usize) -> String {
    format!("Merged from {runs} runs of {}", units::many(machines as u64, "machine"))
}

/// The sections; none where the run was not merged.
pub(super) fn sections(run: &Run) -> Vec<Section> {
    if run.merged_from.is_empty() {
        return Vec::new();
    }
    let machines = machines(run);
    let heading = from(run.merged_from.len(), machines.len());
    let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
    let elapsed = |machine: &Machine<'_>| machine.runs.iter().fold(0u64, |sum, run| sum.saturating_add(run.elapsed_ns));
    let first = |machine: &Machine<'_>| machine.runs.iter().map(|run| run.started).min();
    let table = Columns::new()
        .left("machine", Column::ALWAYS, |machine: &Machine<'_>| machine.name.clone())
        .left("kernel", 90, |machine| known(&machine.host.kernel))
        .left("CPU", 50, |machine| known(&machine.host.cpu_model))
        .right("runs", Column::ALWAYS, |machine| machine.runs.len().to_string())
        .ns("measured", 60, |machine| Some(elapsed(machine)))
        .left("first", 40, |machine| first(machine).map_or(String::new(), |first| first.to_string()[..10].to_owned()))
        .plain(&machines);
    let mut sections = vec![Section::new(heading).with(Block::Table(table))];
    let rows: Vec<Line<'_>> = run.series.iter().flat_map(|series| lines(run, series, &machines)).collect();
    if !rows.is_empty() {
        sections.push(figures(&rows));
    }
    sections
}

/// Runs whose hosts differ only in their load.
struct Machine<'a> {
    name: String,
    /// Without the load.
    host: Host,
    runs: Vec<&'a Source>,
    /// The places of the runs.
    places: Vec<u32>,
}

fn machines(run: &Run) -> Vec<Machine<'_>> {
    let mut machines: Vec<Machine<'_>> = Vec::new();
    for (place, source) in (0..).zip(&run.merged_from) {
        let host = Host { load1: None, ..source.host.clone() };
        let at = machines.iter().position(|machine| machine.host == host);
        let number = at.unwrap_or(machines.len());
        if at.is_none() {
            let name = source.host.name.as_deref().map_or(String::new(), |name| format!(" {name}"));
            let name = format!("{}{name}", number + 1);
            machines.push(Machine { name, host, runs: Vec::new(), places: Vec::new() });
        }
        machines[number].runs.push(source);
        machines[number].places.push(place);
    }
    machines
}

/// What one machine contributed to a series.
struct Line<'a> {
    /// The series, in its first line.
    series: String,
    machine: &'a str,
    parts: Vec<&'a Part>,
}

fn lines<'a>(run: &'a Run, series: &'a Series, machines: &'a [Machine<'a>]) -> Vec<Line<'a>> {
    let mut name = subject(&series.subject, &series.experiment.parameters());
    if run.conditions.len() > 1 {
        name.push_str(&format!(", {}", series.conditions));
    }
    let parts_of = |machine: &'a Machine<'a>| -> Vec<&'a Part> {
        series.parts.iter().filter(|part| machine.places.contains(&part.source)).collect()
    };
    let parts = machines.iter().map(|machine| (machine, parts_of(machine))).filter(|(_, parts)| !parts.is_empty());
    parts.map(|(machine, parts)| Line { series: std::mem::take(&mut name), machine: &machine.name, parts }).collect()
}

fn figures(lines: &[Line<'_>]) -> Section {
    let count = |line: &Line<'_>| line.parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.summary.count));
    let cpu = |part: &Part| part.cpu_ns_per_op.filter(|ns| ns.is_finite()).map(|ns| ns.round() as i64);
    let table = Columns::new()
        .left("series", Column::ALWAYS, |line: &Line<'_>| line.series.clone())
        .left("machine", Column::ALWAYS, |line| line.machine.to_owned())
        .count("n", 30, |line| Some(count(line)))
        .right("p50", Column::ALWAYS, |line| range(line, |part| part.summary.p50))
        .right("p99", Column::ALWAYS, |line| range(line, |part| part.summary.p99))
        .right("CPU/op", 60, |line| range(line, cpu))
        .first(MOST, lines, "rows");
    let note = Note::always("Where a machine has several runs: from the least to the largest of its runs' figures.");
    Section::new("Machine by machine").with(Block::Table(table)).with(Block::Legend(vec![note]))
}

/// From the least to the largest; absent where no run has it.
fn range(line: &Line<'_>, figure: impl Fn(&Part) -> Option<i64>) -> String {
    let known = || line.parts.iter().filter_map(|part| figure(part));
    let (Some(least), Some(most)) = (known().min(), known().max()) else { return units::ABSENT.to_owned() };
    let (low, high) = (units::duration(least), units::duration(most));
    if low == high { low } else { format!("{low}–{high}") }
}
