//! `wait --until` and `cyclic --until`: they measure until limits against an older run are judged.

use std::path::Path;

use punctual_testing::{Disturbed, undisturbed};

use crate::{Left, punctual};

const WAIT: [&str; 4] = ["wait", "clock_nanosleep_abs", "--for", "1ms"];
const CYCLIC: [&str; 7] = ["cyclic", "--policy", "other", "--cpu", "0", "--no-keep", "--no-causes"];
/// The slack of a machine that is later by far, however busy this one is.
const LATER: [&str; 5] = ["run", "--timer-slack", "20ms", "--", env!("CARGO_BIN_EXE_punctual")];

fn measured(folder: &Path, slack: &[&str]) {
    let words = [slack, &WAIT, &["--duration", "1s", "--json", "base.json", "--no-keep", "--quiet"]].concat();
    let left = punctual(folder, &words);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
}

fn gate(folder: &Path, slack: &[&str], limit: &str, more: &[&str]) -> Left {
    let until = ["--until", limit, "--against", "base.json", "--no-keep"];
    punctual(folder, &[slack, &WAIT, &until, more].concat())
}

#[test]
fn a_gross_increase_fails_and_its_reverse_passes() {
    let folder = tempfile::tempdir().unwrap();
    measured(folder.path(), &[]);
    let left = gate(folder.path(), &LATER, "p50 +25%", &["--at-most", "4s"]);
    assert_eq!(left.code, Some(3), "{}{}", left.stdout, left.stderr);
    assert!(left.stdout.starts_with("FAIL: p50 of clock_nanosleep_abs is worse by"), "{}", left.stdout);
    assert!(left.stdout.lines().next().unwrap().contains("Probable cause: slack"), "{}", left.stdout);
    assert!(left.stderr.contains("4s"), "it says how long it may take: {}", left.stderr);
    measured(folder.path(), &LATER);
    let left = gate(folder.path(), &[], "p50 +25%", &["--at-most", "4s", "--json", "new.json"]);
    assert_eq!(left.code, Some(0), "{}{}", left.stdout, left.stderr);
    assert!(left.stdout.starts_with("PASS: 1 figure judged"), "{}", left.stdout);
    // One series, although it was measured in several stretches.
    let left = punctual(folder.path(), &["report", "new.json", "--csv"]);
    assert_eq!(left.stdout.lines().count(), 2, "{}", left.stdout);
}

/// A fifth of a second has too few waits of a millisecond for a p99.
#[test]
fn what_cannot_be_judged_has_a_status_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    measured(folder.path(), &LATER);
    let judged = |more: &[&str]| gate(folder.path(), &LATER, "p99 +5%", &[&["--at-most", "200ms"], more].concat());
    let left = judged(&[]);
    assert_eq!(left.code, Some(4), "{}{}", left.stdout, left.stderr);
    assert!(left.stdout.starts_with("UNDECIDED: "), "{}", left.stdout);
    assert_eq!(judged(&["--allow-unjudged"]).code, Some(0));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    measured(folder.path(), &[]);
    for (limit, more, said) in [
        ("p50 > 25us", &[][..], "invalid --until"),
        ("p50 of nanosleeep +25%", &[], "invalid --until 'of nanosleeep'"),
        ("p50 +25%", &["--duration", "3s"], "--duration"),
        ("p50 +25%", &["--against", "none.json"], "--against"),
    ] {
        let left = gate(folder.path(), &[], limit, more);
        assert_eq!(left.code, Some(2), "{limit} {more:?}: {}", left.stderr);
        assert!(left.stderr.contains(said), "{limit} {more:?}: {}", left.stderr);
        assert!(left.stdout.is_empty(), "{}", left.stdout);
    }
}

fn cyclic(folder: &Path, slack: &[&str], more: &[&str]) -> Left {
    punctual(folder, &[slack, &CYCLIC, more].concat())
}

/// One run that goes on while it is looked at: its rounds are those of a single run, and its end is no interruption.
#[test]
fn cyclic_ends_when_its_limits_are_judged() {
    let folder = tempfile::tempdir().unwrap();
    let judged = |base: &[&str], new: &[&str], said: &str, code: i32| {
        undisturbed(|_| {
            let left = cyclic(folder.path(), base, &["--duration", "2s", "--quiet", "--json", "base.json"]);
            assert_eq!(left.code, Some(0), "{}", left.stderr);
            let until = ["--until", "p50 of cpu0 +25%", "--at-most", "4s", "--against", "base.json"];
            let left = cyclic(folder.path(), new, &until);
            if left.code == Some(4) {
                // The machine wanders by more than the limit.
                return Err(Disturbed(left.stdout));
            }
            assert_eq!(left.code, Some(code), "{}{}", left.stdout, left.stderr);
            assert!(left.stdout.starts_with(said), "{}", left.stdout);
            assert!(left.stderr.contains("4s"), "it says how long it may take: {}", left.stderr);
            assert!(!left.stdout.contains("The run is incomplete"), "{}", left.stdout);
            Ok(())
        });
    };
    judged(&[], &LATER, "FAIL: p50 of cpu0 is worse by", 3);
    judged(&LATER, &[], "PASS: 1 figure judged", 0);
    // Too few wake-ups for the percentile.
    let few = ["--every", "100ms", "--until", "p99 +5%", "--at-most", "300ms", "--against", "base.json"];
    let left = cyclic(folder.path(), &[], &few);
    assert_eq!(left.code, Some(4), "{}{}", left.stdout, left.stderr);
    assert!(left.stdout.starts_with("UNDECIDED: "), "{}", left.stdout);
    for (more, said) in
        [(["--until", "p50 of cpu7000 +25%"], "invalid --until 'of cpu7000'"), (["--duration", "3s"], "--duration")]
    {
        let left =
            cyclic(folder.path(), &[], &[&["--until", "p50 +25%", "--against", "base.json"][..], &more].concat());
        assert_eq!((left.code, left.stdout.as_str()), (Some(2), ""), "{more:?}: {}", left.stderr);
        assert!(left.stderr.contains(said), "{more:?}: {}", left.stderr);
    }
}

#[test]
fn runs_of_cyclic_are_compared_cpu_by_cpu_where_they_measured_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let measure = |slack: &[&str], more: &[&str], file: &str| {
        let left = cyclic(folder.path(), slack, &[&["--duration", "1s", "--quiet", "--json", file], more].concat());
        assert_eq!(left.code, Some(0), "{}", left.stderr);
    };
    measure(&[], &[], "old.json");
    measure(&LATER, &[], "late.json");
    measure(&[], &["--every", "10ms"], "other.json");
    let compare = |new: &str| punctual(folder.path(), &["compare", "old.json", new, "--fail-if", "p50 +25%"]);
    let late = compare("late.json");
    assert!(late.stdout.contains("cpu0") && !late.stdout.starts_with("PASS"), "{}{}", late.stdout, late.stderr);
    // Another interval is another series: nothing is said about it.
    let other = compare("other.json");
    assert!(!other.stdout.contains("worse") && !other.stdout.contains("better"), "{}{}", other.stdout, other.stderr);
    assert_ne!(other.code, Some(0), "{}", other.stdout);
}
