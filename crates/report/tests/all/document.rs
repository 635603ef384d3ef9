//! One document behind all forms for people: each of them says what the others say.

use std::collections::BTreeSet;

use crate::common::{self, Made, few_rounds, plain_run, run, set};
use crate::forms::{notices, shown, written};
use crate::{calls, explained, interrupted, ipc, other_forms, paths, records, trials};
use punctual_record::merge::Merger;
use punctual_record::{Notice, Run};
use punctual_report::compare::limit::{self, Amount, Limit};
use punctual_report::compare::{Compared, Options, Side, compare};
use punctual_report::document::{Align, Block, Column, Note, Row};
use punctual_report::export::{OF_COMPARISONS, OF_RUNS, Reported as _, csv, hgrm, html, markdown, openmetrics, text};
use punctual_report::{Document, Style};

fn later(run: &Run) -> Run {
    Run { started: "2027-01-01T00:00:00Z".parse().unwrap(), ..run.clone() }
}

fn limits() -> punctual_record::Limit {
    punctual_record::Limit { figure: punctual_record::Key::P99, subject: None, above_ns: 1 }
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
    let text = shown(&merged, &Style::default());
    assert!(text.contains("Merged from 2 runs of 1 machine") && text.contains("Machine by machine"), "{text}");
    let one = Run { series: merged.series[..1].to_vec(), ..merged.clone() };
    let figures =
        |run: &Run| [written(csv::write, run), written(openmetrics::write, run), written(hgrm::write_run, run)];
    let [table, metrics, histogram] = figures(&one);
    assert!(table.lines().next().unwrap().ends_with(",merged_runs") && table.trim_end().ends_with(",2"), "{table}");
    assert!(metrics.contains("\npunctual_run_merged_runs 2.0\n"), "{metrics}");
    assert!(histogram.ends_with("#[Merged  =            2 runs]\n"), "{histogram}");
    let single = Run { series: plain_run().series[..1].to_vec(), ..plain_run() };
    assert!(figures(&single).iter().all(|text| !text.to_lowercase().contains("merged")));
}

#[test]
fn notices_go_to_standard_error() {
    let notices_of = Notice::Other { text: "The moon was full.".into() };
    let run = Run { complete: false, notices: vec![notices_of], ..plain_run() };
    let text = shown(&run, &Style::default());
    assert!(text.contains("Incomplete") && !text.contains("moon"), "{text}");
    assert!(notices(&run, &Style::default()).ends_with("note: The moon was full.\n"));
}

#[test]
fn a_comparison_says_the_same_in_all_forms() {
    let compared = compared();
    let wide = Style { width: 1000, ..Style::default() };
    let forms = [
        text::render(&compared.document(false), &wide),
        written(html::write, &compared),
        written(markdown::write, &compared),
    ];
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

/// Each text of a document, but for its pictures. `drawn`: columns of drawings and their notes are part of it.
fn said(document: &Document, drawn: bool) -> Vec<String> {
    let blocks = || document.sections().flat_map(|section| &section.blocks);
    let tables = || blocks().filter_map(|block| if let Block::Table(table) = block { Some(table) } else { None });
    let hidden: Vec<&Column> =
        tables().flat_map(|table| &table.columns).filter(|column| column.align == Align::Drawn).collect();
    let is_shown = |note: &&Note| drawn || !hidden.iter().any(|column| note.column == Some(column.heading.as_ref()));
    let mut all: Vec<&str> = Vec::new();
    for table in tables() {
        let shown: Vec<bool> = table.columns.iter().map(|column| drawn || column.align != Align::Drawn).collect();
        let columns = table.columns.iter().zip(&shown).filter(|(_, shown)| **shown);
        all.extend(columns.flat_map(|(column, _)| [column.over.as_str(), column.heading.as_ref()]));
        for row in &table.rows {
            match row {
                Row::Label(label) => all.push(label),
                Row::Cells(cells, _) => {
                    all.extend(cells.iter().zip(&shown).filter(|(_, shown)| **shown).map(|(cell, _)| cell.as_str()))
                }
            }
        }
    }
    for section in document.sections() {
        let is_elsewhere = |block: &Block| matches!(block, Block::Album(_) | Block::Notices(_));
        all.extend((!section.blocks.iter().all(is_elsewhere)).then_some(section.heading.as_str()));
    }
    for block in blocks() {
        match block {
            Block::Table(_) | Block::Album(_) => {}
            Block::Legend(notes) => all.extend(notes.iter().filter(is_shown).map(|note| note.text.as_str())),
            Block::Paragraph(text) | Block::Warning(text) | Block::Line(text) => all.push(text),
            Block::Facts(facts) => all.extend(facts.iter().flat_map(|(name, fact)| [name.as_str(), fact.as_str()])),
            Block::Items(items) | Block::Numbered(items) => {
                all.extend(items.iter().map(|item| item.text.as_str()));
                all.extend(items.iter().filter_map(|item| item.code.as_deref()).flat_map(str::lines));
            }
            Block::Notices(phrases) => {
                all.extend(phrases.iter().map(|phrase| phrase.text.as_str()));
            }
        }
    }
    let phrases = document.notices().filter_map(|phrase| phrase.remedy.as_ref().map(ToString::to_string));
    all.into_iter().map(str::to_owned).chain(phrases).collect()
}

/// The text without marks of its form and without spaces.
fn plain(text: &str) -> String {
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#64;", "@"),
        ("&#47;", "/"),
        ("&#46;", "."),
        ("&amp;", "&"),
    ];
    let text = entities.iter().fold(text.replace('\\', ""), |text, (entity, letter)| text.replace(entity, letter));
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Runs with everything that a document can hold.
fn all_kinds() -> Vec<(&'static str, Run)> {
    let mut merger = Merger::new(plain_run()).unwrap();
    merger.add(later(&plain_run())).unwrap();
    let mut refused = few_rounds(plain_run());
    refused.complete = false;
    refused.notices = other_forms::every_notice();
    refused.limits = vec![limits()];
    let calls = [vec![calls::sleeping()], calls::polling(900_000)].concat();
    let mut all = vec![
        ("merged", merger.finish(plain_run().tool, plain_run().command).unwrap()),
        ("refused", refused),
        ("causes", common::causes::own_run()),
        ("program", common::causes::program_run()),
        ("trials", trials::mixed()),
        ("paths", paths::paths()),
        ("calls", calls::observed(calls)),
        ("map", ipc::matrix(4)),
        ("interrupted", interrupted::interrupted(&interrupted::CUT)),
        ("check-up", explained::checkup(24_000)),
        ("remedies", common::remedies_run(20_000, 52_100, 52_100)),
    ];
    all.extend(["compiling", "debian-6.1"].map(|name| (name, records::record(name))));
    all
}

/// No sentence, figure, remedy or line of code of a document is in one form and lost in another.
#[test]
fn each_form_has_every_text_of_the_document() {
    let wide = Style { width: 10_000, ..Style::default() };
    for (name, run) in all_kinds() {
        let document = Document::from_run(&run);
        let text = text::render(&run.document(false), &wide) + &notices(&run, &wide);
        let page = written(html::write, &run);
        let tags =
            page.split("<script").next().unwrap().split('<').map(|tag| tag.split_once('>').map_or(tag, |tag| tag.1));
        let forms = [
            ("text", text, true),
            ("html", tags.collect::<String>(), true),
            ("markdown", written(markdown::write, &run), false),
        ];
        for (form, text, drawn) in forms {
            let text = plain(&text);
            let source = [document.made.as_str(), &document.command];
            for part in said(&document, drawn).into_iter().chain(source.map(str::to_owned)).collect::<BTreeSet<_>>() {
                assert!(text.contains(&plain(&part)), "{name} as {form} lacks: {part}");
            }
        }
    }
}

#[test]
fn every_form_has_a_name_of_its_own() {
    let mut names: Vec<&str> = OF_RUNS.iter().map(|form| form.name).collect();
    assert_eq!(names, ["text", "html", "markdown", "csv", "openmetrics", "hgrm", "json"]);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), OF_RUNS.len());
    let run = run(
        &["punctual", "wait"],
        vec![set("SCHED_OTHER", "other", None, 50_000)],
        &[Made::sleep("nanosleep", "SCHED_OTHER", 52_300)],
    );
    assert!(OF_RUNS.iter().all(|form| !written(form.write, &run).is_empty()));
    assert!(OF_COMPARISONS.iter().all(|form| !written(form.write, &compared()).is_empty()));
}

#[test]
fn a_document_has_no_width_and_is_spelled_by_whoever_prints_it() {
    let document = Document::from_run(&plain_run());
    assert_eq!(document, Document::from_run(&plain_run()));
    let narrow = shown(&plain_run(), &Style { width: 40, unicode: false, ..Style::default() });
    assert!(narrow.is_ascii() && narrow.contains("Columns hidden at this width"), "{narrow}");
}
