//! Recommendations of a check-up: helpful changes, harmful changes, and changes that could not be tried.

use punctual_record::{Notice, Run};

use crate::document::{Block, Item, Section};
use crate::family::{self, Advice};
use crate::format::prose::sentence;
use crate::format::sanitize::sanitize;
use crate::naming;

/// What was shown to help, the largest gain first; None where there is nothing to say.
pub(super) fn section(run: &Run) -> Option<Section> {
    let mut all = Advice::default();
    for (experiment, series) in family::experiments(run) {
        let advice = (family::of(experiment).advice)(run, &series);
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
    let untried = untried(run);
    if !untried.is_empty() {
        section.blocks.push(Block::Paragraph(untried.join(" ")));
    }
    (!section.blocks.is_empty()).then_some(section)
}

/// The sets of conditions that the kernel refused, and what they would need.
fn untried(run: &Run) -> Vec<String> {
    let said = |notice: &Notice| {
        let Notice::ConditionsSkipped { conditions, refusal } = notice else { return None };
        let text = format!("Could not be tried: {}: {}", naming::phrase(conditions), sentence(&sanitize(&refusal.why)));
        let needs = sentence(&sanitize(&refusal.remedy));
        Some(if needs.is_empty() { text } else { format!("{text} What would allow it: {needs}") })
    };
    let mut said: Vec<String> = run.notices.iter().filter_map(said).collect();
    said.dedup();
    said
}
