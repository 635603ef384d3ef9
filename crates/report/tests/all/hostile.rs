//! Runs in which every text is hostile, in every form: no byte controls a terminal or a spreadsheet, and figures stay.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::common::causes::{own_run, program_run};
use crate::common::plain_run;
use crate::forms::{notices, written};
use crate::saved_forms::assert_parsed;
use crate::{calls, mutated, paths, ramp, records, trials};
use punctual_record::experiment::Other;
use punctual_record::sanitize::is_harmless;
use punctual_record::{Experiment, Param, Run};
use punctual_report::Style;
use punctual_report::compare::{Compared, Options, Side, compare};
use punctual_report::export::{OF_COMPARISONS, OF_RUNS, Reported, csv, hgrm, openmetrics};
use serde_json::Value;

/// What a terminal, a spreadsheet or a parser would obey.
fn evil() -> Vec<String> {
    let texts = [
        "\u{1b}]0;owned\u{7}\u{1b}[2J",
        "\u{9b}31m\u{85}",
        "\u{202e}\u{2066}gpj\u{e0041}",
        "=cmd|' /C calc'!A0",
        "\t@SUM(1)",
        "\r-1+1",
        "a\"b\nc,d;\t=1+1\\",
        "\u{2028}+1\u{7f}",
        "＝1＋1",
        "#[x](http://x)<b>`|",
    ];
    texts.into_iter().map(str::to_owned).chain(["\u{1b}=".repeat(3000)]).collect()
}

/// Fields that decide what a report shows, and that some of the runs keep.
const SPARED: [&[&str]; 3] = [
    &["histogram", "negative_histogram"],
    &["histogram", "negative_histogram", "experiment", "subcommand"],
    &["histogram", "negative_histogram", "experiment", "subcommand", "subject", "conditions", "label", "condition"],
];

/// Runs of every experiment, also of real machines.
fn runs() -> Vec<Run> {
    let measured = ["boost", "calibrate", "checkup", "pace", "polls", "ramp", "wait", "yield"].map(|name| {
        let path = format!("{}/../record/tests/experiments/{name}.json", env!("CARGO_MANIFEST_DIR"));
        Run::from_slice(&std::fs::read(path).unwrap()).unwrap()
    });
    let real = ["quiet", "debian-7.3"].map(records::record);
    let made =
        [plain_run(), program_run(), own_run(), trials::mixed(), paths::paths(), calls::observed(calls::polling(9))];
    let mut runs = [&measured[..], &real[..], &made[..], &[ramp::two_governors()]].concat();
    runs.iter_mut().for_each(|run| run.series.truncate(12));
    runs
}

/// The run with hostile text in each field that may hold any, and how many these are.
fn hostile(run: &Run, spared: &[&str]) -> (Run, usize) {
    let mut value = serde_json::to_value(run).unwrap();
    let mut places = Vec::new();
    mutated::places(&value, "", &mut places);
    let field =
        |place: &str| place.rsplit('/').find(|key| key.parse::<usize>().is_err()).unwrap_or_default().to_owned();
    places
        .retain(|place| value.pointer(place).is_some_and(Value::is_string) && !spared.contains(&field(place).as_str()));
    places.sort_by_key(|place| field(place));
    let (evil, mut replaced) = (evil(), 0);
    for one_field in places.chunk_by(|a, b| field(a) == field(b)) {
        let before = value.clone();
        for (place, text) in one_field.iter().zip(evil.iter().cycle()) {
            *value.pointer_mut(place).unwrap() = text.as_str().into();
        }
        match Run::from_slice(value.to_string().as_bytes()) {
            Ok(_) => replaced += one_field.len(),
            // The field holds words of the format.
            Err(_) => value = before,
        }
    }
    (Run::from_slice(value.to_string().as_bytes()).unwrap(), replaced)
}

/// Parameters have names too, and only an unknown experiment has any name.
fn unknown_experiment() -> Run {
    let mut run = plain_run();
    run.series.truncate(3);
    let text = |(name, value): (String, String)| (name, Param::Text(value));
    let mut parameters: std::collections::BTreeMap<_, _> = evil().into_iter().zip(evil()).map(text).collect();
    parameters.insert("below_zero".into(), Param::Int(-5));
    run.series[0].experiment = Experiment::Other(Other { name: "=1".into(), parameters, ..Other::default() });
    run.series[0].summary.min = Some(-7);
    run
}

static ALL: LazyLock<Vec<Run>> = LazyLock::new(|| {
    let mut all = vec![unknown_experiment()];
    for spared in SPARED {
        for run in runs() {
            let (changed, replaced) = hostile(&run, spared);
            assert!(replaced >= 10, "{}: {replaced}", run.subcommand);
            all.push(changed);
        }
    }
    all
});

fn assert_harmless(form: &str, text: &str) {
    let text = match form {
        // RFC 4180 ends lines so.
        "csv" => text.replace("\r\n", "\n"),
        // The page's own separator of figures.
        "html" => text.replace('\t', " "),
        _ => text.to_owned(),
    };
    let Some((at, c)) = text.char_indices().find(|(_, c)| *c != '\n' && !is_harmless(*c)) else { return };
    let before: String = text[..at].chars().rev().take(200).collect::<Vec<_>>().into_iter().rev().collect();
    panic!("{form} has {c:?} after {before:?}");
}

fn compared(run: &Run) -> Option<Compared> {
    let later = Run { started: "2027-01-01T00:00:00Z".parse().unwrap(), ..run.clone() };
    let (mut old, mut new) = (Side::new(), Side::new());
    old.add("old\u{1b}[2J.json", run).ok()?;
    new.add("=new\u{202e}.json", &later).ok()?;
    Some(Compared { comparison: compare(&old, &new, Options::default()), judgement: None })
}

#[test]
fn no_form_controls_a_terminal() {
    let mut compared_runs = 0;
    for run in ALL.iter() {
        for form in &OF_RUNS {
            let mut out = Vec::new();
            // HdrHistogram's text is of one series with a histogram.
            match (form.write)(run, &mut out) {
                Ok(()) => assert_harmless(form.name, &String::from_utf8(out).unwrap()),
                Err(error) if form.name == "hgrm" => assert_harmless("hgrm", &error.to_string()),
                Err(error) => panic!("{}: {error}", form.name),
            }
        }
        assert_harmless("notices", &notices(run, &Style::default()));
        assert!(hgrm::file_names(run).iter().all(|name| name.bytes().all(|byte| byte.is_ascii_graphic())));
        if let Some(compared) = compared(run) {
            compared_runs += 1;
            OF_COMPARISONS.iter().for_each(|form| assert_harmless(form.name, &written(form.write, &compared)));
        }
    }
    assert!(compared_runs >= 10, "{compared_runs}");
}

#[test]
fn json_gives_the_same_run_back() {
    for run in ALL.iter() {
        assert_eq!(Run::from_slice(written(Reported::write_json, run).as_bytes()).unwrap(), *run);
    }
}

/// Python's csv module reads the tables: each as wide as its header, and no cell but a number begins as a formula does.
#[test]
fn csv_holds_no_formula_and_its_numbers_are_numbers() {
    const PROGRAM: &str = r#"
import csv, json, sys
for table in json.load(sys.stdin):
    rows = list(csv.reader(table.splitlines(keepends=True), strict=True))
    assert len(rows) > 1 and all(len(row) == len(rows[0]) for row in rows), rows
    for cell in (cell for row in rows for cell in row):
        assert cell.isprintable() and len(cell) <= 1002, cell
        if cell.lstrip()[:1] in tuple("=+-@＝＋－＠\t\r\n"):
            float(cell)
    for row in rows[1:]:
        for name, cell in zip(rows[0], row):
            if name.endswith("_ns") and cell:
                float(cell)
"#;
    let python =
        Command::new("/usr/bin/python3").args(["-c", PROGRAM]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut python) = python else {
        return punctual_testing::skip("no Python here; Debian: apt-get install python3");
    };
    let mut tables = Vec::new();
    for run in ALL.iter().filter(|run| run.paths.is_empty()) {
        tables.push(written(csv::write, run));
        let files: Vec<String> = evil().into_iter().cycle().take(run.series.len()).collect();
        let mut index = Vec::new();
        csv::index(run, &files, &mut index).unwrap();
        tables.extend((!run.series.is_empty()).then(|| String::from_utf8(index).unwrap()));
    }
    assert!(tables[0].contains(",-5,") && tables[0].contains(",-7,"), "{}", tables[0]);
    python.stdin.take().unwrap().write_all(&serde_json::to_vec(&tables).unwrap()).unwrap();
    let answer = python.wait_with_output().unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
}

#[test]
fn openmetrics_is_read_whole_by_prometheus_parser() {
    assert_parsed(&ALL.iter().map(|run| written(openmetrics::write, run)).collect::<Vec<_>>());
}
