//! Polls before yielding: a table of latencies, a table of shares, and the settings worth choosing.

use punctual_record::{Param, Quantity, Run, Series, Summary};

use crate::background::conditions;
use crate::plain::plain;
use crate::story::{Block, Note, Section};
use crate::style::{Paint, Style};
use crate::table::{Column, Row, Table};
use crate::units;

use super::yielding::{real, text};
use super::{Advice, Family};

mod front;

pub(super) const FAMILY: Family = Family { experiment: "polls", sections, advice: |_, _, _| Advice::default() };

const LATENCY: [Column; 12] = [
    Column::left("method", Column::ALWAYS),
    Column::right("polls", Column::ALWAYS),
    Column::right("idle p50", Column::ALWAYS),
    Column::joined("[95 %]", 30),
    Column::right("p99", 90),
    Column::right("there and back p50", 70),
    Column::right("p99", 40),
    Column::right("busy p50", Column::ALWAYS),
    Column::joined("[95 %]", 20),
    Column::right("p99", 80),
    Column::right("there and back p50", 60),
    Column::right("p99", 35),
];

const SHARES: [Column; 5] = [
    Column::left("method", Column::ALWAYS),
    Column::right("polls", Column::ALWAYS),
    Column::right("busy program", Column::ALWAYS),
    Column::right("receiver", Column::ALWAYS),
    Column::right("neither", 10),
];

/// One way of waiting for a message, under one set of conditions.
#[derive(Debug, Clone, Copy, Default)]
struct Setting<'a> {
    subject: &'a str,
    conditions: &'a str,
    /// None: it does not poll a fixed number of times.
    polls: Option<i64>,
    idle: Option<&'a Series>,
    idle_back: Option<&'a Series>,
    busy: Option<&'a Series>,
    busy_back: Option<&'a Series>,
}

impl Setting<'_> {
    /// One-way latency at p50 with nobody else on the CPU, ns.
    fn idle_ns(&self) -> Option<i64> {
        self.idle?.summary.p50
    }

    /// The same with the busy program there.
    fn busy_ns(&self) -> Option<i64> {
        self.busy?.summary.p50
    }

    /// Share of the CPU that the busy program had while no message came.
    fn share(&self) -> Option<f64> {
        real(self.busy?, "competitor_cpu_share")
    }

    fn receiver_share(&self) -> Option<f64> {
        real(self.busy?, "own_cpu_share")
    }
}

fn settings<'a>(series: &[&'a Series]) -> Vec<Setting<'a>> {
    let mut settings: Vec<Setting<'a>> = Vec::new();
    for &series in series {
        let polls = match series.parameters.get("polls") {
            Some(Param::Int(polls)) => Some(*polls),
            _ => None,
        };
        let (subject, conditions) = (series.subject.as_str(), series.conditions.as_str());
        let place = settings.iter().position(|s| (s.subject, s.conditions, s.polls) == (subject, conditions, polls));
        let place = place.unwrap_or_else(|| {
            settings.push(Setting { subject, conditions, polls, ..Setting::default() });
            settings.len() - 1
        });
        let setting = &mut settings[place];
        match (text(&series.parameters, "load"), series.quantity) {
            (Some("idle"), Quantity::OneWay) => setting.idle = Some(series),
            (Some("idle"), Quantity::RoundTrip) => setting.idle_back = Some(series),
            (Some("busy"), Quantity::OneWay) => setting.busy = Some(series),
            (Some("busy"), Quantity::RoundTrip) => setting.busy_back = Some(series),
            _ => {}
        }
    }
    settings
}

fn sections(run: &Run, series: &[&Series], style: &Style) -> Vec<Section> {
    let settings = settings(series);
    let mut labels: Vec<&str> = settings.iter().map(|s| s.conditions).collect();
    labels.dedup();
    let place = series.first().and_then(|s| text(&s.parameters, "sender")).unwrap_or("other CPU");
    let mut sections = Vec::new();
    for label in labels {
        let own: Vec<Setting<'_>> = settings.iter().copied().filter(|s| s.conditions == label).collect();
        let under = conditions(run, label, style);
        sections.push(latency(
            &own,
            &format!(
                "Latency of a message, receiver under {under}, sender on the {place}",
                place = if place == "same CPU" { "same CPU" } else { "other CPU" }
            ),
            style,
        ));
        sections.push(shares(
            &own,
            &format!("Shares of the CPU while no message comes, receiver under {under}"),
            style,
        ));
        sections.extend(front::section(&own, style));
    }
    sections
}

fn polls(setting: &Setting<'_>, style: &Style) -> String {
    setting.polls.map_or_else(|| style.absent().to_owned(), |n| units::count(n.unsigned_abs()))
}

fn latency(settings: &[Setting<'_>], heading: &str, style: &Style) -> Section {
    let row = |setting: &Setting<'_>| {
        let mut cells = vec![plain(setting.subject, style), polls(setting, style)];
        for (there, back) in [(setting.idle, setting.idle_back), (setting.busy, setting.busy_back)] {
            cells.extend(of_one_way(there.map(|s| &s.summary), style));
            cells.extend(of_round_trip(back.map(|s| &s.summary), style));
        }
        Row::Cells(cells, Paint::Plain)
    };
    let table = Table { columns: LATENCY.to_vec(), rows: settings.iter().map(row).collect() };
    Section::new(heading).with(Block::Table(table)).with(Block::Legend(vec![
        Note::always("idle: nobody else on the receiver's CPU; busy: a program that never waits is there too."),
        Note::always("One way, from just before the message is written until the receiver has seen it; there and back is measured, not doubled."),
        Note::always("polls: so many before each yield; never_yields does nothing else; futex_wait sleeps until woken; backoff is punctual::Backoff, tuned."),
    ]))
}

fn figure(ns: Option<i64>, style: &Style) -> String {
    ns.map_or_else(|| style.absent().to_owned(), |ns| units::duration(ns, style))
}

fn of_one_way(summary: Option<&Summary>, style: &Style) -> [String; 3] {
    let p50 = summary.and_then(|s| s.p50);
    let interval = match (p50, summary.and_then(|s| s.ci95.p50)) {
        (Some(figure), Some(interval)) => units::interval_like(interval, figure),
        _ => String::new(),
    };
    [figure(p50, style), interval, figure(summary.and_then(|s| s.p99), style)]
}

fn of_round_trip(summary: Option<&Summary>, style: &Style) -> [String; 2] {
    [figure(summary.and_then(|s| s.p50), style), figure(summary.and_then(|s| s.p99), style)]
}

fn shares(settings: &[Setting<'_>], heading: &str, style: &Style) -> Section {
    let share = |share: Option<f64>| share.map_or_else(|| style.absent().to_owned(), units::share);
    let row = |setting: &Setting<'_>| {
        let neither = setting.share().zip(setting.receiver_share()).map(|(a, b)| (1.0 - a - b).max(0.0));
        let cells = vec![
            plain(setting.subject, style),
            polls(setting, style),
            share(setting.share()),
            share(setting.receiver_share()),
            share(neither),
        ];
        Row::Cells(cells, Paint::Plain)
    };
    let table = Table { columns: SHARES.to_vec(), rows: settings.iter().map(row).collect() };
    let ideal = "busy program: what is left to others, ideally 100 %; receiver: what the waiting costs; neither: idle, the kernel, others.";
    Section::new(heading).with(Block::Table(table)).with(Block::Legend(vec![Note::always(ideal)]))
}
