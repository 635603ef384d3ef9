//! The first screen of records of real machines. This kernel (6.18, EEVDF) was quiet and beside a compiler. Debian's
//! 6.1 (CFS), 6.12 and 7.3 (EEVDF) were emulated. The records are check-ups without their histograms.

use crate::forms::shown;
use insta::assert_snapshot;
use punctual_record::Run;
use punctual_report::evidence::{Effect, Outcome};
use punctual_report::verdict::{Advice, Goal, Standing};
use punctual_report::{Document, Style, Verdict};

const RECORDS: [&str; 5] = ["quiet", "compiling", "debian-6.1", "debian-6.12", "debian-7.3"];

pub(crate) fn record(name: &str) -> Run {
    let path = format!("{}/tests/records/{name}.json", env!("CARGO_MANIFEST_DIR"));
    Run::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn head(run: &Run) -> String {
    punctual_report::export::text::head(&Document::from_run(run), &Style { width: 80, ..Style::default() }, 23)
}

#[test]
fn a_screen_each() {
    for name in RECORDS {
        let text = head(&record(name));
        assert!(text.lines().count() <= 23, "{name}: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{name}: {text}");
        assert_snapshot!(name, text);
    }
}

/// A busy machine is the first thing to say, and of a quiet one it is not said.
#[test]
fn who_was_busy_comes_first() {
    assert!(head(&record("compiling")).trim_start().starts_with("Busy machine: "));
    for name in ["quiet", "debian-6.1", "debian-6.12", "debian-7.3"] {
        assert!(!head(&record(name)).contains("Busy machine"), "{name}");
    }
}

/// Every claim has a test behind it: its interval excludes zero and it exceeds the scatter of its rounds.
#[test]
fn no_claim_without_evidence() {
    for name in RECORDS {
        let verdict = Verdict::from_run(&record(name));
        for advice in verdict.advice.iter().chain(&verdict.tried) {
            let effects: Vec<&Effect> = advice.cases.iter().flat_map(|case| [&case.p50, &case.p99]).collect();
            for effect in &effects {
                let Some(gain) = effect.better().or(effect.worse()) else { continue };
                assert!(gain.low_ns > 0 && gain.ns > gain.scatter_ns, "{name}: {}: {effect:?}", advice.what);
            }
            if advice.standing == Standing::Advised && advice.goal != Goal::LetOthersRun {
                assert!(effects.iter().any(|effect| effect.outcome == Outcome::Better), "{name}: {}", advice.what);
                assert!(effects.iter().all(|effect| effect.outcome != Outcome::Worse), "{name}: {}", advice.what);
            }
        }
    }
}

/// One change may be tried for two purposes; then each sentence names its own.
#[test]
fn nothing_is_said_to_be_both_tested_and_not() {
    for name in RECORDS {
        let text = shown(&record(name), &Style { width: 1000, ..Style::default() });
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = |lead: &str| -> Vec<String> {
            let list = text.split_once(lead).and_then(|(_, rest)| rest.split_once(". ")).map(|(list, _)| list);
            list.into_iter().flat_map(|list| list.split("; ")).map(str::to_owned).collect()
        };
        let [untested, equal] = ["Not tested: ", "No difference that this run can show: "].map(said);
        assert!(!equal.is_empty(), "{name}: {text}");
        assert!(untested.iter().all(|item| !equal.contains(item)), "{name}: {untested:?}, {equal:?}");
    }
}

/// What improves on another advice is no second gain on what was found.
#[test]
fn an_advice_on_top_of_another_says_so() {
    let all = Verdict::from_run(&record("quiet")).advice;
    let further =
        Advice { what: "SCHED_FIFO 40".into(), instead_of: "slack 1 ns".into(), equal: Vec::new(), ..all[0].clone() };
    assert!(all[0].short(&all).starts_with("slack 1 ns: "), "{}", all[0].short(&all));
    let said = further.short(&all);
    assert!(said.starts_with("SCHED_FIFO 40 instead of slack 1 ns: "), "{said}");
    assert!(further.short(&[]).starts_with("SCHED_FIFO 40: "));
}

/// CFS lets the caller of sched_yield go on soon: there it is no advice for letting others run.
#[test]
fn on_cfs_sched_yield_is_no_advice_to_let_others_run() {
    let verdict = Verdict::from_run(&record("debian-6.1"));
    let named = |advice: &&punctual_report::verdict::Advice| {
        advice.goal == Goal::LetOthersRun && advice.what.starts_with("sched_yield")
    };
    assert!(verdict.advice.iter().find(named).is_none(), "{:?}", verdict.advice);
}

/// Linux 7.3 returns from usleep(0) without giving up the CPU: there it is no advice, and the head says so.
#[test]
fn where_usleep_0_does_not_sleep_it_is_no_advice() {
    let about = "usleep0 does not yield here: it slept in";
    let answered = |name: &str| {
        let mut run = record(name);
        run.series.retain(|series| series.experiment.name() == "yield");
        Verdict::from_run(&run).answer.join(" ")
    };
    for name in RECORDS {
        let since_7_2 = name == "debian-7.3";
        assert_eq!(answered(name).contains(about), since_7_2, "{name}: {}", answered(name));
    }
    let advice = Verdict::from_run(&record("debian-7.3")).advice;
    assert!(advice.iter().all(|advice| advice.what != "usleep(0)"), "{advice:?}");
}

/// These records do not say what the caller took in each round: what a call leaves to others is not tested, and not claimed.
#[test]
fn without_the_callers_share_nothing_is_said_of_what_is_left_to_others() {
    for name in RECORDS {
        let verdict = Verdict::from_run(&record(name));
        let all = verdict.advice.iter().chain(&verdict.tried).filter(|advice| advice.goal == Goal::LetOthersRun);
        let standings: Vec<Standing> = all.map(|advice| advice.standing).collect();
        assert!(standings.iter().all(|standing| *standing == Standing::NotTested), "{name}: {standings:?}");
        assert!(!verdict.answer.join(" ").contains("To let others run"), "{name}: {:?}", verdict.answer);
        for soon in verdict.advice.iter().filter(|advice| advice.goal == Goal::BackSoon) {
            assert!(soon.text().contains("what it leaves to others was not tested"), "{name}: {}", soon.text());
        }
    }
}
