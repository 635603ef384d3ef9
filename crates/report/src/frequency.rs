//! How a machine chooses its frequency, for `punctual governor`: policies, governor threads, idle states, energy, notices.
//!
//! In goes an [`Overview`], gathered by whoever looked at the machine; out comes text.

use crate::plain::plain;
use crate::story::{Block, Item, Section, Story};
use crate::style::{Paint, Style};
use crate::table::{Column, Row, Table};
use crate::units;

/// What was found. A fact that the machine does not tell is absent.
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

const POLICIES: [Column; 12] = [
    Column::left("policy", Column::ALWAYS),
    Column::left("CPUs", Column::ALWAYS),
    Column::left("driver", 60),
    Column::left("governor", Column::ALWAYS),
    Column::right("limits", Column::ALWAYS),
    Column::right("hardware", 70),
    Column::right("now", 90),
    Column::right("change takes", 40),
    Column::left("boost", 30),
    Column::left("preference", 80),
    Column::right("changes", 20),
    Column::right("mostly", 10),
];

/// The overview as text.
#[must_use]
pub fn render(overview: &Overview, style: &Style) -> String {
    let mut sections = Vec::new();
    if !overview.policies.is_empty() {
        let rows = overview.policies.iter().map(|row| Row::Cells(policy(row, style), Paint::Plain)).collect();
        let table = Block::Table(Table { columns: POLICIES.to_vec(), rows });
        let mut section = Section::new("CPU frequency policies").with(table);
        section.blocks.push(Block::Items(offers(&overview.policies, style)));
        sections.push(section);
    }
    if !overview.threads.is_empty() {
        let items = overview.threads.iter().map(|text| Item { text: plain(text, style), code: None }).collect();
        sections.push(Section::new("Kernel threads that governors work in").with(Block::Items(items)));
    }
    sections.extend(idle(&overview.idle, style));
    if !overview.energy.is_empty() {
        let item = |(name, value): &(String, Option<u64>)| {
            let value = value.map_or_else(
                || "counted, but only root can read it".to_owned(),
                |uj| format!("{:.1} J since it last started from 0", uj as f64 / 1e6),
            );
            Item { text: format!("{}: {value}", plain(name, style)), code: None }
        };
        let items = overview.energy.iter().map(item).collect();
        sections.push(Section::new("Energy counters (RAPL)").with(Block::Items(items)));
    }
    if !overview.notices.is_empty() {
        let item = |(text, code): &(String, Option<String>)| Item { text: plain(text, style), code: code.clone() };
        let items = overview.notices.iter().map(item).collect();
        sections.push(Section::new("What this means").with(Block::Items(items)));
    }
    Story { sections }.render(style)
}

fn policy(row: &PolicyRow, style: &Style) -> Vec<String> {
    let absent = || style.absent().to_owned();
    let text = |value: &Option<String>| value.as_deref().map_or_else(absent, |text| plain(text, style));
    let range = |(low, high): (Option<u64>, Option<u64>)| match (low, high) {
        (Some(low), Some(high)) => format!("{} to {}", gigahertz(low), gigahertz(high)),
        _ => absent(),
    };
    let boost = row.boost.map_or_else(absent, |on| if on { "on" } else { "off" }.to_owned());
    vec![
        row.number.to_string(),
        plain(&row.cpus, style),
        text(&row.driver),
        text(&row.governor),
        range(row.limits_khz),
        range(row.hardware_khz),
        row.measured_khz.or(row.current_khz).map_or_else(absent, |khz| format!("{} GHz", gigahertz(khz))),
        row.latency_ns.map_or_else(absent, |ns| units::duration(i64::try_from(ns).unwrap_or(i64::MAX), style)),
        boost,
        text(&row.preference),
        row.transitions.map_or_else(absent, units::count),
        row.mostly.map_or_else(absent, |(khz, percent)| format!("{} GHz, {percent} %", gigahertz(khz))),
    ]
}

/// What can be set, once for all policies that offer the same.
fn offers(policies: &[PolicyRow], style: &Style) -> Vec<Item> {
    let mut seen: Vec<&[String]> = Vec::new();
    for policy in policies {
        if !policy.governors.is_empty() && !seen.contains(&policy.governors.as_slice()) {
            seen.push(&policy.governors);
        }
    }
    let text = |names: &&[String]| format!("Governors offered: {}", plain(&names.join(", "), style));
    seen.iter().map(|names| Item { text: text(names), code: None }).collect()
}

fn idle(rows: &[IdleRow], style: &Style) -> Option<Section> {
    if rows.is_empty() {
        return None;
    }
    let columns = vec![
        Column::left("idle state", Column::ALWAYS),
        Column::right("exit latency", Column::ALWAYS),
        Column::right("worth it from", 50),
        Column::left("", 60),
    ];
    let microseconds = |us: Option<u64>| {
        us.map_or_else(
            || style.absent().to_owned(),
            |us| units::exact(i64::try_from(us).unwrap_or(i64::MAX).saturating_mul(1000), style),
        )
    };
    let row = |row: &IdleRow| {
        let off = if row.disabled == Some(true) { "disabled" } else { "" };
        let cells =
            vec![plain(&row.name, style), microseconds(row.exit_us), microseconds(row.residency_us), off.to_owned()];
        Row::Cells(cells, Paint::Plain)
    };
    let table = Table { columns, rows: rows.iter().map(row).collect() };
    Some(Section::new("Idle states of CPU 0").with(Block::Table(table)))
}

fn gigahertz(khz: u64) -> String {
    format!("{:.2}", khz as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_policies_never_looks_fine() {
        let notices = vec![("CPU frequency is not exposed here.".to_owned(), None)];
        let text = render(&Overview { notices, ..Overview::default() }, &Style::default());
        assert!(text.contains("not exposed") && !text.contains("performance") && !text.contains("OK"), "{text}");
    }

    #[test]
    fn what_is_unknown_is_a_dash() {
        let row = PolicyRow { number: 3, cpus: "3".into(), governor: Some("ondemand".into()), ..PolicyRow::default() };
        let text = render(&Overview { policies: vec![row], ..Overview::default() }, &Style::default());
        assert!(text.contains("ondemand") && text.contains('–'), "{text}");
    }
}
