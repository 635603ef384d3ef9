//! Blocks of consecutive messages: how far their means and their largest latencies lie apart.

use punctual_record::Run;
use punctual_record::experiment::ipc::Block;

use crate::document::{Block as Part, Column, Columns, Note, Section};
use crate::family::shared::ALWAYS;
use crate::format::{sanitize, unbroken, units};
use crate::naming::conditions;

use super::traffic::{Message, brief, bytes, place};

/// The lowest, the median and the highest of one figure of all blocks.
#[derive(Clone, Copy)]
struct Spread([i64; 3]);

impl Spread {
    fn of(blocks: &[Block], figure: impl Fn(&Block) -> i64) -> Option<Self> {
        let mut all: Vec<i64> = blocks.iter().map(figure).collect();
        all.sort_unstable();
        Some(Self([*all.first()?, all[(all.len() - 1) / 2], *all.last()?]))
    }
}

/// A series with its blocks.
struct Blocks<'a> {
    message: Message<'a>,
    each: u64,
    all: &'a [Block],
}

impl<'a> Blocks<'a> {
    fn of(message: &Message<'a>) -> Option<Self> {
        let (each, all) = (message.metrics.block_messages?, message.metrics.blocks.as_deref()?);
        (!all.is_empty()).then_some(Self { message: *message, each, all })
    }

    fn about(&self) -> String {
        let its = self.message.parameters;
        format!("{}, {}, {}", unbroken(&bytes(its.size)), brief(its), place(its))
    }
}

/// A table of the series whose messages were counted in blocks; none where there are none.
pub(super) fn section(run: &Run, series: &[Message<'_>]) -> Option<Section> {
    let rows: Vec<Blocks<'_>> = series.iter().filter_map(Blocks::of).collect();
    let first = rows.first()?;
    let one_set = rows.iter().all(|row| row.message.conditions == first.message.conditions);
    let one_kind = rows.iter().all(|row| row.about() == first.about());
    let heading = if one_kind { format!("ipc blocks; {}", first.about()) } else { "ipc blocks".to_owned() };
    let spread = |heading: &'static str, over: &str, keep, figure: fn(&Block) -> i64, which: usize| {
        let cell = move |row: &Blocks<'_>| units::known(Spread::of(row.all, figure).map(|spread| spread.0[which]));
        (Column::right(heading, keep).over(over), cell)
    };
    let mut columns = Columns::new()
        .left("mechanism", ALWAYS, |row: &Blocks<'_>| sanitize(&row.message.subject))
        .left("conditions", ALWAYS, |row| conditions(run, &row.message.conditions))
        .only_if(!one_set)
        .left("messages", ALWAYS, Blocks::about)
        .only_if(!one_kind)
        .right("blocks", 60, |row| format!("{} of {}", units::count(row.all.len() as u64), units::count(row.each)));
    let mean: fn(&Block) -> i64 = |block| block.mean_ns.round() as i64;
    let smallest: fn(&Block) -> i64 = |block| block.min_ns;
    let largest: fn(&Block) -> i64 = |block| block.max_ns;
    for (heading, over, keep, figure, which) in [
        ("lowest", "smallest", 30, smallest, 0),
        ("highest", "smallest", 30, smallest, 2),
        ("lowest", "mean", 80, mean, 0),
        ("p50", "mean", ALWAYS, mean, 1),
        ("highest", "mean", 80, mean, 2),
        ("lowest", "largest", 80, largest, 0),
        ("p50", "largest", ALWAYS, largest, 1),
        ("highest", "largest", 80, largest, 2),
    ] {
        let (column, cell) = spread(heading, over, keep, figure, which);
        columns = columns.column(column, cell);
    }
    let about = "Smallest, mean and largest latency of each block of consecutive messages; lowest, median and highest \
                 of all blocks.";
    let table = Part::Table(columns.of(&rows));
    Some(Section::new(heading).with(table).with(Part::Legend(vec![Note::always(about)])))
}
