//! Every pair of CPUs as a map: who sends down, who receives across, the darker the slower.

use punctual_record::{Run, Series};

use crate::background::conditions;
use crate::plain::plain;
use crate::story::{Block, Note, Section, unbroken};
use crate::style::{Paint, Style};
use crate::table::{Column, Row, Table};
use crate::units;
use crate::words;

use super::{Traffic, bytes, text};

/// Up to so many CPUs each pair has its figure, where there is room; of more each is one character.
const WITH_FIGURES: usize = 8;
/// Columns that the name of a CPU takes, and that a figure takes with its shade and the gap before it.
const NAME: usize = 9;
const FIGURE: usize = 11;
/// Shades from the quickest to the slowest.
const SHADES: [char; 5] = ['\u{a0}', '░', '▒', '▓', '█'];
const ASCII_SHADES: [char; 5] = ['.', ':', '+', '#', '@'];

/// What one map is of.
type Key = (usize, String, Option<i64>, String, i64, String, String);

/// A map for each mechanism, size, traffic, way of receiving and set of conditions.
pub(super) fn sections(run: &Run, series: &[&Series], style: &Style) -> Vec<Section> {
    let mut groups: Vec<(Key, Vec<&Series>)> = Vec::new();
    for &series in series {
        let traffic = Traffic::of(series);
        let size = words::int(series, "size").unwrap_or(0);
        let receive = text(series, "receive").to_owned();
        let key = (
            traffic.order,
            traffic.mode,
            traffic.interval_ns,
            series.subject.clone(),
            size,
            receive,
            series.conditions.clone(),
        );
        match groups.iter_mut().find(|(its, _)| *its == key) {
            Some((_, pairs)) => pairs.push(series),
            None => groups.push((key, vec![series])),
        }
    }
    groups.into_iter().map(|(_, pairs)| section(run, &pairs, style)).collect()
}

fn section(run: &Run, pairs: &[&Series], style: &Style) -> Section {
    let first = pairs[0];
    let size = words::int(first, "size").map_or_else(String::new, bytes);
    let heading = format!(
        "ipc {}, {size}, receiver: {}; {}; under {}",
        plain(&first.subject, style),
        plain(text(first, "receive"), style),
        Traffic::of(first).mode_in_words(style),
        conditions(run, &first.conditions, style),
    );
    let mut cpus: Vec<i64> =
        pairs.iter().flat_map(|s| [words::int(s, "sender_cpu"), words::int(s, "receiver_cpu")]).flatten().collect();
    cpus.sort_unstable();
    cpus.dedup();
    let p50 = |a: i64, b: i64| {
        let there = |s: &&&Series| words::int(s, "sender_cpu") == Some(a) && words::int(s, "receiver_cpu") == Some(b);
        pairs.iter().find(there).and_then(|s| s.summary.p50)
    };
    let known: Vec<i64> =
        cpus.iter().flat_map(|&a| cpus.iter().map(move |&b| (a, b))).filter_map(|(a, b)| p50(a, b)).collect();
    let (least, most) = (known.iter().min().copied().unwrap_or(0), known.iter().max().copied().unwrap_or(0));
    let shade = |ns: i64| shade(ns, least, most, style);
    let fits = NAME + cpus.len() * FIGURE <= style.columns();
    let table = if cpus.len() <= WITH_FIGURES && fits {
        with_figures(&cpus, p50, shade, style)
    } else {
        with_shades(&cpus, p50, shade, style)
    };
    let end = |ns: i64| unbroken(format!("{} {}", shade(ns), units::duration(ns, style)).trim_start());
    let legend = format!(
        "p50; the sender's CPU down, the receiver's across. Shades, logarithmic: {} to {}.",
        end(least),
        end(most)
    );
    Section::new(heading).with(Block::Table(table)).with(Block::Legend(vec![Note::always(legend)]))
}

fn with_figures(
    cpus: &[i64],
    p50: impl Fn(i64, i64) -> Option<i64>,
    shade: impl Fn(i64) -> char,
    style: &Style,
) -> Table {
    let mut columns = vec![Column::left("from / to", Column::ALWAYS)];
    columns.extend(cpus.iter().map(|_| Column::right("", Column::ALWAYS)));
    let mut head = vec![String::new()];
    head.extend(cpus.iter().map(|cpu| format!("CPU {cpu}")));
    let mut rows = vec![Row::Cells(head, Paint::Faint)];
    for &a in cpus {
        let mut cells = vec![format!("CPU {a}")];
        let cell = |b: i64| match p50(a, b) {
            Some(ns) => format!("{} {}", units::duration(ns, style), shade(ns)),
            None => style.absent().to_owned(),
        };
        cells.extend(cpus.iter().map(|&b| cell(b)));
        rows.push(Row::Cells(cells, Paint::Plain));
    }
    Table { columns, rows }
}

fn with_shades(
    cpus: &[i64],
    p50: impl Fn(i64, i64) -> Option<i64>,
    shade: impl Fn(i64) -> char,
    style: &Style,
) -> Table {
    let columns = vec![Column::left("from / to", Column::ALWAYS), Column::left("CPUs in order", Column::ALWAYS)];
    let across = style.columns().saturating_sub(NAME + 6).max(8);
    let mut rows = Vec::new();
    for to in cpus.chunks(across) {
        if cpus.len() > across {
            rows.push(Row::Label(format!("to CPU {} to {}:", to[0], to[to.len() - 1])));
        }
        rows.extend(cpus.iter().map(|&a| {
            let line: String = to.iter().map(|&b| p50(a, b).map_or('?', &shade)).collect();
            Row::Cells(vec![format!("CPU {a}"), line], Paint::Plain)
        }));
    }
    Table { columns, rows }
}

/// Darker the longer, on a logarithmic scale from the least to the most.
fn shade(ns: i64, least: i64, most: i64, style: &Style) -> char {
    let shades = if style.unicode { SHADES } else { ASCII_SHADES };
    let log = |ns: i64| (ns.max(1) as f64).ln();
    let span = log(most) - log(least);
    let share = if span > 0.0 { (log(ns) - log(least)) / span } else { 0.0 };
    shades[((share * 4.0).round().clamp(0.0, 4.0)) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_is_the_darkest() {
        let style = Style::default();
        assert_eq!(shade(100, 100, 10_000, &style), SHADES[0]);
        assert_eq!(shade(1_000, 100, 10_000, &style), SHADES[2]);
        assert_eq!(shade(10_000, 100, 10_000, &style), SHADES[4]);
        assert_eq!(shade(5, 5, 5, &style), SHADES[0]);
    }
}
