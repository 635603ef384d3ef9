//! Runs that were altered in any way a file can be: every report and every comparison comes to its end.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use punctual_record::merge::Merger;
use punctual_record::{Distribution, Key, Limit, Run, Tool};
use punctual_report::Style;
use punctual_report::compare::{Options, Side, compare};
use punctual_report::export::{OF_COMPARISONS, csv, hgrm, html, markdown, openmetrics};
use punctual_report::gate::Gate;
use punctual_testing::inputs;
use serde_json::{Map, Value};

use crate::common::causes::program_run;
use crate::common::{lever_run, plain_run, remedies_run};
use crate::forms::{notices, shown, unjudged};

/// What stands instead of a value: the extremes of each kind.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        prop::sample::select(vec![
            Value::Null,
            Value::from(0),
            Value::from(-1),
            Value::from(i64::MIN),
            Value::from(i64::MAX),
            Value::from(u64::MAX),
            Value::from(u32::MAX),
            Value::from(1e308),
            Value::from(-1e-308),
            Value::from(true),
            Value::from(""),
            Value::from("\u{1b}[2J</script><b>\u{202e}"),
            Value::Array(Vec::new()),
            Value::Object(serde_json::Map::new()),
        ]),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ]
}

/// All places of a document, by their pointers.
pub(crate) fn places(value: &Value, here: &str, all: &mut Vec<String>) {
    let mut add = |key: &str, value: &Value| {
        let place = format!("{here}/{}", key.replace('~', "~0").replace('/', "~1"));
        places(value, &place, all);
        all.push(place);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| add(key, value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(i, value)| add(&i.to_string(), value)),
        _ => {}
    }
}

/// A run as a document: its places, and its names and strings.
struct Original {
    document: Value,
    places: Vec<String>,
    words: Vec<String>,
}

impl Original {
    fn new(run: &Run) -> Self {
        let document = serde_json::to_value(run).unwrap();
        let (mut all, mut words) = (Vec::new(), Vec::new());
        places(&document, "", &mut all);
        words.extend(all.iter().filter_map(|place| place.rsplit('/').next().map(str::to_owned)));
        words.extend(all.iter().filter_map(|place| document.pointer(place)?.as_str().map(str::to_owned)));
        Self { document, places: all, words }
    }
}

/// Runs with every field, and of several experiments.
static ORIGINALS: LazyLock<Vec<Original>> = LazyLock::new(|| {
    let mut full = plain_run();
    full.series.truncate(4);
    for series in &mut full.series {
        series.summary.stdev = Some(1000.0);
        let figures = punctual_record::RoundFigures { summary: series.summary.clone(), ..Default::default() };
        series.rounds = (0..6).map(|round| punctual_record::RoundFigures { round, ..figures.clone() }).collect();
    }
    full.causes = program_run().causes;
    let mut others = [lever_run(&["punctual", "checkup"]), remedies_run(52_000, 52_000, 3_100)];
    others.iter_mut().for_each(|run| run.series.truncate(6));
    std::iter::once(&full).chain(&others).map(Original::new).collect()
});

/// What is done to a place of a document.
#[derive(Debug, Clone)]
enum Change {
    Replace(Value),
    /// Appends this many copies of the first item.
    Repeat(usize),
    Remove,
    Rename(Index),
    /// The series takes the parameters and metrics of another run's, so that it claims to be of that experiment.
    OtherExperiment(Index, Index),
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => any_value().prop_map(Change::Replace),
        1 => prop_oneof![9 => Just(1_usize), 1 => Just(300)].prop_map(Change::Repeat),
        1 => Just(Change::Remove),
        1 => any::<Index>().prop_map(Change::Rename),
        1 => any::<(Index, Index)>().prop_map(|(run, series)| Change::OtherExperiment(run, series)),
    ]
}

fn apply(document: &mut Value, place: &str, change: Change, original: &Original) {
    if let Change::OtherExperiment(run, series) = change {
        let others = ORIGINALS[run.index(ORIGINALS.len())].document["series"].as_array().unwrap();
        let other = &others[series.index(others.len())];
        for one in document["series"].as_array_mut().into_iter().flatten().filter(|one| one.is_object()) {
            for field in ["experiment", "parameters", "metrics", "quantity"] {
                one[field] = other[field].clone();
            }
        }
        return;
    }
    match (change, document.pointer_mut(place)) {
        (Change::Repeat(times), Some(Value::Array(items))) if !items.is_empty() => {
            let item = items[0].clone();
            items.extend(std::iter::repeat_n(item, times));
        }
        (Change::Remove, Some(Value::Array(items))) => drop(items.pop()),
        (Change::Remove, Some(Value::Object(fields))) => drop(first_of(fields)),
        (Change::Rename(word), Some(Value::Object(fields))) => {
            if let Some(value) = first_of(fields) {
                fields.insert(original.words[word.index(original.words.len())].clone(), value);
            }
        }
        (Change::Replace(with), Some(found)) => *found = with,
        _ => {}
    }
}

/// Takes the first field.
fn first_of(fields: &mut Map<String, Value>) -> Option<Value> {
    let name = fields.keys().next().cloned()?;
    fields.remove(&name)
}

/// What is done with a run that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Text,
    Page,
    Tables,
    Compared { first: bool },
    Merged,
    Judged,
}

fn any_use() -> impl Strategy<Value = Use> {
    prop_oneof![
        Just(Use::Text),
        Just(Use::Page),
        Just(Use::Tables),
        any::<bool>().prop_map(|first| Use::Compared { first }),
        Just(Use::Merged),
        Just(Use::Judged),
    ]
}

/// The run that others are compared and merged with.
fn later() -> Run {
    let mut run: Run = serde_json::from_value(ORIGINALS[0].document.clone()).unwrap();
    run.started = "2027-01-01T00:00:00Z".parse().unwrap();
    run
}

fn use_run(run: &Run, used: Use) {
    match used {
        Use::Text => {
            for width in [20, 140] {
                let _ = shown(run, &Style { width, ..Style::default() });
            }
            let _ = notices(run, &Style::default());
            drop(markdown::write(run, &mut Vec::new()));
        }
        Use::Page => {
            let mut page = Vec::new();
            if html::write(run, &mut page).is_ok() {
                Run::from_slice(html::embedded_run(&page).unwrap()).unwrap();
            }
        }
        Use::Tables => {
            drop(csv::write(run, &mut Vec::new()));
            drop(openmetrics::write(run, &mut Vec::new()));
            let _ = hgrm::file_names(run);
            let distributions = run.series.iter().filter_map(|series| Distribution::from_series(series).ok());
            distributions.for_each(|distribution| drop(hgrm::write(&distribution, Vec::new())));
        }
        Use::Compared { first } => {
            let (mut old, mut new, later) = (Side::new(), Side::new(), later());
            let (one, other) = if first { (run, &later) } else { (&later, run) };
            if old.add("old", one).is_ok() && new.add("new", other).is_ok() {
                let compared = unjudged(compare(&old, &new, Options::default()));
                OF_COMPARISONS.iter().for_each(|form| drop((form.write)(&compared, &mut Vec::new())));
            }
        }
        Use::Merged => {
            let Ok(mut merger) = Merger::new(run.clone()) else { return };
            if merger.add(later()).is_ok() {
                let tool = Tool { name: "punctual".into(), version: "0".into() };
                let merged = merger.finish(tool, vec!["punctual".into(), "merge".into()]);
                merged.iter().for_each(comes_back);
            }
        }
        Use::Judged => {
            let limit = |(figure, above_ns)| Limit { figure, subject: Some("*".to_owned()), above_ns };
            let limits = [(Key::P50, 1), (Key::P99, 200_000), (Key::Max, 1_000_000_000)].map(limit).into();
            drop(Gate::from_run(&Run { limits, ..run.clone() }));
        }
    }
}

/// A run that can be written is read again as it was.
fn comes_back(run: &Run) {
    let mut written = Vec::new();
    if run.to_json(&mut written).is_ok() {
        assert_eq!(Run::from_slice(&written).map_err(|error| error.to_string()).as_ref(), Ok(run));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(inputs(1_000)))]

    #[test]
    fn every_report_comes_to_its_end(
        original in any::<Index>(), changes in prop::collection::vec((any::<Index>(), any_change()), 0..6), used in any_use()
    ) {
        let original = &ORIGINALS[original.index(ORIGINALS.len())];
        let mut document = original.document.clone();
        for (place, change) in changes {
            apply(&mut document, original.places[place.index(original.places.len())].as_str(), change, original);
        }
        if let Ok(run) = Run::from_slice(document.to_string().as_bytes()) {
            comes_back(&run);
            use_run(&run, used);
        }
    }
}
