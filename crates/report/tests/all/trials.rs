//! Remedies that were tried on a program: each sentence, and data in which it must not appear.

use insta::assert_snapshot;
use punctual_record::{Code, Price, Run, Spread, Trial, TrialBlock, TrialPair, TrialRefused};
use punctual_report::evidence::Outcome;
use punctual_report::export::text;
use punctual_report::verdict::Standing;
use punctual_report::{Document, Style, Verdict};

use crate::common::causes::{program_run, sleep};
use crate::forms::shown;

/// A block of 200 ms. The timers' wake-ups were as late as this, and it used this share of a CPU.
fn block(count: u64, late_ns: u64, share: f64) -> TrialBlock {
    let late = Spread {
        count,
        total_ns: count * late_ns,
        p50_ns: late_ns,
        p99_ns: (count >= 100).then_some(2 * late_ns),
        max_ns: 3 * late_ns,
    };
    TrialBlock {
        ns: 200_000_000,
        cpu_ns: Some((2e8 * share) as u64),
        run_delay_ns: Some(1_000_000),
        stolen_ns: Some(0),
        timer: (count > 0).then_some(late),
        other: None,
    }
}

/// Pairs of blocks with this number of wake-ups; both blocks drift together, and the second one by itself too.
fn pairs(number: usize, count: u64, off_ns: u64, on_ns: u64, more: f64) -> Vec<TrialPair> {
    let pair = |at: usize| {
        let drift = [0.97, 1.0, 1.04, 0.99, 1.02][at % 5];
        let own = [1.01, 0.99, 1.0][at % 3];
        let ns = |ns: u64, by: f64| (ns as f64 * drift * by) as u64;
        TrialPair {
            off: block(count, ns(off_ns, 1.0), 0.10 * drift),
            on: block(count, ns(on_ns, own), 0.10 * drift + more * own),
        }
    };
    (0..number).map(pair).collect()
}

fn trial(id: &str, remedy: &str, pairs: Vec<TrialPair>) -> Trial {
    Trial {
        id: id.into(),
        value: "1ns".into(),
        remedy: remedy.into(),
        what: "a setting of each thread".into(),
        code: Code { c: Some("set();".into()), shell: Some("set PID".into()), ..Code::default() },
        price: Price::default(),
        threads: 3,
        pairs,
        refused: None,
    }
}

fn run_of(trials: Vec<Trial>) -> Run {
    let mut run = program_run();
    let causes = run.causes.as_mut().unwrap();
    // 50 us of each sleep are timer slack, 3 us another thread.
    causes.calls.push(sleep(1_000_000));
    causes.trials = trials;
    run
}

fn said(run: &Run) -> String {
    let text = shown(run, &Style { width: 1000, ..Style::default() });
    text.replace('\u{a0}', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn refused(why: &str, remedy: Option<&str>) -> Option<TrialRefused> {
    Some(TrialRefused { why: why.into(), remedy: remedy.map(str::to_owned) })
}

/// A gain, no difference, too few wake-ups, and a refusal.
pub(crate) fn mixed() -> Run {
    run_of(vec![
        trial("timer-slack", "timer slack 1 ns", pairs(12, 150, 81_000, 30_000, 0.003)),
        trial("slice", "time slice 100 us", pairs(12, 150, 81_000, 81_000, 0.0)),
        trial("cpu", "CPU 1 only", pairs(12, 3, 81_000, 30_000, 0.0)),
        Trial {
            refused: refused("not permitted", Some("run as root")),
            ..trial("policy", "SCHED_FIFO 40", Vec::new())
        },
    ])
}

#[test]
fn the_first_screen_has_what_was_tried() {
    let text = text::head(&Document::from_run(&mixed()), &Style::default(), 24);
    assert!(text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_snapshot!(text);
}

#[test]
fn what_was_not_tried_is_grouped_by_its_reason() {
    let untried = |id, why: Option<&str>| Trial {
        refused: why.and_then(|why| refused(why, Some("run as root"))),
        ..trial(id, id, Vec::new())
    };
    let run = run_of(vec![
        untried("slack", Some("not permitted")),
        untried("cpu", None),
        untried("slice", Some("not permitted")),
        untried("policy", Some("no such policy")),
    ]);
    let text = text::head(&Document::from_run(&run), &Style::default(), 24);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "Not tried, because not permitted; run as root: slack and slice.",
        "Not tried, because there was no time for it: cpu.",
        "Not tried, because no such policy; run as root: policy.",
    ] {
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn a_gain_has_its_interval_and_its_price() {
    let run = mixed();
    let verdict = Verdict::from_run(&run);
    let [advice] = verdict.advice.as_slice() else { panic!("{:?}", verdict.advice) };
    assert_eq!((advice.id.as_str(), advice.cases.len()), ("timer-slack", 1));
    let gain = advice.cases[0].p50.better().unwrap();
    assert!(gain.low_ns < 51_000 && 51_000 < gain.high_ns, "{gain:?}");
    assert_eq!(advice.price.program.as_deref(), Some("0.3\u{a0}% more of a CPU"));
    let text = said(&run);
    assert!(text.contains("timer slack 1 ns on timers: 50.9"), "{text}");
    assert!(text.contains("µs earlier at p50 (") && text.contains("CPU +0.3 % (+0.3 to +0.3); 12 pairs."), "{text}");
}

#[test]
fn no_difference_too_few_and_refused_are_three_things() {
    let run = mixed();
    let text = said(&run);
    assert!(
        text.contains("time slice 100 us on timers: no difference shown at p50, no difference shown at p99"),
        "{text}"
    );
    let few = "CPU 1 only on timers: p50 not tested (too few wake-ups: 0 of 12 pairs of blocks have 10 in each, and a test takes 6)";
    assert!(text.contains(few), "{text}");
    assert!(text.contains("SCHED_FIFO 40: not tried: not permitted. To allow it: run as root."), "{text}");
    let verdict = Verdict::from_run(&run);
    let standing = |id: &str| verdict.tried.iter().find(|remedy| remedy.id == id).unwrap().standing;
    assert_eq!((standing("slice"), standing("cpu")), (Standing::NoDifference, Standing::NotTested));
    assert!(verdict.tried.iter().all(|remedy| remedy.id != "policy"));
    assert_eq!(verdict.untried.len(), 1);
}

#[test]
fn what_makes_it_later_is_no_advice() {
    let verdict = Verdict::from_run(&run_of(vec![trial("cpu", "CPU 1 only", pairs(12, 150, 30_000, 60_000, 0.0))]));
    assert!(verdict.advice.is_empty());
    assert_eq!(verdict.tried[0].standing, Standing::Worse);
}

#[test]
fn a_difference_below_the_scatter_is_none() {
    // Every pair differs by 40 % to either side, and all of them by 3 % more to one.
    let pair = |at: usize| {
        let by = if at.is_multiple_of(2) { 1.4 } else { 0.66 };
        TrialPair { off: block(150, 80_000, 0.1), on: block(150, (80_000.0 * by * 0.97) as u64, 0.1) }
    };
    let run = run_of(vec![trial("timer-slack", "timer slack 1 ns", (0..400).map(pair).collect())]);
    let verdict = Verdict::from_run(&run);
    assert!(verdict.advice.is_empty(), "{:?}", verdict.advice);
    assert_eq!(verdict.tried[0].cases[0].p50.outcome, Outcome::NoDifference);
}

/// The names of the advices, each with its variants.
fn advised(run: &Run) -> Vec<(String, Vec<String>)> {
    let variants =
        |advice: &punctual_report::verdict::Advice| advice.equal.iter().map(|remedy| remedy.what.clone()).collect();
    Verdict::from_run(run).advice.iter().map(|advice| (advice.what.clone(), variants(advice))).collect()
}

/// Timer slack, and SCHED_FIFO, which needs a privilege.
fn slack_and_fifo(slack_ns: u64, fifo_ns: u64) -> Run {
    let price = Price { privilege: Some("CAP_SYS_NICE".into()), ..Price::default() };
    run_of(vec![
        Trial { price, ..trial("policy", "SCHED_FIFO 40", pairs(12, 150, 81_000, fifo_ns, 0.0)) },
        trial("timer-slack", "timer slack 1 ns", pairs(12, 150, 81_000, slack_ns, 0.0)),
    ])
}

#[test]
fn equal_remedies_are_one_advice_without_privilege_first() {
    let run = slack_and_fifo(30_000, 30_500);
    assert_eq!(advised(&run), [("timer slack 1 ns".to_owned(), vec!["SCHED_FIFO 40".to_owned()])]);
    let text = said(&run);
    assert!(
        text.contains(
            "no privilege. Equal at p50, within 2.31 µs, and at p99, within 4.62 µs: SCHED_FIFO 40 (CAP_SYS_NICE)."
        ),
        "{text}"
    );
}

#[test]
fn remedies_of_unlike_gains_or_causes_are_several_advices() {
    // The policy gains half as much again.
    assert_eq!(advised(&slack_and_fifo(50_000, 30_000)).len(), 2);
    assert!(!said(&slack_and_fifo(50_000, 30_000)).contains("Equal here"));
    // One CPU gains as much as less slack by chance: no cause is common to both.
    let alike = |id| trial(id, id, pairs(12, 150, 81_000, 30_000, 0.0));
    assert_eq!(advised(&run_of(vec![alike("timer-slack"), alike("cpu")])).len(), 2);
    // As much again, but without slack in the causes.
    let mut run = slack_and_fifo(30_000, 30_500);
    run.causes.as_mut().unwrap().calls.clear();
    assert_eq!(advised(&run).len(), 2);
    // p99 tells them apart.
    let mut run = slack_and_fifo(30_000, 30_500);
    let policy = &mut run.causes.as_mut().unwrap().trials[0];
    for pair in &mut policy.pairs {
        let late = pair.on.timer.as_mut().unwrap();
        late.p99_ns = Some(31_000);
    }
    assert_eq!(advised(&run).len(), 2);
}

#[test]
fn a_gain_beyond_its_cause_has_a_word() {
    let beyond = "That is more than timer slack took of a wake-up before the trials: 50.0 µs.";
    let tried = |on_ns| run_of(vec![trial("timer-slack", "timer slack 1 ns", pairs(12, 150, 131_000, on_ns, 0.0))]);
    assert_eq!(said(&tried(60_000)).matches(beyond).count(), 3, "{}", said(&tried(60_000)));
    assert!(!said(&tried(80_000)).contains("took of a wake-up before"), "{}", said(&tried(80_000)));
    // What one CPU may change is not known.
    let cpu = run_of(vec![trial("cpu", "CPU 1 only", pairs(12, 150, 131_000, 30_000, 0.0))]);
    assert!(!said(&cpu).contains("took of a wake-up before"));
    // Nor what slack took, where no wake-up was split.
    let mut unknown = tried(60_000);
    unknown.causes.as_mut().unwrap().calls.clear();
    assert!(!said(&unknown).contains("took of a wake-up before"));
}

#[test]
fn disturbed_pairs_are_left_out_and_said() {
    let disturbed = |run_delay_ns, stolen_ns| {
        let mut trial = trial("timer-slack", "timer slack 1 ns", pairs(12, 150, 81_000, 30_000, 0.0));
        for pair in &mut trial.pairs[..3] {
            pair.off = TrialBlock { run_delay_ns, stolen_ns, ..block(150, 400_000, 0.1) };
        }
        run_of(vec![trial])
    };
    let left_out = "9 pairs, without 3 in which others took the CPU far more than usual.";
    for run in [disturbed(Some(60_000_000), Some(0)), disturbed(None, Some(20_000_000))] {
        assert!(said(&run).contains(left_out), "{}", said(&run));
        let gain = Verdict::from_run(&run).advice[0].cases[0].p50.better().unwrap();
        assert!((gain.ns - 51_000).abs() < 2_000, "{gain:?}");
    }
    // Little more than the others, or unknown: nothing is left out.
    for run in [disturbed(Some(3_000_000), Some(0)), disturbed(None, None)] {
        assert!(said(&run).contains("; 12 pairs.") && !said(&run).contains("far more than usual"), "{}", said(&run));
    }
}

#[test]
fn too_few_undisturbed_pairs_are_not_tested() {
    let mut trial = trial("timer-slack", "timer slack 1 ns", pairs(8, 150, 81_000, 30_000, 0.0));
    trial.pairs[..3].iter_mut().for_each(|pair| pair.on.run_delay_ns = Some(90_000_000));
    let text = said(&run_of(vec![trial]));
    let why = "5 of 8 pairs of blocks have 10 in each and were not disturbed, and a test takes 6";
    assert!(text.contains(why) && !text.contains("no difference shown at p50"), "{text}");
}

#[test]
fn a_machine_that_is_always_busy_leaves_no_pair_out() {
    let mut trial = trial("timer-slack", "timer slack 1 ns", pairs(12, 150, 81_000, 30_000, 0.0));
    for pair in &mut trial.pairs {
        (pair.off.run_delay_ns, pair.on.run_delay_ns) = (Some(90_000_000), Some(70_000_000));
    }
    assert!(said(&run_of(vec![trial])).contains("; 12 pairs."));
}

#[test]
fn a_run_without_trials_has_no_word_of_them() {
    let text = said(&program_run());
    assert!(text.contains("Its gain was not measured in this run."));
    assert!(!said(&mixed()).contains("Its gain was not measured"));
    for word in ["Remedies tried", "remedies tried", "Not tried", "No difference shown:", "Too few wake-ups"] {
        assert!(!text.contains(word), "{word}");
    }
}

#[test]
fn names_from_a_file_do_not_reach_a_terminal_as_they_are() {
    let mut evil = trial("x\u{1b}[2J", "y\u{1b}[2J", pairs(12, 150, 81_000, 30_000, 0.0));
    evil.price.privilege = Some("z\u{1b}[2J".into());
    evil.refused = refused("w\u{1b}[2J", Some("v\u{1b}[2J"));
    let also = Trial { pairs: Vec::new(), ..evil.clone() };
    let text = shown(&run_of(vec![evil, also]), &Style::default());
    assert!(!text.contains('\u{1b}'), "{text:?}");
}
