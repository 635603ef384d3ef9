//! Fuzzes saved runs: reads, reports in every form, compares and merges them.

use punctual_record::merge::Merger;
use punctual_record::{Distribution, Experiment, Key, Limit, Run, Tool};
use punctual_report::compare::limit::{self, Amount, Limit as Increase};
use punctual_report::compare::{Compared, Options, Side, compare};
use punctual_report::export::{self, Csv, Exporter, Html, Markdown, OpenMetrics, hgrm, html, text};
use punctual_report::gate::Gate;
use punctual_report::{Document, Style};
use serde_json::Value;

use super::mutate;
use super::random::Random;

/// Words that an altered series may have in the place of its own.
const QUANTITIES: [&str; 9] =
    ["overshoot", "lateness", "call_cost", "away", "one_way", "round_trip", "period_jitter", "settling", "loop"];

/// Runs of each experiment, of real machines.
const MEASURED: [&str; 8] = [
    include_str!("../../../crates/record/tests/experiments/boost.json"),
    include_str!("../../../crates/record/tests/experiments/calibrate.json"),
    include_str!("../../../crates/record/tests/experiments/checkup.json"),
    include_str!("../../../crates/record/tests/experiments/pace.json"),
    include_str!("../../../crates/record/tests/experiments/polls.json"),
    include_str!("../../../crates/record/tests/experiments/ramp.json"),
    include_str!("../../../crates/record/tests/experiments/wait.json"),
    include_str!("../../../crates/record/tests/experiments/yield.json"),
];

/// The original documents, and their names and strings.
pub(super) struct Records {
    documents: Vec<Value>,
    words: Vec<String>,
    usual: Run,
    limits: Vec<Increase>,
}

impl Records {
    /// Creates the originals from runs with every field.
    pub(super) fn new(mut runs: Vec<Run>) -> Self {
        runs.extend(MEASURED.iter().map(|text| Run::from_slice(text.as_bytes()).expect("a run")));
        for run in &mut runs {
            run.series.truncate(6);
        }
        let documents: Vec<Value> = runs.iter().map(|run| serde_json::to_value(run).expect("a run is JSON")).collect();
        let mut words: Vec<String> =
            [Experiment::NAMES, &QUANTITIES].concat().iter().map(|&word| word.to_owned()).collect();
        documents.iter().for_each(|document| mutate::words(document, &mut words));
        words.sort();
        words.dedup();
        let mut usual = runs.swap_remove(0);
        usual.started = "2027-01-01T00:00:00Z".parse().expect("a time");
        Self {
            documents,
            words,
            usual,
            limits: vec![Increase { figure: None, subject: None, amount: Amount::Share(0.1) }],
        }
    }

    /// Reads a mutated run and applies a random operation to it. Returns whether it was a valid run.
    pub(super) fn check(&self, random: &mut Random) -> Result<bool, String> {
        let Ok(run) = Run::from_slice(&self.altered(random)) else { return Ok(false) };
        written_again(&run)?;
        match random.below(6) {
            0 => as_text(&run, random),
            1 => as_page(&run)?,
            2 => as_tables(&run),
            3 => self.compared(&run, random),
            4 => self.merged(&run)?,
            _ => judged(&run),
        }
        Ok(true)
    }

    fn altered(&self, random: &mut Random) -> Vec<u8> {
        let mut document = random.of(&self.documents).clone();
        if random.one_in(2) {
            other_experiment(&mut document, &self.documents, random);
        }
        if !random.one_in(4) {
            mutate::structure(&mut document, &self.words, random);
        }
        let mut bytes = document.to_string().into_bytes();
        if random.one_in(6) {
            mutate::bytes(&mut bytes, random);
        }
        bytes
    }

    fn compared(&self, run: &Run, random: &mut Random) {
        let (mut old, mut new) = (Side::new(), Side::new());
        let (first, second) = if random.one_in(2) { (run, &self.usual) } else { (&self.usual, run) };
        if old.add("old", first).is_ok() && new.add("new", second).is_ok() {
            let comparison = compare(&old, &new, Options { across_conditions: random.one_in(2) });
            let judgement = Some(limit::evaluate(&self.limits, &comparison));
            let compared = Compared { comparison, judgement };
            drop(text::render(&Document::of_comparison(&compared), &style(random)));
            export::OF_COMPARISONS.iter().for_each(|form| drop(form.write(&compared, &mut Vec::new())));
        }
    }

    fn merged(&self, run: &Run) -> Result<(), String> {
        let Ok(mut merger) = Merger::new(run.clone()) else { return Ok(()) };
        if merger.add(self.usual.clone()).is_err() {
            return Ok(());
        }
        let tool = Tool { name: "punctual".into(), version: "0".into() };
        match merger.finish(tool, vec!["punctual".into(), "merge".into()]) {
            Ok(merged) => written_again(&merged),
            Err(_) => Ok(()),
        }
    }
}

/// Lets a series claim to be of another experiment, with the parameters and metrics of one.
fn other_experiment(document: &mut Value, others: &[Value], random: &mut Random) {
    let Some(series) = document.get_mut("series").and_then(Value::as_array_mut) else { return };
    for one in series {
        let Some(other) = random.of(others)["series"].as_array().filter(|all| !all.is_empty()) else { continue };
        let other = random.of(other);
        one["quantity"] = Value::from(*random.of(&QUANTITIES));
        for field in ["experiment", "parameters", "metrics"] {
            one[field] = other[field].clone();
        }
    }
}

fn style(random: &mut Random) -> Style {
    let width = *random.of(&[0, 20, 80, 140, 100_000]);
    Style { width, color: random.one_in(2), unicode: random.one_in(2) }
}

/// Judges a run by limits that every run can be judged by.
fn judged(run: &Run) {
    let limits = [(Key::P50, 1), (Key::P99, 200_000), (Key::Max, 1_000_000_000)];
    let limit = |(figure, above_ns)| Limit { figure, subject: Some("*".to_owned()), above_ns };
    drop(Gate::of(&Run { limits: limits.map(limit).into(), ..run.clone() }));
}

/// Checks that a run survives writing and reading.
fn written_again(run: &Run) -> Result<(), String> {
    let mut again = Vec::new();
    if run.to_json(&mut again).is_err() {
        return Ok(());
    }
    match Run::from_slice(&again) {
        Ok(back) if back == *run => Ok(()),
        Ok(back) => Err(format!(
            "the run changed by writing and reading: {}",
            difference(&format!("{run:?}"), &format!("{back:?}"))
        )),
        Err(error) => Err(format!("the written run is refused: {error}")),
    }
}

/// The first difference of two texts.
fn difference(one: &str, other: &str) -> String {
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| text.chars().skip(same.saturating_sub(60)).take(120).collect::<String>();
    format!("{:?} became {:?}", part(one), part(other))
}

fn as_text(run: &Run, random: &mut Random) {
    let document = Document::of(run);
    drop(text::render(&document, &style(random)));
    drop(text::notices(&document, &style(random)));
    drop(Markdown.write(run, &mut Vec::new()));
}

fn as_page(run: &Run) -> Result<(), String> {
    let mut page = Vec::new();
    if Html.write(run, &mut page).is_err() {
        return Ok(());
    }
    let embedded = html::embedded_run(&page).ok_or("its page holds no run")?;
    Run::from_slice(embedded).map(drop).map_err(|error| format!("the page's run is invalid: {error}"))
}

fn as_tables(run: &Run) {
    drop(hgrm::file_names(run));
    let forms: [&dyn Exporter<Run>; 2] = [&Csv, &OpenMetrics];
    forms.iter().for_each(|form| drop(form.write(run, &mut Vec::new())));
    for series in &run.series {
        if let Ok(distribution) = Distribution::from_series(series) {
            drop(hgrm::write(&distribution, Vec::new()));
        }
    }
}
