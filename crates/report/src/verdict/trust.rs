//! How far to trust a run and each of its advices: how busy the machine was, how much the rounds differ, how many there are, and what
//! their tests can show. What a run does not tell is unknown, never good.

use punctual_record::{BusyProcess, Notice, Run, Series};
use serde::Serialize;

use super::Level;
use super::advice::{Advice, Case, Goal, Standing, tail_looks_longer};
use crate::document::ends;
use crate::evidence::distributions::student_quantile;
use crate::evidence::noise::{FREEDOM, MIN_ROUNDS, places, wandering};
use crate::evidence::{Gain, LEVEL};
use crate::format::{sanitize, spoken, unbroken, units};

/// How far to trust the figures, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trust {
    /// How far.
    pub level: Level,
    /// Why, in a sentence each; never empty where the level is not good.
    pub why: Vec<String>,
    /// Whether the machine was too busy: then this is the first thing to say.
    pub busy: bool,
    /// Who was busy, and what that means for the figures, in a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub beside: Vec<String>,
    /// The median of the differences at p50, in ns, that the tests of this run can show; absent without tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_ns: Option<i64>,
    /// The number of tests behind `least_ns`.
    #[serde(skip)]
    tests: usize,
}

/// From this share of the CPUs' time that others used, the machine was busy.
const BUSY: f64 = 0.15;
/// From this share of the CPUs' time that the hypervisor took, likewise.
const STOLEN: f64 = 0.03;
/// A median that another run would find within a tenth is good, within a half fair.
const WITHIN: [f64; 2] = [0.1, 0.5];

/// The share that other programs used, where that is much.
fn by_programs(notice: &Notice) -> Option<f64> {
    if let Notice::BusyMachine { share } = notice { Some(*share).filter(|share| *share >= BUSY) } else { None }
}

/// The share that the hypervisor took, likewise.
fn by_host(notice: &Notice) -> Option<f64> {
    if let Notice::Steal { share } = notice { Some(*share).filter(|share| *share >= STOLEN) } else { None }
}

/// Whether others used so much of the CPUs that the figures are theirs.
pub(crate) fn is_busy(run: &Run) -> bool {
    run.notices.iter().any(|notice| by_programs(notice).or(by_host(notice)).is_some())
}

impl Trust {
    /// What decides it: who else was busy, how far the rounds differ, how many there are, and what the tests can show.
    #[must_use]
    pub(crate) fn judged(run: &Run, tested: &[Advice]) -> Self {
        let mut trust = Self { level: Level::Good, ..Self::default() };
        if run.host.emulator.is_some() {
            trust.lower(Level::Poor, EMULATED.to_owned());
        }
        trust.disturbed(run);
        trust.precise(run);
        trust.drifted(run);
        trust.resolves(tested);
        if !run.complete {
            trust.lower(Level::Fair, "The run is incomplete.".to_owned());
        }
        trust
    }

    /// A busy machine is a condition: its figures are those of now.
    fn disturbed(&mut self, run: &Run) {
        let used = shares(run, by_programs);
        let used = used.map(|shares| format!("Other programs used {shares} of the CPUs{}.", who(run)));
        let taken = shares(run, by_host).map(|shares| format!("The hypervisor took {shares} of the CPUs."));
        self.beside.extend(used.into_iter().chain(taken));
        self.busy = !self.beside.is_empty();
        if self.busy {
            self.beside.push("The figures are those of now.".to_owned());
            self.lower(Level::Fair, "The machine was busy.".to_owned());
        } else if run.disturbance.busy_share.is_none() {
            self.lower(Level::Unknown, "How busy the machine was is unknown.".to_owned());
        }
    }

    /// How far off the medians of another run may be, by how the rounds of this one differ.
    fn precise(&mut self, run: &Run) {
        let mut all: Vec<f64> = run.series.iter().filter_map(precision).collect();
        all.sort_by(f64::total_cmp);
        let Some(&middle) = all.get(all.len() / 2) else {
            let why = match run.series.iter().map(|series| series.summary.count).max() {
                Some(samples) if samples < FEW => format!("At most {samples} samples of a series: too few to tell."),
                _ => format!("Fewer than {MIN_ROUNDS} rounds: how far another run would differ is unknown."),
            };
            return self.lower(Level::Unknown, why);
        };
        let level = match middle {
            _ if middle <= WITHIN[0] => return,
            _ if middle <= WITHIN[1] => Level::Fair,
            _ => Level::Poor,
        };
        let why = match middle.exp_m1() {
            share if share < 1.0 => format!("Another run may find a p50 that differs by {}.", spoken::share(share)),
            _ => "Another run may find several times the p50.".to_owned(),
        };
        self.lower(level, why);
    }

    fn drifted(&mut self, run: &Run) {
        let unsteady = |notice: &Notice| match notice {
            Notice::Unsteady { series, judged } => Some((*series, *judged)),
            _ => None,
        };
        let all = run.notices.iter().filter_map(unsteady);
        let (series, judged) = all.fold((0, 0), |(series, judged), (more, of_them)| (series + more, judged + of_them));
        if series * 5 > judged {
            self.lower(Level::Fair, format!("{series} of {judged} series drifted between rounds."));
        }
    }

    /// What the tests can show, as a time and beside what it is a part of.
    fn resolves(&mut self, tested: &[Advice]) {
        let waits = tested.iter().filter(|advice| advice.goal == Goal::WakeOnTime);
        let known = |case: &Case| Some((case.p50.gain?, case.p50.before_ns?));
        let gains = waits.flat_map(|advice| &advice.cases).filter_map(known);
        let resolved = |(gain, before_ns): (Gain, i64)| ((gain.ns - gain.low_ns).max(gain.scatter_ns), before_ns);
        let mut all: Vec<(i64, i64)> = gains.map(resolved).collect();
        all.sort_unstable();
        let Some(&(least_ns, before_ns)) = all.get(all.len() / 2) else { return };
        (self.least_ns, self.tests) = (Some(least_ns), all.len());
        if least_ns >= before_ns {
            self.lower(Level::Poor, format!("{} only what is as large as the lateness itself.", self.tests_show()));
        }
    }

    const fn tests_show(&self) -> &'static str {
        if self.tests > 1 { "Half of its tests show" } else { "Its test shows" }
    }

    /// `fair. The machine was busy.` and `25 of 58 series drifted between rounds. Half of its tests show differences from 5 µs on.`
    #[must_use]
    pub(crate) fn text(&self) -> (String, Option<String>) {
        let mut why = self.why.iter();
        let first = why.next().map_or_else(String::new, |why| format!(" {why}"));
        let least = self
            .least_ns
            .map(|ns| format!("{} differences from {} on.", self.tests_show(), unbroken(&units::about(ns as f64))));
        let rest: Vec<String> = why.cloned().chain(least).collect();
        (format!("{}.{first}", self.level.word()), (!rest.is_empty()).then(|| rest.join(" ")))
    }

    fn lower(&mut self, level: Level, why: String) {
        // What decides it comes first.
        let place = if level > self.level { 0 } else { self.why.len() };
        self.level = self.level.max(level);
        self.why.insert(place, why);
    }
}

/// What an emulator does to figures.
pub(crate) const EMULATED: &str = "The figures are the emulator's, not those of a CPU.";
/// Processes that are named: two lines of a terminal.
const BUSIEST: usize = 2;
/// With fewer samples not even a median has an interval.
const FEW: u64 = 6;

/// How far off the median of another run may be, as a logarithm of the ratio: the interval of a mean over the rounds, whose error is their
/// Allan deviation. `None`: too few rounds.
fn precision(series: &Series) -> Option<f64> {
    let error = wandering(&places(&series.rounds, |round| round.summary.p50.map(|ns| ns as f64)))?.sqrt();
    Some(student_quantile(LEVEL, FREEDOM) * error)
}

/// How far to trust an advice, by its tests alone: a busy machine widens their intervals.
pub(super) fn of_advice(advice: &Advice) -> Level {
    if advice.standing != Standing::Advised {
        return Level::Unknown;
    }
    let Some(case) = advice.best() else { return Level::Unknown };
    let whole = |gain: Gain| 2 * gain.low_ns >= gain.ns && 2 * gain.scatter_ns <= gain.ns;
    let (shown, known) = match advice.goal {
        Goal::LetOthersRun => {
            let gain = case.others.as_ref().and_then(|others| others.gain);
            (gain.is_some(), gain.is_some_and(|gain| 2.0 * gain.low >= gain.share && 2.0 * gain.scatter <= gain.share))
        }
        _ => (case.p50.better().is_some(), case.p50.better().is_some_and(whole)),
    };
    let looks_longer = advice.doubt.is_some() || advice.cases.iter().any(tail_looks_longer);
    match (shown, known, looks_longer) {
        (true, true, false) => Level::Good,
        (true, true, true) | (true, false, false) => Level::Fair,
        // What is shown of the tail alone, by the pooled samples of few rounds.
        (false, ..) if case.p99.better().is_some_and(whole) => Level::Fair,
        _ => Level::Poor,
    }
}

/// `43 %`; of the runs of a merged one, `43 % to 90 %`.
fn shares(run: &Run, of: impl Fn(&Notice) -> Option<f64>) -> Option<String> {
    let (low, high) = ends(run.notices.iter().filter_map(of))?;
    let [low, high] = [low, high].map(spoken::share);
    Some(if low == high { low } else { format!("{low} to {high}") })
}

/// `: cc1 (pid 123) 43 %, make (pid 99) 8 %`.
fn who(run: &Run) -> String {
    let one = |process: &BusyProcess| {
        let text = format!("{} (pid {}) {}", sanitize(&process.name), process.pid, units::share(process.cpu_share));
        unbroken(&text)
    };
    let all: Vec<String> = run.disturbance.busiest.iter().take(BUSIEST).map(one).collect();
    if all.is_empty() { String::new() } else { format!(": {}", all.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Effect, Outcome};
    use crate::verdict::{Code, Price};

    fn run(notices: &str, busiest: &str) -> Run {
        let text = format!(
            r#"{{"schema": "punctual.run/2", "tool": {{"name": "punctual", "version": "0"}},
            "started": "2026-01-02T03:04:05Z", "elapsed_ns": 1, "complete": true, "command": [], "subcommand": "wait",
            "host": {{"rt": {{}}}}, "conditions": [], "series": [], "not_measured": [], "merged_from": [],
            "clock": {{"source": "x", "read_ns": 20.0, "resolution_ns": 1, "granularity_ns": 1}},
            "notices": {notices}, "disturbance": {{"busiest": {busiest}}}}}"#
        );
        Run::from_json(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_is_not_known_is_never_good() {
        let trust = Trust::judged(&run("[]", "[]"), &[]);
        assert_eq!(trust.level, Level::Unknown, "{trust:?}");
        let [disturbance, rounds] = &trust.why[..] else { panic!("{trust:?}") };
        assert!(disturbance.contains("unknown") && rounds.contains("unknown"), "{trust:?}");
    }

    fn advice(p50: Effect, p99: Effect) -> Advice {
        let case = Case { case: "1 ms".into(), p50, p99, ..Case::default() };
        Advice {
            id: "timer-slack".into(),
            goal: Goal::WakeOnTime,
            experiment: "wait".into(),
            what: "slack 1 ns".into(),
            instead_of: "as found".into(),
            standing: Standing::Advised,
            trust: Level::Unknown,
            in_company: false,
            cases: vec![case],
            price: Price::default(),
            code: Code::default(),
            doubt: None,
            equal: Vec::new(),
        }
    }

    fn better(low_ns: i64, ns: i64) -> Effect {
        let gain = Gain { ns, low_ns, high_ns: 2 * ns - low_ns, scatter_ns: 0 };
        Effect { outcome: Outcome::Better, gain: Some(gain), ..Effect::default() }
    }

    #[test]
    fn an_advice_is_as_good_as_its_tests() {
        let untested = Effect::default;
        let longer = || Effect { before_ns: Some(80_000), after_ns: Some(3_000_000), ..Effect::default() };
        let trust = |p50, p99| of_advice(&advice(p50, p99));
        assert_eq!(trust(better(40_000, 50_000), untested()), Level::Good);
        assert_eq!(trust(better(10_000, 50_000), untested()), Level::Fair, "shown, and not how large");
        assert_eq!(trust(better(40_000, 50_000), longer()), Level::Fair, "its tail looks longer");
        assert_eq!(trust(better(10_000, 50_000), longer()), Level::Poor);
        assert_eq!(trust(untested(), better(40_000, 50_000)), Level::Fair);
        assert_eq!(trust(untested(), better(10_000, 50_000)), Level::Poor);
        let tried = Advice { standing: Standing::Mixed, ..advice(better(40_000, 50_000), untested()) };
        assert_eq!(of_advice(&tried), Level::Unknown);
    }

    #[test]
    fn a_gain_of_the_tail_is_one_of_company() {
        let is_gain = |p50, p99| advice(p50, p99).gains_at_the_tail();
        assert!(
            is_gain(Effect::default(), better(2_000_000, 3_000_000))
                && is_gain(better(40_000, 50_000), better(200_000, 300_000))
        );
        assert!(
            !is_gain(better(40_000, 50_000), better(50_000, 70_000))
                && !is_gain(better(40_000, 50_000), Effect::default())
        );
    }

    #[test]
    fn what_an_emulator_ran_is_poor() {
        let mut emulated = run("[]", "[]");
        let why = |run: &Run| Trust::judged(run, &[]).why;
        assert!(!why(&emulated).iter().any(|why| why == EMULATED));
        emulated.host.emulator = Some("qemu-aarch64-static".into());
        assert!(why(&emulated).iter().any(|why| why == EMULATED));
    }

    #[test]
    fn a_busy_machine_names_who_was_busy() {
        let cc1 = r#"[{"name": "cc1\u001b[2J", "pid": 123, "cpu_share": 0.43}, {"name": "make", "pid": 9, "cpu_share": 0.08}]"#;
        let busy = r#"[{"code": "busy-machine", "share": 0.56}]"#;
        let said = |notices: &str, busiest: &str| {
            Trust::judged(&run(notices, busiest), &[]).beside.join(" ").replace('\u{a0}', " ")
        };
        assert_eq!(
            said(busy, cc1),
            "Other programs used 56 % of the CPUs: cc1?[2J (pid 123) 43 %, make (pid 9) 8.0 %. The figures are those of now."
        );
        assert_eq!(said(busy, "[]"), "Other programs used 56 % of the CPUs. The figures are those of now.");
        let merged = r#"[{"code": "busy-machine", "share": 0.56}, {"code": "busy-machine", "share": 0.9}]"#;
        assert_eq!(said(merged, "[]"), "Other programs used 56 % to 90 % of the CPUs. The figures are those of now.");
        assert_eq!(said("[]", cc1), "", "a quiet machine");
    }
}
