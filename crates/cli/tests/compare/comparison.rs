//! The output of a comparison, and its exit status.

use crate::fixtures::{Folder, Made, USUAL, run};
use crate::punctual;
use punctual_record::{Param, TIMER_SLACK};

/// `a`, another like it, one with nanosleep 20 % later, one of another kernel that asked for a slack, one too short.
fn runs() -> Folder {
    let folder = Folder::new();
    folder.save("a.json", &run(USUAL));
    folder.save("same.json", &run(Made { seed: 2, minute: 1, ..USUAL }));
    folder.save("late.json", &run(Made { seed: 3, minute: 2, nanosleep: 1.2, ..USUAL }));
    let mut asked = run(Made { seed: 4, minute: 3, slack: 1, kernel: "6.12.0-amd64", ..USUAL });
    let slack = asked.conditions[0].settings.iter_mut().find(|setting| setting.condition == TIMER_SLACK);
    slack.expect("it was read").asked = Some(Param::Int(1));
    folder.save("asked.json", &asked);
    folder.save("short.json", &run(Made { seed: 5, minute: 4, rounds: 2, ..USUAL }));
    folder
}

#[test]
fn no_difference_is_said_and_is_no_failure() {
    let folder = runs();
    let left = punctual(folder.path(), &["compare", "a.json", "same.json"]);
    assert_eq!((left.code, left.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!(left.stdout);
}

#[test]
fn what_became_later_is_found() {
    let folder = runs();
    let left = punctual(folder.path(), &["compare", "a.json", "late.json"]);
    assert_eq!((left.code, left.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!(left.stdout);
}

/// The answer fits a screen; --full has all tables below it, and is of the text alone.
#[test]
fn one_screen_and_all_tables() {
    let folder = runs();
    let said = |more: &[&str]| punctual(folder.path(), &[&["compare", "a.json", "late.json"][..], more].concat());
    let screen = said(&[]).stdout;
    assert!(screen.lines().count() < 24 && screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    assert_eq!(screen.lines().last(), Some("  All tables: --full. Page with charts: --html FILE."));
    assert!(!screen.contains("detectable"), "{screen}");
    let full = said(&["--full"]).stdout;
    for part in ["Different: wait, asked 100 µs", "No difference shown, 8 figures", "detectable", "Runs"] {
        assert!(full.contains(part), "{part}: {full}");
    }
    assert!(full.starts_with(screen.lines().next().unwrap()), "{full}");
    let refused = said(&["--full", "--format", "json"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
}

#[test]
fn markdown_for_a_pull_request() {
    let folder = runs();
    let args = ["compare", "a.json", "late.json", "--format", "markdown", "--fail-if", "p50 +10%"];
    let left = punctual(folder.path(), &args);
    assert_eq!(left.code, Some(3), "{}", left.stderr);
    insta::assert_snapshot!(left.stdout);
}

#[test]
fn other_conditions_are_not_compared_unless_asked() {
    let folder = runs();
    let left = punctual(folder.path(), &["compare", "a.json", "asked.json"]);
    assert_eq!(left.code, Some(1));
    insta::assert_snapshot!(left.stdout);
    let left = punctual(folder.path(), &["compare", "a.json", "asked.json", "--across-conditions"]);
    assert_eq!(left.code, Some(0));
    assert!(left.stdout.contains("9 figures"), "{}", left.stdout);
}

#[test]
fn json_has_everything() {
    let folder = runs();
    let left = punctual(folder.path(), &["compare", "a.json", "late.json", "--format", "json"]);
    assert_eq!(left.code, Some(0));
    let json: serde_json::Value = serde_json::from_str(&left.stdout).unwrap();
    assert_eq!(json["schema"], "punctual.comparison/1");
    assert_eq!(json["series"].as_array().unwrap().len(), 3);
    let nanosleep = json["series"].as_array().unwrap().iter().find(|s| s["subject"] == "nanosleep").unwrap();
    assert_eq!(nanosleep["figures"][0]["verdict"], "worse");
    let share = nanosleep["figures"][0]["difference"]["by_share"]["value"].as_f64().unwrap();
    assert!((share - 0.2).abs() < 0.03, "{share}");
}

/// A setting that no command line asked for is the machine's. It is compared, and named where a figure is worse.
#[test]
fn a_changed_setting_of_the_machine_fails_and_is_named() {
    let folder = runs();
    folder.save("slack.json", &run(Made { seed: 2, minute: 2, nanosleep: 2.5, slack: 150_000, ..USUAL }));
    let limit = |new: &str| punctual(folder.path(), &["compare", "a.json", new, "--fail-if", "p50 +25%"]);
    let cause = "Probable cause: slack 50000 ns → slack 150000 ns.";
    let left = limit("slack.json");
    assert_eq!(left.code, Some(3), "{}", left.stderr);
    let said = left.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("p50 of nanosleep is worse") && said.contains(cause), "{said}");
    // Worse in the same way, and nothing changed.
    folder.save("load.json", &run(Made { seed: 2, minute: 2, nanosleep: 2.5, ..USUAL }));
    let left = limit("load.json");
    assert_eq!(left.code, Some(3), "{}", left.stderr);
    assert!(!left.stderr.contains("Probable cause"), "{}", left.stderr);
    // Changed, and nothing is worse.
    folder.save("as-late.json", &run(Made { seed: 2, minute: 2, slack: 150_000, ..USUAL }));
    let left = limit("as-late.json");
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert!(!(left.stdout + &left.stderr).contains("Probable cause"));
}

/// What the command line asked for differs: nothing is judged, and the option that compares it is named.
#[test]
fn other_requests_are_undecided() {
    let folder = runs();
    let left = punctual(folder.path(), &["compare", "a.json", "asked.json", "--fail-if", "p50 +25%"]);
    assert_eq!(left.code, Some(4), "{}", left.stderr);
    assert!(left.stderr.contains("other conditions were asked for"), "{}", left.stderr);
    assert!(left.stderr.contains("--across-conditions"), "{}", left.stderr);
    let how = ["compare", "a.json", "asked.json", "--fail-if", "p50 +25%", "--across-conditions"];
    assert_eq!(punctual(folder.path(), &how).code, Some(0));
}

/// A baseline of another machine or kernel is named before the figures.
#[test]
fn another_kernel_is_named_first() {
    let folder = runs();
    folder.save("kernel.json", &run(Made { seed: 2, minute: 2, kernel: "6.12.1-amd64", ..USUAL }));
    let left = punctual(folder.path(), &["compare", "a.json", "kernel.json"]);
    let said = left.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = "The old runs are of another machine or kernel: kernel 6.1.0-18-amd64 → 6.12.1-amd64.";
    assert!(said.starts_with(first), "{said}");
    let left = punctual(folder.path(), &["compare", "a.json", "same.json"]);
    assert!(!left.stdout.contains("another machine"), "{}", left.stdout);
}

/// Status 3 when it is shown, 4 when it cannot be judged, 0 when it is kept.
#[test]
fn limits() {
    let folder = runs();
    let ends = |new: &str, limit: &[&str]| {
        let left = punctual(folder.path(), &[&["compare", "a.json", new][..], limit].concat());
        (left.code, left.stderr)
    };
    let (code, said) = ends("same.json", &["--fail-if", "p50 +20%"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let (code, said) = ends("late.json", &["--fail-if", "p50 +10%"]);
    assert_eq!(code, Some(3));
    assert!(said.contains("exceeded: p50 of nanosleep") && said.contains("p50 +10%"), "{said}");
    assert_eq!(ends("late.json", &["--fail-if", "p50 worse by 10%"]).1, said, "the earlier form");
    // Worse, but by less than the limit; and not what the limit is about.
    assert_eq!(ends("late.json", &["--fail-if", "p50 +40%"]).0, Some(0));
    assert_eq!(ends("late.json", &["--fail-if", "p50 of ppoll +10%"]).0, Some(0));
    assert_eq!(ends("late.json", &["--fail-if", "p50 of nano* +5us"]).0, Some(3));
    // A change of 0.01 % could hide in any data.
    let (code, said) = ends("same.json", &["--fail-if", "p50 +0.01%"]);
    assert_eq!(code, Some(4));
    assert!(said.contains("unjudged: p50 of") && said.contains("could hide"), "{said}");
    let (code, said) = ends("same.json", &["--fail-if", "p50 +0.01%", "--allow-unjudged"]);
    assert_eq!(code, Some(0));
    assert!(said.contains("unjudged"), "what cannot be judged is said all the same: {said}");
    let (code, said) = ends("short.json", &["--fail-if", "any +20%"]);
    assert_eq!(code, Some(4));
    assert!(said.contains("fewer than 5 rounds"), "{said}");
    let (code, said) = ends("same.json", &["--fail-if", "p50 of nanoslep +20%"]);
    assert_eq!(code, Some(2), "a typo is judged as nothing");
    assert!(said.contains("'of nanoslep'") && said.contains("nearest: nanosleep"), "{said}");
    let (code, said) = ends("same.json", &["--fail-if", "p50 > 20us"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("`punctual report`"), "{said}");
}

/// The verdict comes first, and what is undecided says how many runs decide it.
#[test]
fn the_verdict_comes_first() {
    let folder = runs();
    let first = |new: &str, limit: &str| {
        let left = punctual(folder.path(), &["compare", "a.json", new, "--fail-if", limit]);
        left.stdout.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(first("same.json", "p50 +20%").trim(), "PASS: 3 figures judged, none beyond its limit.");
    assert!(first("late.json", "p50 +10%").starts_with("FAIL: p50 of nanosleep"), "{}", first("late.json", "p50 +10%"));
    let args = ["compare", "a.json", "same.json", "--fail-if", "p99 +20%", "--format", "json"];
    let json: serde_json::Value = serde_json::from_str(&punctual(folder.path(), &args).stdout).unwrap();
    assert_eq!(json["gate"]["outcome"], "undecided");
    let sentence = json["gate"]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("UNDECIDED") && sentence.contains("interleaved runs a side"), "{sentence}");
    assert!(json["series"].is_array(), "beside the comparison");
}

/// With turns, what one run a side cannot show becomes visible.
#[test]
fn several_runs_a_side() {
    let folder = Folder::new();
    let mut old = vec!["--old"];
    let mut new = vec!["--new"];
    for turn in 0..4u64 {
        let old_run = Made { seed: 10 + turn, minute: 2 * turn, ..USUAL };
        let new_run = Made { seed: 20 + turn, minute: 2 * turn + 1, nanosleep: 1.05, ..USUAL };
        let name = |path: std::path::PathBuf| path.file_name().unwrap().to_string_lossy().into_owned().leak() as &str;
        old.push(name(folder.save(&format!("old{turn}.json"), &run(old_run))));
        new.push(name(folder.save(&format!("new{turn}.json"), &run(new_run))));
    }
    let left = punctual(folder.path(), &[&["compare"][..], &old, &new].concat());
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert!(left.stdout.contains("Interleaved"), "{}", left.stdout);
    assert!(left.stdout.starts_with("p50 of nanosleep is ") && left.stdout.contains(" later: "), "{}", left.stdout);
}
