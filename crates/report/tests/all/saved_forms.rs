//! The forms that a saved run is turned into: Markdown, OpenMetrics, HdrHistogram's text.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::common::causes::{own_run, program_run};
use crate::common::{Made, plain_run, run, set};
use crate::forms::written;
use hdrhistogram::Histogram;
use insta::assert_snapshot;
use punctual_record::experiment::Other;
use punctual_record::{Distribution, Experiment, Notice, Param, Run, Series};
use punctual_report::export::{csv, hgrm, markdown, openmetrics};

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

fn as_markdown(run: &Run) -> String {
    written(markdown::write, run)
}

fn as_openmetrics(run: &Run) -> String {
    written(openmetrics::write, run)
}

fn small() -> Run {
    let made = [
        Made::sleep("nanosleep", "SCHED_OTHER", 52_300),
        Made::sleep("sleep", "SCHED_OTHER", 999_970_000).rounding_to(1_000_000_000).count(3),
        Made::spin("spin_counter", "SCHED_OTHER", 41),
    ];
    run(&["punctual", "wait", "--for", "100us"], vec![set("SCHED_OTHER", "other", None, 50_000)], &made)
}

/// Names that mean something to a format.
fn hostile() -> Run {
    let mut run = small();
    run.series[0].subject = "a|b`c`<script>@all\\\"x\ny".into();
    run.series[1].conditions = "[x](http://x) *b* #1".into();
    let names =
        ["9", "", "subject", "parameter_subject", "quantity", "ä b", "a-b", "a b", "repeat", "statistic", "__name__"];
    let parameters = names.map(|name| (name.to_owned(), Param::Text("v\"\\\n}".into()))).into();
    run.series[2].experiment = Experiment::Other(Other { name: "wait".into(), parameters, ..Other::default() });
    run.series[2].summary.min = Some(-5);
    let again = run.series[2].clone();
    run.series.push(again);
    run.notices.push(Notice::Other { text: "</sub> **x** @all".into() });
    run
}

#[test]
fn markdown_of_a_run() {
    assert_snapshot!(as_markdown(&plain_run()));
}

#[test]
fn openmetrics_of_a_run() {
    assert_snapshot!(as_openmetrics(&small()));
}

#[test]
fn markdown_keeps_names_as_text() {
    let text = as_markdown(&hostile());
    assert!(!text.contains("<script>") && !text.contains("@all") && !text.contains("[x](http"), "{text}");
    let columns = |line: &str| line.replace("\\|", "").matches('|').count();
    let tables: Vec<Vec<&str>> = text
        .split("\n\n")
        .map(|block| block.lines().filter(|line| line.starts_with('|')).collect())
        .filter(|table: &Vec<&str>| !table.is_empty())
        .collect();
    assert!(tables.iter().flatten().count() >= 7);
    let even = |table: &Vec<&str>| table.windows(2).all(|pair| columns(pair[0]) == columns(pair[1]));
    assert!(tables.iter().all(even), "{text}");
}

/// The parser of Prometheus' own Python library finds as many samples in each of these as there are lines of them.
pub(crate) fn assert_parsed(texts: &[String]) {
    const PROGRAM: &str = "
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
print([sum(len(family.samples) for family in parse(text)) for text in json.load(sys.stdin)])
";
    // Debian's own Python is the one that Debian's packages are for.
    let knows = |python: &&str| {
        let tried = Command::new(python)
            .args(["-c", "import prometheus_client.openmetrics.parser"])
            .stderr(Stdio::null())
            .status();
        tried.is_ok_and(|status| status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(knows) else {
        return punctual_testing::skip(
            "no parser of OpenMetrics here; Debian: apt-get install python3-prometheus-client",
        );
    };
    let mut python =
        Command::new(python).args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(&serde_json::to_vec(texts).unwrap()).unwrap();
    let answer = python.wait_with_output().unwrap();
    assert!(answer.status.success(), "the parser refuses one of {texts:#?}");
    let samples = |text: &String| text.lines().filter(|line| !line.starts_with('#')).count();
    let found: Vec<usize> = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(found, texts.iter().map(samples).collect::<Vec<_>>());
}

#[test]
fn openmetrics_is_read_by_prometheus_parser() {
    let mut empty = small();
    empty.series.clear();
    let runs = [small(), plain_run(), hostile(), empty, program_run(), own_run()];
    assert_parsed(&runs.each_ref().map(as_openmetrics));
}

#[test]
fn openmetrics_never_repeats_a_series() {
    let text = as_openmetrics(&hostile());
    let mut names: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, _)| name)
        .collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
    assert!(text.ends_with("# EOF\n"));
}

fn distribution() -> Distribution {
    let mut series = small().series.swap_remove(0);
    series.summary.stdev = Some(30_000.0);
    Distribution::from_series(&series).unwrap()
}

#[test]
fn hgrm_of_a_series() {
    assert_snapshot!(text(|out| hgrm::write(&distribution(), out).unwrap()));
}

/// What the HdrHistogram library itself would count up to each value that was written.
#[test]
fn hgrm_agrees_with_the_library() {
    let samples = crate::common::samples(52_300, 4000);
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
    samples.iter().for_each(|ns| histogram.record(ns.unsigned_abs()).unwrap());
    let text = text(|out| hgrm::write(&distribution(), out).unwrap());
    let rows = text.lines().skip(2).take_while(|line| !line.starts_with('#'));
    let mut seen = 0;
    for row in rows {
        let words: Vec<f64> = row.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let theirs = histogram.count_between(0, words[0] as u64);
        assert_eq!(theirs, words[2] as u64, "{row}");
        seen += 1;
    }
    assert!(seen > 20);
}

#[test]
fn hgrm_names_files_safely() {
    let mut run = small();
    assert_eq!(hgrm::file_names(&run)[0], "wait.nanosleep.SCHED_OTHER.asked_ns-100000.overshoot.hgrm");
    run.series[0].experiment = Experiment::Other(Other { name: "../../etc".into(), ..Other::default() });
    run.series[0].subject = "/passwd\0\n".into();
    run.series[0].conditions = "x".repeat(500);
    let name = &hgrm::file_names(&run)[0];
    assert!(name.ends_with(".overshoot.hgrm"), "the longest words are cut, the others stay: {name}");
    assert!(
        !name.contains(['/', '\0', '\n']) && !name.contains("..") && !name.starts_with('.') && name.len() < 255,
        "{name}"
    );
}

#[test]
fn an_index_says_which_file_has_which_series() {
    let run = small();
    let names = hgrm::file_names(&run);
    let mut out = Vec::new();
    csv::index(&run, &names, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "file,experiment,subject,conditions,quantity,asked_ns,count");
    assert_eq!(lines.len(), run.series.len() + 1);
    assert!(
        lines[1].starts_with("wait.nanosleep.SCHED_OTHER.asked_ns-100000.overshoot.hgrm,wait,nanosleep,"),
        "{text}"
    );
}

#[test]
fn csv_has_no_empty_column() {
    let mut run = small();
    let header = |run: &Run| {
        let text = text(|out| csv::write(run, out).unwrap());
        text.lines().next().unwrap_or_default().to_owned()
    };
    assert!(header(&run).contains(",cpu_share,"), "{}", header(&run));
    let without = Series { cpu_share: None, ..run.series[0].clone() };
    run.series = vec![without, run.series[0].clone()];
    assert!(header(&run).contains(",cpu_share,"), "one series has it");
    run.series.truncate(1);
    assert!(!header(&run).contains("cpu_share"), "{}", header(&run));
    run.series.clear();
    assert!(header(&run).contains(",cpu_share,"), "nothing is known of an empty run");
}

#[test]
fn no_two_series_share_a_file() {
    let mut run = small();
    let long = |end: &str| format!("{}{end}", "x".repeat(400));
    let subjects = [long("a"), long("b"), "a b".to_owned(), "a-b".to_owned(), String::new(), "/".to_owned(), long("a")];
    run.series = subjects.into_iter().map(|subject| Series { subject, ..run.series[0].clone() }).collect();
    let names = hgrm::file_names(&run);
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), run.series.len(), "{names:?}");
    assert!(names.iter().all(|name| name.len() < 255 && name.ends_with(".hgrm")), "{names:?}");
}
