//! The first screens of runs made by hand: what is on them, and each sentence beside figures of which it must not be said.

use crate::common::{Made, few_rounds, lever_run, plain_run, run, set};
use crate::ipc::{FULL, PING, Traffic, ipc_run, series};
use crate::pace::{change, paced};
use crate::yielding::{alone, yield_run};
use punctual_record::experiment::ipc::Receive;
use punctual_record::{Experiment, Run, Series};
use punctual_report::export::text;
use punctual_report::{Document, Style, Verdict};

const ROWS: usize = 21;

/// The first screen of 80 columns in so many lines.
fn screen_of(run: &Run, rows: usize) -> String {
    text::head(&Document::from_run(run), &Style { width: 80, ..Style::default() }, rows)
}

fn screen(run: &Run) -> String {
    screen_of(run, ROWS)
}

/// The sentences, with ordinary spaces.
fn answer(run: &Run) -> String {
    Verdict::from_run(run).answer.join("\n").replace('\u{a0}', " ")
}

const OTHER: &str = "SCHED_OTHER";

/// Sleeping calls and spinning, as many as a table has no room for.
fn waits(spinning: i64) -> Run {
    let mut made: Vec<Made> = [
        ("nanosleep", 52_000),
        ("usleep", 54_000),
        ("select", 56_000),
        ("pselect", 57_000),
        ("ppoll", 58_000),
        ("futex", 59_000),
        ("timerfd", 21_000),
    ]
    .map(|(name, median)| Made::sleep(name, OTHER, median))
    .into();
    made.push(Made::spin("spin_clock", OTHER, spinning));
    run(&["punctual", "wait"], vec![set(OTHER, "other", None, 50_000)], &made)
}

#[test]
fn rows_that_find_no_room_are_counted_and_those_that_a_sentence_names_stay() {
    let text = screen_of(&waits(41), 18);
    assert!(text.lines().count() <= 18, "{text}");
    for named in ["nanosleep ", "timerfd ", "spinning (spin_clock) "] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(named)), "{named}: {text}");
    }
    let table = text.lines().skip_while(|line| !line.starts_with("  how late")).skip(1);
    let rows = table.take_while(|line| !line.contains(" more, ")).count();
    let more = text.lines().find(|line| line.contains(" more, ")).expect(&text);
    let count: usize = more.trim().split(' ').next().unwrap().parse().unwrap();
    assert_eq!(rows + count, 8, "{text}");
    assert!(more.contains("µs to") && more.ends_with("(p50)"), "{more}");
    let whole = screen_of(&waits(41), 60);
    assert!(!whole.contains(" more"), "{whole}");
}

#[test]
fn what_is_least_late_at_any_price_is_shown_to_be_and_does_not_sleep() {
    let said = "Least late at any price: spin_clock, 4";
    assert!(answer(&waits(41)).contains(said), "{}", answer(&waits(41)));
    for (why, run) in [
        ("few rounds", few_rounds(waits(41))),
        ("a sleep is the least late", waits(300_000)),
        ("a check-up has its table", Run { subcommand: "checkup".into(), ..waits(41) }),
    ] {
        assert!(!answer(&run).contains("at any price"), "{why}: {}", answer(&run));
    }
}

#[test]
fn several_durations_have_more_than_a_median() {
    let durations = |all: &[i64]| {
        let made: Vec<Made> = all.iter().map(|ns| Made::sleep("nanosleep", OTHER, 52_000).asked(*ns)).collect();
        screen(&run(&["punctual", "wait"], vec![set(OTHER, "other", None, 50_000)], &made))
    };
    let text = durations(&[10_000, 100_000, 1_000_000, 10_000_000]);
    for part in ["wait 10 µs", "wait 1 ms", "wait 10 ms"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(
        (text.matches("p99").count(), text.matches("wait 100 µs").count()),
        (4, 0),
        "one in the sentence: {text}"
    );
    assert!(durations(&[100_000]).contains("elapsed"), "a single one has the columns of its own");
}

#[test]
fn an_advice_has_one_line_of_code_for_a_program_as_it_is() {
    let made =
        [Made::sleep("clock_nanosleep_abs", OTHER, 52_100), Made { sleeps: true, ..Made::spin("hybrid", OTHER, 90) }];
    let run = run(&["punctual", "checkup"], vec![set(OTHER, "other", None, 50_000)], &made);
    let text = screen(&run);
    assert!(
        text.contains("1 punctual::Sleeper: ") && text.contains("punctual run --precise-sleep -- PROGRAM"),
        "{text}"
    );
    assert!(!text.contains("Also: "), "nothing is left out: {text}");
    let text = screen(&lever_run(&["punctual", "wait"]));
    assert!(text.contains("      punctual run --timer-slack 1ns -- PROGRAM"), "{text}");
    assert!(
        !text.contains("prctl") && !text.contains("--precise-sleep"),
        "one line, and no Sleeper was measured: {text}"
    );
}

#[test]
fn what_was_not_measured_is_named() {
    assert!(screen(&plain_run()).contains("  Not measured: umwait."), "{}", screen(&plain_run()));
    assert!(!screen(&waits(41)).contains("Not measured"));
    let mut elsewhere = plain_run();
    elsewhere.not_measured[0].subject = "nanosleep".into();
    assert!(!screen(&elsewhere).contains("Not measured"), "it was, under other conditions");
}

#[test]
fn the_range_of_what_is_left_out_is_in_order() {
    let other = [("spin_clock", 41), ("spin_yield", 3_000)].map(|(name, median)| Made::spin(name, OTHER, median));
    let mut run = lever_run(&["punctual", "checkup"]);
    run.series.extend(other.map(|made| made.series()));
    let text = screen_of(&run, 15);
    let more = text.lines().find(|line| line.contains(" more, ")).expect(&text);
    let first: &str = more.split(", ").nth(1).unwrap().split(' ').nth(1).unwrap();
    assert_eq!(first, "ns", "the shortest first: {more}");
}

#[test]
fn advice_that_finds_no_room_is_named() {
    let run = lever_run(&["punctual", "wait"]);
    assert!(Verdict::from_run(&run).advice.len() > 1);
    let text = screen_of(&run, 14);
    assert!(text.contains("  1 slack 1 ns") && text.contains("  Also: "), "{text}");
}

#[test]
fn an_emulator_is_named_before_its_figures() {
    let with = |emulator: Option<&str>| {
        let mut run = plain_run();
        run.host.emulator = emulator.map(str::to_owned);
        screen_of(&run, 60).replace('\u{a0}', " ")
    };
    let emulated = with(Some("qemu-aarch64-static"));
    let first = "Emulated: qemu-aarch64-static ran this program. The figures are the";
    assert!(emulated.lines().next().unwrap().contains(first), "{emulated}");
    assert!(emulated.contains(", through qemu-aarch64-static"), "{emulated}");
    let plain = with(None);
    assert!(!plain.contains("mulat") && !plain.contains("through"), "{plain}");
}

const POLL: Traffic = Traffic { receive: Receive::Poll, ..PING };

fn two(traffic: Traffic) -> Traffic {
    Traffic { cpus: (0, 1), ..traffic }
}

/// Mechanisms that sleep and one that polls, on one CPU and on two.
fn messages() -> Vec<Series> {
    vec![
        series("pipe", PING, 6_100, 160_000.0),
        series("posix-mq", PING, 4_800, 205_000.0),
        series("memfd-spin", POLL, 8_000_000, 125.0),
        series("pipe", two(PING), 31_000, 31_000.0),
        series("posix-mq", two(PING), 36_000, 28_000.0),
        series("memfd-spin", two(POLL), 530, 1_900_000.0),
    ]
}

fn few(mut series: Vec<Series>) -> Vec<Series> {
    series.iter_mut().for_each(|series| series.rounds.truncate(3));
    series
}

#[test]
fn the_quickest_mechanism_is_shown_to_be() {
    let text = answer(&ipc_run(messages()));
    let sleeping = "Quickest with a receiver that sleeps: posix-mq on one CPU, 4.8";
    let polling = "Quickest with one that polls, which takes a CPU: memfd-spin (poll) on two CPUs, 52";
    assert!(text.contains(sleeping) && text.contains(polling), "{text}");
    let text = answer(&ipc_run(few(messages())));
    assert!(!text.contains("Quickest") && !text.contains("Lowest p50"), "{text}");
    assert!(text.starts_with("Which mechanism is the best was not tested: fewer than 5 rounds."), "{text}");
    let alone = answer(&ipc_run(vec![series("pipe", PING, 6_100, 1.0), series("pipe", two(PING), 31_000, 1.0)]));
    assert!(!alone.contains("Quickest") && !alone.contains("Lowest p50"), "one mechanism: {alone}");
}

#[test]
fn polling_does_not_pay_only_where_it_is_shown_to_be_slower() {
    let text = answer(&ipc_run(messages()));
    assert!(text.contains("Polling does not pay on one CPU"), "{text}");
    assert!(!text.contains("pay on two CPUs"), "{text}");
    assert!(!answer(&ipc_run(few(messages()))).contains("does not pay"));
}

#[test]
fn what_passes_most_and_what_takes_least_is_said_of_several() {
    let full = [series("pipe", FULL, 40_000, 900_000.0), series("posix-mq", FULL, 9_000, 1_200_000.0)];
    let both = answer(&ipc_run([messages(), full.to_vec()].concat()));
    assert!(
        both.contains(
            "Most messages a second: posix-mq on one CPU, 1 200 000; next mechanism: pipe on one CPU, 900 000."
        ),
        "{both}"
    );
    let near = [full[1].clone(), series("pipe", FULL, 40_000, 1_190_000.0)];
    let near = answer(&ipc_run([messages(), near.to_vec()].concat()));
    assert!(near.contains("posix-mq on one CPU, 1 200 000; hardly fewer: pipe on one CPU."), "{near}");
    assert!(!answer(&ipc_run(messages())).contains("Most messages"), "nothing was saturated");
    let one = answer(&ipc_run([messages(), full[..1].to_vec()].concat()));
    assert!(!one.contains("Most messages"), "{one}");
    let least = "Least CPU time of both processes: memfd-spin (poll) on two CPUs, ";
    assert!(both.contains(least), "{both}");
    let alone = answer(&ipc_run(vec![series("pipe", PING, 6_100, 1.0), series("pipe", two(PING), 31_000, 1.0)]));
    assert!(!alone.contains("Least CPU time"), "{alone}");
}

#[test]
fn the_table_of_messages_has_every_mechanism_at_every_place() {
    let text = screen(&ipc_run(messages()));
    for part in ["one CPU", "two CPUs", "memfd-spin (poll)", "posix-mq", "pipe"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_a_call_costs_alone_is_from_a_loop_of_its_own() {
    let text = answer(&yield_run(&["punctual", "yield"], crate::yielding::usual()));
    assert!(text.contains("A call alone on its CPU, in a loop of such calls, takes 400 ns with sched_yield"), "{text}");
    let mut all = crate::yielding::usual();
    for series in &mut all {
        if let Experiment::Yield(yields) = &mut series.experiment {
            yields.metrics.bare_ns = None;
        }
    }
    assert!(!answer(&yield_run(&["punctual", "yield"], all)).contains("A call alone on its CPU"));
    let only = answer(&yield_run(&["punctual", "yield"], vec![alone("sched_yield", 400, "sched_yield")]));
    assert!(!only.contains("A call alone on its CPU"), "no competitor to compare with: {only}");
}

#[test]
fn the_sentence_and_the_table_of_pacing_have_one_rate() {
    let mut all = crate::pace::usual();
    for series in all.iter_mut().filter(|series| series.subject == "nanosleep") {
        change(series, |metrics| (metrics.rate_reached, metrics.rate_p50) = (Some(4_400.0), Some(5_178.0)));
    }
    let text = screen(&paced(all));
    assert!(text.contains("Slowest: nanosleep, with 4400 of 15 000 a second."), "{text}");
    assert!(text.lines().any(|line| line.starts_with("  nanosleep ") && line.contains(" 4400 ")), "{text}");
    assert!(!text.contains("5178"), "{text}");
}

#[test]
fn what_may_change_is_marked_while_more_is_measured() {
    let style = Style { width: 80, ..Style::default() };
    let run = lever_run(&["punctual", "checkup"]);
    let document = Document::from_run(&run);
    let text = text::unfinished(&document, &style, ROWS);
    assert!(text.contains("Measuring goes on. ? marks what it may still change."), "{text}");
    assert!(!text::head(&document, &style, ROWS).contains("Measuring goes on"), "{text}");
    let marked =
        |run: &Run| text::unfinished(&Document::from_run(run), &style, ROWS).lines().any(|line| line.starts_with("? "));
    assert!(marked(&few_rounds(run.clone())), "few rounds decide nothing");
    assert!(!marked(&run), "{text}");
}
