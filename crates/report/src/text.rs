//! A run as text for a terminal: the machine, tables with drawings, the verdict in words, what is missing.
//!
//! Notices are not in it: tables go to standard output and notices to standard error ([`crate::notices_text`]).

use punctual_record::{Notice, Run};

use crate::background::{self, sentence};
use crate::family::{self, Advice};
use crate::plain::plain;
use crate::story::{Block, Item, Section, Story};
use crate::style::Style;

/// The run as text, each line ended, none wider than the style says (but for a line of code).
#[must_use]
pub fn render(run: &Run, style: &Style) -> String {
    story(run, style).render(style)
}

/// Whether the run is a check-up: a recorded command line has the command's name as its second word, whether it was typed or not.
#[must_use]
pub fn is_checkup(run: &Run) -> bool {
    run.command.get(1).is_some_and(|word| word == "checkup")
}

/// The run as sections.
#[must_use]
pub fn story(run: &Run, style: &Style) -> Story {
    let mut sections = vec![background::machine(run, style)];
    sections.extend(crate::merged::sections(run, style));
    if !run.complete {
        let text = "Incomplete: the run was interrupted. What is here was measured, the rest is missing.";
        sections.push(Section::default().with(Block::Paragraph(text.to_owned())));
    }
    let experiments = family::experiments(run);
    if experiments.is_empty() {
        sections.push(Section::default().with(Block::Paragraph("Nothing was measured.".to_owned())));
    }
    for (experiment, series) in &experiments {
        sections.extend((family::of(experiment).sections)(run, series, style));
    }
    sections.extend(background::not_measured(run, style));
    sections.push(background::disturbance(run, style));
    if is_checkup(run) {
        sections.extend(what_to_do(run, style));
    }
    Story { sections }
}

/// The check-up's last section: what was shown to help, the largest gain first.
pub(crate) fn what_to_do(run: &Run, style: &Style) -> Option<Section> {
    let mut all = Advice::default();
    for (experiment, series) in family::experiments(run) {
        let advice = (family::of(experiment).advice)(run, &series, style);
        all.helps.extend(advice.helps);
        all.trades.extend(advice.trades);
        all.mixed.extend(advice.mixed);
        all.worse.extend(advice.worse);
        all.no_difference.extend(advice.no_difference);
    }
    // What has a price in CPU time or design must gain twice as much to come first.
    let trades = all.trades.into_iter().map(|(gain, item)| (gain / 2, item));
    let mut helps: Vec<(i64, Item)> = all.helps.into_iter().chain(trades).collect();
    helps.sort_by_key(|(gain, _)| std::cmp::Reverse(*gain));
    let items: Vec<Item> = helps.into_iter().map(|(_, item)| item).collect();
    let mut section = Section::new("What to do");
    if items.len() > 1 {
        section.blocks.push(Block::Paragraph("Each by itself: the gains do not add up.".to_owned()));
    }
    if !items.is_empty() {
        section.blocks.push(Block::Items(items));
    }
    let mut say = |lead: &str, all: &[String]| {
        if !all.is_empty() {
            section.blocks.push(Block::Paragraph(format!("{lead}: {}.", all.join("; "))));
        }
    };
    say("Better for some waits and worse for others", &all.mixed);
    say("Worse here", &all.worse);
    say("No difference here that this run can show", &all.no_difference);
    let untried = untried(run, style);
    if !untried.is_empty() {
        section.blocks.push(Block::Paragraph(untried.join(" ")));
    }
    (!section.blocks.is_empty()).then_some(section)
}

/// The sets of conditions that the kernel refused, and what they would need.
fn untried(run: &Run, style: &Style) -> Vec<String> {
    let said = |notice: &Notice| {
        let Notice::ConditionsSkipped { conditions, refusal } = notice else { return None };
        let text =
            format!("Could not be tried: {}: {}", plain(conditions, style), sentence(&plain(&refusal.why, style)));
        let needs = sentence(&plain(&refusal.remedy, style));
        Some(if needs.is_empty() { text } else { format!("{text} What would allow it: {needs}") })
    };
    let mut said: Vec<String> = run.notices.iter().filter_map(said).collect();
    said.dedup();
    said
}
