//! A comparison as people read it: a table for each experiment, and no two series of one name.

use punctual_record::experiment::yielding;
use punctual_record::{Experiment, Quantity, RoundFigures, Run, Series, Typed};
use punctual_report::compare::{Compared, Options, Side, compare};
use punctual_report::export::text;
use punctual_report::{Document, Style};

use crate::common::{Made, found, run, set};

/// Rounds from which a median can be compared.
pub(crate) fn with_rounds(mut series: Series) -> Series {
    let summary = series.summary.clone();
    series.rounds = (0..20)
        .map(|round| RoundFigures {
            round,
            summary: summary.clone(),
            cpu_ns_per_op: Some(5e3),
            ..RoundFigures::default()
        })
        .collect();
    series
}

/// Two waits under two sets of conditions, and a yield with its cost and its absence; `later` multiplies all.
pub(crate) fn made(minute: i64, later: i64) -> Run {
    let (found, slack) = ("as found", "slack 1 ns");
    let wait = |conditions, asked| Made::sleep("nanosleep", conditions, 50_000 * later).asked(asked);
    let waits = [wait(found, 100_000), wait(found, 1_000_000), wait(slack, 100_000), wait(slack, 1_000_000)];
    let mut run = run(&["punctual"], vec![self::found(found, 50_000), set(slack, "other", Some(1), 1)], &waits);
    let alone = yielding::Parameters::default();
    let beside = |competitors| yielding::Parameters {
        competitors,
        competitor_kind: Some(yielding::CompetitorKind::Process),
        competitor_policy: Some("as found".into()),
        ..alone.clone()
    };
    for (parameters, quantity) in [
        (alone.clone(), Quantity::CallCost),
        (beside(1), Quantity::CallCost),
        (beside(1), Quantity::Away),
        (beside(2), Quantity::CallCost),
    ] {
        let series = Made::sleep("sched_yield", found, 900 * later).series();
        run.series.push(Series { experiment: Experiment::Yield(Typed::asked(parameters)), quantity, ..series });
    }
    run.series = run.series.into_iter().map(with_rounds).collect();
    run.started = jiff::Timestamp::from_second(1_700_000_000 + 60 * minute).expect("a time");
    run
}

fn shown(width: usize) -> String {
    let (mut old, mut new) = (Side::new(), Side::new());
    old.add("old.json", &made(0, 1)).expect("a run");
    new.add("new.json", &made(1, 3)).expect("a run");
    let comparison = compare(&old, &new, Options::default());
    let document = Document::of_comparison(&Compared { comparison, judgement: None });
    text::render(&document, &Style { width, ..Style::default() })
}

#[test]
fn a_table_for_each_experiment() {
    insta::assert_snapshot!(shown(80));
}

/// Whatever the width: the figure before, after, and the change.
#[test]
fn old_new_and_change_are_always_there() {
    for width in [60, 80, 140] {
        let text = shown(width);
        let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("  series  ")).collect();
        assert!(headings.len() >= 2, "{text}");
        for heading in headings {
            assert!(["figure", "old", "new", "change"].iter().all(|word| heading.contains(word)), "{width}: {heading}");
        }
    }
}

/// Two series of an experiment are never called the same.
#[test]
fn names_tell_series_apart() {
    for width in [80, 140] {
        names_differ(&shown(width));
    }
    assert!(!shown(140).contains("competitor kind"), "which all that have competitors have");
}

fn names_differ(text: &str) {
    let mut names = Vec::new();
    for section in text.split("\n\n") {
        let rows = section.lines().skip_while(|line| !line.starts_with("  series  ")).skip(1);
        let mut ids: Vec<&str> = rows
            .filter_map(|line| line.strip_prefix("  "))
            .filter(|line| line.starts_with("nanosleep") || line.starts_with("sched_yield"))
            .filter_map(|line| line.split("  ").next())
            .collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "{section}");
        names.extend(ids);
    }
    assert!(names.len() >= 7, "{names:?}\n{text}");
}
