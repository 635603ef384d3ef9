//! Runs that were altered in any way a file can be: every report and every comparison comes to its end.

use crate::common::plain_run;
use crate::forms::{notices, shown, unjudged};
use proptest::prelude::*;
use punctual_record::Run;
use punctual_report::Style;
use punctual_report::compare::{Options, Side, compare};
use punctual_report::export::{Csv, Exporter, Html, Markdown, OF_COMPARISONS, OpenMetrics, html};
use serde_json::Value;

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

fn document() -> (Value, Vec<String>) {
    let mut run = plain_run();
    run.series.truncate(4);
    for series in &mut run.series {
        series.summary.stdev = Some(1000.0);
        let figures = punctual_record::RoundFigures { summary: series.summary.clone(), ..Default::default() };
        series.rounds = (0..6).map(|round| punctual_record::RoundFigures { round, ..figures.clone() }).collect();
    }
    run.causes = crate::common::causes::program_run().causes;
    let value = serde_json::to_value(&run).unwrap();
    let mut all = Vec::new();
    places(&value, "", &mut all);
    (value, all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_report_comes_to_its_end(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_value(), 0u8..3), 1..6), other in any::<bool>()
    ) {
        let (mut value, all) = document();
        let original: Run = serde_json::from_value(value.clone()).unwrap();
        for (place, with, kind) in changes {
            let place = place.get(&all);
            let Some(found) = value.pointer_mut(place) else { continue };
            match (kind, found) {
                (0, Value::Array(items)) if !items.is_empty() => items.push(items[0].clone()),
                (1, Value::Array(items)) => drop(items.pop()),
                (_, found) => *found = with,
            }
        }
        let Ok(run) = Run::from_slice(value.to_string().as_bytes()) else { return Ok(()) };
        for width in [20, 140] {
            let _ = shown(&run, &Style { width, ..Style::default() });
        }
        let _ = notices(&run, &Style::default());
        let forms: [&dyn Exporter<Run>; 3] = [&Markdown, &Csv, &OpenMetrics];
        forms.iter().for_each(|form| drop(form.write(&run, &mut Vec::new())));
        let mut page = Vec::new();
        if Html.write(&run, &mut page).is_ok() {
            prop_assert!(Run::from_slice(html::embedded_run(&page).unwrap()).is_ok());
        }
        let (mut old, mut new) = (Side::new(), Side::new());
        let mut later = original;
        later.started = "2027-01-01T00:00:00Z".parse().unwrap();
        let (first, second) = if other { (&run, &later) } else { (&later, &run) };
        if old.add("old", first).is_ok() && new.add("new", second).is_ok() {
            let compared = unjudged(compare(&old, &new, Options::default()));
            OF_COMPARISONS.iter().for_each(|form| drop(form.write(&compared, &mut Vec::new())));
        }
    }
}
