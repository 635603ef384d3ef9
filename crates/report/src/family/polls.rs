//! Polls before yielding: a table of latencies, a table of shares, and the settings worth choosing.

use punctual_record::experiment::polls::SenderPlace;
use punctual_record::{Experiment, Run, Series};

use crate::document::{Block, Columns, Note, Section};
use crate::format::{grouped, sanitize};
use crate::naming::{conditions, under};

use setting::{Setting, settings};

use super::shared::{ALWAYS, Family, measured};

mod answer;
mod candidates;
mod front;
mod setting;

pub(super) const FAMILY: Family =
    Family { experiment: "polls", sections, candidates: candidates::candidates, answer: answer::answer };

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let series = measured(series, Experiment::polls);
    let settings = settings(&series);
    let place = match series.first().map(|s| s.parameters.sender) {
        Some(SenderPlace::SameCpu) => "same CPU",
        _ => "other CPU",
    };
    let mut sections = Vec::new();
    for (label, own) in grouped(&settings, |s| s.conditions) {
        let under = under(&conditions(run, label));
        let heading = format!("Latency of a message, receiver {under}, sender on the {place}");
        sections.push(latency(&own, &heading));
        let heading = format!("Shares of the CPU while no message comes, receiver {under}");
        sections.push(shares(&own, &heading));
        sections.extend(front::section(&own));
    }
    sections
}

/// The columns that tell the settings.
fn named<'a>() -> Columns<'a, Setting<'a>> {
    Columns::new().left("method", ALWAYS, |setting: &Setting<'_>| sanitize(setting.subject)).count(
        "polls",
        ALWAYS,
        |setting| setting.polls.map(u64::from),
    )
}

fn latency(settings: &[Setting<'_>], heading: &str) -> Section {
    let table = named()
        .estimate("idle p50", (ALWAYS, 30), |s| (s.idle_ns(), s.idle.and_then(|s| s.summary.ci95.p50)))
        .ns("p99", 90, |s| s.idle?.summary.p99)
        .ns("there and back p50", 70, |s| s.idle_back?.summary.p50)
        .ns("p99", 40, |s| s.idle_back?.summary.p99)
        .estimate("busy p50", (ALWAYS, 20), |s| (s.busy_ns(), s.busy.and_then(|s| s.summary.ci95.p50)))
        .ns("p99", 80, |s| s.busy?.summary.p99)
        .ns("there and back p50", 60, |s| s.busy_back?.summary.p50)
        .ns("p99", 35, |s| s.busy_back?.summary.p99)
        .of(settings);
    Section::new(heading).with(Block::Table(table)).with(Block::Legend(vec![
        Note::always("idle: nothing else runs on the receiver's CPU; busy: a program that never waits runs there too."),
        Note::always("One way, from just before the message is written until the receiver has seen it; there and back is measured, not doubled."),
        Note::always("polls: number of polls before each yield; never_yields only polls; futex_wait sleeps until woken; backoff is punctual::Backoff, tuned."),
    ]))
}

fn shares(settings: &[Setting<'_>], heading: &str) -> Section {
    let table = named()
        .share("busy program", ALWAYS, Setting::share)
        .share("receiver", ALWAYS, Setting::receiver_share)
        .share("neither", 10, |s| Some((1.0 - s.share()? - s.receiver_share()?).max(0.0)))
        .of(settings);
    let ideal = "busy program: what is left to others, ideally 100 %; receiver: what the waiting costs; neither: idle, the kernel, others.";
    Section::new(heading).with(Block::Table(table)).with(Block::Legend(vec![Note::always(ideal)]))
}
