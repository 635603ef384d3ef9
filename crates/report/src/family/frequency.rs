//! How a machine chooses its frequency, for `punctual governor`: policies, governor threads, idle states, energy, notices.
//!
//! Takes an [`Overview`] of the machine and returns text.

use std::collections::BTreeSet;

use crate::document::{Block, Column, Columns, Item, Section};
use crate::format::{sanitize, units};

/// For a column that stays.
const ALWAYS: u8 = Column::ALWAYS;

/// The findings. Facts that the machine does not report are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overview {
    /// The policies.
    pub policies: Vec<PolicyRow>,
    /// The governors' kernel threads, each with its scheduling class.
    pub threads: Vec<String>,
    /// Idle states of the first CPU.
    pub idle: Vec<IdleRow>,
    /// Energy counters, by name; the value is absent where it cannot be read.
    pub energy: Vec<(String, Option<u64>)>,
    /// What a reader ought to know, with what to do.
    pub notices: Vec<(String, Option<String>)>,
}

/// One policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyRow {
    /// Its number.
    pub number: usize,
    /// Its CPUs, as a list.
    pub cpus: String,
    /// Its driver.
    pub driver: Option<String>,
    /// The governor in force.
    pub governor: Option<String>,
    /// The governors offered.
    pub governors: Vec<String>,
    /// Limits in force, kHz.
    pub limits_khz: (Option<u64>, Option<u64>),
    /// What the hardware can do, kHz.
    pub hardware_khz: (Option<u64>, Option<u64>),
    /// What the kernel last asked for or measured, kHz.
    pub current_khz: Option<u64>,
    /// What the hardware says, kHz.
    pub measured_khz: Option<u64>,
    /// Transition latency, ns.
    pub latency_ns: Option<u64>,
    /// Frequencies above the nominal one allowed.
    pub boost: Option<bool>,
    /// Energy-performance preference.
    pub preference: Option<String>,
    /// Frequency transitions since boot.
    pub transitions: Option<u64>,
    /// The frequency at which most time was spent since boot, kHz, and that time in per cent.
    pub mostly: Option<(u64, u8)>,
}

/// One idle state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdleRow {
    /// Its name.
    pub name: String,
    /// Exit latency, µs.
    pub exit_us: Option<u64>,
    /// Target residency, µs.
    pub residency_us: Option<u64>,
    /// Switched off.
    pub disabled: Option<bool>,
}

/// The overview as text.
#[must_use]
pub fn sections(overview: &Overview) -> Vec<Section> {
    let mut sections = Vec::new();
    if !overview.policies.is_empty() {
        let table = Block::Table(policies().plain(&overview.policies));
        sections.push(Section::new("CPU frequency policies").with(table).with(offers(&overview.policies)));
    }
    if !overview.threads.is_empty() {
        let said = Block::said(overview.threads.iter().map(|text| sanitize(text)));
        sections.push(Section::new("Kernel threads that governors work in").with(said));
    }
    sections.extend(idle(&overview.idle));
    if !overview.energy.is_empty() {
        let item = |(name, value): &(String, Option<u64>)| {
            let value = value.map_or_else(
                || "counted, but only root can read it".to_owned(),
                |uj| format!("{:.1} J since it last started from 0", uj as f64 / 1e6),
            );
            format!("{}: {value}", sanitize(name))
        };
        sections.push(Section::new("Energy counters (RAPL)").with(Block::said(overview.energy.iter().map(item))));
    }
    if !overview.notices.is_empty() {
        let item = |(text, code): &(String, Option<String>)| Item {
            text: sanitize(text),
            code: code.clone(),
            ..Item::default()
        };
        let items = overview.notices.iter().map(item).collect();
        sections.push(Section::new("What this means").with(Block::Items(items)));
    }
    sections
}

fn policies() -> Columns<'static, PolicyRow> {
    let range = |(low, high): (u64, u64)| format!("{} to {}", gigahertz(low), gigahertz(high));
    let both = |(low, high): (Option<u64>, Option<u64>)| low.zip(high);
    Columns::new()
        .left("policy", ALWAYS, |row: &PolicyRow| row.number.to_string())
        .left("CPUs", ALWAYS, |row| sanitize(&row.cpus))
        .left("driver", 60, |row| text(&row.driver))
        .left("governor", ALWAYS, |row| text(&row.governor))
        .known("limits", ALWAYS, move |row| both(row.limits_khz), range)
        .known("hardware", 70, move |row| both(row.hardware_khz), range)
        .known("now", 90, |row| row.measured_khz.or(row.current_khz), units::gigahertz)
        .ns("change takes", 40, |row| row.latency_ns)
        .left("boost", 30, |row| text(&row.boost.map(|on| if on { "on" } else { "off" }.to_owned())))
        .left("preference", 80, |row| text(&row.preference))
        .count("changes", 20, |row| row.transitions)
        .known("mostly", 10, |row| row.mostly, |(khz, percent)| format!("{}, {percent} %", units::gigahertz(khz)))
}

/// What the machine tells, or that it does not.
fn text(value: &Option<String>) -> String {
    units::or_absent(value.as_deref(), sanitize)
}

/// What can be set, once for all policies that offer the same.
fn offers(policies: &[PolicyRow]) -> Block {
    let offered: BTreeSet<&[String]> =
        policies.iter().map(|policy| policy.governors.as_slice()).filter(|names| !names.is_empty()).collect();
    Block::said(offered.iter().map(|names| format!("Governors offered: {}", sanitize(&names.join(", ")))))
}

fn idle(rows: &[IdleRow]) -> Option<Section> {
    if rows.is_empty() {
        return None;
    }
    let exact = |us: u64| units::exact(us.saturating_mul(1000));
    let table = Columns::new()
        .left("idle state", ALWAYS, |row: &IdleRow| sanitize(&row.name))
        .known("exit latency", ALWAYS, |row| row.exit_us, exact)
        .known("worth it from", 50, |row| row.residency_us, exact)
        .left("", 60, |row| if row.disabled == Some(true) { "disabled" } else { "" }.to_owned())
        .plain(rows);
    Some(Section::new("Idle states of CPU 0").with(Block::Table(table)))
}

fn gigahertz(khz: u64) -> String {
    format!("{:.2}", khz as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::text;

    fn shown(overview: &Overview) -> String {
        let plain = text::Style::default();
        text::sections(&sections(overview), &plain)
    }

    #[test]
    fn a_machine_without_policies_never_looks_fine() {
        let notices = vec![("CPU frequency is not exposed here.".to_owned(), None)];
        let text = shown(&Overview { notices, ..Overview::default() });
        assert!(text.contains("not exposed") && !text.contains("performance") && !text.contains("OK"), "{text}");
    }

    #[test]
    fn what_is_unknown_is_a_dash() {
        let row = PolicyRow { number: 3, cpus: "3".into(), governor: Some("ondemand".into()), ..PolicyRow::default() };
        let text = shown(&Overview { policies: vec![row], ..Overview::default() });
        assert!(text.contains("ondemand") && text.contains('–'), "{text}");
    }
}
