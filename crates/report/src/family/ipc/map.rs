//! Every pair of CPUs as a map, a section for each mechanism and kind of traffic.

use punctual_record::Run;

use crate::document::{Block, Section};
use crate::format::{grouped, sanitize};
use crate::naming::{conditions, under};
use crate::pictures::{self, heat::Pair};

use super::traffic::{Message, Traffic, bytes, pair};

/// A map for each mechanism, kind of traffic, size, way of receiving and set of conditions.
pub(super) fn sections<'a>(run: &Run, series: &[Message<'a>]) -> Vec<Section> {
    let key = |message: &Message<'a>| {
        let (series, its) = (message.series, message.parameters);
        (its.mode, its.interval_ns, series.subject.as_str(), its.size, its.receive, series.conditions.as_str())
    };
    grouped(series, key).into_iter().map(|(_, pairs)| section(run, &pairs)).collect()
}

fn section(run: &Run, pairs: &[Message<'_>]) -> Section {
    let first = pairs[0];
    let heading = format!(
        "ipc {}, {}, receiver: {}; {}; {}",
        sanitize(&first.subject),
        bytes(first.parameters.size),
        first.parameters.receive,
        Traffic::of(first.parameters).mode_in_words(),
        under(&conditions(run, &first.conditions)),
    );
    let square = |series: &Message<'_>| {
        let figures = [series.summary.p50, series.summary.p99, series.summary.max];
        Some(Pair { cpus: pair(series.parameters)?.into(), count: series.summary.count, figures })
    };
    let squares: Vec<Pair> = pairs.iter().filter_map(square).collect();
    let title = format!("{}, {}", sanitize(&first.subject), bytes(first.parameters.size));
    let album = pictures::heat::album(title, pictures::quantity_name(first.quantity), &squares);
    Section::new(heading).with(Block::Album(album))
}
