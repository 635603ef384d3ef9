//! What a run of waits says: what a policy brings, which sleep is the least late, elapsed time and error.

use crate::common::{Made, run, set};
use crate::forms::{shown, written};
use insta::assert_snapshot;
use punctual_record::{Quantity, Run};
use punctual_report::export::csv;
use punctual_report::{Style, Verdict};

const OTHER: &str = "SCHED_OTHER";
const RR: &str = "SCHED_RR 40";

/// What the run says, a sentence a line; no-break spaces are a matter of layout.
fn answer(run: &Run) -> String {
    Verdict::from_run(run).answer.join("\n").replace('\u{a0}', " ")
}

/// Sleeping calls for 1 µs: as found, and under SCHED_RR, where they return before the thread is off its CPU.
fn policies(rr: i64) -> Run {
    let sets = vec![set(OTHER, "other", None, 50_000), set(RR, "rr:40", None, 0)];
    let made = [
        Made::sleep("usleep", OTHER, 77_000).asked(1_000),
        Made::sleep("nanosleep", OTHER, 76_000).asked(1_000),
        Made::sleep("usleep", RR, rr + 1_500).asked(1_000),
        Made::sleep("nanosleep", RR, rr).asked(1_000),
    ];
    let mut run = run(&["punctual", "wait"], sets, &made);
    for series in &mut run.series {
        series.about.kind = Some("sleep".into());
        series.quantity = Quantity::Overshoot;
        if series.conditions == RR {
            series.voluntary_switches_per_op = Some(0.02);
            series.cpu_share = Some(0.9);
        }
    }
    run
}

#[test]
fn a_call_that_hardly_leaves_its_cpu_is_none_of_those_that_sleep() {
    let mut sleeping = policies(20_900);
    sleeping.series.iter_mut().for_each(|series| series.voluntary_switches_per_op = Some(1.0));
    assert!(answer(&sleeping).contains("Least late of those that sleep: nanosleep under SCHED_RR 40"));
    assert_snapshot!(answer(&policies(20_900)), @r"
    A wait of 1 µs by nanosleep under SCHED_OTHER ends 76.2 µs late here (p99 414 µs).
    Of those that sleep, none is shown to end earlier than nanosleep under SCHED_OTHER.
    Least late at any price: nanosleep under SCHED_RR 40, 20.9 µs (p99 106 µs), for 90 % of a CPU.
    SCHED_RR 40 instead of SCHED_OTHER: 55.2 µs earlier at 1 µs.
");
}

#[test]
fn a_policy_that_shows_no_difference_or_a_loss_is_no_answer() {
    assert_snapshot!(answer(&policies(76_000)), @r"
    A wait of 1 µs by nanosleep under SCHED_OTHER ends 76.2 µs late here (p99 414 µs).
    Of those that sleep, none is shown to end earlier than nanosleep under SCHED_OTHER.
    SCHED_RR 40 instead of SCHED_OTHER: no difference shown at 1 µs.
");
    let later = answer(&policies(90_000));
    assert!(later.contains("µs later at 1 µs.") && !later.contains("earlier at"), "{later}");
}

#[test]
fn what_was_not_tested_is_never_called_no_difference() {
    let mut few = policies(20_900);
    few.series.iter_mut().for_each(|series| series.rounds.truncate(2));
    let said = answer(&few);
    assert!(said.contains("SCHED_RR 40 instead of SCHED_OTHER: not tested at 1 µs."), "{said}");
    assert!(!said.contains("no difference") && !said.contains("Least late"), "{said}");
}

#[test]
fn the_order_of_the_policies_does_not_matter() {
    let mut turned = policies(20_900);
    turned.series.reverse();
    turned.conditions.reverse();
    let lines = |run: &Run| answer(run).lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&turned), lines(&policies(20_900)));
}

#[test]
fn an_ordinary_policy_has_its_sentence_too() {
    let sets = vec![set(OTHER, "other", None, 50_000), set("SCHED_BATCH", "batch", None, 50_000)];
    let made = [Made::sleep("nanosleep", OTHER, 52_000), Made::sleep("nanosleep", "SCHED_BATCH", 52_000)];
    let said = answer(&run(&["punctual", "wait"], sets, &made));
    assert!(said.contains("SCHED_BATCH instead of SCHED_OTHER: no difference shown at 100 µs."), "{said}");
}

#[test]
fn a_condition_alone_is_no_policy() {
    let sets = vec![set(OTHER, "other", None, 50_000), set("SCHED_OTHER, slack 1 ns", "other", Some(1), 1)];
    let made = [Made::sleep("nanosleep", OTHER, 52_000), Made::sleep("nanosleep", "SCHED_OTHER, slack 1 ns", 4_000)];
    assert_snapshot!(answer(&run(&["punctual", "wait"], sets, &made)), @r"
    A wait of 100 µs by nanosleep under SCHED_OTHER ends 52.1 µs late here (p99 237 µs); 48.1 µs of it is timer slack.
    Least late of those that sleep: nanosleep under SCHED_OTHER, slack 1 ns, 4.01 µs (p99 19.5 µs), 48.1 µs earlier. It needs 4.0 % of a CPU instead of 2.8 %.
");
}

#[test]
fn coarse_calls_say_what_they_make_of_the_wait() {
    let coarse = [Made::sleep("poll", OTHER, 979_000).rounding_to(1_000_000)];
    let run = run(&["punctual", "wait", "poll"], vec![set(OTHER, "other", None, 50_000)], &coarse);
    assert_snapshot!(answer(&run), @"poll makes 1 ms of 100 µs: it ends 980 µs later than asked (p99 4.49 ms).");
}

#[test]
fn elapsed_time_and_error_stand_beside_lateness() {
    let run = policies(20_900);
    let text = shown(&run, &Style { width: 200, ..Style::default() });
    let head: Vec<&str> = text.lines().skip_while(|line| !line.contains("how late")).take(5).collect();
    assert_snapshot!(head.join("\n"), @r"
      how late                    p50     p99    CPU  elapsed   error
      nanosleep, SCHED_RR 40  20.9 µs  106 µs   90 %  21.9 µs  2092 %
      usleep, SCHED_RR 40     22.4 µs  118 µs   90 %  23.4 µs  2242 %
      nanosleep, SCHED_OTHER  76.2 µs  414 µs  5.5 %  77.2 µs  7616 %
      usleep, SCHED_OTHER     77.0 µs  397 µs  5.4 %  78.0 µs  7699 %
");
    let narrow = shown(&run, &Style { width: 80, ..Style::default() });
    let table = narrow.split_once("\nwait 1 µs\n").expect("the table").1;
    assert!(!table.lines().next().unwrap().contains("elapsed"), "dropped first: {table}");
    let csv = written(csv::write, &run);
    let cells: Vec<Vec<&str>> = csv.lines().map(|line| line.rsplit(',').take(2).collect()).collect();
    assert_eq!(cells[0], ["error_share", "elapsed_p50_ns"]);
    let late = run.series[0].summary.p50.unwrap();
    assert_eq!(cells[1], [(late as f64 / 1e3).to_string(), (1_000 + late).to_string()]);
    let mut absolute = run;
    absolute.series.iter_mut().for_each(|series| series.quantity = Quantity::Lateness);
    let csv = written(csv::write, &absolute);
    assert!(!csv.contains("elapsed_p50_ns") && !csv.contains("error_share"), "{csv}");
}

#[test]
fn a_caution_of_the_answer_is_no_second_advice() {
    let text = shown(&policies(20_900), &Style { width: 200, ..Style::default() });
    assert!(!text.contains("To wait"), "{text}");
}

/// The library's sleeper is the method `hybrid`: one row, under both names.
#[test]
fn the_sleeper_has_one_row() {
    let made = [Made::sleep("nanosleep", OTHER, 70_000), Made::sleep("hybrid", OTHER, 250)];
    let text = shown(&run(&["punctual", "wait"], vec![set(OTHER, "other", None, 50_000)], &made), &Style::default());
    let head = text.split("What to do").next().unwrap();
    let rows = |name: &str| head.lines().filter(|line| line.trim_start().starts_with(name)).count();
    assert_eq!((rows("punctual::Sleeper (hybrid)"), rows("punctual::Sleeper"), rows("hybrid")), (1, 1, 0), "{head}");
}
