//! The margin learner against an oracle: the best that any fixed margin could have done on the same wake-ups.
//!
//! Recorded traces are wake-up latencies in ns, in order, of `clock_nanosleep` to an absolute time. The timer slack is 1 ns. They are
//! from a KVM guest with two CPUs (AMD EPYC, Linux 6.18, HZ=250, haltpoll). The thread was under SCHED_OTHER or FIFO 40, alone or with a
//! busy neighbour. Synthetic ones bring what a machine seldom shows on demand: steps, drift, outliers, two modes.

use std::time::Duration;

use punctual::margin::{Aim, Decision, MarginLearner};

/// CPU time of a sleeping call, as measured on the same machine: it is the same for learner and oracle.
const CALL_NS: u64 = 3_000;
const CAP_NS: u32 = 250_000;
const WITHIN_NS: i64 = 1_000;
const AIMS: [Aim; 3] = [
    Aim::Balanced { worth: Duration::from_millis(2) },
    Aim::Lateness { within: Duration::from_micros(1), share: 0.99 },
    Aim::Lateness { within: Duration::from_micros(1), share: 0.95 },
];

/// What a policy achieved.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Outcome {
    late: usize,
    cpu_ns: u64,
}

fn replay(aim: Aim, wait_ns: i64, trace: &[i64], unrecorded: usize) -> Outcome {
    let mut learner = MarginLearner::new(aim, CAP_NS);
    let mut outcome = Outcome { late: 0, cpu_ns: 0 };
    for (n, &latency) in trace.iter().enumerate() {
        let one = match learner.decide(wait_ns) {
            Decision::Spin => Outcome { late: 0, cpu_ns: wait_ns.unsigned_abs() },
            Decision::Sleep { margin_ns, .. } => {
                learner.saw(wait_ns, latency);
                fixed(margin_ns.into(), latency)
            }
        };
        if n >= unrecorded {
            outcome.late += one.late;
            outcome.cpu_ns += one.cpu_ns;
        }
    }
    outcome
}

fn fixed(margin_ns: i64, latency: i64) -> Outcome {
    let late = usize::from(latency > margin_ns + WITHIN_NS);
    Outcome { late, cpu_ns: CALL_NS + (margin_ns - latency).max(0).unsigned_abs() }
}

/// The least CPU time of any fixed margin that is late no more often.
fn oracle(trace: &[i64], late: usize) -> u64 {
    let mut sorted = trace.to_vec();
    sorted.sort_unstable();
    let margin = sorted[(sorted.len() - 1).saturating_sub(late)].saturating_sub(WITHIN_NS).max(0);
    trace.iter().map(|&latency| fixed(margin, latency).cpu_ns).sum()
}

fn recorded(name: &str) -> Vec<i64> {
    let path = format!("{}/tests/data/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// A small generator, so that every run sees the same trace.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A latency as machines have them: a floor, and an exponential tail.
    fn latency(&mut self, floor: f64, tail: f64) -> i64 {
        (floor - tail * self.unit().max(1e-12).ln()) as i64
    }
}

fn synthetic(n: usize, mut latency: impl FnMut(usize, &mut Random) -> i64) -> Vec<i64> {
    let mut random = Random(42);
    (0..n).map(|i| latency(i, &mut random)).collect()
}

/// Regret on a trace: CPU time as a multiple of the oracle's, and the share of late waits.
fn regret(aim: Aim, name: &str, wait_us: i64, trace: &[i64]) -> (f64, f64) {
    let settled = 64;
    let outcome = replay(aim, wait_us * 1_000, trace, settled);
    let rest = &trace[settled..];
    let ratio = outcome.cpu_ns as f64 / oracle(rest, outcome.late) as f64;
    let late = outcome.late as f64 / rest.len() as f64;
    let beyond = rest.iter().filter(|&&l| l > i64::from(CAP_NS)).count() as f64 / rest.len() as f64;
    println!(
        "{aim:?} {name:<28} late {:.2} % (beyond the cap {:.2} %), CPU {:.1} us a wait, {ratio:.3} of the oracle's",
        late * 100.0,
        beyond * 100.0,
        outcome.cpu_ns as f64 / rest.len() as f64 / 1e3,
    );
    (ratio, late - beyond)
}

/// The most CPU time, as a multiple of the oracle's. The second is the largest share of waits late that spinning could have saved.
///
/// Steady and synthetic traces are held to 1.25. The recorded ones come in bursts, which an oracle with one margin need not
/// notice. An aim that insists on its share pays for following them, the balanced one does not.
fn limits(aim: Aim, recorded: bool) -> (f64, f64) {
    match aim {
        Aim::Lateness { share, .. } => {
            (if recorded { 1.75 } else { 1.25 }, f64::from(1.0 - share) * if recorded { 4.0 } else { 1.0 })
        }
        _ => (1.25, if recorded { 0.04 } else { 0.01 }),
    }
}

#[test]
fn recorded_traces() {
    for (name, wait_us) in [
        ("idle-100us", 100),
        ("idle-1ms", 1_000),
        ("fifo-1ms", 1_000),
        ("idle-20ms", 20_000),
        ("neighbour-other-cpu-1ms", 1_000),
        ("neighbour-same-cpu-100us", 100),
    ] {
        for aim in AIMS {
            let (ratio, late) = regret(aim, name, wait_us, &recorded(name));
            let (most, latest) = limits(aim, true);
            assert!(ratio <= most, "{name}: CPU {ratio:.3} times the oracle's");
            assert!(late <= latest, "{name}: {:.2} % late that spinning could have saved", late * 100.0);
        }
    }
}

#[test]
fn synthetic_traces() {
    let n = 20_000;
    let traces: [(&str, Vec<i64>); 6] = [
        ("steady", synthetic(n, |_, r| r.latency(15_000.0, 3_000.0))),
        ("outliers", synthetic(n, |_, r| if r.unit() < 0.002 { 5_000_000 } else { r.latency(15_000.0, 3_000.0) })),
        (
            "two modes",
            synthetic(
                n,
                |_, r| if r.unit() < 0.1 { r.latency(60_000.0, 2_000.0) } else { r.latency(15_000.0, 2_000.0) },
            ),
        ),
        ("step up", synthetic(n, |i, r| r.latency(if i < n / 2 { 10_000.0 } else { 45_000.0 }, 2_000.0))),
        ("step down", synthetic(n, |i, r| r.latency(if i < n / 2 { 45_000.0 } else { 10_000.0 }, 2_000.0))),
        ("drift", synthetic(n, |i, r| r.latency(10_000.0 + 40_000.0 * (i as f64 / n as f64), 2_000.0))),
    ];
    for (name, trace) in &traces {
        for aim in AIMS {
            let (ratio, late) = regret(aim, name, 1_000, trace);
            let (most, latest) = limits(aim, false);
            assert!(ratio <= most, "{name}: CPU {ratio:.3} times the oracle's");
            assert!(late <= latest, "{name}: {:.2} % late that spinning could have saved", late * 100.0);
        }
    }
}

/// After a change of the machine, the margin is right again within tens of waits, up and down.
#[test]
fn it_follows_within_tens_of_waits() {
    let mut learner = MarginLearner::new(Aim::default(), CAP_NS);
    let mut random = Random(7);
    let mut feed = |learner: &mut MarginLearner, floor: f64, n: usize| {
        for _ in 0..n {
            learner.saw(1_000_000, random.latency(floor, 1_000.0));
        }
        learner.margin_ns(1_000_000)
    };
    let settled = feed(&mut learner, 12_000.0, 2_000);
    assert!((14_000..24_000).contains(&settled), "{settled}");
    let up = feed(&mut learner, 60_000.0, 10);
    assert!(up >= 60_000, "{up} after 10 waits of 60 us");
    feed(&mut learner, 60_000.0, 2_000);
    let down = feed(&mut learner, 12_000.0, 80);
    assert!(down <= 30_000, "{down} after 80 waits of 12 us");
}

/// What the note of 2019 corrects by hand: 64.5 µs that vary by 10 % from run to run. (How they vary within a run it does not tell: here they
/// have a tail of 1.5 µs.) It reached 5 to 10 µs. The compensated aim follows, so that at most half of that is left, with a mean below 2 µs.
/// This takes hardly any spinning.
#[test]
fn the_compensated_sleep_is_twice_as_exact_as_the_note() {
    let runs = [64_500.0, 70_900.0, 58_100.0, 66_000.0, 61_000.0];
    let trace = synthetic(10_000, |n, r| r.latency(runs[n / 2_000] - 1_500.0, 1_500.0));
    let mut learner = MarginLearner::new(Aim::Typical, CAP_NS);
    let mut errors = Vec::new();
    let mut spun = 0;
    for &latency in &trace {
        let Decision::Sleep { margin_ns, .. } = learner.decide(100_000) else { panic!("it never spins it all") };
        learner.saw(100_000, latency);
        errors.push((latency - i64::from(margin_ns)).max(0));
        spun += (i64::from(margin_ns) - latency).max(0);
    }
    let mean = errors.iter().sum::<i64>() as f64 / errors.len() as f64;
    errors.sort_unstable();
    let spread = errors[errors.len() * 95 / 100];
    let spun = spun as f64 / errors.len() as f64;
    println!("compensated: mean error {mean:.0} ns, 95 % within {spread} ns, {spun:.0} ns spun");
    assert!(mean < 2_000.0, "{mean}");
    assert!(spread < 5_000, "{spread}");
    assert!(spun < 3_000.0, "{spun}");
}

/// It leans towards too much margin, which is spun off, rather than too little, which is late. Of latencies that lie evenly, fewer than
/// half are beyond.
#[test]
fn the_compensated_sleep_leans_towards_waking_early() {
    let trace = synthetic(20_000, |_, r| 20_000 + (r.unit() * 10_000.0) as i64);
    let mut learner = MarginLearner::new(Aim::Typical, CAP_NS);
    let mut beyond = 0;
    for &latency in &trace {
        beyond += usize::from(latency > i64::from(learner.margin_ns(100_000)));
        learner.saw(100_000, latency);
    }
    let share = beyond as f64 / trace.len() as f64;
    assert!((0.3..0.47).contains(&share), "{share}");
}

/// A balanced aim learns that waits cannot be slept. Then it tries a sleep as rarely as a late wait is dear. An aim that insists tries
/// once in a thousand waits at most.
#[test]
fn tries_are_as_rare_as_they_are_dear() {
    let balanced = |ms| Aim::Balanced { worth: Duration::from_millis(ms) };
    let insistent = Aim::Lateness { within: Duration::from_micros(1), share: 0.99 };
    for (aim, wait_ns, every) in [
        (balanced(2), 20_000, 1_000),
        (balanced(2), 100_000, 200),
        // Cheap, and yet no more often; dear, and yet no less.
        (balanced(1), 120_000, 128),
        (balanced(100), 100_000, 1_024),
        (insistent, 20_000, 1_024),
    ] {
        let mut learner = MarginLearner::new(aim, CAP_NS);
        let mut tries = |waits: usize| {
            let sleeps = |_: &usize| {
                let sleeps = learner.decide(wait_ns) != Decision::Spin;
                if sleeps {
                    learner.saw(wait_ns, 2 * wait_ns);
                }
                sleeps
            };
            (0..waits).filter(sleeps).count()
        };
        tries(10_000);
        let seen = tries(100_000);
        assert!((100_000 / every - 2..=100_000 / every + 2).contains(&seen), "{aim:?} at {wait_ns} ns: {seen}");
    }
}

/// One bad sample, or a burst of them, is forgotten, and never makes it spin longer than the cap.
#[test]
fn bad_samples_do_not_stick() {
    let mut learner = MarginLearner::new(Aim::default(), CAP_NS);
    let mut random = Random(9);
    for _ in 0..1_000 {
        learner.saw(1_000_000, random.latency(15_000.0, 1_000.0));
    }
    let before = learner.margin_ns(1_000_000);
    for bad in [240_000, i64::MAX, 10_000_000_000, 249_000] {
        learner.saw(1_000_000, bad);
        assert!(learner.margin_ns(1_000_000) <= CAP_NS);
    }
    for _ in 0..200 {
        learner.saw(1_000_000, random.latency(15_000.0, 1_000.0));
    }
    let after = learner.margin_ns(1_000_000);
    assert!(after < before * 2, "{before} before, {after} after");
}

/// Waits too short to sleep are spun, and yet it finds out when the machine wakes faster than it did.
#[test]
fn spinning_ends_when_sleeping_pays() {
    let mut learner = MarginLearner::new(Aim::default(), CAP_NS);
    for _ in 0..500 {
        learner.saw(20_000, 40_000);
    }
    assert_eq!(learner.decide(20_000), Decision::Spin);
    let mut slept = 0;
    for _ in 0..60_000 {
        if let Decision::Sleep { margin_ns, .. } = learner.decide(20_000) {
            assert!(margin_ns < 20_000);
            slept += 1;
            learner.saw(20_000, 5_000);
        }
    }
    assert!(slept > 10_000, "{slept} of 60000 waits slept");
}

/// A budget is kept, and used.
#[test]
fn budgets_are_kept_and_used() {
    for (share, wait_ns) in [(0.02, 1_000_000_i64), (0.05, 1_000_000), (0.25, 100_000)] {
        let aim = Aim::cpu_budget(share).unwrap();
        let mut learner = MarginLearner::new(aim, CAP_NS);
        let trace = synthetic(5_000, |_, r| r.latency(15_000.0, 20_000.0));
        let mut cpu_ns = 0;
        for &latency in &trace {
            let Decision::Sleep { margin_ns, .. } = learner.decide(wait_ns) else {
                panic!("a budget never spins it all")
            };
            learner.call_costs(CALL_NS as i64);
            learner.saw(wait_ns, latency);
            cpu_ns += fixed(margin_ns.into(), latency).cpu_ns;
        }
        let used = cpu_ns as f64 / trace.len() as f64 / wait_ns as f64;
        println!("budget {share}: used {used:.4}");
        assert!(used <= f64::from(share) * 1.1, "{used} of {share}");
        assert!(used >= f64::from(share) * 0.7, "{used} of {share}");
    }
}

/// A budget that does not even pay for the call sleeps without margin.
#[test]
fn a_budget_too_small_is_a_native_sleep() {
    let mut learner = MarginLearner::new(Aim::cpu_budget(0.01).unwrap(), CAP_NS);
    for _ in 0..100 {
        learner.call_costs(CALL_NS as i64);
        learner.saw(100_000, 20_000);
    }
    assert_eq!(learner.margin_ns(100_000), 0);
}

#[test]
fn what_is_no_aim_is_refused() {
    for share in [0.0, 0.49, 1.0, 1.5, -1.0, f32::NAN] {
        assert!(Aim::lateness(Duration::from_micros(1), share).is_err(), "{share}");
    }
    for share in [0.0, -0.1, 1.1, f32::NAN, f32::INFINITY] {
        assert!(Aim::cpu_budget(share).is_err(), "{share}");
    }
}

/// Anything may come in; nothing overflows and the margin keeps its cap.
#[test]
fn extremes_are_taken() {
    for aim in [Aim::default(), Aim::Typical, Aim::CpuBudget { share: 1.0 }] {
        let mut learner = MarginLearner::new(aim, u32::MAX);
        for wait in [i64::MIN, -1, 0, 1, 999, 1_000, 1_001, i64::MAX] {
            for latency in [i64::MIN, -1, 0, 1, 511, 512, 524_287, 524_288, i64::MAX] {
                for _ in 0..40 {
                    learner.decide(wait);
                    learner.saw(wait, latency);
                    assert!(learner.margin_ns(wait) <= MarginLearner::LARGEST_CAP_NS);
                }
            }
        }
    }
}

#[test]
fn a_learner_that_begins_anew_is_as_a_new_one() {
    let typical = Aim::Typical;
    for aim in AIMS.into_iter().chain([typical]) {
        let mut learner = MarginLearner::new(typical, 10_000);
        for n in 0..500 {
            learner.saw(20_000 << (n % 12), 1_000 + n * 50);
        }
        learner.call_costs(9_000);
        learner.lost_the_cpu();
        learner.restart(aim, CAP_NS);
        assert_eq!(format!("{learner:?}"), format!("{:?}", MarginLearner::new(aim, CAP_NS)));
    }
}
