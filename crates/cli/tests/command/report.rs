//! `punctual report`: every form of a saved run, and refused files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use punctual_record::Run;
use punctual_record::experiment::{Experiment, Other};

use crate::support::{Left, SHORT, measured, punctual, run};

/// A small run in a file of its own folder.
fn saved() -> (tempfile::TempDir, PathBuf, Run) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    let (run, left) = measured(&[&["wait", "spin_clock", "nanosleep", "--for", "100us"], &SHORT[..]].concat());
    std::fs::write(&path, left.stdout).unwrap();
    (folder, path, run)
}

fn report(path: &Path, more: &[&str]) -> Left {
    run(&[&["report", path.to_str().unwrap()], more].concat())
}

#[test]
fn every_form_of_a_saved_run() {
    let (folder, path, original) = saved();
    for (form, contains) in [
        ("--text", "nanosleep"),
        ("--html", "<!DOCTYPE html>"),
        ("--markdown", "| nanosleep |"),
        ("--csv", "experiment,subject,"),
        ("--openmetrics", "# EOF\n"),
        ("--json", "\"schema\""),
    ] {
        let left = report(&path, &[form]);
        assert_eq!(left.code, Some(0), "{form}: {}", left.stderr);
        assert!(left.stdout.contains(contains), "{form}: {}", left.stdout);
        let file = folder.path().join("out");
        let quiet = report(&path, &[form, "--quiet", "-o", file.to_str().unwrap()]);
        assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (Some(0), "", ""), "{form}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), left.stdout, "{form}: file and stdout");
    }
    assert_eq!(report(&path, &["--full"]).stdout, report(&path, &["--text"]).stdout, "one text");
    let page = folder.path().join("page.html");
    assert_eq!(report(&path, &["--html", "-o", page.to_str().unwrap()]).code, Some(0));
    let back = report(&page, &["--json"]);
    assert_eq!(Run::from_json(back.stdout.as_bytes()).unwrap(), original, "a page gives the run back");
    let only = report(&path, &["--csv", "--only", "spin_clock"]);
    assert_eq!(only.stdout.lines().count(), 2, "{}", only.stdout);
}

/// What a command says of the run that it measured, without where the rest is.
fn answer(left: &Left) -> Vec<&str> {
    let lines = left.stdout.lines().take_while(|line| !line.starts_with("  All tables"));
    lines.filter(|line| !line.starts_with("  Page with charts")).collect()
}

#[test]
fn a_saved_run_has_the_first_screen_that_its_command_gave() {
    let folder = tempfile::tempdir().unwrap();
    let with = |args: &[&str], columns: &str| -> Left {
        let mut command = punctual(args);
        command.env("XDG_STATE_HOME", folder.path()).env("COLUMNS", columns);
        let left: Left = command.current_dir(folder.path()).output().unwrap().into();
        assert_eq!(left.code, Some(0), "{args:?}: {}", left.stderr);
        left
    };
    let commands: [&[&str]; 4] = [
        &["wait", "nanosleep", "ppoll", "spin_clock", "--for", "20us,50us"],
        &["yield", "sched_yield", "usleep0"],
        &["ipc", "pipe", "eventfd"],
        &["calibrate"],
    ];
    for command in commands {
        let given = with(&[command, &SHORT[..], &["--json", "run.json"]].concat(), "80");
        let shown = with(&["report", "run.json"], "80");
        assert_eq!(answer(&given), answer(&shown), "{command:?}");
        assert_eq!(shown.stdout.lines().last(), Some("  All tables: --full. Page with charts: --html -o FILE."));
        assert!(given.stdout.lines().any(|line| line.starts_with("  All tables: punctual report --full ")));
        assert!(shown.stdout.lines().count() < 24, "{}", shown.stdout);
        assert!(shown.stdout.lines().all(|line| line.chars().count() <= 80), "{}", shown.stdout);
        let narrow = with(&["report", "run.json"], "60");
        // A line of code is not broken, so that it can be copied.
        let mut prose = narrow.stdout.lines().filter(|line| !line.contains("::new()"));
        assert!(prose.all(|line| line.chars().count() <= 60), "{}", narrow.stdout);
        let full = with(&["report", "run.json", "--full"], "80");
        assert!(full.stdout.lines().count() > shown.stdout.lines().count(), "{}", full.stdout);
    }
    assert_eq!(report(&folder.path().join("run.json"), &["--full", "--csv"]).code, Some(2), "of text only");
}

/// As ls(1), man(1) and git(1): 80 columns, unless COLUMNS says otherwise. All tables have more, and CSV has no width.
#[test]
fn without_a_terminal_a_screen_has_80_columns() {
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/tests/records/quiet.json");
    let widest = |args: &[&str], columns: Option<&str>| {
        let mut command = punctual(&[&["report", run], args].concat());
        command.env_remove("COLUMNS");
        if let Some(columns) = columns {
            command.env("COLUMNS", columns);
        }
        let left: Left = command.output().unwrap().into();
        left.stdout.lines().map(|line| line.chars().count()).max().unwrap()
    };
    assert!((70..=80).contains(&widest(&[], None)), "{}", widest(&[], None));
    assert!(widest(&[], Some("60")) <= 60);
    assert!((100..=140).contains(&widest(&["--full"], None)), "{}", widest(&["--full"], None));
    // A line of code is not broken.
    assert!(widest(&["--full"], Some("80")) < widest(&["--full"], None));
    assert_eq!(widest(&["--csv"], Some("60")), widest(&["--csv"], None), "a table for programs is not cut");
}

#[test]
fn the_last_run_is_kept_for_this_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let with = |args: &[&str]| -> Left {
        let mut command = punctual(args);
        command.env("XDG_STATE_HOME", folder.path()).current_dir(folder.path()).output().unwrap().into()
    };
    let none = with(&["report", "last", "--json"]);
    assert_eq!(none.code, Some(2), "{}", none.stderr);
    assert!(none.stderr.contains("no run is kept yet"), "{}", none.stderr);
    let measure = |subject, more: &[&str]| {
        let left = with(&[&["wait", subject, "--for", "20us"][..], &SHORT, more].concat());
        assert_eq!(left.code, Some(0), "{}", left.stderr);
    };
    let last =
        || Run::from_json(with(&["report", "last", "--json"]).stdout.as_bytes()).unwrap().series[0].subject.clone();
    measure("nanosleep", &["--json", "run.json"]);
    assert_eq!(last(), "nanosleep");
    measure("spin_clock", &[]);
    assert_eq!(last(), "spin_clock", "the newest");
    measure("usleep", &["--no-keep"]);
    assert_eq!(last(), "spin_clock");
    let kept = folder.path().join("punctual/last.json");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o077;
    assert_eq!(mode(kept.parent().unwrap()), 0, "nobody else can look into the folder");
    // A name for a run in other commands too.
    let compared = with(&["compare", "run.json", "last"]);
    assert!(compared.stderr.contains("nothing could be compared"), "{}{}", compared.stdout, compared.stderr);
    // A file of this name has a path.
    std::fs::rename(folder.path().join("run.json"), folder.path().join("last")).unwrap();
    assert_eq!(last(), "spin_clock");
    assert!(with(&["report", "./last"]).stdout.contains("nanosleep"));
}

/// Causes and paths are results, even without a series.
#[test]
fn runs_without_series_are_kept_as_the_last_one_too() {
    let folder = tempfile::tempdir().unwrap();
    let with = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_punctual"));
        command.args(args).env("XDG_STATE_HOME", folder.path()).env("PUNCTUAL_LOCK_NAMESPACE", "");
        command.output().unwrap()
    };
    let last = || Run::from_json(&with(&["report", "last", "--json"]).stdout[..]).unwrap();
    assert!(with(&["why", "--", "sleep", "0.01"]).status.success());
    let run = last();
    assert_eq!((run.subcommand.as_str(), run.series.len()), ("why", 0));
    assert!(run.causes.is_some_and(|causes| causes.program.is_some_and(|program| program.name == "sleep")));
    assert!(with(&["report", "last"]).stdout.windows(5).any(|part| part == b"sleep"));
    let recorded = with(&["why", "--path", "sched_yield"]);
    if !recorded.status.success() {
        return punctual_testing::lacks(punctual_testing::Lack::Events);
    }
    assert_eq!(last().paths[0].method, "sched_yield");
    // One without any result replaces none.
    assert!(!with(&["why", "--", "/no/such/program"]).status.success());
    assert_eq!(last().paths.len(), 1);
}

#[test]
fn distributions_go_to_one_file_each() {
    let (folder, path, _) = saved();
    let one = report(&path, &["--hgrm", "--only", "nanosleep"]);
    assert!(one.stdout.contains("TotalCount") && one.stdout.contains("#[Max"), "{}", one.stdout);
    let several = report(&path, &["--hgrm"]);
    assert_eq!(several.code, Some(2));
    assert!(several.stderr.contains("--only") && several.stderr.contains("folder"), "{}", several.stderr);
    let into = folder.path().join("distributions");
    std::fs::create_dir(&into).unwrap();
    assert_eq!(report(&path, &["--hgrm", "-o", into.to_str().unwrap()]).code, Some(0));
    assert_eq!(std::fs::read_dir(&into).unwrap().count(), 3);
    let index = std::fs::read_to_string(into.join("index.csv")).unwrap();
    for line in index.lines().skip(1) {
        assert!(into.join(line.split(',').next().unwrap()).is_file(), "{line}");
    }
    assert_eq!(index.lines().count(), 3);
}

#[test]
fn the_page_is_written_while_measuring() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let left = run(&[&["wait", "spin_clock", "--html", page.to_str().unwrap()], &SHORT[..]].concat());
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert!(left.stdout.contains("spin_clock"), "the tables are printed too");
    assert!(left.stderr.contains("page.html"), "it says where the page is: {}", left.stderr);
    assert_eq!(report(&page, &["--json"]).code, Some(0));
    let both = run(&["wait", "spin_clock", "--html", "-", "--json", "-"]);
    assert_eq!(both.code, Some(2));
    assert!(both.stderr.contains("invalid --html '-'") && both.stderr.contains("--json -"), "{}", both.stderr);
}

/// A file with this in it, reported; code and words.
fn refusal_of_file(text: &[u8]) -> (Option<i32>, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let left = report(file.path(), &[]);
    assert_eq!(left.stdout, "");
    (left.code, left.stderr)
}

#[test]
fn files_that_are_no_runs_are_refused_with_words() {
    let (_folder, path, _) = saved();
    let json = std::fs::read_to_string(&path).unwrap();
    let cases: [(&[u8], &str); 9] = [
        (b"", "empty"),
        (b"hello", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"{}", "not a run of punctual"),
        (b"<html><p>hello</p></html>", "holds no run"),
        (&json.as_bytes()[..json.len() / 2], "cut short"),
        (&json.replace("punctual.run/2", "punctual.run/9").into_bytes(), "punctual.run/9"),
        (&json.replacen("\"count\": ", "\"count\": -", 1).into_bytes(), "does not keep to the format"),
        (&json.replacen("\"mean\": ", "\"mean\": 1e999, \"x\": ", 1).into_bytes(), "number out of range"),
    ];
    for (text, words) in cases {
        let (code, said) = refusal_of_file(text);
        assert_eq!(code, Some(1), "{words}: {said}");
        assert!(said.contains(words), "{words}: {said}");
        assert!(said.len() < 1000, "{said}");
    }
}

#[test]
fn names_that_lead_nowhere_are_bad_usage() {
    for (name, words) in [("/nowhere/run.json", "no such file"), ("/", "folder")] {
        let left = report(Path::new(name), &[]);
        assert_eq!(left.code, Some(2), "{}", left.stderr);
        assert!(left.stderr.contains(words), "{}", left.stderr);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/records/debian-7.3.json");
    let left = report(&path, &["--only", "sched_yeild"]);
    assert_eq!(left.code, Some(2));
    assert!(left.stderr.contains("nearest: sched_yield"), "{}", left.stderr);
    assert_eq!(report(&path, &["--html", "--csv"]).code, Some(2), "one form at a time");
}

#[test]
fn very_many_series_are_for_machines_only() {
    let (folder, _, mut run) = saved();
    let mut series = run.series.swap_remove(0);
    series.rounds.clear();
    series.histogram = None;
    run.series = vec![series; 20_000];
    for (i, series) in run.series.iter_mut().enumerate() {
        series.experiment = Experiment::Other(Other { name: format!("e{i}"), ..Other::default() });
    }
    let path = folder.path().join("many.json");
    run.to_json(std::fs::File::create(&path).unwrap()).unwrap();
    for form in ["--text", "--html", "--markdown"] {
        let left = report(&path, &[form]);
        assert_eq!(left.code, Some(2), "{form}");
        assert!(left.stderr.contains("20000 series") && left.stderr.contains("--csv"), "{}", left.stderr);
    }
    assert_eq!(report(&path, &["--csv"]).stdout.lines().count(), 20_001);
    assert!(report(&path, &["--openmetrics"]).stdout.ends_with("# EOF\n"));
}
