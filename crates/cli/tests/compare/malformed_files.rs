//! Malformed files, accidental or malicious: clear errors, the right status, no panic.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use punctual_record::{Experiment, Run, Typed};

use crate::fixtures::{Folder, Made, USUAL, run};
use crate::punctual;

fn text(made: Made) -> String {
    let mut text = Vec::new();
    run(made).to_json(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Each wrong file as the new one: what is said names the file and what is wrong with it.
#[test]
fn wrong_files_say_what_is_wrong() {
    let folder = Folder::new();
    folder.save("a.json", &run(USUAL));
    let good = text(Made { seed: 2, minute: 1, ..USUAL });
    let replaced = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    let cases: Vec<(&str, String, &str)> = vec![
        ("empty.json", String::new(), "it is empty"),
        ("text.json", "hello".into(), "it is not JSON"),
        ("cut.json", good[..good.len() / 2].into(), "it ends in the middle"),
        ("other.json", "{\"schema\": \"x\"}".into(), "not a run of punctual"),
        ("array.json", "[]".into(), "not a run of punctual"),
        ("newer.json", replaced("punctual.run/2", "punctual.run/3"), "punctual.run/3"),
        ("nan.json", replaced("\"elapsed_ns\": 4000000000", "\"elapsed_ns\": NaN"), "it is not JSON"),
        ("negative.json", replaced("\"count\": 5000", "\"count\": -5000"), "does not keep to the format"),
        ("unit.json", replaced("\"unit\": \"ns\"", "\"unit\": \"parsecs\""), "in parsecs"),
        ("twice.json", replaced("\"subject\": \"ppoll\"", "\"subject\": \"nanosleep\""), "two series of nanosleep"),
        ("deep.json", "[".repeat(1_000_000), "it ends in the middle"),
    ];
    for (name, content, word) in cases {
        folder.write(name, content.as_bytes());
        let left = punctual(folder.path(), &["compare", "a.json", name]);
        assert_eq!((left.code, left.stdout.as_str()), (Some(1), ""), "{name}: {}", left.stderr);
        assert!(left.stderr.contains(name) && left.stderr.contains(word), "{name}: {}", left.stderr);
        assert!(left.stderr.len() < 1000, "{name}: {}", left.stderr.len());
    }
    for (name, word) in [("nosuch.json", "no such file"), (".", "folder")] {
        let left = punctual(folder.path(), &["compare", "a.json", name]);
        assert_eq!(left.code, Some(2), "{name}");
        assert!(left.stderr.contains(word), "{name}: {}", left.stderr);
    }
}

#[test]
fn the_same_run_twice_is_refused() {
    let folder = Folder::new();
    folder.save("a.json", &run(USUAL));
    folder.save("copy.json", &run(USUAL));
    for (args, word) in [
        (&["compare", "a.json", "a.json"][..], "given twice"),
        (&["compare", "a.json", "./a.json"], "given twice"),
        (&["compare", "a.json", "copy.json"], "a run cannot be compared with itself"),
        (&["compare", "a.json"], "OLD.json NEW.json"),
        (&["compare"], "OLD.json NEW.json"),
        (&["merge", "a.json", "a.json", "-o", "-"], "given twice"),
        (&["compare", "a.json", "copy.json", "--fail-if", "p98 +1%"], "p50, p99, cpu or any"),
    ] {
        let left = punctual(folder.path(), args);
        assert_eq!(left.code, Some(2), "{args:?}: {}", left.stderr);
        assert!(left.stderr.contains(word), "{args:?}: {}", left.stderr);
    }
    let left = punctual(folder.path(), &["merge", "a.json", "copy.json", "-o", "-"]);
    assert_eq!(left.code, Some(1));
    assert!(left.stderr.contains("there already"), "{}", left.stderr);
}

#[test]
fn nothing_in_common_is_said() {
    let folder = Folder::new();
    folder.save("a.json", &run(USUAL));
    let mut other = run(Made { seed: 2, minute: 1, ..USUAL });
    other.series.iter_mut().for_each(|series| series.experiment = Experiment::Yield(Typed::default()));
    folder.save("b.json", &other);
    let left = punctual(folder.path(), &["compare", "a.json", "b.json", "--full"]);
    assert_eq!(left.code, Some(1));
    assert!(left.stdout.contains("Nothing could be compared"), "{}", left.stdout);
    assert!(left.stdout.contains("only in the old runs"), "{}", left.stdout);
    let left = punctual(folder.path(), &["compare", "a.json", "b.json", "--fail-if", "any +10%"]);
    assert_eq!(left.code, Some(4));
    let left = punctual(folder.path(), &["merge", "a.json", "b.json", "-o", "c.json"]);
    assert_eq!(left.code, Some(1));
    assert!(left.stderr.contains("shares no series"), "{}", left.stderr);
    assert!(!folder.path().join("c.json").exists());
}

/// Other clocks measure other things.
#[test]
fn other_clocks_are_not_compared() {
    let folder = Folder::new();
    folder.save("a.json", &run(USUAL));
    let mut other = run(Made { seed: 2, minute: 1, ..USUAL });
    other.clock.source = "TSC".into();
    folder.save("b.json", &other);
    let left = punctual(folder.path(), &["compare", "a.json", "b.json"]);
    assert_eq!(left.code, Some(1));
    assert!(left.stdout.contains("other clock: CLOCK_MONOTONIC -> TSC"), "{}", left.stdout);
}

/// Names that a terminal, Markdown or HTML would obey.
#[test]
fn names_are_not_obeyed() {
    let folder = Folder::new();
    let evil = "\u{1b}[2J<script>alert(1)</script>|`@all` \u{202e}";
    for (name, made) in [("a.json", USUAL), ("b.json", Made { seed: 2, minute: 1, nanosleep: 2.0, ..USUAL })] {
        let mut run = run(made);
        run.series[0].subject = evil.into();
        run.series[1].subject = "x".repeat(1_000_000);
        run.host.kernel = Some(format!("{evil}{name}"));
        folder.save(name, &run);
    }
    let left = punctual(folder.path(), &["compare", "a.json", "b.json"]);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert!(!left.stdout.contains('\u{1b}') && !left.stdout.contains('\u{202e}'));
    assert!(left.stdout.len() < 100_000, "{}", left.stdout.len());
    let left = punctual(folder.path(), &["compare", "a.json", "b.json", "--format", "markdown"]);
    assert!(!left.stdout.contains("<script") && !left.stdout.contains("@all"), "{}", left.stdout);
}

/// Figures that no run has, each in one place of a run that is right.
#[test]
fn contradictions_are_refused() {
    let folder = Folder::new();
    folder.save("a.json", &run(USUAL));
    let alter: [fn(&mut Run); 3] = [
        |run| run.series[2].rounds[0].summary.p50 = Some(i64::MAX),
        |run| run.series[2].summary.p50 = Some(i64::MIN),
        |run| run.series[2].summary.count = u64::MAX,
    ];
    for alter in alter {
        let mut bad = run(Made { seed: 2, minute: 1, ..USUAL });
        alter(&mut bad);
        folder.save("bad.json", &bad);
        for args in [&["compare", "a.json", "bad.json"][..], &["merge", "a.json", "bad.json", "-o", "c.json"]] {
            let left = punctual(folder.path(), args);
            assert_eq!(left.code, Some(1), "{args:?}: {}", left.stderr);
            assert!(left.stderr.contains("bad.json") && left.stderr.contains("contradict"), "{}", left.stderr);
        }
    }
}

/// A file with this many series, each of minimal size.
fn many(folder: &Folder, name: &str, minute: u64, count: usize) {
    let mut run = run(Made { seed: minute, minute, ..USUAL });
    let mut pattern = run.series.swap_remove(0);
    pattern.rounds.truncate(1);
    (pattern.histogram, pattern.subject) = (None, "NAME".into());
    run.series.clear();
    let text = serde_json::to_string(&run).unwrap();
    let (before, after) = text.split_once("\"series\":[]").unwrap();
    let mut out = BufWriter::new(File::create(folder.path().join(name)).unwrap());
    write!(out, "{before}\"series\":[").unwrap();
    let pattern = serde_json::to_string(&pattern).unwrap();
    let (head, rest) = pattern.split_once("NAME").unwrap();
    for i in 0..count {
        let comma = if i == 0 { "" } else { "," };
        write!(out, "{comma}{head}s{i}{rest}").unwrap();
    }
    write!(out, "]{after}").unwrap();
    out.flush().unwrap();
}

/// Very many series: every row cannot be shown, and the end comes all the same.
#[test]
fn very_many_series() {
    let folder = Folder::new();
    many(&folder, "a.json", 0, 8_000);
    many(&folder, "b.json", 1, 8_000);
    let args = ["compare", "a.json", "b.json", "--fail-if", "any +10%", "--html", "page.html", "--full"];
    let left = punctual(folder.path(), &args);
    assert_eq!(left.code, Some(4));
    assert!(left.stdout.len() < 100_000 && left.stderr.len() < 200_000, "{} {}", left.stdout.len(), left.stderr.len());
    assert!(left.stdout.contains("and 7995 others"), "{}", left.stdout);
    assert!(std::fs::metadata(folder.path().join("page.html")).unwrap().len() < 500_000);
}

/// Every reader refuses twice the permitted number of series before memory is full. It stays within the file's own size
/// and half of the parsed size.
#[test]
fn too_many_series_are_refused() {
    let folder = Folder::new();
    folder.save("good.json", &run(USUAL));
    many(&folder, "many.json", 1, 200_000);
    for args in [
        &["compare", "good.json", "many.json"][..],
        &["report", "many.json", "--csv"],
        &["merge", "good.json", "many.json", "-o", "-"],
    ] {
        // Address space for what was read and for what was made of it so far.
        let limited = format!("ulimit -v 800000; exec \"$0\" {}", args.join(" "));
        let output = std::process::Command::new("sh")
            .args(["-c", &limited, env!("CARGO_BIN_EXE_punctual")])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{args:?}: {said}");
        assert!(said.contains("many.json") && said.contains("at most 100000 series"), "{args:?}: {said}");
        assert!(said.len() < 1000, "{said}");
    }
}
