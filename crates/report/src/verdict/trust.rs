//! How far to trust a run: how busy the machine was, and how much its rounds differ.

use punctual_record::{BusyProcess, Notice, Run};
use schemars::JsonSchema;
use serde::Serialize;

use super::advice::{Advice, Goal};
use crate::format::{sanitize, spoken, unbroken, units};

/// How far to trust the figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The machine was quiet, and at most a fifth of the series drifted.
    Good,
    /// More series drifted.
    Fair,
    /// The machine was busy, or most series drifted: the figures belong to what disturbed it.
    Poor,
    /// The run does not tell.
    #[default]
    Unknown,
}

/// How far to trust the figures, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Trust {
    /// How far.
    pub level: Level,
    /// Why, in a sentence each.
    pub why: Vec<String>,
    /// Whether the machine was too busy: then this is the first thing to say.
    pub busy: bool,
    /// The median of the differences at p50, in ns, that the tests of this run can show; absent without tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_ns: Option<i64>,
}

impl Level {
    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Fair => "fair",
            Self::Poor => "poor",
            Self::Unknown => "unknown",
        }
    }
}

/// From this share of the CPUs' time that others used, the machine was busy.
const BUSY: f64 = 0.15;
/// From this share of the CPUs' time that the hypervisor took, likewise.
const STOLEN: f64 = 0.03;

/// Whether others used so much of the CPUs that the figures are theirs.
pub(crate) fn is_busy(run: &Run) -> bool {
    let by_others = |notice: &Notice| match notice {
        Notice::BusyMachine { share } => *share >= BUSY,
        Notice::Steal { share } => *share >= STOLEN,
        _ => false,
    };
    run.notices.iter().any(by_others)
}

impl Trust {
    /// What the notices of the run and the outcome of its tests say.
    #[must_use]
    pub(crate) fn of(run: &Run, tested: &[Advice]) -> Self {
        let mut trust = Self { level: Level::Good, ..Self::default() };
        let mut drifted = (0, 0);
        for notice in &run.notices {
            match notice {
                Notice::BusyMachine { share: its } if *its >= BUSY => {
                    let who = who(run);
                    trust.lower(Level::Poor, format!("Other programs used {} of the CPUs{who}.", spoken::share(*its)));
                    trust.busy = true;
                }
                Notice::Steal { share: its } if *its >= STOLEN => {
                    trust.lower(Level::Poor, format!("The hypervisor took {} of the CPUs.", spoken::share(*its)));
                    trust.busy = true;
                }
                Notice::Unsteady { series, judged } => {
                    drifted.0 += series;
                    drifted.1 += judged;
                }
                _ => {}
            }
        }
        let (series, judged) = drifted;
        if series * 5 > judged {
            let level = if series * 3 > judged * 2 { Level::Poor } else { Level::Fair };
            trust.lower(level, format!("{series} of {judged} series drifted between rounds."));
        }
        trust.least_ns = least(tested);
        if !run.complete {
            trust.lower(Level::Fair, "The run is incomplete.".to_owned());
        }
        trust
    }

    /// `fair. 25 of 58 series drifted between rounds. It shows differences from 5 µs on.`
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}.", self.level.word());
        for why in self.why.iter().filter(|_| !self.busy) {
            text.push_str(&format!(" {why}"));
        }
        if let Some(ns) = self.least_ns {
            text.push_str(&format!(" It shows differences from {} on.", unbroken(&units::about(ns as f64))));
        }
        text
    }

    fn lower(&mut self, level: Level, why: String) {
        self.level = self.level.max(level);
        self.why.push(why);
    }
}

/// The median of what the tests of waits resolve at p50.
fn least(tested: &[Advice]) -> Option<i64> {
    let waits = tested.iter().filter(|advice| advice.goal == Goal::WakeOnTime);
    let gains = waits.flat_map(|advice| &advice.cases).filter_map(|case| case.p50.gain);
    let mut all: Vec<i64> = gains.map(|gain| (gain.ns - gain.low_ns).max(gain.scatter_ns)).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}

/// `: cc1 (pid 123) 43 %, make (pid 99) 8 %`.
fn who(run: &Run) -> String {
    let one = |process: &BusyProcess| {
        let text = format!("{} (pid {}) {}", sanitize(&process.name), process.pid, units::share(process.cpu_share));
        unbroken(&text)
    };
    let all: Vec<String> = run.disturbance.busiest.iter().map(one).collect();
    if all.is_empty() { String::new() } else { format!(": {}", all.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_busy_machine_names_who_was_busy() {
        let cc1 = r#"[{"name": "cc1\u001b[2J", "pid": 123, "cpu_share": 0.43}, {"name": "make", "pid": 9, "cpu_share": 0.08}]"#;
        let busy = r#"[{"code": "busy-machine", "share": 0.56}]"#;
        let said =
            |notices: &str, busiest: &str| Trust::of(&run(notices, busiest), &[]).why.join(" ").replace('\u{a0}', " ");
        assert_eq!(
            said(busy, cc1),
            "Other programs used 56 % of the CPUs: cc1?[2J (pid 123) 43 %, make (pid 9) 8.0 %."
        );
        assert_eq!(said(busy, "[]"), "Other programs used 56 % of the CPUs.");
        assert_eq!(said("[]", cc1), "", "a quiet machine");
    }
}
