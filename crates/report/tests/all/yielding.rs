//! The text of yielding and polling, of runs made by hand.

use crate::common::{Made, histogram, run, samples, set, summary};
use crate::forms::shown;
use insta::assert_snapshot;
use punctual_record::experiment::polls::{self, Load, SenderPlace};
use punctual_record::experiment::yielding::{self, CompetitorKind, Rank};
use punctual_record::{About, Experiment, Quantity, RoundFigures, Run, Series, Typed};
use punctual_report::verdict::{Advice, Goal, Standing};
use punctual_report::{Style, Verdict};

fn series(experiment: Experiment, subject: &str, quantity: Quantity, median: i64, count: usize) -> Series {
    let samples = samples(median, count);
    Series {
        experiment,
        subject: subject.into(),
        conditions: "SCHED_OTHER".into(),
        quantity,
        summary: summary(&samples),
        histogram: Some(histogram(&samples)),
        ..Made::sleep("nanosleep", "SCHED_OTHER", median).series()
    }
}

/// A method alone.
pub(crate) fn alone(subject: &str, ns: i64, observed: &str) -> Series {
    let metrics = yielding::Metrics {
        bare_ns: Some(ns as f64),
        bare_cpu_ns: Some(ns as f64 * 0.75),
        user_ns_per_op: Some(ns as f64 / 4.0),
        system_ns_per_op: Some(ns as f64 / 2.0),
        observed: Some(observed.into()),
        ..yielding::Metrics::default()
    };
    let experiment = Experiment::Yield(Typed { parameters: yielding::Parameters::default(), metrics });
    series(experiment, subject, Quantity::CallCost, ns + 20, 3000)
}

/// A method with a competitor: its calls and, where it yields, those that did.
pub(crate) fn against(
    subject: &str,
    (policy, rank): (&str, Rank),
    shares: (f64, f64),
    (ns, away): (i64, Option<i64>),
) -> Vec<Series> {
    let sleeps = subject.contains("sleep");
    let parameters = yielding::Parameters {
        competitors: 1,
        competitor_kind: Some(CompetitorKind::Process),
        competitor_policy: Some(policy.into()),
        competitor_rank: Some(rank),
    };
    let metrics = yielding::Metrics {
        yielded_share: Some(shares.0),
        competitor_cpu_share: Some(shares.1),
        own_cpu_share: Some(1.0 - shares.1),
        observed: Some(match subject {
            "sched_yield" => "sched_yield".into(),
            _ if sleeps => "clock_nanosleep".into(),
            _ => "some_call".into(),
        }),
        ..yielding::Metrics::default()
    };
    let none = Experiment::Yield(Typed::asked(parameters.clone()));
    let calls = Experiment::Yield(Typed { parameters, metrics });
    let mut calls = Series {
        voluntary_switches_per_op: Some(if sleeps { shares.0 } else { 0.0 }),
        involuntary_switches_per_op: Some(if sleeps { 0.0 } else { shares.0 }),
        about: About { call: Some(format!("{subject}()")), ..About::default() },
        ..series(calls, subject, Quantity::CallCost, ns, 3000)
    };
    for round in &mut calls.rounds {
        let competitor = shares.1 + [-0.004, 0.0, 0.004][round.round as usize % 3];
        (round.competitor_cpu_share, round.own_cpu_share) = (Some(competitor), Some(1.0 - competitor));
    }
    let away = away.map(|ns| series(none, subject, Quantity::Away, ns, 1000));
    std::iter::once(calls).chain(away).collect()
}

pub(crate) fn yield_run(command: &[&str], series: Vec<Series>) -> Run {
    Run { series, ..run(command, vec![set("SCHED_OTHER", "other", None, 50_000)], &[]) }
}

pub(crate) fn usual() -> Vec<Series> {
    let mut all = vec![
        alone("sched_yield", 400, "sched_yield"),
        alone("usleep0", 70_000, "clock_nanosleep"),
        alone("nanosleep0", 70_000, "clock_nanosleep"),
        alone("pause", 20, "none"),
    ];
    let same = ("as found", Rank::Same);
    all.extend(against("sched_yield", same, (0.36, 0.997), (750, Some(4_000_000))));
    all.extend(against("usleep0", same, (0.999, 0.81), (63_000, Some(63_000))));
    all.extend(against("nanosleep0", same, (0.999, 0.81), (63_000, Some(63_000))));
    all.extend(against("pause", same, (0.000_01, 0.5), (40, None)));
    all.extend(against("pause", ("SCHED_FIFO 50", Rank::Higher), (0.02, 0.5), (40, Some(1_000_000))));
    all
}

#[test]
fn tables_and_words_of_yielding() {
    let run = yield_run(&["punctual", "yield"], usual());
    assert_snapshot!(shown(&run, &Style { width: 160, ..Style::default() }));
}

#[test]
fn where_the_caller_goes_first_another_situation_says_more_and_each_is_named() {
    let lower = |series: Vec<Series>| -> Vec<Series> {
        series.into_iter().map(|series| Series { conditions: "SCHED_FIFO 10".into(), ..series }).collect()
    };
    let first = lower(against("sched_yield", ("as found", Rank::Lower), (0.0, 0.0), (480, None)));
    let nicer = against("sched_yield", ("nice 5", Rank::Same), (0.17, 0.4), (670, Some(23_600_000)));
    let answer = |series: Vec<Series>| {
        Verdict::from_run(&yield_run(&["punctual", "yield"], series)).answer.join(" ").replace('\u{a0}', " ")
    };
    let both = answer([first.clone(), nicer].concat());
    assert!(both.starts_with("With 1 competitor under nice 5 on its CPU, caller under SCHED_OTHER: "), "{both}");
    assert!(!both.contains("No method let others run"), "{both}");
    let alone = answer(first);
    assert!(alone.starts_with("No method let others run."), "the only situation: {alone}");
}

#[test]
fn nothing_is_wider_than_the_terminal() {
    for width in [40, 60, 80, 100] {
        let run = yield_run(&["punctual", "yield"], usual());
        let text = shown(&run, &Style { width, ..Style::default() });
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
    }
}

/// What is advised for a goal: what to use, instead of what.
fn advised(run: &Run, goal: Goal) -> Vec<(String, String)> {
    let advice = Verdict::from_run(run).advice.into_iter().filter(|advice| advice.goal == goal);
    advice.map(|advice| (advice.what, advice.instead_of)).collect()
}

fn pair(what: &str, instead_of: &str) -> (String, String) {
    (what.to_owned(), instead_of.to_owned())
}

/// CFS: sched_yield goes on running, sleeps of nothing leave a competitor more than its half.
pub(crate) fn on_cfs() -> Vec<Series> {
    let same = ("as found", Rank::Same);
    let mut all = vec![
        alone("sched_yield", 400, "sched_yield"),
        alone("usleep0", 55_000, "clock_nanosleep"),
        alone("nanosleep0", 55_000, "clock_nanosleep"),
    ];
    all.extend(against("sched_yield", same, (0.000_1, 0.49), (650, Some(4_000_000))));
    all.extend(against("usleep0", same, (0.997, 0.63), (110_000, Some(110_000))));
    all.extend(against("nanosleep0", same, (0.997, 0.631), (110_000, Some(110_100))));
    all
}

#[test]
fn advice_follows_the_goal() {
    let run = yield_run(&["punctual", "yield"], usual());
    // EEVDF: sched_yield leaves a competitor more, and is away for a time slice.
    assert_eq!(advised(&run, Goal::LetOthersRun), [pair("sched_yield()", "usleep0()")]);
    // What is back sooner is the price of that, and no second advice with the opposite.
    assert!(advised(&run, Goal::BackSoon).is_empty());
    let verdict = Verdict::from_run(&run);
    assert_eq!(
        verdict.answer,
        [
            "To let others run: sched_yield. A competitor gets 100\u{a0}% of the CPU time of both; with usleep0, 81\u{a0}%.",
            "To be back soon: usleep0 or nanosleep0. Away for 63.0\u{a0}µs at p50 with a competitor; with sched_yield, 4.00\u{a0}ms.",
            "A call alone on its CPU, in a loop of such calls, takes 400\u{a0}ns with sched_yield and 70.0\u{a0}µs with usleep0.",
        ]
    );
    let text: Vec<String> = verdict.advice.iter().map(|advice| advice.text()).collect();
    assert!(
        text.iter().any(|text| text.starts_with("others get 100\u{a0}% of the CPU time of both instead of 81\u{a0}%")),
        "{text:?}"
    );
    assert!(text.iter().any(|text| text.contains("3.93\u{a0}ms later back at p50")), "{text:?}");
    let soon: Vec<&Advice> = verdict.tried.iter().filter(|advice| advice.goal == Goal::BackSoon).collect();
    let [soon] = soon[..] else { panic!("{:?}", verdict.tried) };
    assert_eq!((soon.standing, soon.what.as_str()), (Standing::Mixed, "usleep0()"));
    let text = soon.text();
    assert!(text.contains("others get 81\u{a0}% of the CPU time of both instead of 100\u{a0}%"), "{text}");
    assert!(text.contains("a call alone takes 70.0\u{a0}µs instead of 400\u{a0}ns"), "{text}");
}

/// Where sched_yield does not yield, it is advised for nothing.
#[test]
fn a_call_that_does_not_yield_is_never_advised() {
    let run = yield_run(&["punctual", "checkup"], on_cfs());
    let verdict = Verdict::from_run(&run);
    assert!(verdict.advice.iter().all(|advice| !advice.what.contains("sched_yield")), "{verdict:?}");
    assert_eq!(advised(&run, Goal::LetOthersRun), [pair("usleep0()", "sched_yield()")]);
    assert_eq!(verdict.advice[0].equal.len(), 1, "nanosleep0 leaves as much");
    let answer = verdict.answer.join(" ");
    assert!(answer.contains("To let others run: nanosleep0 or usleep0."), "{answer}");
    assert!(
        answer.contains("sched_yield does not yield here: a competitor ran in <0.1\u{a0}% of the calls"),
        "{answer}"
    );
    assert!(answer.contains("To be back soon: usleep0 or nanosleep0."), "{answer}");
}

/// Linux 7.2 and later: sleeps of nothing return at once. A competitor runs only when the scheduler preempts them.
pub(crate) fn on_7_3() -> Vec<Series> {
    let same = ("as found", Rank::Same);
    let mut all = vec![alone("sched_yield", 400, "sched_yield"), alone("usleep0", 420, "clock_nanosleep")];
    all.extend(against("sched_yield", same, (0.92, 0.97), (1_500_000, Some(1_500_000))));
    all.extend(against("usleep0", same, (0.002, 0.5), (430, Some(3_000_000))));
    all.extend(against("nanosleep0", same, (0.001, 0.5), (430, Some(3_000_000))));
    all
}

/// The advice follows from what the calls did, not from their names: the same calls, on two kernels.
#[test]
fn a_sleep_that_gives_up_no_cpu_is_advised_for_nothing() {
    let run = yield_run(&["punctual", "yield"], on_7_3());
    let verdict = Verdict::from_run(&run);
    assert_eq!(advised(&run, Goal::LetOthersRun), [pair("sched_yield()", "usleep0()")]);
    // The only call that yields: nothing to use instead of it, and no call that does not yield to replace.
    assert!(advised(&run, Goal::BackSoon).is_empty(), "{verdict:?}");
    assert!(verdict.tried.iter().all(|advice| advice.goal != Goal::BackSoon), "{verdict:?}");
    assert_eq!(
        verdict.answer,
        [
            "To let others run: sched_yield. A competitor gets 97\u{a0}% of the CPU time of both.",
            "To be back soon: only sched_yield yields. Away for 1.50\u{a0}ms at p50 with a competitor.",
            "usleep0 does not yield here: it slept in 0.2\u{a0}% of the calls. A competitor ran in 0.2\u{a0}% of them and got 50\u{a0}% of the CPU.",
            "A call alone on its CPU, in a loop of such calls, takes 400\u{a0}ns with sched_yield and 420\u{a0}ns with usleep0.",
        ]
    );
    let words = |series| {
        let text = shown(&yield_run(&["punctual", "yield"], series), &Style::default());
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let ended = "Sleeps that ended before the thread gave up the CPU (ru_nvcsw): usleep0 and nanosleep0.";
    let slept = "Voluntary, because they wait (ru_nvcsw): usleep0 and nanosleep0.";
    let (before, since) = (words(usual()), words(on_7_3()));
    assert!(since.contains(ended) && !since.contains(slept), "{since}");
    assert!(before.contains(slept) && !before.contains(ended), "{before}");
    assert!(!before.contains("usleep0 does not yield") && !before.contains("it slept in"), "{before}");
    // A call that was not seen to sleep has no such sentence, although it yields as little.
    let mut unseen = on_7_3();
    for series in &mut unseen {
        if let Experiment::Yield(typed) = &mut series.experiment {
            typed.metrics.observed = None;
        }
    }
    let unseen = words(unseen);
    assert!(unseen.contains("usleep0 does not yield here") && !unseen.contains("slept"), "{unseen}");
}

/// Two variants of a call alone, with 50 µs of timer slack and with 1 ns.
fn with_slacks(voluntary: f64) -> String {
    let call = |label: &str, ns: i64| Series {
        conditions: label.into(),
        voluntary_switches_per_op: Some(voluntary),
        ..alone("usleep0", ns, "clock_nanosleep")
    };
    let sets = vec![set("slack 50 µs", "other", None, 50_000), set("slack 1 ns", "other", None, 1)];
    let series = vec![call("slack 50 µs", 70_000), call("slack 1 ns", 15_000)];
    let run = Run { series, ..run(&["punctual", "yield"], sets, &[]) };
    shown(&run, &Style::default()).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn timer_slack_is_part_of_calls_that_sleep_only() {
    let slack = "Timer slack is a part of what a sleep of nothing costs: usleep0 costs 70.0 µs with 50 µs of slack and 15.0 µs with 1 ns.";
    assert!(with_slacks(1.0).replace('\u{a0}', " ").contains(slack), "{}", with_slacks(1.0));
    assert!(!with_slacks(0.0).contains("Timer slack is a part"), "{}", with_slacks(0.0));
}

/// The same figures, with rounds that scatter as widely as the shares differ; then without rounds.
#[test]
fn nothing_is_advised_below_the_scatter_or_untested() {
    let altered = |alter: fn(&mut Series)| {
        let mut all = usual();
        all.iter_mut().for_each(alter);
        yield_run(&["punctual", "yield"], all)
    };
    let scattered = altered(|series| {
        let around = |share: f64, odd: bool| if odd { share + 0.45 } else { share - 0.45 };
        for round in &mut series.rounds {
            let odd = (round.round % 2 == 1) == (series.subject == "sched_yield");
            round.competitor_cpu_share = round.competitor_cpu_share.map(|share| around(share, odd));
            round.own_cpu_share = round.competitor_cpu_share.map(|share| 1.0 - share);
        }
        if series.quantity == Quantity::Away && series.subject == "usleep0" {
            for round in &mut series.rounds {
                let ns = Some(if round.round % 2 == 1 { 40_000 } else { 90_000_000 });
                (round.summary.p50, round.summary.p99) = (ns, ns);
            }
        }
    });
    assert!(advised(&scattered, Goal::LetOthersRun).is_empty());
    assert!(!advised(&scattered, Goal::BackSoon).contains(&pair("usleep0()", "sched_yield()")));
    let answer = Verdict::from_run(&scattered).answer.join(" ");
    assert!(answer.contains("No call is shown to let others run"), "{answer}");
    let unknown = altered(|series| series.rounds.clear());
    let verdict = Verdict::from_run(&unknown);
    assert!(verdict.advice.is_empty() && !verdict.tried.is_empty(), "{verdict:?}");
    assert!(verdict.tried.iter().all(|advice| advice.standing == Standing::NotTested), "{verdict:?}");
    assert!(verdict.answer.iter().take(2).all(|sentence| sentence.contains("not tested")), "{:?}", verdict.answer);
    // Where nothing was measured of it, nothing is said.
    let run = yield_run(&["punctual", "checkup"], vec![alone("pause", 20, "none")]);
    assert!(!shown(&run, &Style::default()).contains("What to do"));
    assert!(Verdict::from_run(&run).answer.is_empty());
}

#[test]
fn words_say_what_is_voluntary() {
    let run = yield_run(&["punctual", "yield"], usual());
    let text: String = shown(&run, &Style::default()).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Voluntary, because they wait (ru_nvcsw): usleep0 and nanosleep0."), "{text}");
    assert!(text.contains("counts as involuntary (ru_nivcsw): sched_yield."), "{text}");
    assert!(text.contains("Preempted only (ru_nivcsw): pause."), "{text}");
    let mut without = usual();
    without.iter_mut().for_each(|series| series.voluntary_switches_per_op = None);
    let run = yield_run(&["punctual", "yield"], without);
    assert!(!shown(&run, &Style::default()).contains("ru_nvcsw"));
}

/// Foreign programs take half of this CPU, in some rounds more than in others. What either call leaves to others stays what it is.
#[test]
fn what_is_left_to_others_does_not_depend_on_who_else_is_there() {
    let beside = |foreign: fn(u32, &str) -> f64| {
        let mut all = usual();
        for series in &mut all {
            let subject = series.subject.clone();
            for round in &mut series.rounds {
                let left = 1.0 - foreign(round.round, &subject);
                for share in [&mut round.competitor_cpu_share, &mut round.own_cpu_share] {
                    *share = share.map(|share| share * left);
                }
            }
            if let Experiment::Yield(typed) = &mut series.experiment {
                let mean = |figure: fn(&RoundFigures) -> Option<f64>| {
                    let all: Vec<f64> = series.rounds.iter().filter_map(figure).collect();
                    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
                };
                typed.metrics.competitor_cpu_share = mean(|round| round.competitor_cpu_share);
                typed.metrics.own_cpu_share = mean(|round| round.own_cpu_share);
            }
        }
        yield_run(&["punctual", "yield"], all)
    };
    let expected = [pair("sched_yield()", "usleep0()")];
    // Those that compete with sched_yield meet more of them: a competitor gets less of the CPU than with usleep0.
    let unequal =
        beside(|round, subject| 0.2 + 0.1 * f64::from(round % 3) + if subject == "sched_yield" { 0.4 } else { 0.0 });
    assert_eq!(advised(&unequal, Goal::LetOthersRun), expected);
    let reverse: Vec<_> = Verdict::from_run(&unequal).answer;
    assert!(reverse[0].starts_with("To let others run: sched_yield."), "{reverse:?}");
    assert_eq!(advised(&beside(|_, _| 0.0), Goal::LetOthersRun), expected);
}

/// A way of waiting for a message: `(idle, busy)` latency and the shares of the busy program and the receiver.
pub(crate) fn way(subject: &str, polls: Option<u32>, latency: (i64, i64), shares: (f64, f64)) -> Vec<Series> {
    let mut all = Vec::new();
    for (load, ns) in [(Load::Idle, latency.0), (Load::Busy, latency.1)] {
        for (quantity, ns) in [(Quantity::OneWay, ns), (Quantity::RoundTrip, 2 * ns)] {
            let told = load == Load::Busy && quantity == Quantity::OneWay;
            let metrics = polls::Metrics {
                competitor_cpu_share: told.then_some(shares.0),
                own_cpu_share: told.then_some(shares.1),
            };
            let parameters = polls::Parameters { load, sender: SenderPlace::OtherCpu, polls };
            let mut series = Series {
                about: About { call: Some(format!("{subject}()")), ..About::default() },
                ..series(Experiment::Polls(Typed { parameters, metrics }), subject, quantity, ns, 3000)
            };
            for round in series.rounds.iter_mut().filter(|_| told) {
                let wave = [-0.004, 0.0, 0.004][round.round as usize % 3];
                (round.competitor_cpu_share, round.own_cpu_share) = (Some(shares.0 + wave), Some(shares.1));
            }
            all.push(series);
        }
    }
    all
}

pub(crate) fn settings() -> Vec<Series> {
    [
        way("never_yields", Some(0), (105, 1090), (0.49, 0.5)),
        way("sched_yield", Some(1), (380, 1_890_000), (0.992, 0.002)),
        way("sched_yield", Some(100), (104, 1_790_000), (0.995, 0.003)),
        way("sched_yield", Some(100_000), (115, 334_000), (0.53, 0.46)),
        way("usleep0", Some(1), (37_200, 30_700), (0.81, 0.19)),
        way("usleep0", Some(100_000), (131, 1590), (0.49, 0.5)),
        way("futex_wait", None, (25_200, 21_900), (0.998, 0.001)),
    ]
    .concat()
}

#[test]
fn tables_and_words_of_polling() {
    let run = yield_run(&["punctual", "yield", "--polls", "0,1,100"], settings());
    assert_snapshot!(shown(&run, &Style { width: 160, ..Style::default() }));
}

#[test]
fn a_setting_beaten_in_both_is_not_on_the_front() {
    let run = yield_run(&["punctual", "yield"], settings());
    let text: String = shown(&run, &Style::default()).split_whitespace().collect::<Vec<_>>().join(" ");
    // After 1 poll: slower and leaves less than after 100; after 100 000: slower and leaves less.
    assert!(text.contains("sched_yield: 100 polls: 104 ns, 100 %."), "{text}");
    assert!(text.contains("usleep0: 100 000 polls: 131 ns, 49 %; 1 poll: 37.3 µs, 81 %."), "{text}");
}

#[test]
fn the_head_says_how_many_polls() {
    let run = yield_run(&["punctual", "yield", "--polls", "0,1,100"], settings());
    let verdict = Verdict::from_run(&run);
    let answer = verdict.answer.join("\n").replace('\u{a0}', " ");
    // On an idle CPU never yielding is as quick, but leaves others half of the CPU.
    assert!(answer.contains("On an idle CPU: sched_yield after 100 polls. A message takes 104 ns at p50; with futex_wait, 25.2 µs. A busy program gets 100 % of the CPU time of both. No difference shown from never_yields."), "{answer}");
    assert!(answer.contains("On a busy CPU: never_yields. A message takes 1.09 µs at p50; with futex_wait, 21.9 µs. A busy program gets 49 % of the CPU time of both."), "{answer}");
    let advised: Vec<(&str, &str)> =
        verdict.advice.iter().map(|advice| (advice.what.as_str(), advice.cases[0].case.as_str())).collect();
    assert!(advised.contains(&("sched_yield after 100 polls", "on an idle CPU")), "{advised:?}");
    // A message to a yielding receiver waits for a time slice of the busy program.
    assert!(!advised.contains(&("sched_yield after 100 polls", "on a busy CPU")), "{advised:?}");
    let spins = verdict.advice.iter().find(|advice| advice.what == "never_yields").unwrap();
    assert!(
        spins.text().contains("others get 49\u{a0}% of the CPU time of both instead of 100\u{a0}%"),
        "{}",
        spins.text()
    );
}

/// The rounds of one way scatter so much that no test tells it from a way that is a hundred times as quick: it is not as good.
#[test]
fn what_no_test_tells_apart_is_not_the_advice() {
    let mut all = settings();
    all.extend(way("backoff", None, (26_200, 30_000), (0.997, 0.002)));
    for series in all.iter_mut().filter(|series| series.subject == "backoff") {
        for round in &mut series.rounds {
            round.summary.p50 = Some(if round.round < 5 { 60 } else { 900_000 });
        }
    }
    let answer = Verdict::from_run(&yield_run(&["punctual", "yield"], all)).answer;
    let idle = answer.iter().find(|sentence| sentence.starts_with("On an idle CPU")).unwrap();
    assert!(idle.starts_with("On an idle CPU: sched_yield after 100 polls."), "{idle}");
    assert!(
        !idle.contains("No difference shown from backoff") && idle.contains("Undecided against backoff."),
        "{idle}"
    );
}

/// Rounds that overlap show no difference, and without rounds nothing was tested.
#[test]
fn no_number_of_polls_is_advised_below_the_scatter_or_untested() {
    let mut scattered = settings();
    for series in &mut scattered {
        let spins = series.subject != "futex_wait";
        for round in &mut series.rounds {
            round.summary.p50 = Some(if (round.round % 2 == 1) == spins { 10 } else { 90_000_000 });
            round.summary.p99 = round.summary.p50;
        }
    }
    let verdict = Verdict::from_run(&yield_run(&["punctual", "yield"], scattered));
    assert!(verdict.advice.is_empty(), "{:?}", verdict.advice);
    assert!(verdict.answer.iter().all(|sentence| !sentence.contains("; with futex_wait")), "{:?}", verdict.answer);
    let mut unknown = settings();
    unknown.iter_mut().for_each(|series| series.rounds.clear());
    let verdict = Verdict::from_run(&yield_run(&["punctual", "yield"], unknown));
    assert!(verdict.advice.is_empty(), "{:?}", verdict.advice);
    assert!(verdict.answer.iter().all(|sentence| sentence.contains("was not tested")), "{:?}", verdict.answer);
    assert!(!verdict.answer.is_empty());
}

#[test]
fn half_a_run_is_told_as_far_as_it_goes() {
    let mut incomplete = settings();
    incomplete.retain(|s| s.experiment.polls().unwrap().parameters.load == Load::Idle);
    let run = Run { complete: false, ..yield_run(&["punctual", "yield"], incomplete) };
    let text = shown(&run, &Style::default());
    assert!(text.contains("Incomplete") && text.contains("105 ns") && !text.contains("On a busy CPU"), "{text}");
}
