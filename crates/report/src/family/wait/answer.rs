//! How late waits end, and most of it why; the table of the first screen.

use punctual_record::{Run, Series, TIMER_SLACK};

use crate::document::{Column, Paint, Row, Table};
use crate::format::prose::unbroken;
use crate::format::units;
use crate::verdict::{Advice, Answer, Standing};
use crate::words::{self, Figure, Figures};

use super::candidates::reference;
use super::picture::picture;

/// The answer to: how late does a sleep end here, and why?
pub(in crate::family) fn answer(run: &Run, series: &[&Series], own: &[&Advice]) -> Answer {
    let all: Vec<Figures<'_>> =
        words::by_asked(series).into_iter().map(|(asked, series)| Figures::of(run, asked, &series)).collect();
    let sentences = all.first().and_then(|figures| lateness(figures, own)).into_iter().collect();
    Answer { sentences, table: table(&all, own), picture: picture(&all, own) }
}

/// `A 100 µs sleep ends 80 µs late here (p99 120 µs); 52 µs of it is timer slack.`
fn lateness(figures: &Figures<'_>, own: &[&Advice]) -> Option<String> {
    let row = reference(figures)?;
    let duration = |ns: i64| unbroken(&units::duration(ns));
    let asked = unbroken(&units::exact(figures.asked_ns));
    let mut text = format!("A sleep of {asked} ends {} late here", duration(row.p50?.value));
    if let Some(p99) = row.p99 {
        text.push_str(&format!(" (p99 {})", duration(p99.value)));
    }
    let slack = own
        .iter()
        .find(|advice| advice.id.starts_with(TIMER_SLACK))
        .and_then(|advice| advice.cases.iter().find(|case| case.case == units::exact(figures.asked_ns))?.p50.better());
    if let Some(gain) = slack {
        text.push_str(&format!("; {} of it is timer slack", duration(gain.ns)));
    }
    text.push('.');
    Some(text)
}

/// What was found, each cure, the library's sleeper and spinning, side by side for at most two durations.
fn table(all: &[Figures<'_>], own: &[&Advice]) -> Option<Table> {
    let shown: Vec<&Figures<'_>> = all.iter().filter(|figures| reference(figures).is_some()).take(2).collect();
    let first = shown.first()?;
    let base = reference(first)?;
    let mut columns = vec![Column::left("how late", Column::ALWAYS)];
    for figures in &shown {
        let over = format!("wait {}", units::exact(figures.asked_ns));
        columns.extend(["p50", "p99", "CPU"].map(|heading| Column::right(heading, Column::ALWAYS).over(&over)));
    }
    let mut rows: Vec<Row> =
        vec![row(&shown, &format!("{}, {}", base.subject, base.conditions), |figures| reference(figures))];
    // The other conditions of the same call, where they are advised.
    for other in first.rows.iter().filter(|row| row.subject == base.subject && row.conditions != base.conditions) {
        let advised =
            own.iter().any(|advice| advice.standing == Standing::Advised && advice.is_about(&other.conditions));
        if advised {
            rows.push(row(&shown, &format!("... {}", other.conditions), |figures| {
                figures.rows.iter().find(|row| row.subject == other.subject && row.conditions == other.conditions)
            }));
        }
    }
    let like = |subject: &'static str| {
        move |figures: &'_ Figures<'_>, conditions: &str| {
            figures.rows.iter().position(|row| row.subject == subject && row.conditions == conditions)
        }
    };
    for (subject, name) in [("hybrid", "punctual::Sleeper"), ("spin_clock", "spinning")] {
        let find = like(subject);
        if shown.iter().any(|figures| find(figures, &base.conditions).is_some()) {
            rows.push(row(&shown, name, |figures| figures.rows.get(find(figures, &base.conditions)?)));
        }
    }
    Some(Table { columns, rows })
}

fn row<'f, 'a: 'f>(
    shown: &[&'f Figures<'a>],
    name: &str,
    find: impl Fn(&'f Figures<'a>) -> Option<&'f Figure<'a>>,
) -> Row {
    let mut cells = vec![name.to_owned()];
    for &figures in shown {
        let its = find(figures);
        let late = |ns: Option<i64>| units::known(ns);
        cells.push(late(its.and_then(|row| row.p50).map(|p50| p50.value)));
        cells.push(late(its.and_then(|row| row.p99).map(|p99| p99.value)));
        cells.push(its.and_then(|row| row.cpu_share).map_or(units::ABSENT.to_owned(), units::share));
    }
    Row::Cells(cells, Paint::Plain)
}
