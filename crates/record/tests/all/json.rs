//! A run as JSON and back.

use proptest::prelude::*;
use punctual_record::experiment::{Other, wait};
use punctual_record::*;
use serde_json::Value;

use crate::sample::sample;

fn written(run: &Run) -> String {
    let mut bytes = Vec::new();
    run.to_json(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn read(text: &str) -> Result<Run, ReadError> {
    Run::from_json(text.as_bytes())
}

#[test]
fn comes_back_as_it_was() {
    let run = sample();
    let text = written(&run);
    assert!(text.ends_with("}\n"));
    assert_eq!(read(&text).unwrap(), run);
}

#[test]
fn unknown_fields_are_passed_over() {
    let run = sample();
    let mut value: Value = serde_json::from_str(&written(&run)).unwrap();
    value["later"] = Value::from(1);
    value["host"]["later"] = Value::from("x");
    value["series"][0]["later"] = serde_json::json!({"a": [1]});
    value["series"][0]["rounds"][0]["later"] = Value::Null;
    assert_eq!(read(&value.to_string()).unwrap(), run);
}

#[test]
fn facts_that_older_files_have_in_texts_are_read_from_them() {
    let notice: Notice = serde_json::from_str(r#"{"code": "unseen", "why": "causes: no right"}"#).unwrap();
    let Notice::Unseen(unseen) = notice else { panic!("{notice:?}") };
    assert_eq!((unseen.what.as_str(), unseen.text().as_str()), ("", "causes: no right"));
    let older = written(&sample()).replace("\"nanosleep\"", "\"clock_nanosleep_abs\"");
    assert_eq!(read(&older).unwrap().series[0].about.relative.as_deref(), Some("clock_nanosleep"));
}

#[test]
fn every_cut_is_called_a_cut() {
    let text = written(&sample());
    for at in (1..text.trim_end().len()).filter(|at| text.is_char_boundary(*at)).step_by(97) {
        let error = read(&text[..at]).unwrap_err();
        assert!(matches!(error, ReadError::Truncated { .. }), "cut at {at}: {error}");
    }
    assert!(matches!(read(" \n"), Err(ReadError::Empty)));
}

#[test]
fn others_are_refused_by_name() {
    let mut value: Value = serde_json::from_str(&written(&sample())).unwrap();
    for other in ["punctual.run/1", "punctual.run/3"] {
        value["schema"] = other.into();
        let error = read(&value.to_string()).unwrap_err();
        assert!(matches!(&error, ReadError::OtherVersion { found } if found == other), "{error}");
        assert!(error.to_string().contains("reads punctual.run/2;"), "{error}");
    }

    value["schema"] = "something/else".into();
    assert!(matches!(read(&value.to_string()), Err(ReadError::NotARun { .. })));
    assert!(matches!(read("{}"), Err(ReadError::NotARun { .. })));
    assert!(matches!(read("[\"punctual.run/2\"]"), Err(ReadError::NotARun { .. })));
    assert!(matches!(read("42"), Err(ReadError::NotARun { .. })));
    assert!(matches!(read("<html>"), Err(ReadError::NotJson { .. })));
    // Its last letter could be the middle of a number.
    assert!(matches!(read("root:x:0:0::/root:/bin/false"), Err(ReadError::NotJson { .. })));
    assert!(matches!(Run::from_json(&b"\xff\xfe\x00"[..]), Err(ReadError::NotJson { .. })));

    value["schema"] = SCHEMA.into();
    value["clock"]["read_ns"] = "fast".into();
    assert!(matches!(read(&value.to_string()), Err(ReadError::Malformed { .. })));
}

#[test]
fn more_series_than_a_run_can_have_are_refused() {
    let mut run = sample();
    let mut series = run.series.swap_remove(0);
    run.series.clear();
    (series.rounds, series.histogram, series.negative_histogram) = (Vec::new(), None, None);
    let one = serde_json::to_string(&series).unwrap();
    let text =
        written(&run).replacen("\"series\": []", &format!("\"series\": [{}]", vec![one; MOST_SERIES + 1].join(",")), 1);
    let error = read(&text).unwrap_err();
    assert!(
        matches!(error, ReadError::Malformed { .. }) && error.to_string().contains("at most 100000 series"),
        "{error}"
    );
}

#[test]
fn a_future_version_is_named_even_if_its_fields_differ() {
    let error = read(r#"{"schema": "punctual.run/7", "all": "different"}"#).unwrap_err();
    assert!(matches!(error, ReadError::OtherVersion { .. }), "{error}");
}

#[test]
fn numbers_that_are_not_finite_are_never_written() {
    let mut run = sample();
    run.host.load1 = Some(f64::NAN);
    run.series[0].cpu_share = Some(f64::INFINITY);
    let Experiment::Ipc(messages) = &mut run.series[1].experiment else { panic!("the second series is of messages") };
    messages.metrics.per_second = Some(f64::NAN);
    let back = read(&written(&run)).unwrap();
    assert_eq!((back.host.load1, back.series[0].cpu_share), (None, None));
    assert_eq!(back.series[1].experiment.ipc().unwrap().metrics.per_second, None);

    run.clock.read_ns = f64::NAN;
    let error = run.to_json(Vec::new()).unwrap_err();
    assert!(matches!(error, WriteError::NotFinite { field: "clock.read_ns" }), "{error}");
    run.clock.read_ns = 1.0;
    run.notices.push(Notice::Steal { share: f64::INFINITY });
    assert!(run.to_json(Vec::new()).is_err());
}

#[test]
fn merged_shares_stay_finite() {
    let (mut one, mut other) = (sample(), sample());
    (one.disturbance.steal_share, other.disturbance.steal_share) = (Some(-1e308), Some(-1e308));
    other.started = "2030-01-01T00:00:00Z".parse().unwrap();
    let mut merger = merge::Merger::new(one).unwrap();
    merger.add(other).unwrap();
    let tool = Tool { name: "punctual".into(), version: "0".into() };
    let merged = merger.finish(tool, Vec::new()).unwrap();
    assert_eq!(read(&written(&merged)).unwrap(), merged);
}

#[test]
fn a_full_disk_is_an_error() {
    let full = match std::fs::OpenOptions::new().write(true).open("/dev/full") {
        Ok(full) => full,
        Err(error) => {
            return punctual_testing::skip(&format!("/dev/full cannot be opened: {error}"));
        }
    };
    let error = sample().to_json(full).unwrap_err();
    assert!(matches!(error, WriteError::Io(_)), "{error}");
}

/// A change to a text: what is done, where (as a share of its length), how far, and with what.
#[derive(Debug, Clone)]
struct Change {
    kind: u8,
    place: f64,
    length: usize,
    with: String,
}

fn any_change() -> impl Strategy<Value = Change> {
    let token = prop_oneof![
        "[0-9]{1,25}",
        "-?[0-9]{1,3}(\\.[0-9]{1,20})?(e-?[0-9]{1,4})?",
        prop::sample::select(vec![
            "null",
            "true",
            "{}",
            "[]",
            "\"\"",
            "-1",
            "18446744073709551615",
            "9223372036854775808",
            "-9223372036854775808",
            "1e308",
            "NaN",
            "{",
            "}",
            "[",
            "]",
            "\"",
            ",",
            ":",
            "\\",
            "\\ud800",
            "\u{0}",
            "\"count\":",
            "\"rounds\":[",
            "\"schema\":",
        ])
        .prop_map(str::to_owned),
        ".{0,4}",
    ];
    (0u8..5, 0.0f64..1.0, 1usize..40, token).prop_map(|(kind, place, length, with)| Change {
        kind,
        place,
        length,
        with,
    })
}

fn changed(bytes: &mut Vec<u8>, change: &Change) {
    let at = (change.place * bytes.len() as f64) as usize;
    let end = (at + change.length).min(bytes.len());
    let with = change.with.as_bytes();
    match change.kind {
        0 => drop(bytes.splice(at..end, with.iter().copied())),
        1 => drop(bytes.splice(at..at, with.iter().copied())),
        2 => drop(bytes.drain(at..end)),
        3 => bytes.extend_from_within(at..end),
        // A whole value: from the colon after the place to the end of its line.
        _ => {
            let Some(colon) = bytes[at..].iter().position(|byte| *byte == b':').map(|i| at + i + 1) else { return };
            let end =
                bytes[colon..].iter().position(|byte| matches!(byte, b',' | b'\n')).map_or(bytes.len(), |i| colon + i);
            drop(bytes.splice(colon..end, with.iter().copied()));
        }
    }
}

fn any_param() -> impl Strategy<Value = Param> {
    prop_oneof![
        any::<bool>().prop_map(Param::Flag),
        any::<i64>().prop_map(Param::Int),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Param::Real),
        ".*".prop_map(Param::Text),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testing::inputs(256)))]

    #[test]
    fn round_trip(
        values in prop::collection::vec(any::<i64>(), 0..40),
        asked_ns in any::<i64>(),
        unknown in prop::option::of(("[a-z]{8,12}", prop::collection::btree_map(".*", any_param(), 0..4))),
        words in prop::collection::vec(".*", 0..4),
        load in prop::option::of(0.0f64..1e6),
        elapsed in any::<u64>(),
        second in -1_000_000_000i64..4_000_000_000,
        subject in ".*",
    ) {
        let mut recorder = Recorder::new();
        values.iter().for_each(|&value| recorder.record(value));
        let mut tally = SeriesTally::new();
        tally.add_round(0, elapsed, &recorder, Usage { elapsed_ns: elapsed, cpu_ns: Some(elapsed / 3), ..Usage::default() });
        let mut run = sample();
        run.started = jiff::Timestamp::from_second(second).unwrap();
        run.elapsed_ns = elapsed;
        run.command = words;
        run.host.load1 = load;
        let experiment = match unknown {
            Some((name, parameters)) => Experiment::Other(Other { name, metrics: parameters.clone(), parameters }),
            None => Experiment::Wait(Typed::asked(wait::Parameters::asking(asked_ns))),
        };
        run.series.push(tally.to_series(SeriesId {
            experiment, subject, about: About::default(), conditions: "other".into(), quantity: Quantity::Lateness,
        }));
        prop_assert_eq!(read(&written(&run)).unwrap(), run);
    }

    #[test]
    fn in_a_page_strings_come_back_and_end_nothing(text in "\\PC{0,40}|(</script>|<!--|&lt;|\\\\|\"|[a-z ]){0,12}") {
        let mut run = sample();
        run.command = vec![text.clone()];
        run.series[0].subject = text;
        let mut page = Vec::new();
        run.to_json_in_page(&mut page).unwrap();
        prop_assert!(!page.iter().any(|byte| matches!(byte, b'<' | b'>' | b'&' | b'\n')));
        prop_assert_eq!(Run::from_slice(&page).unwrap(), run);
    }

    /// A damaged or altered file is an error or a run. One that is read is written again, and comes back.
    #[test]
    fn a_changed_run_is_an_error_or_a_run(changes in prop::collection::vec(any_change(), 1..4)) {
        let mut bytes = written(&sample()).into_bytes();
        changes.iter().for_each(|change| changed(&mut bytes, change));
        if let Ok(run) = Run::from_slice(&bytes) {
            run.series.iter().for_each(|series| drop(Distribution::from_series(series)));
            let _ = identities(&run).len();
            let mut again = Vec::new();
            if run.to_json(&mut again).is_ok() {
                prop_assert_eq!(Run::from_slice(&again).map_err(|error| error.to_string()), Ok(run));
            }
        }
    }

    #[test]
    fn garbage_is_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Run::from_json(bytes.as_slice()).is_err());
    }
}

/// What no run says, each with a word of the reason.
#[test]
fn contradictions_are_refused_with_the_reason() {
    let good: Value = serde_json::from_str(&written(&sample())).unwrap();
    let series = |field: &str, value: Value| {
        let mut run = good.clone();
        run["series"][0][field] = value;
        run
    };
    let mut in_round = good.clone();
    in_round["series"][0]["rounds"][1]["p90"] = i64::MAX.into();
    in_round["series"][0]["rounds"][1]["max"] = 7.into();
    let mut clock = good.clone();
    clock["clock"]["read_ns"] = 1e308.into();
    let mut rounds = good.clone();
    rounds["series"][0]["rounds"] = vec![good["series"][0]["rounds"][0].clone(); 100_001].into();
    let cases = [
        (rounds, "100001 rounds"),
        (series("count", 5_000.into()), "histogram"),
        (series("max", 10.into()), "is above max 10"),
        (series("min", i64::MAX.into()), "is above p50"),
        (series("mean", (-1e12).into()), "is not between"),
        (series("stdev", (-1.0).into()), "stdev is below 0"),
        (series("cpu_ns_per_op", 1e308.into()), "cpu_ns_per_op is 1e308"),
        (series("negative", 1_000_000.into()), "negative 1000000"),
        (in_round, "round 1"),
        (clock, "clock.read_ns"),
    ];
    for (run, reason) in cases {
        let error = read(&run.to_string()).unwrap_err();
        assert!(matches!(error, ReadError::Contradictory { .. }), "{reason}: {error}");
        assert!(error.to_string().contains(reason), "{reason}: {error}");
    }
}

#[test]
fn hostile_strings_are_cut_and_cleaned_in_errors() {
    let long = "x".repeat(3_000_000);
    let hostile = ["\u{1b}[31mred\u{9b}2J\u{202e}", &long];
    let good: Value = serde_json::from_str(&written(&sample())).unwrap();
    for text in hostile {
        let mut cases: Vec<Value> = vec![good.clone(); 5];
        cases[0]["schema"] = text.into();
        cases[1]["schema"] = format!("punctual.run/{text}").into();
        cases[2]["series"][0]["quantity"] = text.into();
        cases[3]["notices"][0]["code"] = text.into();
        cases[4]["series"][0]["subject"] = text.into();
        cases[4]["series"][0]["count"] = 1.into();
        for case in cases {
            let said = read(&case.to_string()).unwrap_err().to_string();
            assert!(said.chars().all(sanitize::is_harmless), "{said:?}");
            assert!(said.len() < 1000, "{} bytes", said.len());
        }
    }
}
