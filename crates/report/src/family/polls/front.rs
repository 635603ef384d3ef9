//! The Pareto front of the settings: no other setting gives both less latency and more of the CPU to others.

use crate::document::{Block, Section};
use crate::format::prose::{listed, unbroken};
use crate::format::sanitize::sanitize;
use crate::format::units;

use super::super::shared::distinct;
use super::Setting;

/// Shares of the CPU for which the best setting is named.
const WANTED: [f64; 3] = [0.5, 0.9, 0.99];

/// Which latency is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Idle,
    Busy,
}

impl When {
    fn latency(self, setting: &Setting<'_>) -> Option<i64> {
        match self {
            Self::Idle => setting.idle_ns(),
            Self::Busy => setting.busy_ns(),
        }
    }
}

/// The Pareto front: least latency first, each next one with more left to others. Settings without figures are left out.
fn front<'a, 'b>(settings: impl IntoIterator<Item = &'a Setting<'b>>, when: When) -> Vec<&'a Setting<'b>>
where
    'b: 'a,
{
    let figures = |s: &'a Setting<'b>| Some((when.latency(s)?, s.share()?, s));
    let mut known: Vec<(i64, f64, &Setting<'b>)> = settings.into_iter().filter_map(figures).collect();
    known.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let mut front: Vec<&Setting<'b>> = Vec::new();
    let mut most = f64::NEG_INFINITY;
    for (_, share, setting) in known {
        if share > most {
            most = share;
            front.push(setting);
        }
    }
    front
}

pub(super) fn section(settings: &[Setting<'_>]) -> Option<Section> {
    let mut section = Section::new("In words");
    let methods = distinct(settings.iter().filter(|s| s.polls.is_some_and(|n| n > 0)).map(|s| s.subject));
    let said: Vec<String> = methods.iter().filter_map(|method| of_method(settings, method)).collect();
    if !said.is_empty() {
        let text = "The settings of which no other is better in both, latency on an idle CPU and the share that a busy program gets, by method:";
        section.blocks.push(Block::Paragraph(text.to_owned()));
        section.blocks.push(Block::said(said));
    }
    for when in [When::Idle, When::Busy] {
        section.blocks.extend(least_for(settings, when).map(Block::Paragraph));
    }
    section.blocks.extend(must_beat(settings).map(Block::Paragraph));
    (!section.blocks.is_empty()).then_some(section)
}

fn of_method(settings: &[Setting<'_>], method: &str) -> Option<String> {
    let front = front(settings.iter().filter(|s| s.subject == method), When::Idle);
    let parts: Vec<String> = front
        .iter()
        .filter_map(|s| {
            let polls = unbroken(&units::count(s.polls?.into()));
            let latency = unbroken(&units::duration(s.idle_ns()?));
            let share = unbroken(&units::share(s.share()?));
            let plural = if s.polls == Some(1) { "" } else { "s" };
            Some(format!("{polls} poll{plural}: {latency}, {share}"))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("{}: {}.", sanitize(method), parts.join("; ")))
}

fn described(setting: &Setting<'_>) -> String {
    let subject = sanitize(setting.subject);
    match setting.polls {
        None | Some(0) => subject,
        Some(1) => format!("{subject} after each poll"),
        Some(n) => format!("{subject} after {} polls", unbroken(&units::count(n.into()))),
    }
}

/// For each share wanted, the setting with the least latency that leaves it.
fn least_for(settings: &[Setting<'_>], when: When) -> Option<String> {
    let latency = |setting: &Setting<'_>| when.latency(setting);
    let mut parts: Vec<(String, Vec<String>)> = Vec::new();
    for wanted in WANTED {
        let enough = settings.iter().filter(|s| s.share().is_some_and(|share| share >= wanted));
        let share = unbroken(&units::share(wanted));
        let best = enough.filter_map(|s| Some((latency(s)?, s))).min_by_key(|(ns, _)| *ns);
        let text = best.map_or("none of these".to_owned(), |(ns, s)| {
            let left = s.share().map(|share| unbroken(&units::share(share))).unwrap_or_default();
            format!("{} ({}, leaves {left})", described(s), unbroken(&units::duration(ns)))
        });
        match parts.iter_mut().find(|(its, _)| *its == text) {
            Some((_, shares)) => shares.push(share),
            None => parts.push((text, vec![share])),
        }
    }
    if settings.iter().all(|s| latency(s).is_none() || s.share().is_none()) {
        return None;
    }
    let parts: Vec<String> =
        parts.into_iter().map(|(text, shares)| format!("{}: {text}", shares.join(" or "))).collect();
    let when = if when == When::Idle { "idle" } else { "busy" };
    Some(format!(
        "Least latency when the CPU is {when}, for leaving a busy program at least so much of the CPU: {}.",
        parts.join("; ")
    ))
}

/// What blocking does: the alternative that polling must beat.
fn must_beat(settings: &[Setting<'_>]) -> Option<String> {
    let blocking = settings.iter().find(|s| s.subject == "futex_wait")?;
    let (idle, busy, share) = (blocking.idle_ns()?, blocking.busy_ns()?, blocking.share()?);
    let polling = |s: &&Setting<'_>| s.polls.is_some();
    let beats = |s: &&Setting<'_>| {
        polling(s)
            && s.idle_ns().is_some_and(|ns| ns <= idle)
            && s.busy_ns().is_some_and(|ns| ns <= busy)
            && s.share().is_some_and(|its| its >= share)
    };
    let duration = |ns: i64| unbroken(&units::duration(ns));
    let mut text = format!(
        "Blocking (futex_wait) takes {} when the CPU is idle and {} when it is busy, and leaves {} to others. ",
        duration(idle),
        duration(busy),
        unbroken(&units::share(share))
    );
    let better: Vec<String> = settings.iter().filter(beats).map(|s| described(s)).collect();
    text.push_str(&if better.is_empty() {
        "No polling setting beats it in all three.".to_owned()
    } else {
        format!("In all three it is beaten by {}.", listed(&better, 6))
    });
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_is_empty_without_figures() {
        assert!(front(&[Setting::default()], When::Idle).is_empty());
        assert_eq!(section(&[Setting::default()]), None);
    }
}
