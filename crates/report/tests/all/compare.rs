//! How often comparisons err, on machines that are simulated. Their lateness wanders at all time scales, as that of real ones does.

use crate::common::{host, set};
use punctual_record::experiment::wait;
use punctual_record::{
    About, Ci95, Clock, Disturbance, Experiment, Interval, Quantity, RoundFigures, Run, SCHEMA, Series, Summary, Tool,
    Typed,
};
use punctual_report::compare::{Comparison, Figure, Options, Side, Verdict, compare};

/// Numbers that look random and are not.
struct Numbers(u64);

impl Numbers {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Normally distributed, by the sum of twelve.
    fn normal(&mut self) -> f64 {
        // A plain loop: unoptimised iterators take most of a simulation's time.
        let (mut sum, mut left) = (0.0, 12);
        while left > 0 {
            sum += self.uniform();
            left -= 1;
        }
        sum - 6.0
    }
}

/// Lateness that wanders with the same power in each octave of time (flicker noise). It is a sum of processes that forget at different
/// rates.
struct Machine {
    numbers: Numbers,
    /// State and memory of each octave.
    octaves: Vec<(f64, f64)>,
    wandering: f64,
    /// What each series of each run lies off by, which no round of the run foretells.
    offset: f64,
}

impl Machine {
    fn new(seed: u64, wandering: f64, offset: f64) -> Self {
        let octaves = (0..14).map(|octave| (0.0, 0.5f64.powf(1.0 / f64::from(1 << octave)))).collect();
        let mut machine = Self { numbers: Numbers(seed | 1), octaves, wandering, offset };
        // Long enough that even the slowest octave forgets where it began.
        (0..20_000).for_each(|_| {
            machine.level();
        });
        machine
    }

    /// The next round's level, as a logarithm.
    fn level(&mut self) -> f64 {
        let mut sum = 0.0;
        for (state, memory) in &mut self.octaves {
            *state = *state * *memory + (1.0 - *memory * *memory).sqrt() * self.numbers.normal();
            sum += *state;
        }
        sum * self.wandering
    }

    fn run(&mut self, number: i64, p50: f64, p99: f64) -> Run {
        let levels: Vec<f64> = (0..20).map(|_| self.level()).collect();
        let series = ["a", "b", "c", "d"].map(|subject| self.series(subject, &levels, p50, p99));
        let started = jiff::Timestamp::from_second(1_700_000_000 + number * 10).expect("a time");
        Run {
            schema: SCHEMA.into(),
            tool: Tool { name: "punctual".into(), version: "0.1.0".into() },
            started,
            elapsed_ns: 5_000_000_000,
            complete: true,
            command: vec!["punctual".into(), "wait".into()],
            subcommand: "wait".into(),
            host: host(),
            conditions: vec![set("SCHED_OTHER", "other", None, 50_000)],
            clock: Clock { source: "CLOCK_MONOTONIC".into(), read_ns: 24.0, resolution_ns: 1, granularity_ns: 8 },
            series: series.to_vec(),
            not_measured: Vec::new(),
            notices: Vec::new(),
            disturbance: Disturbance::default(),
            limits: Vec::new(),
            causes: None,
            paths: Vec::new(),
            merged_from: Vec::new(),
        }
    }

    fn series(&mut self, subject: &str, levels: &[f64], p50: f64, p99: f64) -> Series {
        let offset = self.offset * self.numbers.normal();
        let own: Vec<f64> = levels.iter().map(|level| level + offset + 0.02 * self.numbers.normal()).collect();
        let mean = own.iter().sum::<f64>() / own.len() as f64;
        // The 99th percentile has a sampling error of its own, which its interval tells.
        let tail = 0.05;
        let at = |log: f64, ns: f64| (log.exp() * ns) as i64;
        let late = mean + tail * self.numbers.normal();
        let ci = Interval { low: at(late - 1.96 * tail, 110e3 * p99), high: at(late + 1.96 * tail, 110e3 * p99) };
        let cpu = 20_000.0;
        let round = |(number, log): (usize, &f64)| RoundFigures {
            round: number as u32,
            summary: Summary {
                count: 100,
                p50: Some(at(*log, 75e3 * p50)),
                p90: Some(at(*log, 90e3)),
                ..Summary::default()
            },
            cpu_ns_per_op: Some(cpu * log.exp()),
            ..RoundFigures::default()
        };
        Series {
            experiment: Experiment::Wait(Typed::asked(wait::Parameters::asking(100_000))),
            subject: subject.into(),
            conditions: "SCHED_OTHER".into(),
            about: About::default(),
            quantity: Quantity::Overshoot,
            unit: "ns".into(),
            summary: Summary {
                count: 2000,
                p50: Some(at(mean, 75e3 * p50)),
                p99: Some(at(late, 110e3 * p99)),
                ci95: Ci95 { p50: None, p99: Some(ci) },
                ..Summary::default()
            },
            cpu_ns_per_op: Some(cpu * mean.exp()),
            cpu_share: None,
            voluntary_switches_per_op: None,
            involuntary_switches_per_op: None,
            histogram: None,
            negative_histogram: None,
            samples: None,
            rounds: own.iter().enumerate().map(round).collect(),
            parts: Vec::new(),
        }
    }
}

/// The findings of `each` runs a side, alternating or one side after the other. The new ones are later by a factor.
fn compared(machine: &mut Machine, each: i64, in_turns: bool, (p50, p99): (f64, f64)) -> Comparison {
    let (mut old, mut new) = (Side::new(), Side::new());
    for number in 0..2 * each {
        let is_new = if in_turns { number % 2 == 1 } else { number >= each };
        let (p50, p99) = if is_new { (p50, p99) } else { (1.0, 1.0) };
        let run = machine.run(number, p50, p99);
        let side = if is_new { &mut new } else { &mut old };
        side.add("run", &run).expect("a run");
    }
    let comparison = compare(&old, &new, Options::default());
    assert_eq!(comparison.in_turns, in_turns && each > 1);
    comparison
}

fn verdicts(comparison: &Comparison, figure: Figure) -> impl Iterator<Item = Verdict> {
    let all = comparison.series.iter().flat_map(|series| &series.figures);
    all.filter(move |finding| finding.figure == figure).map(|finding| finding.verdict)
}

/// Where nothing differs, at most one comparison in twenty says that something does. That holds however the runs are arranged, and whether
/// or not the rounds foretell the runs' differences. Only single runs cannot know what they do not tell.
#[test]
fn false_alarms_are_rare() {
    for (each, in_turns) in [(1, false), (2, true), (4, true), (10, true), (2, false), (4, false)] {
        for (wandering, offset) in [(0.002, 0.0), (0.02, 0.0), (0.002, 0.1), (0.01, 0.03)] {
            if offset > 0.0 && each == 1 {
                continue;
            }
            let mut machine = Machine::new(each as u64 + 7, wandering, offset);
            let (mut alarms, mut all, mut any) = (0, 0, 0);
            for _ in 0..150 {
                let comparison = compared(&mut machine, each, in_turns, (1.0, 1.0));
                let found = Figure::ALL.iter().flat_map(|&figure| verdicts(&comparison, figure));
                let found: Vec<bool> = found.map(|verdict| verdict != Verdict::NoDifference).collect();
                alarms += found.iter().filter(|&&alarm| alarm).count();
                any += usize::from(found.contains(&true));
                all += found.len();
            }
            let rate = alarms as f64 / f64::from(all as u32);
            let name = format!("{each} a side, in turns {in_turns}, wandering {wandering}, offset {offset}");
            println!("{name}: {rate:.4}, any {any} of 150");
            assert!(rate <= 0.05, "{name}: {alarms} of {all}");
            // One in twenty, and what 150 of them scatter by.
            assert!(any <= 17, "{name}: any in {any} of 150");
        }
    }
}

/// Nine of ten comparisons find a change by 20 % at p50 and by 50 % at p99. They have runs enough for the machine's wandering.
#[test]
fn changes_are_found() {
    for (each, wandering, offset) in [(1, 0.003, 0.0), (4, 0.012, 0.0), (20, 0.01, 0.1)] {
        let mut machine = Machine::new(99, wandering, offset);
        let mut found = [(0, 0); 2];
        for _ in 0..100 {
            for (place, (figure, change)) in
                [(Figure::P50, (1.2, 1.0)), (Figure::P99, (1.0, 1.5))].into_iter().enumerate()
            {
                for verdict in verdicts(&compared(&mut machine, each, each > 1, change), figure) {
                    found[place].0 += usize::from(verdict == Verdict::Worse);
                    found[place].1 += 1;
                }
            }
        }
        println!("{each} a side, wandering {wandering}, offset {offset}: p50 and p99 found {found:?}");
        for (hits, of) in found {
            assert!(hits * 10 >= of * 9, "{each} a side, wandering {wandering}, offset {offset}: {found:?}");
        }
    }
}

/// What a comparison says it would have found, it finds in about nine of ten.
#[test]
fn what_would_have_been_found_is() {
    let mut machine = Machine::new(3, 0.005, 0.06);
    let (mut hits, mut of) = (0, 0);
    for _ in 0..150 {
        let comparison = compared(&mut machine, 8, true, (1.0, 1.0));
        let shows: Vec<f64> =
            comparison.series.iter().filter_map(|series| series.figures[0].difference?.shows_share).collect();
        let middle = shows.iter().sum::<f64>() / shows.len() as f64;
        // As the claim is of one series alone, the others of this comparison are left as they are.
        let (mut old, mut new) = (Side::new(), Side::new());
        for number in 0..16 {
            let is_new = number % 2 == 1;
            let mut run = machine.run(number, 1.0, 1.0);
            if is_new {
                let times = |ns: &mut Option<i64>| *ns = ns.map(|ns| (ns as f64 * (1.0 + middle)) as i64);
                times(&mut run.series[2].summary.p50);
                run.series[2].rounds.iter_mut().for_each(|round| times(&mut round.summary.p50));
            }
            (if is_new { &mut new } else { &mut old }).add("run", &run).expect("a run");
        }
        let comparison = compare(&old, &new, Options::default());
        hits += usize::from(comparison.series[2].figures[0].verdict == Verdict::Worse);
        of += 1;
    }
    println!("found {hits} of {of}");
    assert!((0.8..=0.98).contains(&(hits as f64 / f64::from(of))), "{hits} of {of}");
}

/// The same files give the same answer, and the sides mirror each other.
#[test]
fn the_other_way_round() {
    let mut machine = Machine::new(5, 0.003, 0.0);
    let (mut old, mut new) = (Side::new(), Side::new());
    old.add("old", &machine.run(0, 1.0, 1.0)).expect("a run");
    new.add("new", &machine.run(1, 1.5, 1.0)).expect("a run");
    let there = compare(&old, &new, Options::default());
    assert_eq!(there, compare(&old, &new, Options::default()));
    let back = compare(&new, &old, Options::default());
    for (there, back) in there.series.iter().zip(&back.series) {
        for (there, back) in there.figures.iter().zip(&back.figures) {
            let (a, b) = (there.difference.expect("compared"), back.difference.expect("compared"));
            assert!((a.by_ns.value + b.by_ns.value).abs() < 1e-6 * a.old_ns);
            assert!((a.probability - b.probability).abs() < 1e-9);
            let mirrored = match there.verdict {
                Verdict::Worse => Verdict::Better,
                Verdict::Better => Verdict::Worse,
                other => other,
            };
            assert_eq!(back.verdict, mirrored);
        }
    }
}
