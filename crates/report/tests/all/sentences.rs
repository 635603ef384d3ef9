//! Sentences of first screens, each with a run of which it is said and with runs of which it must not be.

use crate::calibrate::{FOUND, proof, several};
use crate::common::few_rounds;
use crate::governors::{self, OLD, boosted, task};
use crate::ipc::{FULL, PING, ipc_run, series as messages};
use crate::ramp::{self, after_a_rest, governor, ramp};
use crate::yielding::{against, alone, on_7_3, on_cfs, settings, usual, way, yield_run};
use punctual_record::experiment::boost;
use punctual_record::experiment::yielding::Rank;
use punctual_record::{Experiment, Notice, Quantity, Run, Series};
use punctual_report::Verdict;

/// A part of a sentence, a run that has it, and runs that do not, each with the reason.
type Case = (&'static str, Run, Vec<(&'static str, Run)>);

fn holds(cases: Vec<Case>) {
    for (part, saying, silent) in cases {
        let answer = |run: &Run| Verdict::from_run(run).answer.join("\n").replace('\u{a0}', " ");
        assert!(answer(&saying).contains(part), "{part:?} is missing: {}", answer(&saying));
        for (why, run) in silent {
            assert!(!answer(&run).contains(part), "{why}: {part:?} is said: {}", answer(&run));
        }
    }
}

fn busy(mut run: Run) -> Run {
    run.notices.push(Notice::BusyMachine { share: 0.9 });
    run
}

fn yields(series: Vec<Series>) -> Run {
    yield_run(&["punctual", "yield"], series)
}

/// The same with this change of each series.
fn with(mut series: Vec<Series>, change: fn(&mut Series)) -> Vec<Series> {
    series.iter_mut().for_each(change);
    series
}

/// Rounds whose figures and shares scatter by more than calls differ, those of this call against all others.
fn scatter(series: &mut Series, call: &str) {
    for round in &mut series.rounds {
        let high = (round.round % 2 == 1) == (series.subject == call);
        round.competitor_cpu_share = round.competitor_cpu_share.map(|_| if high { 0.99 } else { 0.1 });
        round.own_cpu_share = round.competitor_cpu_share.map(|share| 1.0 - share);
        round.summary.p50 = Some(if high { 90_000_000 } else { 10 });
        round.summary.p99 = round.summary.p50;
    }
}

#[test]
fn of_yielding() {
    let same = ("as found", Rank::Same);
    let few = || few_rounds(yields(usual()));
    let alike = || {
        [
            against("sched_yield", same, (0.9, 0.81), (750, Some(63_000))),
            against("usleep0", same, (0.9, 0.81), (63_000, Some(63_000))),
        ]
        .concat()
    };
    holds(vec![
        (
            "To let others run: sched_yield.",
            yields(usual()),
            vec![
                ("few rounds", few()),
                ("it scatters", yields(with(usual(), |series| scatter(series, "sched_yield")))),
                ("it leaves no more than its half", yields(on_cfs())),
            ],
        ),
        ("; with usleep0, 81 %", yields(usual()), vec![("few rounds", few()), ("both leave as much", yields(alike()))]),
        (
            "No call is shown to let others run",
            yields(with(usual(), |series| scatter(series, "sched_yield"))),
            vec![("sched_yield does", yields(usual())), ("not tested", few())],
        ),
        ("Which call lets others run was not tested", few(), vec![("it was", yields(usual()))]),
        (
            "To be back soon: usleep0 or nanosleep0.",
            yields(usual()),
            vec![("few rounds", few()), ("another is back first", yields(on_7_3()))],
        ),
        (
            "; with sched_yield, 4.00 ms",
            yields(usual()),
            vec![("few rounds", few()), ("both are away as long", yields(alike()))],
        ),
        (
            "only sched_yield yields",
            yields(on_7_3()),
            vec![("others do too", yields(usual())), ("few rounds", few_rounds(yields(on_7_3())))],
        ),
        (
            "sched_yield does not yield here",
            yields(on_cfs()),
            vec![("it does", yields(usual())), ("few rounds", few_rounds(yields(on_cfs())))],
        ),
        (
            "A call alone on its CPU, in a loop of such calls, takes",
            yields(usual()),
            vec![
                ("few rounds", few()),
                ("other programs were there", busy(yields(usual()))),
                ("no competitor to compare with", yields(vec![alone("sched_yield", 400, "sched_yield")])),
            ],
        ),
        (
            "in a loop of such calls beside other programs, takes",
            busy(yields(usual())),
            vec![("nobody was there", yields(usual()))],
        ),
        (
            "A usleep(0) costs 175 times what a sched_yield() does.",
            yields(vec![alone("sched_yield", 400, "sched_yield"), alone("usleep0", 70_000, "clock_nanosleep")]),
            vec![
                (
                    "it costs as much",
                    yields(vec![alone("sched_yield", 400, "sched_yield"), alone("usleep0", 420, "clock_nanosleep")]),
                ),
                ("one was measured", yields(vec![alone("usleep0", 70_000, "clock_nanosleep")])),
            ],
        ),
        (
            "The competitor runs before the caller whenever it is ready",
            yields(against("pause", ("SCHED_FIFO 50", Rank::Higher), (0.02, 0.5), (40, Some(1_000_000)))),
            vec![("neither goes first", yields(against("pause", same, (0.02, 0.5), (40, Some(1_000_000)))))],
        ),
    ]);
}

#[test]
fn of_numbers_of_polls() {
    let few = || few_rounds(yields(settings()));
    let without_blocking =
        || settings().into_iter().filter(|series| series.subject != "futex_wait").collect::<Vec<_>>();
    let quick = || {
        [way("never_yields", Some(0), (105, 1_090), (0.49, 0.5)), way("futex_wait", None, (104, 1_080), (0.998, 0.001))]
            .concat()
    };
    let distant = |series: &mut Series| {
        if series.subject == "usleep0" {
            series
                .rounds
                .iter_mut()
                .for_each(|round| round.summary.p50 = Some(if round.round < 5 { 60 } else { 900_000 }));
        }
    };
    holds(vec![
        (
            "On an idle CPU: sched_yield after 100 polls.",
            yields(settings()),
            vec![("few rounds", few()), ("it blocks as quickly, and leaves more", yields(quick()))],
        ),
        (
            "; with futex_wait, 25.2 µs",
            yields(settings()),
            vec![
                ("few rounds", few()),
                ("it was not measured", yields(without_blocking())),
                ("it scatters", yields(with(settings(), |series| scatter(series, "futex_wait")))),
            ],
        ),
        ("A busy program gets 100 %", yields(settings()), vec![("few rounds", few())]),
        ("No difference shown from never_yields.", yields(settings()), vec![("few rounds", few())]),
        (
            "Undecided against",
            yields(with(settings(), distant)),
            vec![("all are told apart", yields(quick())), ("few rounds", few())],
        ),
        ("was not tested", few(), vec![("it was", yields(settings()))]),
    ]);
}

#[test]
fn of_calibrations() {
    let few = || few_rounds(proof(-3_900, 100, 4_000));
    holds(vec![
        (
            "A nanosleep as found adds 70.",
            proof(-3_900, 100, 4_000),
            vec![("under other conditions", several(&[("nanosleep", "slack 1 ns", 70_100)]))],
        ),
        (
            "It works.",
            proof(100, 100, 4_000),
            vec![
                ("early", proof(-30_000, -20_000, 4_000)),
                ("late", proof(3_000, 5_000, 2_000)),
                ("few rounds", few()),
            ],
        ),
        (
            "adds 4.07 µs less.",
            proof(-3_900, 100, 4_000),
            vec![("exact", proof(100, 100, 4_000)), ("late", proof(3_000, 5_000, 2_000)), ("few rounds", few())],
        ),
        (
            "adds 2.93 µs more.",
            proof(3_000, 100, 2_000),
            vec![("exact", proof(100, 100, 4_000)), ("early", proof(-3_900, 100, 4_000)), ("few rounds", few())],
        ),
        ("not tested, too few rounds", few(), vec![("it was", proof(-3_900, 100, 4_000))]),
        (
            "Least: nanosleep under slack 1 ns",
            several(&[("nanosleep", FOUND, 70_400), ("nanosleep", "slack 1 ns", 20_300)]),
            vec![
                ("equals", several(&[("nanosleep", FOUND, 70_400), ("nanosleep", "slack 1 ns", 70_300)])),
                (
                    "few rounds",
                    few_rounds(several(&[("nanosleep", FOUND, 70_400), ("nanosleep", "slack 1 ns", 20_300)])),
                ),
            ],
        ),
        (
            "TS+TE is 24 ns",
            proof(-3_900, 100, 4_000),
            vec![("no reading without a sleep", several(&[("nanosleep", FOUND, 70_400)]))],
        ),
    ]);
}

#[test]
fn of_ramps() {
    let slow = || after_a_rest(ramp::SLOW, 8);
    let one = |subject: &str, rounds: &[Vec<i64>], transitions| governor([ramp(subject, rounds, transitions)]);
    let level = |ns: i64| vec![vec![ns; ramp::LOOPS]; ramp::ROUNDS];
    let two =
        |ns: i64| governor([ramp("performance", &level(ramp::BEST), Some(0)), ramp("ondemand", &level(ns), Some(3))]);
    let hidden = || Run { host: punctual_record::Host::default(), ..one("as found", &slow(), None) };
    let few = || one("ondemand", &slow()[..3], Some(9));
    let flat = || one("ondemand", &after_a_rest(ramp::FAST, 8), Some(9));
    holds(vec![
        (
            "ondemand reaches full speed after 12.0 ms of work",
            one("ondemand", &slow(), Some(9)),
            vec![
                ("few rounds", few()),
                ("as fast from the first loop on", flat()),
                ("no change was counted", one("ondemand", &slow(), Some(0))),
            ],
        ),
        ("ondemand is slower than performance", two(2_250_000), vec![("as fast", two(ramp::BEST)), ("alone", flat())]),
        ("the kernel exposes none", hidden(), vec![("it does", one("ondemand", &slow(), Some(9)))]),
        (
            "One speed by design, so no speed-up: performance",
            one("performance", &slow(), Some(3)),
            vec![("it follows the load", one("ondemand", &slow(), Some(3)))],
        ),
        (
            "The kernel counted no change of frequency",
            one("ondemand", &slow(), Some(0)),
            vec![("it counted some", flat()), ("it does not count", one("ondemand", &slow(), None))],
        ),
        (
            "No speed-up after a rest is shown for ondemand",
            flat(),
            vec![("it is", one("ondemand", &slow(), Some(9))), ("not tested", few())],
        ),
        ("Speed-up after a rest was not tested for ondemand", few(), vec![("it was", flat())]),
    ]);
}

#[test]
fn of_switches() {
    let write = || Series { quantity: Quantity::CallCost, ..OLD.switch() };
    let followed = || governors::run_of(vec![write(), OLD.switch()]);
    let unseen = || {
        let mut write = write();
        let all = write.summary.count;
        if let Experiment::Switch(typed) = &mut write.experiment {
            typed.metrics.not_seen = Some(all);
        }
        governors::run_of(vec![write])
    };
    let mut single = OLD.switch();
    single.summary.p50 = None;
    holds(vec![
        ("the new speed is there 40.2 µs after the write (p50)", followed(), vec![("it was not seen", unseen())]),
        (
            "after the write (few samples)",
            governors::run_of(vec![write(), single]),
            vec![("many", followed()), ("none", unseen())],
        ),
        ("no change of speed seen", unseen(), vec![("it was seen", followed())]),
        (
            "Nothing to see: the speed does not follow the governor here.",
            unseen(),
            vec![("it does", followed()), ("few rounds", few_rounds(unseen()))],
        ),
        (
            "Whether the speed follows the governor was not tested",
            few_rounds(unseen()),
            vec![("it was", unseen()), ("it was seen", few_rounds(followed()))],
        ),
    ]);
}

#[test]
fn of_boosts() {
    let plain = boost::Metrics::default;
    let two = |found, boost| governors::run_of(vec![task("as found", found, plain()), task("boost", boost, boosted())]);
    let few = || {
        let mut run = few_rounds(two(governors::SLOW, governors::FAST));
        run.series.iter_mut().for_each(|series| series.samples.as_mut().unwrap().truncate(150));
        run
    };
    let alone = || governors::run_of(vec![task("as found", governors::FAST, plain())]);
    let better = || two(governors::SLOW, governors::FAST);
    let worse = || two(governors::FAST, governors::SLOW);
    let same = || two(governors::FAST, governors::FAST);
    let mut free = better();
    for series in &mut free.series {
        series.cpu_ns_per_op = None;
        let Experiment::Boost(typed) = &mut series.experiment else { unreachable!() };
        (typed.metrics.raised_share, typed.metrics.power_mw) = (None, None);
    }
    holds(vec![
        (
            "The boost meets more deadlines: 270 of 300, 0 of 300 without it.",
            better(),
            vec![("fewer", worse()), ("as many", same()), ("few rounds", few())],
        ),
        (
            "The boost meets fewer deadlines: 0 of 300, 270 of 300 without it.",
            worse(),
            vec![("more", better()), ("as many", same()), ("few rounds", few())],
        ),
        (
            "No difference in deadlines met is shown",
            same(),
            vec![("more", better()), ("fewer", worse()), ("few rounds", few())],
        ),
        ("Fewer than 5 rounds: not tested.", few(), vec![("tested", better())]),
        ("No boost could be tried here.", alone(), vec![("it was tried", better())]),
        (
            "Under performance all the time, 270 of 300 are met.",
            governors::run_of(vec![
                task("as found", governors::SLOW, plain()),
                task("boost", governors::FAST, boosted()),
                task("performance", governors::FAST, plain()),
            ]),
            vec![("it was not tried", better())],
        ),
        (
            "Price of the boost: raised 12 % of the time",
            better(),
            vec![("the machine does not count it", free), ("no boost", alone())],
        ),
    ]);
}

/// Few rounds on a busy machine are blanks.
#[test]
fn of_few_rounds() {
    let pings = || vec![messages("pipe", PING, 6_100, 160_000.0), messages("posix-mq", PING, 4_800, 205_000.0)];
    let full = || vec![messages("pipe", FULL, 40_000, 900_000.0), messages("posix-mq", FULL, 9_000, 1_200_000.0)];
    let run = || ipc_run([pings(), full()].concat());
    let few = || busy(few_rounds(run()));
    let not_few = |part| (part, busy(run()), vec![("few rounds", few())]);
    holds(vec![
        not_few("Quickest with a receiver that sleeps: posix-mq"),
        not_few("Most messages a second: posix-mq"),
        not_few("Least CPU time of both processes"),
        ("Which mechanism is the best was not tested: fewer than 5 rounds.", few(), vec![("it was", run())]),
    ]);
    for (few, tested) in [(few(), 0), (busy(few_rounds(yields(usual()))), 0)] {
        let verdict = Verdict::from_run(&few);
        assert_eq!(verdict.advice.len(), tested, "{:?}", verdict.advice);
        assert!(
            !verdict.answer.is_empty() && verdict.answer.iter().all(|text| text.contains("not tested")),
            "{:?}",
            verdict.answer
        );
    }
}
