//! Pictures in letters, for a terminal: a chart of several lines over the same steps, and a map of pairs of CPUs.
//!
//! The letters of a chart distinguish its lines without colour and in plain ASCII. The braille dots of plotting crates (textplots,
//! rasciigraph) do not; what remains is to place letters on a grid. In a map, few pairs have figures, and many have a character each.

use std::collections::BTreeMap;

use crate::document::{Column, Form, Line, Paint, Picture, Point, Row, Table, ends, sorted};
use crate::export::text::style::{Style, paragraph};
use crate::format::{unbroken, units};

/// Rows of the drawing.
const ROWS: usize = 14;
/// Widest drawing: beyond it a step of a hundred has more than one column.
const WIDEST: usize = 100;
/// Stands where a value lies above the drawing.
const BEYOND: char = '^';
/// The least the axis covers, as a share of the middle value: smaller differences are no shape, but noise.
const LEAST_RANGE: f64 = 0.02;

/// A picture that is drawn in letters; empty of another.
pub(in crate::export) fn in_letters(picture: &Picture, style: &Style) -> String {
    match (picture.letters, picture.lines.first()) {
        (Some(says), Some(line)) if line.form == Form::Cells => map(picture, line, says, style),
        (Some(step), Some(_)) => chart(&picture.lines, step, style),
        _ => String::new(),
    }
}

/// The chart as text: the drawing with its axes, and what each letter stands for. `step` names the steps.
fn chart(lines: &[Line], step: &str, style: &Style) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let steps = points().map(|point| point.x as usize).max().unwrap_or(0);
    let highest = lines.iter().filter_map(top).reduce(f64::max);
    let (Some((low, _)), Some(high)) = (ends(points().map(|point| point.y)), highest) else { return String::new() };
    let (low, high) = widened(low, high);
    let labels: Vec<String> = (0..ROWS).map(|row| label(row, low, high, style)).collect();
    let margin = labels.iter().map(|label| textwrap::core::display_width(label)).max().unwrap_or(0);
    let columns = style.columns().saturating_sub(margin + 3).clamp(10, WIDEST).min(steps.max(1));
    let marks = marks(lines);
    let mut grid = vec![vec![' '; columns]; ROWS];
    for column in 0..columns {
        let mut at_row: Vec<(usize, char)> = Vec::new();
        for (line, mark) in lines.iter().zip(&marks) {
            if let Some(value) = middle(line, column, columns, steps) {
                let mark = if value > high { BEYOND } else { *mark };
                at_row.push((row_of(value, low, high), mark));
            }
        }
        for (row, cells) in grid.iter_mut().enumerate() {
            // Lines that lie on each other take turns from column to column.
            let here: Vec<char> = at_row.iter().filter(|(place, _)| *place == row).map(|(_, mark)| *mark).collect();
            if !here.is_empty() {
                cells[column] = here[column % here.len()];
            }
        }
    }
    let mut text = String::new();
    let (axis, corner, floor) = if style.unicode { ('│', '└', '─') } else { ('|', '+', '-') };
    for (label, cells) in labels.iter().zip(&grid) {
        let padding = " ".repeat(margin - textwrap::core::display_width(label));
        let cells: String = cells.iter().collect();
        text.push_str(&format!("  {padding}{label}{axis}{}\n", cells.trim_end()));
    }
    let floor: String = std::iter::repeat_n(floor, columns).collect();
    text.push_str(&format!("  {}{corner}{floor}\n", " ".repeat(margin)));
    let last = steps.to_string();
    let between = " ".repeat(columns.saturating_sub(1 + last.len()));
    text.push_str(&format!("  {} 1{between}{last}\n", " ".repeat(margin)));
    let legend: Vec<String> = lines.iter().zip(&marks).map(|(line, mark)| format!("{mark} {}", line.label)).collect();
    let beyond = if grid[0].contains(&BEYOND) { format!("; {BEYOND} beyond the drawing") } else { String::new() };
    let legend = format!("{step} across; {}{beyond}", legend.join(", "));
    text + &paragraph(&legend, "  ", "  ", Paint::Faint, style)
}

/// The highest value that a line needs room for: its first one and its 95th percentile. A few outliers above would squeeze
/// everything else into one row.
fn top(line: &Line) -> Option<f64> {
    let values = sorted(line.points.iter().map(|point| point.y));
    let p95 = *values.get((values.len() * 95 / 100).min(values.len().checked_sub(1)?))?;
    // A first value far beyond is an outlier too, no ramp.
    let first = line.points.first().map(|point| point.y).filter(|first| *first <= p95 * 4.0);
    Some(first.unwrap_or(p95).max(p95))
}

/// At least [`LEAST_RANGE`] around the middle.
fn widened(low: f64, high: f64) -> (f64, f64) {
    let (middle, half) =
        ((low + high) / 2.0, ((high - low) / 2.0).max(LEAST_RANGE / 2.0 * (low + high) / 2.0).max(1.0));
    (middle - half, middle + half)
}

/// Every fourth row says where it is.
fn label(row: usize, low: f64, high: f64, style: &Style) -> String {
    if !row.is_multiple_of(4) && row != ROWS - 1 {
        return String::new();
    }
    let value = high - (high - low) * row as f64 / (ROWS - 1) as f64;
    format!("{} ", style.spelled(&units::duration(value)))
}

fn row_of(value: f64, low: f64, high: f64) -> usize {
    (((high - value) / (high - low)) * (ROWS - 1) as f64).round().clamp(0.0, (ROWS - 1) as f64) as usize
}

/// The middle one of the values that fall into a column. Steps count from 1.
fn middle(line: &Line, column: usize, columns: usize, steps: usize) -> Option<f64> {
    let (from, to) = (column * steps / columns, (column + 1) * steps / columns);
    let here = line.points.iter().filter(|point| (from..to).contains(&(point.x as usize).saturating_sub(1)));
    let values = sorted(here.map(|point| point.y));
    values.get(values.len() / 2).copied()
}

/// The first letter of each name that no line before it has; otherwise a digit.
fn marks(lines: &[Line]) -> Vec<char> {
    let mut taken: Vec<char> = Vec::new();
    for line in lines {
        let letters = line.label.chars().filter(char::is_ascii_alphabetic);
        let choices = letters.flat_map(|c| [c.to_ascii_lowercase(), c.to_ascii_uppercase()]).chain('0'..='9');
        let mark = choices.into_iter().find(|choice| !taken.contains(choice)).unwrap_or('*');
        taken.push(mark);
    }
    taken
}

/// Most CPUs whose pairs are shown with figures. Pairs of more CPUs are one character each.
const WITH_FIGURES: usize = 8;
/// Columns that the name of a CPU takes. Columns that a figure takes with its shade and the gap before it.
const NAME: usize = 9;
const FIGURE: usize = 11;
/// Shades from the lightest to the darkest.
const SHADES: [char; 5] = ['\u{a0}', '░', '▒', '▓', '█'];
const ASCII_SHADES: [char; 5] = ['.', ':', '+', '#', '@'];

/// The squares of `line` and what its shades stand for, after `says`.
fn map(picture: &Picture, line: &Line, says: &str, style: &Style) -> String {
    let cpus: Vec<&str> = picture.x.ticks.iter().map(|(_, name)| name.as_str()).collect();
    let at = |point: &Point| (point.y.round() as usize, point.x.round() as usize);
    let squares: BTreeMap<(usize, usize), &Point> = line.points.iter().map(|point| (at(point), point)).collect();
    let fits = NAME + cpus.len() * FIGURE <= style.columns();
    let draw = if cpus.len() <= WITH_FIGURES && fits { with_figures } else { with_shades };
    let table = draw(&cpus, &|from, to| squares.get(&(from, to)).copied(), style);
    let end = |point: Option<&Point>| {
        let text = point.map(|point| format!("{} {}", shade(point.shade, style), figure(point)));
        unbroken(text.unwrap_or_default().trim_start())
    };
    let by_shade = |a: &&Point, b: &&Point| a.shade.total_cmp(&b.shade);
    let (lightest, darkest) = (line.points.iter().min_by(by_shade), line.points.iter().max_by(by_shade));
    let legend = format!("{says} Shades, logarithmic: {} to {}.", end(lightest), end(darkest));
    table.render(style).text + &paragraph(&legend, "  ", "  ", Paint::Faint, style)
}

type At<'a> = &'a dyn Fn(usize, usize) -> Option<&'a Point>;

fn figure(point: &Point) -> &str {
    point.tag.as_deref().unwrap_or_default()
}

fn with_figures(cpus: &[&str], at: At<'_>, style: &Style) -> Table {
    let mut columns = vec![Column::left("from / to", Column::ALWAYS)];
    columns.extend(cpus.iter().map(|_| Column::right("", Column::ALWAYS)));
    let name = |cpu: &&str| format!("CPU {cpu}");
    let head = std::iter::once(String::new()).chain(cpus.iter().map(name)).collect();
    let mut rows = vec![Row::Cells(head, Paint::Faint)];
    let cell = |point: Option<&Point>| match point {
        Some(point) => format!("{} {}", style.spelled(figure(point)), shade(point.shade, style)),
        None => style.spelled(units::ABSENT).into_owned(),
    };
    rows.extend(cpus.iter().enumerate().map(|(from, cpu)| {
        Row::plain(std::iter::once(name(cpu)).chain((0..cpus.len()).map(|to| cell(at(from, to)))).collect())
    }));
    Table { columns, rows, ranking: None }
}

fn with_shades(cpus: &[&str], at: At<'_>, style: &Style) -> Table {
    let columns = vec![Column::left("from / to", Column::ALWAYS), Column::left("CPUs in order", Column::ALWAYS)];
    let across = style.columns().saturating_sub(NAME + 6).max(8);
    let mut rows = Vec::new();
    for first in (0..cpus.len()).step_by(across) {
        let to = first..(first + across).min(cpus.len());
        if cpus.len() > across {
            rows.push(Row::Label(format!("to CPU {} to {}:", cpus[to.start], cpus[to.end - 1])));
        }
        rows.extend(cpus.iter().enumerate().map(|(from, cpu)| {
            let line = to.clone().map(|to| at(from, to).map_or('?', |point| shade(point.shade, style))).collect();
            Row::plain(vec![format!("CPU {cpu}"), line])
        }));
    }
    Table { columns, rows, ranking: None }
}

/// The darker, the more.
fn shade(share: f64, style: &Style) -> char {
    let shades = if style.unicode { SHADES } else { ASCII_SHADES };
    shades[(share * 4.0).round().clamp(0.0, 4.0) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Form;

    fn line(name: &str, values: Vec<i64>) -> Line {
        let point = |(i, ns): (usize, i64)| Point { x: (i + 1) as f64, y: ns as f64, ..Point::default() };
        let points = values.into_iter().enumerate().map(point).collect();
        Line { label: name.into(), shown: true, form: Form::Curve, points }
    }

    #[test]
    fn slow_at_first_is_high_on_the_left() {
        let mut ondemand = vec![1_790_000; 6];
        ondemand.extend([760_000; 94]);
        let lines = [
            line("performance", vec![755_000; 100]),
            line("powersave", vec![1_780_000; 100]),
            line("ondemand", ondemand),
        ];
        let text = chart(&lines, "loop number", &Style { width: 80, color: false, unicode: true });
        let rows: Vec<&str> = text.lines().collect();
        let top = rows[0].split_once('│').unwrap().1;
        assert!(top.starts_with("Po") || top.starts_with("oP") || top.contains('o'), "{text}");
        assert!(!top[10..].contains('o'), "{text}");
        assert!(rows[ROWS - 1].contains('p') && rows[ROWS - 1].contains('o'), "{text}");
        assert!(text.contains("p performance, P powersave, o ondemand"), "{text}");
        assert!(text.lines().all(|row| textwrap::core::display_width(row) <= 80), "{text}");
    }

    #[test]
    fn ascii_alone_where_nothing_else_is_spoken() {
        let text = chart(&[line("a", vec![1, 2, 3])], "step", &Style { width: 40, color: false, unicode: false });
        assert!(text.is_ascii(), "{text}");
    }

    #[test]
    fn nothing_and_one_value_do_no_harm() {
        assert_eq!(chart(&[], "step", &Style::default()), "");
        assert_eq!(chart(&[line("a", vec![])], "step", &Style::default()), "");
        assert!(chart(&[line("a", vec![5])], "step", &Style::default()).contains('a'));
        assert!(chart(&[line("a", vec![0, i64::MAX])], "step", &Style::default()).contains('a'));
    }

    #[test]
    fn every_line_has_a_mark_of_its_own() {
        let lines: Vec<Line> =
            ["powersave", "performance", "ppp", "p"].iter().map(|name| line(name, vec![1])).collect();
        let mut marks = marks(&lines);
        marks.sort_unstable();
        marks.dedup();
        assert_eq!(marks.len(), 4);
    }

    #[test]
    fn the_slowest_is_the_darkest() {
        let style = Style::default();
        assert_eq!(shade(0.0, &style), SHADES[0]);
        assert_eq!(shade(0.5, &style), SHADES[2]);
        assert_eq!(shade(1.0, &style), SHADES[4]);
        assert_eq!(shade(f64::NAN, &style), SHADES[0]);
    }
}
