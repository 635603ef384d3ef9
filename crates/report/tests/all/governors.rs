//! Runs of the governor's experiments compared and merged: what was asked tells what belongs together, not what came out.

use std::collections::BTreeMap;

use crate::common::{found, run};
use crate::forms::{shown, written};
use punctual_record::experiment::{boost, ramp, switch};
use punctual_record::merge::Merger;
use punctual_record::{
    About, Experiment, NotMeasured, Quantity, Recorder, Run, Series, SeriesId, SeriesTally, Typed, Usage,
};
use punctual_report::compare::{Comparison, Options, Side, Verdict, WhyUnmatched, compare};
use punctual_report::export::{csv, openmetrics};
use punctual_report::{Style, Verdict as Judgement};

const ROUNDS: u32 = 12;

/// A run: how fast the machine was, on which CPU, and what its samples begin with.
pub(crate) struct Machine {
    speed: f64,
    cpu: u32,
    seed: i64,
}

pub(crate) const OLD: Machine = Machine { speed: 1.0, cpu: 1, seed: 1 };
const NEW: Machine = Machine { speed: 1.5, cpu: 3, seed: 2 };

impl Machine {
    fn ns(&self, ns: i64) -> i64 {
        (ns as f64 * self.speed) as i64
    }

    /// A series whose samples lie around `ns`; each round begins with one that is twice as long.
    fn series(&self, experiment: Experiment, subject: &str, quantity: Quantity, ns: i64) -> Series {
        let mut tally = SeriesTally::new();
        let mut recorder = Recorder::new();
        let mut samples = Vec::new();
        for round in 0..ROUNDS {
            recorder.clear();
            for i in 0..100_i64 {
                let jitter = (i * 7919 + i64::from(round) * 104_729 + self.seed * 611_953) % 1000;
                let ns = if i == 0 { 2 * ns } else { ns };
                let ns = self.ns(ns + ns * jitter / 100_000);
                recorder.record(ns);
                samples.push(ns);
            }
            let usage = Usage { elapsed_ns: 200_000_000, cpu_ns: Some(100_000_000), ..Usage::default() };
            tally.add_round(round, u64::from(round) * 1_000_000_000, &recorder, usage);
        }
        let series = tally.to_series(SeriesId {
            experiment,
            subject: subject.into(),
            about: About::default(),
            conditions: "as found".into(),
            quantity,
        });
        Series { samples: Some(samples), ..series }
    }

    fn ramp(&self, governor: &str) -> Series {
        let parameters = ramp::Parameters { loops: 100, work_ns: 750_000, rest_ns: 300_000_000 };
        let metrics = ramp::Metrics {
            cpu: Some(self.cpu),
            steps: Some(150_000 + self.seed),
            best_ns: Some(self.ns(750_000)),
            first_ns: Some(self.ns(1_500_000)),
            final_ns: Some(self.ns(752_000)),
            rounds_at_full_speed: Some(u64::from(ROUNDS)),
            to_full_speed_ns: Some(self.ns(1_500_000)),
            transitions: Some(10 + self.seed as u64),
            driver: Some("acpi-cpufreq".into()),
            own_spread: Some(0.01 * self.speed),
            ..ramp::Metrics::default()
        };
        self.series(Experiment::Ramp(Typed { parameters, metrics }), governor, Quantity::Loop, 750_000)
    }

    pub(crate) fn switch(&self) -> Series {
        let metrics = switch::Metrics {
            cpu: Some(self.cpu),
            switched_from_cpu: Some(0),
            before_ns: Some(self.ns(2_000)),
            after_ns: Some(self.ns(900)),
            not_seen: Some(1),
            ..switch::Metrics::default()
        };
        let experiment = Experiment::Switch(Typed { parameters: switch::Parameters {}, metrics });
        self.series(experiment, "powersave to performance", Quantity::Settling, 40_000)
    }

    fn boost(&self) -> Series {
        let parameters =
            boost::Parameters { period_ns: 10_000_000, work_ns: 2_000_000, deadline_ns: 4_000_000, periods: 100 };
        let metrics = boost::Metrics {
            cpu: Some(self.cpu),
            governor: Some("schedutil".into()),
            met: Some(1100 + self.seed as u64),
            missed: Some(100 - self.seed as u64),
            residency: Some([(1_000_000, 0.25), (3_000_000, 0.75)].into()),
            ..boost::Metrics::default()
        };
        self.series(Experiment::Boost(Typed { parameters, metrics }), "boost", Quantity::Response, 2_400_000)
    }

    fn run(&self) -> Run {
        let series = vec![self.ramp("as found"), self.ramp("performance"), self.switch(), self.boost()];
        let mut run = Run { series, ..run(&["punctual", "governor"], vec![found("as found", 50_000)], &[]) };
        run.started = format!("2026-01-0{}T00:00:00Z", self.seed).parse().unwrap();
        run
    }
}

fn compared(old: &Run, new: &Run) -> Comparison {
    let (mut before, mut after) = (Side::new(), Side::new());
    before.add("old.json", old).unwrap();
    after.add("new.json", new).unwrap();
    compare(&before, &after, Options::default())
}

#[test]
fn a_slower_machine_is_found_by_each_experiment() {
    let comparison = compared(&OLD.run(), &NEW.run());
    assert_eq!(comparison.unmatched, []);
    let names: Vec<&str> = comparison.series.iter().map(|series| series.experiment.as_str()).collect();
    assert_eq!(names, ["boost", "ramp", "ramp", "switch"]);
    for series in &comparison.series {
        assert_eq!(series.figures[0].verdict, Verdict::Worse, "{}", series.subject);
    }
}

#[test]
fn other_work_is_not_compared() {
    let mut other = NEW.run();
    let Experiment::Ramp(ramp) = &mut other.series[0].experiment else { unreachable!() };
    ramp.parameters.work_ns = 100_000;
    let comparison = compared(&OLD.run(), &other);
    assert_eq!(comparison.series.len(), 3);
    let [one] = &comparison.unmatched[..] else { panic!("{:?}", comparison.unmatched) };
    assert!(matches!(one.why, WhyUnmatched::OtherParameters(_)), "{:?}", one.why);
    assert!(one.why.to_string().ends_with(" -> work of 100 µs"), "{}", one.why);
}

#[test]
fn two_runs_merge_into_one_that_reports() {
    let (old, new) = (OLD.run(), NEW.run());
    let (tool, command) = (old.tool.clone(), vec!["punctual".into(), "report".into()]);
    let mut merger = Merger::new(old).unwrap();
    merger.add(new).unwrap();
    let merged = merger.finish(tool, command).unwrap();
    assert_eq!(merged.series.len(), 4);
    let ramp = merged.series[0].experiment.ramp().unwrap();
    let metrics = &ramp.metrics;
    // Least, sum, mean, and nothing where they disagree.
    assert_eq!((metrics.best_ns, metrics.transitions, metrics.cpu), (Some(750_000), Some(23), None));
    assert_eq!((metrics.first_ns, metrics.driver.as_deref()), (Some(1_875_000), Some("acpi-cpufreq")));
    assert_eq!(merged.series[0].summary.count, 2 * u64::from(ROUNDS) * 100);
    assert_eq!(merged.series[3].experiment.boost().unwrap().metrics.met, Some(2203));
    let text = shown(&merged, &Style { width: 140, ..Style::default() });
    assert!(text.contains("Merged from 2 runs") && text.contains("ramp: loops of 750 µs"), "{text}");
}

#[test]
fn labels_and_columns_are_what_was_asked() {
    let mut of_one = OLD.run();
    of_one.series.truncate(1);
    of_one.series.iter_mut().for_each(|series| series.samples = None);
    let csv = written(csv::write, &of_one);
    assert!(csv.starts_with("experiment,subject,conditions,quantity,loops,rest_ns,work_ns,count,"), "{csv}");
    let metrics = written(openmetrics::write, &of_one);
    let labels = "{experiment=\"ramp\",subject=\"as found\",conditions=\"as found\",quantity=\"loop\",loops=\"100\",\
                  rest_ns=\"300000000\",work_ns=\"750000\"}";
    assert!(metrics.contains(&format!("punctual_samples{labels}")), "{metrics}");
}

fn answer(run: &Run) -> String {
    Judgement::from_run(run).answer.join(" ").replace('\u{a0}', " ")
}

pub(crate) fn run_of(series: Vec<Series>) -> Run {
    Run { series, ..run(&["punctual", "governor"], vec![found("as found", 50_000)], &[]) }
}

#[test]
fn a_switch_says_when_the_new_speed_is_there_or_first_that_it_is_not_seen() {
    let settling = OLD.switch();
    let write = Series { quantity: Quantity::CallCost, ..settling.clone() };
    let followed = answer(&run_of(vec![write.clone(), settling]));
    let said = "powersave to performance: the new speed is there 40.2 µs after the write (p50). The write takes 40.2 µs (p50).";
    assert_eq!(followed, said);
    let unseen = run_of(vec![write]);
    assert!(answer(&unseen).starts_with("Nothing to see: the speed does not follow the governor here."));
    let mut once = unseen.clone();
    let all = once.series[0].summary.count;
    let Experiment::Switch(typed) = &mut once.series[0].experiment else { unreachable!() };
    typed.metrics.not_seen = Some(all - 1);
    assert!(answer(&once).contains(&format!("the speed changed after 1 of {all} switches.")), "{}", answer(&once));
    assert!(!answer(&once).contains("no change of speed seen"), "{}", answer(&once));
    let text = shown(&unseen, &Style { width: 140, ..Style::default() });
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap();
    assert!(first.contains("Nothing to see"), "{text}");
    assert!(!text.contains("new speed"), "{text}");
}

#[test]
fn a_run_of_nothing_says_first_why() {
    let why = "/sys/devices/system/cpu/cpufreq holds no frequency policy".to_owned();
    let not_measured = NotMeasured {
        experiment: "switch".into(),
        subject: "powersave to performance".into(),
        conditions: None,
        parameters: BTreeMap::new(),
        why,
        remedy: None,
    };
    let run = Run { not_measured: vec![not_measured], ..run_of(Vec::new()) };
    let text = shown(&run, &Style { width: 140, ..Style::default() });
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap();
    let said = "Nothing was measured: /sys/devices/system/cpu/cpufreq holds no frequency policy.";
    assert_eq!(first.trim(), said);
}

/// A task whose activations take this long in each round; a tenth of them take half as long again.
pub(crate) fn task(subject: &str, rounds: [i64; 6], metrics: boost::Metrics) -> Series {
    const DEADLINE: i64 = 1_000_000;
    let parameters = boost::Parameters { period_ns: 10_000_000, work_ns: 750_000, deadline_ns: DEADLINE, periods: 50 };
    let mut tally = SeriesTally::new();
    let (mut recorder, mut samples) = (Recorder::new(), Vec::new());
    for (round, ns) in (0..).zip(rounds) {
        recorder.clear();
        for i in 0..50_i64 {
            let ns = if i % 10 == 0 { ns * 3 / 2 } else { ns + i * 100 };
            recorder.record(ns);
            samples.push(ns);
        }
        tally.add_round(
            round,
            0,
            &recorder,
            Usage { elapsed_ns: 500_000_000, cpu_ns: Some(40_000_000), ..Usage::default() },
        );
    }
    let met = samples.iter().filter(|ns| **ns <= DEADLINE).count() as u64;
    let metrics = boost::Metrics { met: Some(met), governor: Some("schedutil".into()), ..metrics };
    let series = tally.to_series(SeriesId {
        experiment: Experiment::Boost(Typed { parameters, metrics }),
        subject: subject.into(),
        about: About::default(),
        conditions: "as found".into(),
        quantity: Quantity::Response,
    });
    Series { samples: Some(samples), ..series }
}

pub(crate) const SLOW: [i64; 6] = [1_200_000, 1_210_000, 1_190_000, 1_205_000, 1_195_000, 1_200_000];
pub(crate) const FAST: [i64; 6] = [760_000, 761_000, 759_000, 760_000, 762_000, 760_000];

pub(crate) fn boosted() -> boost::Metrics {
    boost::Metrics {
        lever: Some("lower frequency limit".into()),
        raised_share: Some(0.12),
        power_mw: Some(4_200),
        ..boost::Metrics::default()
    }
}

#[test]
fn a_boost_that_meets_more_deadlines_is_advised_with_its_price() {
    let plain = boost::Metrics { power_mw: Some(3_100), ..boost::Metrics::default() };
    let run = run_of(vec![
        task("as found", SLOW, plain.clone()),
        task("boost", FAST, boosted()),
        task("performance", FAST, plain),
    ]);
    let said = "The boost meets more deadlines: 270 of 300, 0 of 300 without it. Under performance all the time, 270 of 300 are met. \
                Price of the boost: raised 12 % of the time, 4.20 W instead of 3.10 W and 800 µs of CPU time an activation, 800 µs without it.";
    assert_eq!(answer(&run), said);
    let verdict = Judgement::from_run(&run);
    let [advice] = verdict.advice.as_slice() else { panic!("{:?}", verdict.advice) };
    let whats = [advice.what.as_str(), advice.equal[0].what.as_str()];
    assert!(whats.contains(&"punctual::cpufreq::Boost") && whats.contains(&"governor performance"), "{whats:?}");
}

#[test]
fn a_boost_that_shows_no_difference_is_neither_praised_nor_advised() {
    let plain = boost::Metrics::default;
    // The rounds of the two scatter more than they differ.
    let scattered = [980_000, 1_300_000, 760_000, 1_200_000, 900_000, 1_250_000];
    let other = [1_250_000, 790_000, 1_240_000, 900_000, 1_260_000, 880_000];
    for (found, boost) in [(FAST, FAST), (scattered, other)] {
        let run = run_of(vec![task("as found", found, plain()), task("boost", boost, boosted())]);
        assert!(answer(&run).starts_with("No difference in deadlines met is shown: "), "{}", answer(&run));
        assert_eq!(Judgement::from_run(&run).advice, []);
    }
    let mut few = run_of(vec![task("as found", SLOW, plain()), task("boost", FAST, boosted())]);
    for series in &mut few.series {
        series.rounds.truncate(3);
        series.samples.as_mut().unwrap().truncate(150);
    }
    assert!(answer(&few).contains("Fewer than 5 rounds: not tested."), "{}", answer(&few));
    let alone = run_of(vec![task("as found", FAST, plain())]);
    assert_eq!(answer(&alone), "No boost could be tried here. As found, 270 of 300 deadlines are met.");
}
