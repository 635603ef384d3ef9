//! One document behind all forms for people: each of them says what the others say.

use crate::common::{Made, few_rounds, plain_run, run, set};
use crate::forms::{notices, shown, written};
use punctual_record::merge::Merger;
use punctual_record::{Notice, Run};
use punctual_report::compare::limit::{self, Amount, Limit};
use punctual_report::compare::{Compared, Options, Side, compare};
use punctual_report::export::{Html, Markdown, OF_COMPARISONS, OF_RUNS, Text};
use punctual_report::{Document, Style};

/// A run as text, as a page without its data, and as Markdown.
fn forms(run: &Run) -> [String; 3] {
    let page = written(&Html, run);
    let words = page.split("<script").next().unwrap().to_owned();
    [written(&Text(Style::default()), run), words, written(&Markdown, run)]
}

fn later(run: &Run) -> Run {
    Run { started: "2027-01-01T00:00:00Z".parse().unwrap(), ..run.clone() }
}

fn compared() -> Compared {
    let (mut old, mut new) = (Side::new(), Side::new());
    old.add("old.json", &few_rounds(plain_run())).unwrap();
    let mut interrupted = later(&few_rounds(plain_run()));
    interrupted.complete = false;
    new.add("new.json", &interrupted).unwrap();
    let comparison = compare(&old, &new, Options::default());
    let limit = Limit { figure: None, subject: None, amount: Amount::Ns(1) };
    let judgement = Some(limit::evaluate(&[limit], &comparison));
    Compared { comparison, judgement }
}

#[test]
fn a_merged_run_says_so_in_all_forms() {
    let mut merger = Merger::new(plain_run()).unwrap();
    merger.add(later(&plain_run())).unwrap();
    let merged = merger.finish(plain_run().tool, plain_run().command).unwrap();
    for text in forms(&merged) {
        assert!(text.contains("Merged from 2 runs of 1 machine") && text.contains("Machine by machine"), "{text}");
    }
}

#[test]
fn what_was_interrupted_or_noticed_is_said_in_all_forms() {
    let mut run = plain_run();
    run.complete = false;
    run.notices.push(Notice::Other { text: "The moon was full.".into() });
    for text in forms(&run) {
        assert!(text.contains("Incomplete"), "{text}");
    }
    let [text, page, markdown] = forms(&run);
    assert!(page.contains("The moon was full.") && markdown.contains("The moon was full."));
    assert!(!text.contains("moon"), "notices go to standard error");
    assert!(notices(&run, &Style::default()).ends_with("note: The moon was full.\n"));
}

#[test]
fn a_comparison_says_the_same_in_all_forms() {
    let compared = compared();
    let wide = Style { width: 1000, ..Style::default() };
    let forms = [written(&Text(wide), &compared), written(&Html, &compared), written(&Markdown, &compared)];
    for text in &forms {
        for said in [
            "Old: old.json of 2026-01-02. New: new.json (interrupted) of 2027-01-01.",
            "Nothing could be compared.",
            "Incomplete: 1 of the runs were interrupted.",
            "could not be judged, 0 kept.",
            "Not comparable",
            "fewer than 5 rounds with CPU on both sides",
            "What changed around it",
            "Runs",
        ] {
            assert!(text.replace('\\', "").contains(said), "{said} is missing from {text}");
        }
    }
    let failed = punctual_report::export::text::notices(&Document::of_comparison(&compared), &wide);
    assert!(failed.contains("unjudged: ") && failed.contains("fewer than 5 rounds"), "{failed}");
}

#[test]
fn every_form_has_a_name_of_its_own() {
    let mut names: Vec<&str> = OF_RUNS.iter().map(|form| form.name()).collect();
    assert_eq!(names, ["text", "html", "markdown", "csv", "openmetrics", "hgrm", "json"]);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), OF_RUNS.len());
    let run = run(
        &["punctual", "wait"],
        vec![set("SCHED_OTHER", "other", None, 50_000)],
        &[Made::sleep("nanosleep", "SCHED_OTHER", 52_300)],
    );
    assert!(OF_RUNS.iter().all(|form| !written(*form, &run).is_empty()));
    assert!(OF_COMPARISONS.iter().all(|form| !written(*form, &compared()).is_empty()));
}

#[test]
fn a_document_has_no_width_and_is_spelled_by_whoever_prints_it() {
    let document = Document::of(&plain_run());
    assert_eq!(document, Document::of(&plain_run()));
    let narrow = shown(&plain_run(), &Style { width: 40, unicode: false, ..Style::default() });
    assert!(narrow.is_ascii() && narrow.contains("Columns hidden at this width"), "{narrow}");
}
