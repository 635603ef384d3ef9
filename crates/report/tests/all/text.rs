//! The text of runs made by hand. It tests what is shown at which width, and that nothing in a run can harm a terminal.

use crate::common::{Made, asked, asked_policy, found, lever_run, plain_run, put, remedies_run, run, set};
use crate::forms::{notices, shown};
use insta::assert_snapshot;
use punctual_record::experiment::{Other, wait};
use punctual_record::{CPU, Cpufreq, Cpuidle, Disturbance, Experiment, Host, Notice, Param, Refusal, Run, Typed};
use punctual_report::Style;

fn at(width: usize) -> Style {
    Style { width, ..Style::default() }
}

fn widest(text: &str) -> usize {
    let code = |line: &&str| !line.starts_with("      ");
    text.lines().filter(code).map(columns_of).max().unwrap_or(0)
}

fn columns_of(line: &str) -> usize {
    line.chars().count()
}

#[test]
fn plain_at_60() {
    let text = shown(&plain_run(), &at(60));
    assert!(widest(&text) <= 60);
    assert_snapshot!(text);
}

#[test]
fn plain_at_80() {
    let text = shown(&plain_run(), &at(80));
    assert!(widest(&text) <= 80);
    assert_snapshot!(text);
}

#[test]
fn plain_at_140() {
    let text = shown(&plain_run(), &at(140));
    assert!(widest(&text) <= 140);
    assert_snapshot!(text);
}

#[test]
fn ascii_only() {
    let text = shown(&plain_run(), &Style { width: 100, color: false, unicode: false });
    assert!(text.is_ascii(), "{text}");
    assert_snapshot!(text);
}

#[test]
fn colour_changes_nothing_but_colour() {
    let colour = shown(&plain_run(), &Style { color: true, ..at(80) });
    assert!(colour.contains("\x1b["));
    let mut bare = String::new();
    let mut rest = colour.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        bare.push_str(before);
        rest = after.split_once('m').expect("only colours").1;
    }
    bare.push_str(rest);
    assert_eq!(bare, shown(&plain_run(), &at(80)));
    assert_snapshot!(colour.lines().take(20).collect::<Vec<_>>().join("\n"));
}

#[test]
fn conditions_side_by_side() {
    assert_snapshot!(shown(&lever_run(&["punctual", "wait"]), &at(140)));
}

#[test]
fn conditions_side_by_side_at_60() {
    let text = shown(&lever_run(&["punctual", "wait"]), &at(60));
    assert!(widest(&text) <= 60);
    assert_snapshot!(text.lines().take(32).collect::<Vec<_>>().join("\n"));
}

#[test]
fn check_up() {
    let mut checked = lever_run(&["punctual", "checkup"]);
    let mut other = Made::sleep("clock_nanosleep", "SCHED_OTHER", 52_110).series();
    other.quantity = punctual_record::Quantity::Overshoot;
    checked.series.push(other);
    let text = shown(&checked, &at(100));
    assert_snapshot!(text.split_once("What to do").expect("the section is there").1);
    assert!(run(&["punctual", "checkup", "--json", "wait"], vec![], &[]).is_checkup());
    assert!(!run(&["punctual"], vec![], &[]).is_checkup());
    assert!(!run(&["punctual", "wait", "checkup"], vec![], &[]).is_checkup());
}

#[test]
fn each_remedy_is_named_by_what_it_changes() {
    for width in [60, 80, 100, 140] {
        let text = shown(&remedies_run(20_000, 20_000, 20_000), &at(width));
        assert!(widest(&text) <= width, "{text}");
        assert!(text.contains("wait 100 µs, as found unless named"), "{text}");
    }
    let text = shown(&remedies_run(20_000, 20_000, 20_000), &at(100));
    for name in ["SCHED_FIFO 40", "slack 1 ns", "CPU 1", "memory locked", "C-states off"] {
        assert!(text.contains(&format!("  {name} ")), "{name} in {text}");
    }
    assert_snapshot!(text.split_once("What to do").expect("the section is there").1);
}

#[test]
fn what_is_worse_or_shows_nothing_or_was_refused_is_said() {
    let mut checked = remedies_run(60_000, 52_100, 52_100);
    checked.notices.push(Notice::ConditionsSkipped {
        conditions: "rr:1".into(),
        refusal: Refusal {
            condition: "policy".into(),
            asked: "rr:1".into(),
            why: "Operation not permitted".into(),
            remedy: "raise the rtprio limit".into(),
        },
    });
    let text = shown(&checked, &at(1000)).split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "Worse here: CPU 1 instead of as found.",
        "No difference that this run can show: ",
        "Could not be tried: rr:1: Operation not permitted. To allow it: raise the rtprio limit.",
    ] {
        assert!(text.contains(said), "{said} in {text}");
    }
    assert!(!text.contains("taskset") && !text.contains("mlockall"), "{text}");
}

#[test]
fn what_all_sets_were_asked_is_said_once() {
    let mut sets = vec![set("a", "other", None, 50_000), set("b", "fifo:40", None, 0)];
    for set in &mut sets {
        put(set, asked(CPU, Param::Text("2-3".into()), "CPUs 2-3"));
    }
    let made = [Made::sleep("nanosleep", "a", 52_000), Made::sleep("nanosleep", "b", 3_000)];
    let text = shown(&run(&["punctual", "wait"], sets, &made), &at(100));
    assert_eq!(text.matches("CPUs 2-3").count(), 1, "{text}");
}

#[test]
fn an_empty_run_of_a_silent_machine() {
    let mut empty = run(&["punctual", "wait"], vec![], &[]);
    empty.host = Host::default();
    empty.disturbance = Disturbance::default();
    assert_snapshot!(shown(&empty, &at(80)));
}

#[test]
fn a_machine_that_tells_everything() {
    let mut full = run(&["punctual", "wait"], vec![], &[]);
    full.complete = false;
    full.host.hypervisor = None;
    full.host.isolated_cpus = Some("2-3".into());
    full.host.cpu_quota = Some(1.5);
    full.host.rt.cap_sys_nice = Some(false);
    full.host.rt.runtime_us = Some(-1);
    full.host.container = Some("docker".into());
    full.host.cpuidle = Some(Cpuidle {
        driver: Some("intel_idle".into()),
        deepest_state: Some("C6".into()),
        deepest_exit_latency_us: Some(133),
        ..Cpuidle::default()
    });
    full.host.cpufreq = Some(Cpufreq {
        driver: Some("intel_pstate".into()),
        governors: vec!["powersave".into()],
        min_khz: Some(800_000),
        max_khz: Some(4_700_000),
        epp: None,
    });
    full.disturbance.cpu_pressure_before = Some(0.0312);
    assert_snapshot!(shown(&full, &at(80)));
}

/// Linux 7.2 and later start with a real-time limit of the whole period.
#[test]
fn a_limit_of_the_whole_period_is_none() {
    let with = |runtime_us: i64| {
        let mut run = run(&["punctual", "wait"], vec![], &[]);
        (run.host.rt.runtime_us, run.host.rt.period_us) = (Some(runtime_us), Some(1_000_000));
        shown(&run, &Style { width: 140, ..Style::default() })
    };
    assert!(with(1_000_000).contains("never throttled"), "{}", with(1_000_000));
    assert!(with(950_000).contains("throttled to 950 ms of 1 s") && !with(950_000).contains("never throttled"));
}

#[test]
fn an_experiment_without_words_is_not_left_out() {
    let mut strange = run(&["punctual", "strange"], vec![], &[Made::sleep("pipe", "SCHED_OTHER", 5_000)]);
    let parameters = [("asked_ns".to_owned(), Param::Int(100_000)), ("size".to_owned(), Param::Int(64))].into();
    strange.series[0].experiment = Experiment::Other(Other { name: "strange".into(), parameters, ..Other::default() });
    assert_snapshot!(shown(&strange, &at(100)).lines().skip(4).collect::<Vec<_>>().join("\n"));
}

fn waited(asked_ns: i64, effective_ns: Option<i64>) -> Experiment {
    Experiment::Wait(Typed {
        parameters: wait::Parameters::asking(asked_ns),
        metrics: wait::Metrics { effective_ns, ..wait::Metrics::default() },
    })
}

fn hostile() -> Run {
    let mut hostile = plain_run();
    let nasty = "\x1b]0;owned\x07\x1b[2J\u{202e}\u{200b}name\r\n\u{9b}31m";
    hostile.series[0].subject = nasty.into();
    hostile.series[1].subject = "x".repeat(5000);
    hostile.series[2].subject = "漢字".repeat(200);
    hostile.series[3].subject = String::new();
    hostile.series[4].conditions = nasty.into();
    hostile.series[5].histogram = Some("AAAA".into());
    hostile.series[6].experiment = waited(i64::MIN, None);
    let parameters = [(nasty.to_owned(), Param::Text(nasty.into()))].into();
    hostile.series[7].experiment = Experiment::Other(Other { name: nasty.into(), parameters, ..Other::default() });
    hostile.series[8].summary.p50 = Some(i64::MIN);
    hostile.series[8].summary.min = Some(i64::MIN);
    hostile.series[9].summary.max = Some(i64::MAX);
    hostile.series[9].cpu_share = Some(f64::INFINITY);
    hostile.series[10].experiment = waited(100_000, Some(i64::MAX));
    hostile.series[0].about.code = Some(nasty.repeat(100));
    hostile.conditions[0].settings[0].phrase = nasty.into();
    hostile.host.cpu_model = Some(nasty.into());
    hostile.host.kernel = Some("k".repeat(3000));
    hostile.not_measured[0].why = nasty.into();
    hostile.not_measured[0].subject = nasty.into();
    hostile.not_measured[0].parameters.insert(nasty.into(), Param::Text(nasty.into()));
    hostile.notices.push(punctual_record::Notice::Other { text: nasty.into() });
    hostile.conditions[0].label = nasty.into();
    hostile.subcommand = "checkup".into();
    hostile
}

#[test]
fn nothing_in_a_run_reaches_the_terminal_as_a_command() {
    for width in [0, 40, 60, 140, 100_000] {
        for unicode in [true, false] {
            let style = Style { width, color: false, unicode };
            for text in [shown(&hostile(), &style), notices(&hostile(), &style)] {
                let bad = text.chars().find(|&c| (c.is_control() && c != '\n') || c == '\u{202e}' || c == '\u{200b}');
                assert_eq!(bad, None, "at width {width}");
                assert!(unicode || text.is_ascii());
            }
        }
    }
}

#[test]
fn a_huge_name_does_not_widen_the_table() {
    let text = shown(&hostile(), &at(60));
    assert!(text.lines().filter(|line| !line.starts_with("      ")).all(|line| line.chars().count() <= 60), "{text}");
}

#[test]
fn rows_of_one_duration_are_sorted_by_how_late_they_are() {
    let made = [
        Made::sleep("slow", "SCHED_OTHER", 90_000),
        Made::sleep("coarse", "SCHED_OTHER", 10).rounding_to(1_000_000),
        Made::sleep("quick", "SCHED_OTHER", 50_000),
    ];
    let text = shown(&run(&["punctual", "wait"], vec![set("SCHED_OTHER", "other", None, 50_000)], &made), &at(80));
    let place = |name: &str| text.find(&format!("\n  {name} ")).unwrap_or_else(|| panic!("{name} is shown"));
    assert!(place("quick") < place("slow") && place("slow") < place("coarse"));
    assert!(text.contains("rounds to 1 ms:"));
}

#[test]
fn a_refused_condition_stands_beside_its_label() {
    let mut sets = vec![set("SCHED_OTHER", "other", None, 50_000), set("SCHED_FIFO 40", "other", None, 50_000)];
    sets[1].settings[0].asked = Some(Param::Text("fifo:40".into()));
    sets[1].refused.push(punctual_record::Refusal {
        condition: "policy".into(),
        asked: "fifo:40".into(),
        why: "EPERM".into(),
        remedy: "root".into(),
    });
    let made = [Made::sleep("nanosleep", "SCHED_OTHER", 52_300), Made::sleep("nanosleep", "SCHED_FIFO 40", 40_000)];
    let text = shown(&run(&["punctual", "wait"], sets, &made), &at(100));
    assert!(text.contains("nanosleep  SCHED_FIFO 40, policy refused "), "{text}");
    assert!(!text.contains("earlier"), "refused conditions are no remedy: {text}");
    assert!(!text.contains("instead of"), "without the policy there is nothing to compare: {text}");
}

#[test]
fn one_method_is_described_and_a_comparison_offered() {
    let sets = || vec![found("as found", 50_000)];
    let alone = [Made::sleep("usleep", "as found", 76_800), Made::sleep("usleep", "as found", 77_900).asked(1_000_000)];
    assert_snapshot!(shown(&run(&["punctual", "wait", "usleep"], sets(), &alone), &at(100)));
    let coarse = [Made::sleep("poll", "as found", 979_000).rounding_to(1_000_000)];
    let text = shown(&run(&["punctual", "wait", "poll"], sets(), &coarse), &at(100));
    assert!(text.contains("poll makes 1 ms of 100 µs: it ends 980 µs later than asked"), "{text}");
}

#[test]
fn conditions_are_called_by_their_label() {
    let names = ["as found", "slack 1 ns", "SCHED_FIFO 40", "SCHED_FIFO 40, slack 1 ns"];
    let mut sets: Vec<_> = names.iter().map(|name| found(name, 50_000)).collect();
    put(&mut sets[2], asked_policy("fifo:40"));
    let made = names.map(|name| Made::sleep("nanosleep", name, 50_000));
    let text = shown(&run(&["punctual", "wait"], sets, &made), &at(140));
    assert!(names.iter().all(|name| text.contains(&format!("nanosleep  {name} "))), "{text}");
}
