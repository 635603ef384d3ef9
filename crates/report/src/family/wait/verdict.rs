//! The conclusions as a short list per duration, with the code below each.

use punctual_record::{Notice, Run};

use crate::document::{Block, Item, Section};
use crate::format::prose::{listed, unbroken};
use crate::format::units;
use crate::words::{self, Code, Figures, Group};

use super::Groups;

/// The sections of words: what is the same for several durations is said once.
pub(super) fn sections(run: &Run, groups: &Groups<'_>) -> Vec<Section> {
    let findings = groups.iter().map(|(asked, series)| {
        let figures = Figures::of(run, *asked, series);
        (*asked, words::verdict(&figures))
    });
    let name = |ns: i64| unbroken(&units::exact(ns));
    let mut told = Vec::new();
    let said = words::together(findings.collect(), name);
    let mut sections: Vec<Section> =
        said.into_iter().filter(|group| !group.items.is_empty()).map(|group| section(run, group, &mut told)).collect();
    if let Some(last) = sections.last_mut() {
        let command = words::comparison(run).map(|command| Item {
            text: "To see what another method, or less timer slack, would change:".to_owned(),
            code: Some(command),
        });
        last.blocks.extend(command.map(|item| Block::Items(vec![item])));
        last.blocks.extend(unsteady(run).map(|text| Block::Paragraph(text.to_owned())));
    }
    sections
}

fn section(run: &Run, group: Group, told: &mut Vec<Code>) -> Section {
    let durations: Vec<String> = group.asked.iter().map(|&ns| units::exact(ns)).collect();
    let durations = listed(&durations, usize::MAX);
    let durations =
        durations.rsplit_once(" and ").map_or(durations.clone(), |(most, last)| format!("{most} or {last}"));
    let item = |(text, code): (String, Option<Code>)| Item { text, code: code.and_then(|code| once(code, run, told)) };
    let items = group.items.into_iter().map(item).collect();
    Section::new(format!("To wait {durations}")).with(Block::Items(items))
}

/// The line, unless it was told already; in a check-up the lines that set conditions stand under what to do.
fn once(code: Code, run: &Run, told: &mut Vec<Code>) -> Option<String> {
    if told.contains(&code) {
        return None;
    }
    let text = match &code {
        Code::Call(line) => Some(line.clone()),
        Code::Setting(line) => (!run.is_checkup()).then(|| line.clone()),
    };
    told.push(code);
    text
}

/// A caution where the run itself found its intervals too narrow.
fn unsteady(run: &Run) -> Option<&'static str> {
    let drifted = run.notices.iter().any(|notice| matches!(notice, Notice::Unsteady { series: 1.., .. }));
    drifted.then_some(
        "Some series differ between rounds by more than their samples explain (see the notices): take small differences \
         with caution.",
    )
}
