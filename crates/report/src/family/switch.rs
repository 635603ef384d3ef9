//! The switch: duration of writing a governor, and delay until the new speed is reached.

use punctual_record::experiment::switch::{Metrics, Parameters};
use punctual_record::{Experiment, Quantity, Run, Series};

use crate::document::{Block, Columns, Note, Section, Table};
use crate::evidence::MIN_ROUNDS;
use crate::format::naming::under;
use crate::format::{distinct, spoken, units};
use crate::verdict::{Advice, Answer};

use super::shared::{ALWAYS, Family, Measured, has_few_rounds, measured};

type Switch<'a> = Measured<'a, Parameters, Metrics>;

pub(super) const FAMILY: Family =
    Family { answer, ..Family::without_answer("switch", "Switching the governor", sections) };

fn sections(_: &Run, series: &[&Series]) -> Vec<Section> {
    let series = measured(series, Experiment::switch);
    let Some(first) = series.first() else { return Vec::new() };
    let on = |cpu: Option<u32>| units::or_absent(cpu, |cpu| cpu.to_string());
    let heading = format!(
        "switch: governor of CPU {} written from CPU {}, {}",
        on(first.metrics.cpu),
        on(first.metrics.switched_from_cpu),
        under(&first.conditions)
    );
    let table = table(&series);
    let mut notes = vec![Note::always("write: the write to scaling_governor.")];
    if series.iter().any(|switch| switch.quantity == Quantity::Settling) {
        notes.push(Note::always(
            "new speed: from the beginning of the write to the first loop that takes as long as loops do afterwards, to 5 %.",
        ));
    }
    vec![Section::new(heading).with(Block::Table(table)).with(Block::Legend(notes))]
}

/// A sentence for each direction: when the new speed is there, or that it is not seen.
fn answer(_: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let series = measured(series, Experiment::switch);
    let one = |subject: &str| {
        let series_of =
            |quantity| series.iter().find(|switch| switch.subject == subject && switch.quantity == quantity);
        let name = subject.to_owned();
        let write = series_of(Quantity::CallCost).and_then(|switch| switch.summary.p50);
        let write = write.map_or(String::new(), |ns| format!(" The write takes {} (p50).", spoken::duration(ns)));
        Some(match series_of(Quantity::Settling).map(|switch| (switch.summary.p50, switch.summary.min)) {
            Some((p50, min)) => {
                let (ns, which) = p50.map_or((min, "few samples"), |p50| (Some(p50), "p50"));
                let after = spoken::duration(ns?);
                format!("{name}: the new speed is there {after} after the write ({which}).{write}")
            }
            None => match series_of(Quantity::CallCost)
                .and_then(|switch| Some((switch.summary.count, switch.metrics.not_seen?)))
            {
                Some((all, missed)) if missed < all => {
                    let (seen, all) = (units::count(all - missed), units::count(all));
                    format!("{name}: the speed changed after {seen} of {all} switches.{write}")
                }
                _ => format!("{name}: no change of speed seen.{write}"),
            },
        })
    };
    let mut sentences: Vec<String> =
        distinct(series.iter().map(|switch| switch.subject.as_str())).into_iter().filter_map(one).collect();
    if !series.is_empty() && series.iter().all(|switch| switch.quantity != Quantity::Settling) {
        let first = match series.iter().all(|switch| has_few_rounds(switch)) {
            true => format!("Whether the speed follows the governor was not tested: fewer than {MIN_ROUNDS} rounds."),
            false => "Nothing to see: the speed does not follow the governor here.".to_owned(),
        };
        sentences.insert(0, first);
    }
    Answer { table: (!series.is_empty()).then(|| table(&series)), ..Answer::in_words(sentences) }
}

/// A row for each direction and figure.
fn table(series: &[Switch<'_>]) -> Table {
    Columns::new()
        .left("switch", ALWAYS, |series: &Switch<'_>| series.subject.clone())
        .left("figure", ALWAYS, |series| what(series.quantity).to_owned())
        .count("n", 40, |series| Some(series.summary.count))
        .ns("min", 30, |series| series.summary.min)
        .estimate("p50", (ALWAYS, 50), |series| (series.summary.p50, series.summary.ci95.p50))
        .summary([("p90", 60), ("max", ALWAYS)], |series| Some(&series.summary))
        .right("loop before, after", 70, |Measured { metrics, .. }| {
            format!("{}, {}", units::known(metrics.before_ns), units::known(metrics.after_ns))
        })
        .plain(series)
}

/// What a series is of.
fn what(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::CallCost => "write",
        Quantity::Settling => "new speed",
        _ => "",
    }
}
