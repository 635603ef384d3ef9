//! What a merged run was merged from: the machines, and each machine's figures beside the others'.

use punctual_record::{Host, Part, Run, Series};

use crate::background::{conditions, telling};
use crate::plain::plain;
use crate::story::{Block, Note, Section};
use crate::style::{Paint, Style};
use crate::table::{Column, Row, Table};
use crate::units;

/// Most rows of a table: beyond it, nobody reads.
const MOST: usize = 300;

const MACHINES: [Column; 6] = [
    Column::left("machine", Column::ALWAYS),
    Column::left("kernel", 90),
    Column::left("CPU", 50),
    Column::right("runs", Column::ALWAYS),
    Column::right("measured", 60),
    Column::left("first", 40),
];

const FIGURES: [Column; 6] = [
    Column::left("series", Column::ALWAYS),
    Column::left("machine", Column::ALWAYS),
    Column::right("n", 30),
    Column::right("p50", Column::ALWAYS),
    Column::right("p99", Column::ALWAYS),
    Column::right("CPU/op", 60),
];

/// The sections; none where the run was not merged.
pub(crate) fn sections(run: &Run, style: &Style) -> Vec<Section> {
    if run.merged_from.is_empty() {
        return Vec::new();
    }
    let machines = machines(run);
    let heading = format!("Merged from {} runs of {} machines", run.merged_from.len(), machines.len());
    let heading = if machines.len() == 1 { heading.replace("machines", "machine") } else { heading };
    let rows = machines.iter().enumerate().map(|(place, machine)| machine_row(run, place, machine, style)).collect();
    let table = Table { columns: MACHINES.to_vec(), rows };
    let mut sections = vec![Section::new(heading).with(Block::Table(table))];
    let rows: Vec<Row> = run.series.iter().flat_map(|series| series_rows(run, series, &machines, style)).collect();
    if !rows.is_empty() {
        let more = rows.len().saturating_sub(MOST);
        let mut rows: Vec<Row> = rows.into_iter().take(MOST).collect();
        if more > 0 {
            rows.push(Row::Label(format!("and {} more rows", units::count(more as u64))));
        }
        let table = Table { columns: FIGURES.to_vec(), rows };
        let note =
            Note::always("Where a machine has several runs: from the least to the largest of its runs' figures.");
        sections.push(Section::new("Machine by machine").with(Block::Table(table)).with(Block::Legend(vec![note])));
    }
    sections
}

/// A machine: the places of its runs.
type Machine = Vec<usize>;

/// Runs whose hosts differ in nothing but their load are of one machine.
fn machines(run: &Run) -> Vec<Machine> {
    let mut machines: Vec<(Host, Machine)> = Vec::new();
    for (place, source) in run.merged_from.iter().enumerate() {
        let host = Host { load1: None, ..source.host.clone() };
        match machines.iter_mut().find(|(known, _)| *known == host) {
            Some((_, runs)) => runs.push(place),
            None => machines.push((host, vec![place])),
        }
    }
    machines.into_iter().map(|(_, runs)| runs).collect()
}

fn label(run: &Run, place: usize, machine: &[usize], style: &Style) -> String {
    let host = machine.first().map(|&first| &run.merged_from[first].host);
    match host.and_then(|host| host.name.as_deref()) {
        Some(name) => format!("{} {}", place + 1, plain(name, style)),
        None => (place + 1).to_string(),
    }
}

fn machine_row(run: &Run, place: usize, machine: &[usize], style: &Style) -> Row {
    let sources: Vec<_> = machine.iter().map(|&run_place| &run.merged_from[run_place]).collect();
    let known = |fact: &Option<String>| fact.as_deref().map_or("unknown".to_owned(), |fact| plain(fact, style));
    let host = &sources[0].host;
    let elapsed = sources.iter().fold(0u64, |sum, source| sum.saturating_add(source.elapsed_ns));
    let first = sources.iter().map(|source| source.started).min();
    Row::Cells(
        vec![
            label(run, place, machine, style),
            known(&host.kernel),
            known(&host.cpu_model),
            machine.len().to_string(),
            units::duration(i64::try_from(elapsed).unwrap_or(i64::MAX), style),
            first.map_or(String::new(), |first| first.to_string().chars().take(10).collect()),
        ],
        Paint::Plain,
    )
}

fn series_rows(run: &Run, series: &Series, machines: &[Machine], style: &Style) -> Vec<Row> {
    let mut name = plain(&series.subject, style) + &telling(&series.parameters, style);
    if run.conditions.len() > 1 {
        name.push_str(&format!(", {}", conditions(run, &series.conditions, style)));
    }
    let mut rows = Vec::new();
    for (place, machine) in machines.iter().enumerate() {
        let parts: Vec<&Part> = series.parts.iter().filter(|part| machine.contains(&(part.source as usize))).collect();
        if parts.is_empty() {
            continue;
        }
        let count = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.summary.count));
        let figure = |of: &dyn Fn(&Part) -> Option<i64>| range(parts.iter().map(|part| of(part)), style);
        rows.push(Row::Cells(
            vec![
                std::mem::take(&mut name),
                label(run, place, machine, style),
                units::count(count),
                figure(&|part| part.summary.p50),
                figure(&|part| part.summary.p99),
                figure(&|part| part.cpu_ns_per_op.filter(|ns| ns.is_finite()).map(|ns| ns.round() as i64)),
            ],
            Paint::Plain,
        ));
    }
    rows
}

/// From the least to the largest; absent where no run has it.
fn range(figures: impl Iterator<Item = Option<i64>>, style: &Style) -> String {
    let known: Vec<i64> = figures.flatten().collect();
    let (Some(least), Some(most)) = (known.iter().min(), known.iter().max()) else { return style.absent().to_owned() };
    let (low, high) = (units::duration(*least, style), units::duration(*most, style));
    let dash = if style.unicode { "–" } else { "-" };
    if low == high { low } else { format!("{low}{dash}{high}") }
}
