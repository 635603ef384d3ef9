//! The Pareto front of the settings: no other setting gives both less latency and more of the CPU to others.

use crate::document::{Block, Section};
use crate::format::{distinct, sanitize, spoken, unbroken, units};

use super::setting::Setting;

/// The Pareto front: least latency first, each next one with more left to others. Settings without figures are left out.
fn front<'a, 'b>(settings: impl IntoIterator<Item = &'a Setting<'b>>) -> Vec<&'a Setting<'b>>
where
    'b: 'a,
{
    let figures = |s: &'a Setting<'b>| Some((s.idle_ns()?, s.share()?, s));
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
    (!section.blocks.is_empty()).then_some(section)
}

fn of_method(settings: &[Setting<'_>], method: &str) -> Option<String> {
    let front = front(settings.iter().filter(|s| s.subject == method));
    let parts: Vec<String> = front
        .iter()
        .filter_map(|s| {
            let polls = unbroken(&units::count(s.polls?.into()));
            let latency = spoken::duration(s.idle_ns()?);
            let share = spoken::share(s.share()?);
            let plural = if s.polls == Some(1) { "" } else { "s" };
            Some(format!("{polls} poll{plural}: {latency}, {share}"))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("{}: {}.", sanitize(method), parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_is_empty_without_figures() {
        assert!(front(&[Setting::default()]).is_empty());
        assert_eq!(section(&[Setting::default()]), None);
    }
}
