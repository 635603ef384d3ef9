//! No two advices of a recorded run contradict each other, by all pairs of them and of their variants.

use std::path::Path;

use punctual_record::Run;
use punctual_report::Verdict;
use punctual_report::verdict::{Advice, Goal, Standing};

/// All recorded runs, with their names.
fn records() -> Vec<(String, Run)> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [here.join("tests/records"), here.join("../cli/tests/golden/records")];
    let entries =
        folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect();
    files.sort();
    let read = |path: &std::path::PathBuf| {
        let run = Run::from_slice(&std::fs::read(path).unwrap()).unwrap();
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), run)
    };
    files.iter().map(read).collect()
}

fn names(advice: &Advice) -> Vec<&str> {
    std::iter::once(advice.what.as_str()).chain(advice.equal.iter().map(|remedy| remedy.what.as_str())).collect()
}

fn share_a_case(one: &Advice, other: &Advice) -> bool {
    one.cases.iter().any(|case| other.cases.iter().any(|case_of_one| case_of_one.case == case.case))
}

/// What is wrong with two advices of one screen.
fn contradiction(one: &Advice, other: &Advice) -> Option<&'static str> {
    let same = one.goal == other.goal;
    let about = |advice: &Advice, name: &str| names(advice).contains(&name);
    if about(one, &other.instead_of) && about(other, &one.instead_of) && (!same || share_a_case(one, other)) {
        return Some("each replaces what the other advises");
    }
    if (one.goal, other.goal) == (Goal::LetOthersRun, Goal::BackSoon) && about(one, &other.instead_of) {
        return Some("one advises what the other replaces");
    }
    if same && about(one, &other.instead_of) && names(other).iter().any(|name| about(one, name)) {
        return Some("one says equal, the other better");
    }
    None
}

/// What is wrong with an advice beside what was tried and is worse.
fn is_worse_too(advised: &Advice, tried: &Advice) -> bool {
    let same = (advised.goal, &advised.what, &advised.instead_of) == (tried.goal, &tried.what, &tried.instead_of);
    same && tried.standing == Standing::Worse && share_a_case(advised, tried)
}

#[test]
fn no_record_has_two_advices_that_contradict_each_other() {
    let mut trades = 0;
    for (name, run) in records() {
        let verdict = Verdict::from_run(&run);
        for (place, one) in verdict.advice.iter().enumerate() {
            for other in &verdict.advice[place + 1..] {
                let wrong = contradiction(one, other).or_else(|| contradiction(other, one));
                assert_eq!(wrong, None, "{name}: {} / {}", one.id, other.id);
            }
            let worse = verdict.tried.iter().find(|tried| is_worse_too(one, tried));
            assert!(worse.is_none(), "{name}: {} is advised and worse", one.id);
        }
        let is_trade = |one: &&Advice| one.goal == Goal::BackSoon && one.standing == Standing::Mixed;
        trades += verdict.tried.iter().filter(is_trade).count();
    }
    assert!(trades > 0, "no record has an advice whose reverse would be one: nothing was tested");
}
