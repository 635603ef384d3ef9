//! Forest plot: differences with their intervals, a row per series, around the line of no change.

use crate::document::{Album, Axis, Form, Line, Picture, Point, ends};
use crate::format::units;
use crate::pictures;

use super::table::full_table;
use super::words::{change, interval};
use super::{Comparison, Figure, FigureComparison, SeriesComparison, Verdict};

/// Most series in one picture: more are not readable.
const ROWS: usize = 24;
/// Range of the drawn changes, as shares: down to zero, and up to five times as much. Tables have the others.
const FURTHEST: (f64, f64) = (-1.0, 4.0);
/// Distance of the figures above and below a series' line.
const APART: f64 = 0.24;

/// Pictures of all comparable series; `None` without such series.
pub(super) fn album(comparison: &Comparison) -> Option<Album> {
    let drawn: Vec<&SeriesComparison> = comparison.series.iter().filter(|series| is_drawn(series)).collect();
    let parts = drawn.chunks(ROWS).enumerate().map(|(number, series)| {
        let first = number * ROWS + 1;
        (format!("series {first} to {} of {}", first + series.len() - 1, drawn.len()), series)
    });
    let album = pictures::album("", parts, |_, series| picture(comparison, series));
    (!album.pictures.is_empty()).then_some(album)
}

fn is_drawn(series: &SeriesComparison) -> bool {
    series.figures.iter().any(|figure| share(figure).is_some())
}

/// Estimate, lower and upper end as shares; `None` if the old figure allows no shares.
fn share(figure: &FigureComparison) -> Option<(f64, f64, f64)> {
    let share = figure.difference?.by_share?;
    [share.value, share.low, share.high].iter().all(|end| end.is_finite()).then_some((
        share.value,
        share.low,
        share.high,
    ))
}

fn picture(comparison: &Comparison, series: &[&SeriesComparison]) -> Option<Picture> {
    let names: Vec<String> = series.iter().map(|its| comparison.names.anywhere(its)).collect();
    let within = |share: f64| share.clamp(FURTHEST.0, FURTHEST.1);
    let shares = series.iter().flat_map(|its| its.figures.iter().filter_map(share));
    let (low, high) = ends(shares.flat_map(|(value, low, high)| [value, low, high]).map(within).chain([-0.02, 0.02]))?;
    let room = (high - low) * 0.04;
    let y = Axis::names(&names);
    let mut lines: Vec<Line> = Figure::ALL.into_iter().map(|figure| line(figure, series, &names)).collect();
    lines.retain(|line| !line.points.is_empty());
    lines.push(no_change(y.low, y.high));
    Some(Picture {
        title: "Change, new against old".to_owned(),
        about: "A mark is the estimate, the line through it the interval that holds the true change with 95 % confidence; left of the line \
                of no change is sooner or cheaper. A ring: shown to be different, corrected for the number of comparisons."
            .to_owned(),
        x: Axis::linear("change", low - room, high + room, 9, &|share| percent(share)),
        y,
        lines,
        table: full_table(series, &names),
        letters: None,
    })
}

/// A tick: `+20 %`, and no sign at nothing.
fn percent(share: f64) -> String {
    let percent = (share * 1000.0).round() / 10.0;
    match percent {
        0.0 => "0 %".to_owned(),
        _ if percent < 0.0 => format!("−{} %", -percent),
        _ => format!("+{percent} %"),
    }
}

fn line(figure: Figure, series: &[&SeriesComparison], names: &[String]) -> Line {
    let offset = APART * (1.0 - figure as usize as f64);
    let mut points = Vec::new();
    for (row, (its, name)) in series.iter().zip(names).enumerate() {
        for found in its.figures.iter().filter(|its| its.figure == figure) {
            let Some((value, low, high)) = share(found) else { continue };
            points.push(Point {
                x: value,
                y: offset - row as f64,
                says: format!("{name}: {}", says(its, found)),
                mark: true,
                ring: matches!(found.verdict, Verdict::Worse | Verdict::Better),
                span: Some((low, high)),
                ..Point::default()
            });
        }
    }
    Line { label: figure.name().into(), shown: figure != Figure::Cpu, form: Form::Spans, points }
}

fn no_change(low: f64, high: f64) -> Line {
    let point = |y: f64| Point { x: 0.0, y, says: "as before".into(), ..Point::default() };
    Line { label: "no change".into(), shown: true, form: Form::Curve, points: vec![point(low), point(high)] }
}

fn says(series: &SeriesComparison, figure: &FigureComparison) -> String {
    let Some(difference) = &figure.difference else { return String::new() };
    let (old, new) = (units::duration_fine(difference.old_ns), units::duration_fine(difference.new_ns));
    let verdict = figure.verdict.word(figure.figure, series.quantity);
    format!("{old} → {new}, {} {}: {verdict}", change(difference), interval(difference))
}
