//! What comparisons of a 99th percentile find, on simulated machines whose p99 jumps from run to run. About one wait in a hundred is
//! disturbed, at a rate that wanders. Its delay lies between the body and some milliseconds.

use punctual_record::experiment::wait;
use punctual_record::{About, Experiment, Quantity, Recorder, Run, SeriesId, SeriesTally, Typed, Usage};
use punctual_report::compare::{Comparison, Figure, Options, Side, Verdict, compare};

use crate::common;

/// Numbers that look random and are not.
struct Numbers(u64);

impl Numbers {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Half a second of a method: 10 rounds of 37 waits.
const ROUNDS: u32 = 10;
const WAITS: u32 = 37;
const SUBJECTS: [&str; 3] = ["a", "b", "c"];

/// A machine. Its rate of disturbances wanders with the same power in each octave of time.
struct Machine {
    numbers: Numbers,
    octaves: Vec<(f64, f64)>,
    /// Share of disturbed waits.
    disturbed: f64,
    /// The shortest and the longest disturbance in ns.
    delays: (f64, f64),
}

impl Machine {
    fn new(seed: u64, disturbed: f64, delays: (f64, f64)) -> Self {
        let octaves = (0..9).map(|octave| (0.0, 0.5f64.powf(1.0 / f64::from(1 << octave)))).collect();
        Self { numbers: Numbers(seed), octaves, disturbed, delays }
    }

    /// The waits of a run; `tail` multiplies each beyond the 95th percentile.
    fn waits(&mut self, level: f64, tail: f64) -> Vec<f64> {
        let rate = self.disturbed * (level + 0.3 * self.numbers.normal()).exp();
        let (low, high) = self.delays;
        let mut wait = || {
            let mut late = 80e3 * (0.08 * self.numbers.normal()).exp();
            if self.numbers.uniform() < rate {
                late += low * ((high / low).ln() * self.numbers.uniform()).exp();
            }
            if late > 91e3 { late * tail } else { late }
        };
        (0..ROUNDS * WAITS).map(|_| wait()).collect()
    }

    /// A run; the tail of its first series is longer by a factor.
    fn run(&mut self, number: i64, tail: f64) -> Run {
        let mut level = 0.0;
        for (state, memory) in &mut self.octaves {
            *state = *state * *memory + (1.0 - *memory * *memory).sqrt() * self.numbers.normal();
            level += 0.25 * *state;
        }
        let mut run = common::run(&["punctual", "wait"], vec![common::set("other", "other", None, 50_000)], &[]);
        run.started = jiff::Timestamp::from_second(1_700_000_000 + number).expect("a time");
        for subject in SUBJECTS {
            let waits = self.waits(level, if subject == "a" { tail } else { 1.0 });
            run.series.push(series(subject, &waits));
        }
        run
    }
}

fn series(subject: &str, waits: &[f64]) -> punctual_record::Series {
    let (mut tally, mut recorder) = (SeriesTally::new(), Recorder::new());
    for (round, waits) in (0..).zip(waits.chunks(WAITS as usize)) {
        recorder.clear();
        waits.iter().for_each(|late| recorder.record(*late as i64));
        let usage = Usage { elapsed_ns: 8_000_000, cpu_ns: Some(200_000), voluntary: Some(37), involuntary: Some(0) };
        tally.add_round(round, u64::from(round) * 50_000_000, &recorder, usage);
    }
    tally.to_series(SeriesId {
        experiment: Experiment::Wait(Typed::asked(wait::Parameters::asking(100_000))),
        subject: subject.into(),
        about: About::default(),
        conditions: "other".into(),
        quantity: Quantity::Overshoot,
    })
}

fn compared(machine: &mut Machine, each: i64, tail: f64) -> Comparison {
    let (mut old, mut new) = (Side::new(), Side::new());
    for number in 0..2 * each {
        let is_new = number % 2 == 1;
        let run = machine.run(number, if is_new { tail } else { 1.0 });
        (if is_new { &mut new } else { &mut old }).add("run", &run).expect("a run");
    }
    compare(&old, &new, Options::default())
}

fn p99(comparison: &Comparison, series: usize) -> Verdict {
    comparison.series[series].figures[Figure::P99 as usize].verdict
}

/// Delays of all sizes, and delays far above the body of the distribution.
const SMOOTH: (f64, f64) = (50e3, 3e6);
const GAP: (f64, f64) = (700e3, 2e6);

/// A p99 that is longer by half is found with 60 runs a side, in one series of three.
#[test]
fn half_as_much_again_is_found_with_60_runs_a_side() {
    for (disturbed, delays) in [(0.009, SMOOTH), (0.010, GAP)] {
        let mut machine = Machine::new(88_172_645_463_325_252, disturbed, delays);
        let found = (0..10).filter(|_| p99(&compared(&mut machine, 60, 1.5), 0) == Verdict::Worse).count();
        println!("{disturbed}, {delays:?}: found in {found} of 10");
        assert!(found >= 9, "{disturbed}, {delays:?}: found in {found} of 10");
    }
}

/// Where nothing differs, one comparison in twenty may say so, and what forty of them scatter by.
#[test]
fn jumps_are_no_differences() {
    for (disturbed, delays) in [(0.009, SMOOTH), (0.010, GAP)] {
        let mut machine = Machine::new(1_442_695_040_888_963_407, disturbed, delays);
        let differs = |verdict: Verdict| verdict != Verdict::NoDifference;
        let alarm = |comparison: Comparison| (0..SUBJECTS.len()).any(|series| differs(p99(&comparison, series)));
        let alarms = (0..40).filter(|_| alarm(compared(&mut machine, 20, 1.0))).count();
        println!("{disturbed}, {delays:?}: {alarms} of 40");
        assert!(alarms <= 5, "{disturbed}, {delays:?}: {alarms} of 40");
    }
}
