//! Threads that wake up at regular intervals: what the headings, the drawing and the sentences say, and where they must not.

use punctual_record::experiment::cyclic::{Metrics, Parameters};
use punctual_record::{
    About, Cause, ConditionSet, Experiment, FairServer, LatePart, Notice, Quantity, RtLimits, Run, Series, Typed,
};
use punctual_report::compare::{Comparison, Options, Side, compare};
use punctual_report::export::text;
use punctual_report::{Document, Style};

use crate::common::causes::{call, cause, causes};
use crate::common::{Made, found, histogram, run, samples, set, summary};

const FIFO: &str = "SCHED_FIFO 80";
const OTHER: &str = "SCHED_OTHER";

fn thread(cpu: u32, conditions: &'static str, load: Option<&str>, samples: &[i64]) -> Series {
    let parameters = Parameters { interval_ns: 1_000_000, load: load.map(str::to_owned) };
    let metrics = Metrics { missed: Some(0), ..Metrics::default() };
    Series {
        experiment: Experiment::Cyclic(Typed { parameters, metrics }),
        subject: format!("cpu{cpu}"),
        about: About::default(),
        quantity: Quantity::Lateness,
        summary: summary(samples),
        histogram: Some(histogram(samples)),
        ..Made::sleep("nanosleep", conditions, 50_000).series()
    }
}

fn sets() -> Vec<ConditionSet> {
    vec![set(FIFO, "fifo:80", None, 0), found(OTHER, 50_000)]
}

fn run_of(series: Vec<Series>) -> Run {
    Run { series, ..run(&["punctual", "cyclic"], sets(), &[]) }
}

/// The text, whose lines are joined: a sentence may end in a later one.
fn full(run: &Run) -> String {
    let text = text::render(&Document::from_run(run), &Style::default());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_heading_names_the_conditions_and_the_load_of_its_own_threads() {
    let samples = samples(50_000, 4000);
    let alike = full(&run_of(vec![thread(0, FIFO, None, &samples), thread(1, FIFO, None, &samples)]));
    assert_eq!(alike.matches("wake-ups every 1 ms, no load, under SCHED_FIFO 80").count(), 1, "{alike}");
    let differ = full(&run_of(vec![
        thread(0, FIFO, None, &samples),
        thread(1, OTHER, None, &samples),
        thread(2, FIFO, Some("cpu"), &samples),
        thread(3, FIFO, None, &samples),
    ]));
    for heading in ["no load, under SCHED_FIFO 80", "no load, under SCHED_OTHER", "load: cpu, under SCHED_FIFO 80"]
        .map(|rest| format!("wake-ups every 1 ms, {rest}"))
    {
        assert_eq!(differ.matches(&heading).count(), 1, "{heading}: {differ}");
    }
}

#[test]
fn the_drawing_shows_where_samples_are_and_nothing_where_none_are() {
    let early = vec![10_000; 1000];
    let late: Vec<i64> = std::iter::repeat_n(10_000, 999).chain([900_000]).collect();
    let drawn = |series: Vec<Series>| {
        let text = text::render(&Document::from_run(&run_of(series)), &Style::default());
        let row = |cpu: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(cpu)).unwrap_or_else(|| panic!("{text}"));
            line.chars().filter(|c| ('▁'..='█').contains(c)).collect::<String>()
        };
        (row("0 "), row("1 "), text)
    };
    let (first, second, text) = drawn(vec![thread(0, FIFO, None, &early), thread(1, FIFO, None, &late)]);
    assert_eq!((first.chars().count(), second.chars().count()), (1, 2), "{text}");
    assert!(text.contains("10.0 µs to 900 µs"), "{text}");
    // Without samples nothing is drawn: an empty drawing would be that of a thread without a late wake-up.
    let unknown = Series { histogram: None, ..thread(1, FIFO, None, &late) };
    let (first, second, text) = drawn(vec![thread(0, FIFO, None, &early), unknown]);
    assert_eq!((first.chars().count(), second.as_str()), (1, ""), "{text}");
    let row = text.lines().find(|line| line.trim_start().starts_with("1 ")).unwrap();
    assert!(row.trim_end().ends_with('–'), "it says that it is not known: {row}");
}

#[test]
fn what_the_kernel_allows_real_time_threads_is_said_and_the_unknown_too() {
    let samples = samples(50_000, 4000);
    let said = |kernel: &str, rt: RtLimits, conditions: &'static str| {
        let mut run = run_of(vec![thread(0, conditions, None, &samples)]);
        (run.host.kernel, run.host.rt) = (Some(kernel.into()), rt);
        full(&run)
    };
    let throttled = RtLimits { period_us: Some(1_000_000), runtime_us: Some(950_000), ..RtLimits::default() };
    let server = Some(FairServer { runtime_ns: 50_000_000, period_ns: 1_000_000_000 });
    let old = said("6.1.0", throttled.clone(), FIFO);
    assert!(old.contains("RT throttling leaves real-time threads 950 ms of 1 s on a CPU."), "{old}");
    assert!(!old.contains("The fair server") && !old.contains("What the fair server"), "{old}");
    let new = RtLimits { runtime_us: Some(1_000_000), fair_server: server, ..throttled.clone() };
    let new = said("7.3.1", new, FIFO);
    assert!(new.contains("RT throttling is off. The fair server keeps 50 ms of 1 s for other threads."), "{new}");
    let unknown = said("6.12.0", RtLimits::default(), FIFO);
    assert!(unknown.contains("Whether real-time threads are throttled is not known"), "{unknown}");
    assert!(unknown.contains("What the fair server keeps for other threads is not known"), "{unknown}");
    let unmounted = said("6.12.0", throttled.clone(), FIFO);
    let wait = "Kernel threads of a priority below 80 wait while they run: those of interrupts have 50";
    let not_real_time = "how late a real-time thread comes is not measured here";
    assert!(unmounted.contains(wait) && !unmounted.contains(not_real_time), "{unmounted}");
    let other = said("6.12.0", throttled, OTHER);
    assert!(!other.contains("real-time threads") && !other.contains("What the fair server"), "{other}");
    assert!(other.contains(not_real_time) && !other.contains("Kernel threads of a priority"), "{other}");
}

#[test]
fn rests_are_said_only_where_threads_rested() {
    let samples = samples(50_000, 4000);
    let mut rested = thread(0, FIFO, None, &samples);
    let said = |series: &Series| full(&run_of(vec![series.clone()]));
    assert!(!said(&rested).contains("rests,"), "{}", said(&rested));
    if let Experiment::Cyclic(typed) = &mut rested.experiment {
        typed.metrics.rested = Some(12);
    }
    assert!(
        said(&rested).contains("The threads stayed below what is allowed by 12 rests, in which wake-ups were missed"),
        "{}",
        said(&rested)
    );
}

#[test]
fn a_busy_machine_has_no_bound_for_a_longer_run() {
    let samples: Vec<i64> = samples(50_000, 20_000);
    let mut run = run_of(vec![thread(0, FIFO, None, &samples)]);
    let quiet = full(&run);
    assert!(!quiet.contains("they come and go"), "{quiet}");
    run.notices.push(Notice::BusyMachine { share: 0.6 });
    let busy = full(&run);
    assert!(busy.contains("No bound for a longer run: other programs had the CPUs, and they come and go."), "{busy}");
    assert!(!busy.contains("comes at most"), "{busy}");
}

#[test]
fn a_virtual_machine_has_no_bound_for_a_longer_run() {
    let samples: Vec<i64> = samples(50_000, 20_000);
    let mut run = run_of(vec![thread(0, FIFO, None, &samples)]);
    for (hypervisor, expected) in [(None, false), (Some("kvm".to_owned()), true)] {
        run.host.hypervisor = hypervisor;
        let said = full(&run);
        assert_eq!(said.contains("No bound for a longer run: this is a virtual machine"), expected, "{said}");
        assert!(!said.contains("they come and go"), "{said}");
    }
}

fn compared(old: Vec<Series>, new: Vec<Series>, across_conditions: bool) -> Comparison {
    let side = |series: Vec<Series>| {
        let late = || vec![cause(LatePart::RunQueue, Cause::OtherThread, Some("cc1"), 4_000)];
        let calls = series.iter().map(|one| call(&one.subject.replace("cpu", "cyclic/"), "clock_nanosleep", late()));
        let mut side = Side::new();
        side.add("run.json", &Run { causes: Some(causes(calls.collect())), ..run_of(series) }).unwrap();
        side
    };
    compare(&side(old), &side(new), Options { across_conditions })
}

/// Another interval or load is another question: it is named. What both sides measured alike is compared, with its causes.
#[test]
fn runs_of_other_intervals_are_compared_where_they_are_alike() {
    let samples = samples(50_000, 4000);
    let every = |cpu: u32, interval_ns: i64, load: Option<&str>| {
        let mut one = thread(cpu, FIFO, load, &samples);
        if let Experiment::Cyclic(typed) = &mut one.experiment {
            typed.parameters.interval_ns = interval_ns;
        }
        one
    };
    let old = vec![every(0, 1_000_000, None), every(1, 1_000_000, None)];
    let new = vec![every(0, 1_000_000, None), every(1, 10_000_000, Some("cpu"))];
    let subjects = |comparison: &Comparison| -> Vec<String> {
        comparison.series.iter().map(|series| series.subject.clone()).collect()
    };
    let threads = |comparison: &Comparison| -> Vec<String> {
        comparison.causes.as_ref().unwrap().causes.iter().map(|cause| cause.thread.clone()).collect()
    };
    let alike = compared(old.clone(), new.clone(), false);
    assert_eq!((subjects(&alike), threads(&alike)), (vec!["cpu0".to_owned()], vec!["cyclic/0".to_owned()]));
    let why: Vec<String> = alike.unmatched.iter().map(|one| format!("{}: {}", one.subject, one.why)).collect();
    assert_eq!(why, ["cpu1: other parameters were asked for: every 1 ms -> every 10 ms, no load -> load cpu"]);
    let said = &alike.causes.as_ref().unwrap().not_compared;
    assert_eq!(said, &["Causes of wake-ups that are not comparable are not compared."]);
    let across = compared(old.clone(), new, true);
    assert_eq!((subjects(&across).len(), threads(&across).len(), across.unmatched.len()), (2, 2, 0));
    assert_eq!(across.series[1].changed[0].new, "every 10 ms");
    // Of two intervals on one CPU, nothing says which would be the other's.
    let two = vec![every(0, 2_000_000, None), every(0, 3_000_000, None)];
    let several = compared(old, two, true);
    assert_eq!((subjects(&several).len(), several.unmatched.len()), (0, 4));
}

/// A machine of many CPUs: the row of the latest wake-up stays on a first screen, and the others are counted with their range.
#[test]
fn the_cpu_of_the_latest_wake_up_stays_on_the_screen() {
    let of_cpu = |cpu: u32| {
        let worst = if cpu == 40 { 9_000_000 } else { 100_000 + i64::from(cpu) * 1000 };
        let samples: Vec<i64> = std::iter::repeat_n(10_000, 999).chain([worst]).collect();
        thread(cpu, FIFO, None, &samples)
    };
    let document = Document::from_run(&run_of((0..64).map(of_cpu).collect()));
    let screen = text::head(&document, &Style::default(), 21);
    assert!(screen.lines().count() <= 21, "{screen}");
    assert!(screen.contains("on CPU 40.") && screen.lines().any(|line| line.starts_with("  40 ")), "{screen}");
    let rest = screen.lines().find(|line| line.contains(" more, ")).expect(&screen);
    assert!(rest.contains("100 µs to") && rest.ends_with("(max)"), "the worst come first: {rest}");
    let rows = screen.lines().filter(|line| line.contains("  1000       0 ")).count();
    let more: usize = rest.trim().split(' ').next().unwrap().parse().unwrap();
    assert_eq!(rows + more, 64, "{screen}");
    // One CPU under two policies has two rows, told apart.
    let two = run_of(vec![of_cpu(0), thread(0, OTHER, None, &samples(50_000, 4000))]);
    let screen = text::head(&Document::from_run(&two), &Style::default(), 21);
    assert!(screen.contains("0, SCHED_FIFO 80 ") && screen.contains("0, SCHED_OTHER "), "{screen}");
}
