//! What is said of CPU frequency, of runs made by hand and of simulated loops.

use crate::common::{run, set};
use crate::forms::shown;
use punctual_record::experiment::ramp::{Metrics, Parameters};
use punctual_record::{
    About, Cpufreq, Experiment, Notice, Quantity, Recorder, Refusal, Run, Series, SeriesId, SeriesTally, Typed, Usage,
};
use punctual_report::document::{Block, Picture};
use punctual_report::verdict::{Standing, Verdict};
use punctual_report::{Document, Style};

/// Loops of a round.
pub(crate) const LOOPS: usize = 60;
/// Rounds of a run.
pub(crate) const ROUNDS: usize = 6;
/// What a loop takes at full speed.
pub(crate) const BEST: i64 = 750_000;

/// The two series of a governor with these rounds, as the kernel counts this many transitions.
pub(crate) fn ramp(subject: &str, rounds: &[Vec<i64>], transitions: Option<u64>) -> [Series; 2] {
    let parameters = Parameters { loops: rounds[0].len() as u32, work_ns: BEST, rest_ns: 300_000_000 };
    let slow = rounds[0].iter().take_while(|ns| **ns as f64 > BEST as f64 * 1.05);
    let metrics = Metrics {
        best_ns: rounds.iter().flatten().min().copied(),
        first_ns: Some(rounds[0][0]),
        to_full_speed_ns: Some(slow.sum()),
        driver: transitions.map(|_| "acpi-cpufreq".to_owned()),
        transitions,
        ..Metrics::default()
    };
    let series = |quantity, metrics, take| {
        let mut tally = SeriesTally::new();
        let mut recorder = Recorder::new();
        for (round, loops) in (0..).zip(rounds) {
            recorder.clear();
            loops.iter().take(take).for_each(|ns| recorder.record(*ns));
            tally.add_round(round, 0, &recorder, Usage::default());
        }
        tally.to_series(SeriesId {
            experiment: Experiment::Ramp(Typed { parameters: parameters.clone(), metrics }),
            subject: subject.into(),
            about: About::default(),
            conditions: "SCHED_OTHER".into(),
            quantity,
        })
    };
    let loops = series(Quantity::Loop, metrics, usize::MAX);
    let first = series(Quantity::FirstLoops, Metrics::default(), 3);
    [Series { samples: Some(rounds.concat()), ..loops }, first]
}

/// Rounds whose first loops take this long, and the others what they take at full speed.
pub(crate) fn after_a_rest(first: [i64; ROUNDS], slow: usize) -> Vec<Vec<i64>> {
    let round = |ns: i64| (0..LOOPS).map(|i| if i < slow { ns } else { BEST + 100 * (i as i64 % 7) }).collect();
    first.into_iter().map(round).collect()
}

pub(crate) const SLOW: [i64; ROUNDS] = [1_500_000, 1_520_000, 1_490_000, 1_510_000, 1_530_000, 1_500_000];
pub(crate) const FAST: [i64; ROUNDS] = [751_000, 750_000, 752_000, 750_000, 755_000, 750_000];

/// A run of these series under the governor schedutil.
fn run_of(command: &[&str], series: impl IntoIterator<Item = [Series; 2]>, notices: Vec<Notice>) -> Run {
    let series = series.into_iter().flatten().collect();
    let mut run = Run { series, notices, ..run(command, vec![set("SCHED_OTHER", "other", None, 50_000)], &[]) };
    run.host.cpufreq = Some(Cpufreq { governors: vec!["schedutil".into()], ..Cpufreq::default() });
    run
}

fn checkup(series: impl IntoIterator<Item = [Series; 2]>) -> Run {
    run_of(&["punctual", "checkup"], series, Vec::new())
}

pub(crate) fn governor(series: impl IntoIterator<Item = [Series; 2]>) -> Run {
    let mut run = run_of(&["punctual", "governor", "ramp"], series, Vec::new());
    run.subcommand = "governor ramp".into();
    run
}

pub(crate) fn two_governors() -> Run {
    let (slow, fast) = (after_a_rest(SLOW, 8), after_a_rest(FAST, 8));
    governor([ramp("powersave", &slow, Some(9)), ramp("performance", &fast, Some(0))])
}

/// The whole report, its spaces as single ones.
fn text(run: &Run) -> String {
    let text = shown(run, &Style { width: 1000, ..Style::default() });
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn answer(run: &Run) -> String {
    Verdict::from_run(run).answer.join(" ").replace('\u{a0}', " ")
}

#[test]
fn a_governor_that_was_tried_and_helped_is_advised_with_its_gain_and_price() {
    let run = checkup([
        ramp("as found", &after_a_rest(SLOW, 8), Some(9)),
        ramp("performance", &after_a_rest(FAST, 8), Some(0)),
    ]);
    let verdict = Verdict::from_run(&run);
    let [advice] = verdict.advice.as_slice() else { panic!("{verdict:?}") };
    assert_eq!((advice.id.as_str(), advice.instead_of.as_str()), ("governor performance", "schedutil"));
    let gain = advice.cases[0].p50.better().unwrap();
    assert!((700_000..800_000).contains(&gain.ns), "{gain:?}");
    let text = text(&run);
    for part in [
        "governor performance: 750 µs faster for 750 µs of work after a rest (p99 not tested); needs root and costs energy and heat.",
        "sudo punctual run --governor performance -- PROGRAM",
        "as found reaches full speed after 12.0 ms of work: the first loops after a rest take 1.50 ms, all loops 751 µs (p50).",
        "loop number across",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// Eighteen samples make no histogram: the picture of the loops has them.
#[test]
fn the_first_loops_are_not_drawn_apart() {
    let run =
        governor([ramp("as found", &after_a_rest(SLOW, 8), None), ramp("performance", &after_a_rest(FAST, 8), None)]);
    let document = Document::illustrated(&run);
    let blocks = || document.sections().flat_map(|section| &section.blocks);
    let pictures: Vec<&Picture> = blocks()
        .filter_map(|block| if let Block::Album(album) = block { Some(album) } else { None })
        .flat_map(|album| album.pictures.iter().map(|(_, picture)| picture))
        .collect();
    assert!(!pictures.is_empty());
    for picture in pictures {
        let said = [&picture.title, &picture.x.title, &picture.y.title];
        assert!(!said.iter().any(|text| text.contains("first loops")), "{said:?}");
        assert!(!picture.title.starts_with("Histogram") && !picture.title.starts_with("Latency"), "{said:?}");
    }
}

#[test]
fn one_that_made_no_difference_or_made_it_worse_is_not() {
    let standing = |found, tried| {
        let run = checkup([
            ramp("as found", &after_a_rest(found, 8), Some(9)),
            ramp("performance", &after_a_rest(tried, 8), Some(9)),
        ]);
        let verdict = Verdict::from_run(&run);
        assert_eq!(verdict.advice, []);
        verdict.tried[0].standing
    };
    assert_eq!(standing(FAST, FAST), Standing::NoDifference);
    assert_eq!(standing(FAST, SLOW), Standing::Worse);
    // Two rounds of six the other way: that may be chance.
    let mut mixed = FAST;
    (mixed[1], mixed[4]) = (2_500_000, 2_200_000);
    assert_eq!(standing(SLOW, mixed), Standing::NoDifference);
}

#[test]
fn one_that_could_not_be_tried_says_what_it_needs() {
    let refusal = Refusal {
        condition: "governor".into(),
        asked: "performance".into(),
        why: "writing scaling_governor: Permission denied".into(),
        remedy: "run as root".into(),
    };
    let notice = Notice::ConditionsSkipped { conditions: "governor performance".into(), refusal };
    let series = ramp("as found", &after_a_rest(SLOW, 8), Some(9));
    let run = run_of(&["punctual", "checkup"], [series], vec![notice]);
    let text = text(&run);
    for part in [
        "governor performance: writing scaling_governor: Permission denied. To allow it: run as root.",
        "as found reaches full speed after 12.0 ms of work",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(Verdict::from_run(&run).advice, []);
}

#[test]
fn nothing_is_claimed_where_nothing_can_change_the_speed() {
    let slow = after_a_rest(SLOW, 8);
    let one = |subject: &str, transitions| governor([ramp(subject, &slow, transitions)]);
    let mut hidden = one("as found", None);
    hidden.host.cpufreq = None;
    for (run, said) in [
        (hidden, "Whether the CPU's frequency changes is not known: the kernel exposes none."),
        (one("performance", Some(3)), "One speed by design, so no speed-up: performance."),
        (one("userspace", Some(3)), "One speed by design, so no speed-up: userspace."),
        (one("powersave", Some(3)), "One speed by design, so no speed-up: powersave."),
        (one("ondemand", Some(0)), "The kernel counted no change of frequency under ondemand."),
    ] {
        assert_eq!(answer(&run), said);
        let text = text(&run);
        for claim in ["reaches full speed", "to full speed", "loop number across", "slower than"] {
            assert!(!text.contains(claim), "{claim} in {text}");
        }
    }
}

#[test]
fn too_few_rounds_or_an_old_record_are_not_tested() {
    let slow = after_a_rest(SLOW, 8);
    let few = governor([ramp("ondemand", &slow[..3], Some(9))]);
    assert!(answer(&few).starts_with("Speed-up after a rest was not tested for ondemand: fewer than 5 rounds"));
    let mut old = governor([ramp("ondemand", &slow, Some(9))]);
    old.series.pop();
    assert!(answer(&old).contains("not tested for ondemand: the record has no first loops."), "{}", answer(&old));
    assert!(!text(&old).contains("reaches full speed"));
}

#[test]
fn a_slower_governor_is_named_with_its_reason_where_it_is_slower() {
    let rounds = |ns: i64| vec![vec![ns; LOOPS]; ROUNDS];
    let mut low = ramp("powersave", &rounds(2_250_000), Some(3));
    let Experiment::Ramp(typed) = &mut low[0].experiment else { unreachable!() };
    typed.metrics.why = Some("it keeps the lowest frequency, by design".into());
    let run = governor([ramp("performance", &rounds(BEST), Some(0)), low.clone()]);
    let said = "powersave is slower than performance: a loop takes 2.25 ms, not 750 µs; it keeps the lowest frequency, by design.";
    assert!(answer(&run).contains(said), "{}", answer(&run));
    // As quick as the other: its reason is no reason.
    let run = governor([ramp("performance", &rounds(BEST), Some(0)), ramp("powersave", &rounds(BEST), Some(3))]);
    assert!(!answer(&run).contains("slower"), "{}", answer(&run));
}

/// Numbers from 0 to 1, by a seed (PCG, M. E. O'Neill, 2014).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let shifted = ((self.0 >> 18) ^ self.0) >> 27;
        f64::from((shifted as u32).rotate_right((self.0 >> 59) as u32)) / f64::from(u32::MAX)
    }

    /// About normal, by twelve uniform numbers.
    fn normal(&mut self) -> f64 {
        // A plain loop: unoptimised iterators take most of a simulation's time.
        let (mut sum, mut left) = (0.0, 12);
        while left > 0 {
            sum += self.next();
            left -= 1;
        }
        sum - 6.0
    }
}

/// What disturbs the loops of a machine.
#[derive(Debug, Clone, Copy)]
enum Machine {
    Quiet,
    /// Its speed wanders from round to round and within a round.
    Drift,
    /// The hypervisor takes some loops' time.
    Steal,
    /// A neighbour comes and goes: two speeds, at any time.
    TwoSpeeds,
}

/// The rounds of two governors, interleaved; the first `slow` loops of the first one take this much longer.
fn simulated(machine: Machine, seed: u64, slow: usize, longer: f64) -> [Vec<Vec<i64>>; 2] {
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut both = [Vec::new(), Vec::new()];
    let (mut level, mut busy) = (1.0, false);
    for turn in 0..2 * ROUNDS {
        let mut loops = Vec::new();
        let tilt = chance.normal() * 0.02;
        for i in 0..LOOPS {
            let mut factor = 1.0 + 0.005 * chance.normal();
            match machine {
                Machine::Quiet => {}
                Machine::Drift => factor *= level * (1.0 + tilt * i as f64 / LOOPS as f64),
                Machine::Steal if chance.next() < 0.05 => factor += chance.next() * 6.0,
                Machine::Steal => {}
                Machine::TwoSpeeds => {
                    busy ^= chance.next() < 0.025;
                    factor *= if busy { 1.5 } else { 1.0 };
                }
            }
            if turn % 2 == 0 && i < slow {
                factor *= longer;
            }
            loops.push((BEST as f64 * factor) as i64);
        }
        level *= 1.0 + 0.04 * chance.normal();
        both[turn % 2].push(loops);
    }
    both
}

/// How many of these runs claim a speed-up, a slower governor or an advice.
fn claims(machine: Machine, slow: usize, longer: f64, runs: u64) -> u64 {
    let claims = |seed: u64| {
        let [found, tried] = simulated(machine, seed, slow, longer);
        // Neither keeps one speed, as far as the record says.
        let series = [ramp("as found", &found, Some(4)), ramp("schedutil", &tried, Some(4))];
        let verdict = Verdict::from_run(&checkup(series));
        let [_, start] = ramp("performance", &tried, Some(4));
        let mut with_advice = checkup([ramp("as found", &found, Some(4))]);
        with_advice.series.push(start);
        let advised = !Verdict::from_run(&with_advice).advice.is_empty();
        u64::from(!verdict.answer.is_empty() || advised)
    };
    (1..=runs).map(claims).sum()
}

#[test]
fn at_most_one_run_in_twenty_claims_what_is_not_there() {
    for machine in [Machine::Quiet, Machine::Drift, Machine::Steal, Machine::TwoSpeeds] {
        let false_claims = claims(machine, 0, 1.0, 200);
        println!("{machine:?}: {false_claims} of 200 claim");
        assert!(false_claims <= 10, "{machine:?}: {false_claims} of 200");
    }
}

#[test]
fn a_speed_up_is_found_on_a_machine_that_is_not_too_noisy() {
    for machine in [Machine::Quiet, Machine::Drift, Machine::Steal] {
        let found = claims(machine, 10, 1.8, 50);
        println!("{machine:?}: {found} of 50 found");
        assert!(found >= 45, "{machine:?}: {found} of 50");
    }
}
