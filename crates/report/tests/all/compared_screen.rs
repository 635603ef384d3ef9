//! The first screen of a comparison: each of its sentences where its data are, and not where they are not; and its size.

use punctual_record::Run;
use punctual_report::compare::limit::{Amount, Limit, evaluate};
use punctual_report::compare::{Compared, Comparison, Figure, Options, Side, compare};
use punctual_report::export::text;
use punctual_report::{Document, Style};

use crate::common::{Made, found, run, set};
use crate::compared::{made, with_rounds};

fn comparison(old: &Run, new: &Run, options: Options) -> Comparison {
    let (mut one, mut other) = (Side::new(), Side::new());
    one.add("old.json", old).expect("a run");
    other.add("new.json", new).expect("a run");
    compare(&one, &other, options)
}

fn of(old: &Run, new: &Run) -> Document {
    let comparison = comparison(old, new, Options::default());
    Document::of_comparison(&Compared { comparison, judgement: None })
}

/// The lines of a terminal that the answer may take: one is for the prompt, and two for where the rest is.
const LINES: usize = 24 - 3;

fn shown(document: &Document) -> String {
    text::head(document, &Style::default(), LINES)
}

/// The same, whose lines are joined: a sentence may end in a later one.
fn said(document: &Document) -> String {
    shown(document).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Waits by nanosleep and futex; the first is so much later, under this slack.
fn waits(minute: i64, later: f64, slack: i64) -> Run {
    let median = |ns: f64| (ns * later) as i64;
    let waits = [Made::sleep("nanosleep", "as found", median(50_000.0)), Made::sleep("futex", "as found", 52_000)];
    let mut run = run(&["punctual", "wait"], vec![found("as found", slack)], &waits);
    run.series = run.series.into_iter().map(with_rounds).collect();
    run.started = jiff::Timestamp::from_second(1_700_000_000 + 60 * minute).expect("a time");
    run
}

#[test]
fn what_moved_is_said_first_and_in_its_direction() {
    insta::assert_snapshot!(shown(&of(&made(0, 1), &made(1, 3))));
    let (fast, slow) = (waits(0, 1.0, 50_000), waits(1, 2.0, 50_000));
    let later = said(&of(&fast, &slow));
    assert!(later.contains("of nanosleep is") && later.contains(" later: "), "{later}");
    assert!(!later.contains("sooner") && !later.contains("No difference that"), "{later}");
    let sooner = said(&of(&slow, &fast));
    assert!(sooner.contains(" sooner: ") && !sooner.contains(" later"), "{sooner}");
    for text in [&later, &sooner] {
        assert!(!text.contains("of futex is"), "futex did not move: {text}");
    }
}

#[test]
fn no_difference_is_said_with_what_would_have_been_shown() {
    let alike = said(&of(&waits(0, 1.0, 50_000), &waits(1, 1.0, 50_000)));
    assert!(alike.contains("No difference that this data can show, in any of 6 figures."), "{alike}");
    assert!(alike.contains("Nine of ten such comparisons would show an increase by"), "{alike}");
    assert!(!alike.contains(" is ") && !alike.contains("Probable cause"), "{alike}");
}

#[test]
fn a_setting_is_a_probable_cause_where_a_figure_differs_and_the_setting_too() {
    let base = waits(0, 1.0, 50_000);
    let cause = "Probable cause: slack 50 us → slack 150 us.";
    let both = said(&of(&base, &waits(1, 2.0, 150_000)));
    assert!(both.contains(cause), "{both}");
    let unchanged = said(&of(&base, &waits(1, 2.0, 50_000)));
    assert!(!unchanged.contains("Probable cause"), "{unchanged}");
    let alike = said(&of(&base, &waits(1, 1.0, 150_000)));
    assert!(!alike.contains("Probable cause"), "{alike}");
}

/// The verdict on the limits names the cause; the screen says it once.
#[test]
fn the_cause_is_said_once() {
    let comparison = comparison(&waits(0, 1.0, 50_000), &waits(1, 2.0, 150_000), Options::default());
    let limit = Limit { figure: Some(Figure::P50), subject: None, amount: Amount::Share(0.1) };
    let judgement = Some(evaluate(&[limit], &comparison));
    let text = said(&Document::of_comparison(&Compared { comparison, judgement }));
    assert!(text.starts_with("FAIL: p50 of nanosleep"), "{text}");
    assert_eq!(text.matches("Probable cause").count(), 1, "{text}");
}

#[test]
fn what_changed_around_it_is_named_and_the_machine_first() {
    let (old, mut new) = (waits(0, 1.0, 50_000), waits(1, 1.0, 50_000));
    let same = said(&of(&old, &new));
    assert!(!same.contains("Changed around it") && !same.contains("another machine"), "{same}");
    new.host.kernel = Some("7.3.4".into());
    let kernel = said(&of(&old, &new));
    assert!(kernel.starts_with("The old runs are of another machine or kernel: kernel"), "{kernel}");
    assert!(!kernel.contains("Changed around it"), "it is said once: {kernel}");
    new.host.kernel.clone_from(&old.host.kernel);
    new.host.clocksource = Some("hpet".into());
    let clock = said(&of(&old, &new));
    assert!(clock.contains("Changed around it: clocksource") && clock.contains("→ hpet."), "{clock}");
}

#[test]
fn what_could_not_be_compared_has_its_reason_and_the_option_that_compares_it() {
    let old = waits(0, 1.0, 50_000);
    let all = said(&of(&old, &waits(1, 1.0, 50_000)));
    assert!(!all.contains("Not compared"), "{all}");
    let mut asked = waits(1, 1.0, 1);
    asked.conditions = vec![set("as found", "other", Some(1), 1)];
    let none = said(&of(&old, &asked));
    assert!(none.starts_with("Nothing could be compared."), "{none}");
    assert!(none.contains("Not compared: other conditions were asked for"), "{none}");
    assert!(none.contains("--across-conditions compares those of other requests."), "{none}");
    let mut fewer = waits(1, 1.0, 50_000);
    fewer.series.truncate(1);
    let missing = said(&of(&old, &fewer));
    assert!(missing.contains("Not compared: only in the old runs: futex"), "{missing}");
    assert!(!missing.contains("--across-conditions"), "{missing}");
}

/// Many series of long names: the screen fits, has the rows that its sentences name, and counts the others.
#[test]
fn it_fits_a_terminal_and_leaves_nothing_out_in_silence() {
    let asked = [10_000, 100_000, 1_000_000, 10_000_000];
    let subjects = ["clock_nanosleep_abs", "pthread_cond_timedwait", "nanosleep", "futex"];
    let run_of = |minute: i64, later: i64| {
        let all = subjects.iter().flat_map(|subject| asked.map(|ns| (*subject, ns)));
        let waits: Vec<Made> =
            all.map(|(subject, ns)| Made::sleep(subject, "as found", 50_000 * later).asked(ns)).collect();
        let mut run = run(&["punctual", "wait"], vec![found("as found", 50_000)], &waits);
        run.series = run.series.into_iter().map(with_rounds).collect();
        run.started = jiff::Timestamp::from_second(1_700_000_000 + 60 * minute).expect("a time");
        run.host.kernel = Some(format!("6.{later}.0-with-a-long-name-of-its-build"));
        run.host.cpu_model = Some(format!("A CPU of a model with a long name, in the version {later}"));
        run
    };
    for (before, after) in [(1, 3), (3, 1), (1, 1)] {
        let document = of(&run_of(0, before), &run_of(1, after));
        let screen = shown(&document);
        assert!(screen.lines().count() <= LINES, "{} lines:\n{screen}", screen.lines().count());
        assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
        let rows: Vec<&str> = screen.lines().filter(|line| line.contains(" µs ") && line.contains('[')).collect();
        let rows = rows.iter().filter(|row| row.starts_with("  p") || row.starts_with("  CPU")).count();
        let more = screen.lines().find_map(|line| line.trim().split_once(" more").map(|(count, _)| count));
        let more: usize = more.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{screen}"));
        assert_eq!(rows + more, 48, "each figure is a row or counted:\n{screen}");
    }
}

/// The row of the figure that a sentence names is the last that a short terminal loses.
#[test]
fn the_row_of_the_headline_stays() {
    let document = of(&waits(0, 1.0, 50_000), &waits(1, 2.0, 50_000));
    let screen = text::head(&document, &Style::default(), 12);
    let headline = screen.lines().next().expect("a line").to_owned();
    let figure = if headline.contains("p99 of nanosleep") { "p99" } else { "p50" };
    let row = screen.lines().any(|line| line.starts_with(&format!("  {figure}")) && line.contains("nanosleep"));
    assert!(row, "{screen}");
}
