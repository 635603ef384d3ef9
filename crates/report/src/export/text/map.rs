//! Pairs of CPUs as a map in letters. Few pairs have figures, many have a character each.

use std::collections::BTreeMap;

use super::style::Style;
use crate::document::{Column, Line, Paint, Picture, Point, Row, Table};
use crate::format::unbroken;

use crate::export::text::style::paragraph;

/// Most CPUs whose pairs are shown with figures. Pairs of more CPUs are one character each.
const WITH_FIGURES: usize = 8;
/// Columns that the name of a CPU takes. Columns that a figure takes with its shade and the gap before it.
const NAME: usize = 9;
const FIGURE: usize = 11;
/// Shades from the lightest to the darkest.
const SHADES: [char; 5] = ['\u{a0}', '░', '▒', '▓', '█'];
const ASCII_SHADES: [char; 5] = ['.', ':', '+', '#', '@'];

/// The squares of `line` and what its shades stand for, after `says`.
pub(super) fn draw(picture: &Picture, line: &Line, says: &str, style: &Style) -> String {
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
        None => style.absent().to_owned(),
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

    #[test]
    fn the_slowest_is_the_darkest() {
        let style = Style::default();
        assert_eq!(shade(0.0, &style), SHADES[0]);
        assert_eq!(shade(0.5, &style), SHADES[2]);
        assert_eq!(shade(1.0, &style), SHADES[4]);
        assert_eq!(shade(f64::NAN, &style), SHADES[0]);
    }
}
