//! Message passing: a table for each kind of traffic and each place, the fastest mechanism on top, and conclusions. A
//! map if every pair of CPUs was measured.

use std::collections::{BTreeMap, BTreeSet};

use punctual_record::{Experiment, Run, Series};

use crate::document::{Block, Section};

use super::shared::{Family, measured};

mod answer;
mod blocks;
mod candidates;
mod contest;
mod map;
mod matters;
mod summary;
mod table;
mod traffic;

use traffic::{Message, Traffic, pair};

pub(super) const FAMILY: Family =
    Family { experiment: "ipc", sections, candidates: candidates::candidates, answer: answer::answer };

/// From this number of pairs of CPUs on, they make a map rather than a table each.
const PAIRS_OF_A_MAP: usize = 3;

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let series = measured(series, Experiment::ipc);
    let pairs: BTreeSet<_> = series.iter().filter_map(|series| pair(series.parameters)).collect();
    let on_a_map = |series: &Message<'_>| pairs.len() >= PAIRS_OF_A_MAP && pair(series.parameters).is_some();
    let (mapped, listed): (Vec<_>, Vec<_>) = series.iter().copied().partition(on_a_map);
    let mut groups: BTreeMap<Traffic, Vec<Message<'_>>> = BTreeMap::new();
    for series in &listed {
        groups.entry(Traffic::of(series.parameters)).or_default().push(*series);
    }
    let mut sections: Vec<Section> = groups.iter().map(|(traffic, rows)| table::section(run, traffic, rows)).collect();
    if let Some(last) = sections.last_mut() {
        last.blocks.push(Block::Legend(table::legend(&listed)));
    }
    sections.extend(map::sections(run, &mapped));
    sections.extend(blocks::section(run, &series));
    sections.extend(answer::section(run, &series));
    sections.extend(summary::sections(run, &listed));
    sections
}
