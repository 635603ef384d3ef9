//! Where the time of a program went, and what it lost: the first sentence, the first screen and the sections of a run with a budget.
//!
//! Takes [`Causes::budget`] and [`Causes::losses`]. Names come from the kernel or a file, and are neutralised here.

mod extent;
mod picture;
mod sentence;
mod table;
mod threads;
mod words;

use punctual_record::remedy::{LossThreads, of_loss};
use punctual_record::{Budget, BudgetSource, Causes, Loss, LossKind, Spent, ThreadBudget, TimePart};

use crate::document::{Album, Block, Item, Section};

pub(super) use sentence::sentences;
use threads::{is_of, thread_of};

/// Most threads with a table, and most rows of one.
const THREADS: usize = 16;
const ROWS: usize = 40;
/// Most rows of the first screen.
const FIRST: usize = 6;
/// Most remedies in full.
const REMEDIES: usize = 8;

/// The budget, where there is one that was judged.
pub(super) fn judged(causes: &Causes) -> Option<(&Budget, &[Loss])> {
    causes.budget.as_ref().filter(|_| !causes.losses.is_empty()).map(|budget| (budget, causes.losses.as_slice()))
}

/// The table of the thread that the first sentence is about, and what to do.
pub(super) fn figures(budget: &Budget, losses: &[Loss]) -> Vec<Block> {
    let first = losses.first();
    let Some(thread) = first.and_then(|loss| thread_of(budget, loss)) else { return Vec::new() };
    let mut blocks = vec![Block::Table(table::table(thread, budget.source, FIRST, first))];
    blocks.extend(first.and_then(|loss| remedy(budget, loss)).map(|item| {
        let command = item.code.map_or(String::new(), |command| format!(" ({command})"));
        Block::Paragraph(format!("Remedy: {}{command}.", item.text))
    }));
    blocks
}

/// All threads, the limits, and what to do.
pub(super) fn sections(budget: &Budget, losses: &[Loss], illustrated: bool) -> Vec<Section> {
    let mut sections = Vec::new();
    let picture = picture::bars(budget).filter(|_| illustrated);
    sections.extend(picture.map(|picture| {
        Section::default().with(Block::Album(Album { pictures: vec![(String::new(), picture)], ..Album::default() }))
    }));
    let mut where_it_went = Section::new("Where the time went");
    for thread in leading(budget, losses).into_iter().take(THREADS).chain(budget.others.as_ref()) {
        where_it_went.blocks.push(Block::Table(table::table(thread, budget.source, ROWS, None)));
    }
    sections.push(where_it_went);
    sections.extend(extent::functions(budget));
    sections.extend(extent::callers(budget));
    sections.extend(sentence::all(budget, losses));
    let mut items: Vec<Item> = losses.iter().filter_map(|loss| remedy(budget, loss)).collect();
    items.dedup();
    items.truncate(REMEDIES);
    if !items.is_empty() {
        let note = "A remedy is for a loss. Its gain was not measured.".to_owned();
        sections.push(Section::new("Remedies by loss").with(Block::Paragraph(note)).with(Block::Items(items)));
    }
    sections.extend([extent::quotas, extent::memory, extent::pressure].into_iter().filter_map(|table| table(budget)));
    sections
}

/// How far to trust the budget.
pub(super) fn trust(causes: &Causes) -> Vec<String> {
    judged(causes).map_or(Vec::new(), |(budget, _)| extent::trust(budget, causes.watched_ns))
}

/// The threads, those that lost the most by the losses first.
fn leading<'a>(budget: &'a Budget, losses: &[Loss]) -> Vec<&'a ThreadBudget> {
    let rank = |thread: &&ThreadBudget| losses.iter().position(|loss| is_of(loss, thread)).unwrap_or(usize::MAX);
    let mut threads: Vec<&ThreadBudget> = budget.threads.iter().collect();
    threads.sort_by_key(rank);
    threads
}

fn remedy(budget: &Budget, loss: &Loss) -> Option<Item> {
    // Counters do not tell a file from swap.
    if budget.source == BudgetSource::Files && loss.kind == LossKind::FaultFile {
        return None;
    }
    let thread = thread_of(budget, loss);
    let ready = thread.into_iter().flat_map(|thread| &thread.parts).filter(|part| part.spent == Spent::Ready);
    let named = |part: &&TimePart| {
        part.who.as_ref().is_some_and(|who| Some(&who.thread) == loss.place.culprit.as_ref() && who.tid != 0)
    };
    let culprit = ready.filter(named).max_by_key(|part| part.ns).and_then(|part| part.who.as_ref());
    let threads = LossThreads {
        tid: thread.map_or(0, |thread| thread.tid),
        policy: thread.map(|thread| thread.policy).unwrap_or_default(),
        culprit: culprit.map(|who| (who.tid, who.policy)),
        in_another_group: culprit.is_some_and(|who| who.cgroup.is_some()),
        barred_idle: thread.and_then(|thread| thread.barred_idle.first().copied()),
    };
    let remedy = of_loss(loss, &threads)?;
    Some(Item { text: words::path(&remedy.text), code: remedy.command, ..Item::default() })
}
