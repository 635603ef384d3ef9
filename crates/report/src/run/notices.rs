//! The notices of a run, the most severe first.

use std::cmp::Reverse;

use punctual_record::{Notice, Run};

use crate::document::{Block, Phrase, Section};
use crate::format::sanitize;
use crate::naming::conditions;
use crate::notice::phrase;

/// The section; None where there are none. What a check-up could not try stands under *what to do* and not here.
pub(super) fn section(run: &Run) -> Option<Section> {
    let is_advice =
        |notice: &&Notice| matches!(notice, Notice::ConditionsSkipped { .. } | Notice::Unseen(_)) && run.is_checkup();
    let here = run.notices.iter().filter(|notice| !is_advice(notice));
    let clean = |phrase: Phrase| Phrase {
        text: sanitize(&phrase.text),
        remedy: phrase.remedy.map(|remedy| sanitize(&remedy)),
        ..phrase
    };
    let mut phrases: Vec<Phrase> = here.map(|notice| clean(phrase(&named(notice, run)))).collect();
    phrases.sort_by_key(|phrase| Reverse(phrase.level));
    phrases.dedup();
    (!phrases.is_empty()).then(|| Section::new("Notices").with(Block::Notices(phrases)))
}

/// The notice with its conditions called as everywhere in the report.
fn named(notice: &Notice, run: &Run) -> Notice {
    let mut notice = notice.clone();
    if let Notice::ConditionRefused { conditions: its, .. }
    | Notice::ConditionNotKept { conditions: its, .. }
    | Notice::WatchdogTripped { conditions: its, .. } = &mut notice
    {
        *its = conditions(run, its);
    }
    notice
}
