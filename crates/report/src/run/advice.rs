//! What to do, in full: each advice with the lines to write, and what was tried without being an advice.

use crate::document::{Block, Item, Section};
use crate::verdict::{Advice, Standing, Untried, Verdict};

/// The section; `None` where there is nothing to say.
pub(super) fn section(verdict: &Verdict) -> Option<Section> {
    let mut section = Section::new("What to do");
    if verdict.advice.len() > 1 {
        section.blocks.push(Block::Paragraph("The gains are alternatives: they do not add up.".to_owned()));
    }
    let item =
        |advice: &Advice| Item { text: format!("{}: {}", change(advice), advice.text()), code: advice.code.lines() };
    let items: Vec<Item> = verdict.advice.iter().map(item).collect();
    if !items.is_empty() {
        section.blocks.push(Block::Numbered(items));
    }
    for (standing, lead) in [
        (Standing::Mixed, "Better in some cases and worse in others"),
        (Standing::Worse, "Worse here"),
        (Standing::NoDifference, "No difference that this run can show"),
        (Standing::NotTested, "Not tested"),
    ] {
        let said: Vec<String> = verdict.tried.iter().filter(|advice| advice.standing == standing).map(change).collect();
        if !said.is_empty() {
            section.blocks.push(Block::Paragraph(format!("{lead}: {}.", said.join("; "))));
        }
    }
    if !verdict.untried.is_empty() {
        let texts: Vec<String> = verdict.untried.iter().map(Untried::to_string).collect();
        section.blocks.push(Block::Paragraph(format!("Could not be tried: {}", texts.join(" "))));
    }
    (!section.blocks.is_empty()).then_some(section)
}

/// `to be back soon, usleep(0) instead of sched_yield()`: one change may serve a purpose and not another.
fn change(advice: &Advice) -> String {
    format!("{}{} instead of {}", advice.goal.purpose(), advice.what, advice.instead_of)
}
