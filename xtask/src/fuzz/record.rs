//! Saved runs: read, reported in every form, compared and merged.

use std::fmt::Display;

use punctual_record::merge::Merger;
use punctual_record::{Distribution, Run, Tool};
use punctual_report::compare::limit::{self, Limit};
use punctual_report::compare::{Options, Side, compare, markdown as compared_markdown, text as compared_text};
use punctual_report::threshold::{self, Threshold};
use punctual_report::{Style, csv, hgrm, html, markdown, notices_text, openmetrics, text};
use serde_json::Value;

use super::mutate;
use super::random::Random;

/// What the reports look for in a series.
const EXPERIMENTS: [&str; 9] = ["wait", "yield", "polls", "ipc", "pace", "calibrate", "ramp", "switch", "boost"];
const QUANTITIES: [&str; 9] =
    ["overshoot", "lateness", "call_cost", "away", "one_way", "round_trip", "interval", "period_jitter", "loop"];
const NAMES: [&str; 48] = [
    "asked_ns",
    "effective_ns",
    "competitors",
    "competitor_policy",
    "competitor_rank",
    "competitor_kind",
    "load",
    "polls",
    "method",
    "mode",
    "size",
    "place",
    "sender_cpu",
    "receiver_cpu",
    "receive",
    "rate_per_second",
    "rate_share",
    "rate_reached",
    "received",
    "lost",
    "drift_ppm",
    "events",
    "figure",
    "governor",
    "lever",
    "learned",
    "loops",
    "rested_ns",
    "work_ns",
    "full_khz",
    "max_khz",
    "lead_ns",
    "to_full_speed_ns",
    "yielded_share",
    "own_cpu_share",
    "competitor_cpu_share",
    "bare_ns",
    "observed",
    "torn",
    "doubled",
    "reordered",
    "streams",
    "highest_rate_held",
    "transitions",
    "switching_ns",
    "rounds_at_full_speed",
    "within_ns",
    "duplicates",
];

/// Documents to begin from, and what else is asked of them.
pub(super) struct Records {
    documents: Vec<Value>,
    words: Vec<String>,
    usual: Run,
    thresholds: Vec<Threshold>,
    limits: Vec<Limit>,
}

fn parsed<T: std::str::FromStr<Err: Display>>(texts: &[&str]) -> Vec<T> {
    texts.iter().map(|text| text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))).collect()
}

impl Records {
    /// From runs with everything in them.
    pub(super) fn new(mut runs: Vec<Run>) -> Self {
        for run in &mut runs {
            run.series.truncate(4);
        }
        let documents: Vec<Value> = runs.iter().map(|run| serde_json::to_value(run).expect("a run is JSON")).collect();
        let mut words: Vec<String> =
            [&EXPERIMENTS[..], &QUANTITIES, &NAMES].concat().iter().map(|&w| w.into()).collect();
        documents.iter().for_each(|document| mutate::words(document, &mut words));
        words.sort();
        words.dedup();
        let mut usual = runs.swap_remove(0);
        usual.started = "2027-01-01T00:00:00Z".parse().expect("a time");
        Self {
            documents,
            words,
            usual,
            thresholds: parsed(&["p50=1ns", "p99=200us", "max=1s"]),
            limits: parsed(&["any worse by 10%"]),
        }
    }

    /// Reads an altered run, and does with it one of the things that can be done with a run. Tells whether it was one.
    pub(super) fn check(&self, random: &mut Random) -> Result<bool, String> {
        let Ok(run) = Run::from_slice(&self.altered(random)) else { return Ok(false) };
        written_again(&run)?;
        match random.below(6) {
            0 => as_text(&run, random),
            1 => as_page(&run)?,
            2 => as_tables(&run),
            3 => self.compared(&run, random),
            4 => self.merged(&run)?,
            _ => drop(threshold::evaluate(&self.thresholds, &run)),
        }
        Ok(true)
    }

    fn altered(&self, random: &mut Random) -> Vec<u8> {
        let mut document = random.of(&self.documents).clone();
        if random.one_in(2) {
            other_experiment(&mut document, random);
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
            let judgement = limit::evaluate(&self.limits, &comparison);
            drop(compared_text::render(&comparison, &style(random)));
            drop(compared_markdown::render(&comparison, Some(&judgement)));
            drop(html::write_comparison(&comparison, Some(&judgement), Vec::new()));
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

/// Lets a series claim to be of another experiment, with names that its report looks for.
fn other_experiment(document: &mut Value, random: &mut Random) {
    let Some(series) = document.get_mut("series").and_then(Value::as_array_mut) else { return };
    for one in series {
        one["experiment"] = Value::from(*random.of(&EXPERIMENTS));
        one["quantity"] = Value::from(*random.of(&QUANTITIES));
        for group in ["parameters", "outcome"] {
            for _ in 0..random.below(8) {
                let value = match random.below(3) {
                    0 => Value::from(random.number() as i64),
                    1 => Value::from((random.bits() % 2_000) as f64 / 1_000.0),
                    _ => Value::from(*random.of(&NAMES)),
                };
                one[group][*random.of(&NAMES)] = value;
            }
        }
    }
}

fn style(random: &mut Random) -> Style {
    let width = *random.of(&[0, 20, 80, 140, 100_000]);
    Style { width, color: random.one_in(2), unicode: random.one_in(2) }
}

/// A run that was read is written, and comes back the same.
fn written_again(run: &Run) -> Result<(), String> {
    let mut again = Vec::new();
    if run.to_json(&mut again).is_err() {
        return Ok(());
    }
    match Run::from_slice(&again) {
        Ok(back) if back == *run => Ok(()),
        Ok(back) => {
            Err(format!("it comes back as another run: {}", difference(&format!("{run:?}"), &format!("{back:?}"))))
        }
        Err(error) => Err(format!("what was written of it is refused: {error}")),
    }
}

/// Where two texts begin to differ.
fn difference(one: &str, other: &str) -> String {
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| text.chars().skip(same.saturating_sub(60)).take(120).collect::<String>();
    format!("{:?} became {:?}", part(one), part(other))
}

fn as_text(run: &Run, random: &mut Random) {
    drop(text::render(run, &style(random)));
    drop(notices_text(run, &style(random)));
    drop(markdown::write(run, Vec::new()));
}

fn as_page(run: &Run) -> Result<(), String> {
    let mut page = Vec::new();
    if html::write(run, &mut page).is_err() {
        return Ok(());
    }
    let embedded = html::embedded_run(&page).ok_or("its page holds no run")?;
    Run::from_slice(embedded).map(drop).map_err(|error| format!("its page holds another run: {error}"))
}

fn as_tables(run: &Run) {
    drop(csv::write(run, Vec::new()));
    drop(openmetrics::write(run, Vec::new()));
    for series in &run.series {
        if let Ok(distribution) = Distribution::from_series(series) {
            drop(hgrm::write(&distribution, Vec::new()));
        }
        drop(hgrm::file_name(series));
    }
}
