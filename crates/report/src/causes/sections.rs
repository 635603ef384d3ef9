//! Causes in full: all calls, the causes of each call, who woke its threads, remedies with their code.

use punctual_record::{CallCauses, CauseTime, Causes, Run, Spread, Waker};

use crate::document::{Block, Column, Columns, Item, Note, Paint, Row, Section, Table};
use crate::format::units;

use super::head::{by_call, heading};
use super::phrase::{Place, Why, name, part, remedy};
use super::tally::{calls, each, ranked, share};
use super::{lost, pictures, watching, worst};

/// Most calls with a section of their own, and most rows of a table.
const CALLS: usize = 12;
const ROWS: usize = 300;
/// Most causes of a call; the record has all.
const CAUSES: usize = 12;
/// Most remedies.
const REMEDIES: usize = 8;

/// The sections, with pictures or without; `None` where the run does not say why.
pub(crate) fn sections(run: &Run, illustrated: bool) -> Option<Vec<Section>> {
    let causes = run.causes.as_ref()?;
    let guest = run.host.hypervisor.is_some();
    let calls = calls(causes);
    let mut sections = vec![extent(causes)];
    if let Some((budget, losses)) = lost::judged(causes) {
        sections.extend(lost::sections(budget, losses, illustrated));
    }
    let albums = pictures::bars(causes, guest).chain(pictures::timelines(causes, guest)).filter(|_| illustrated);
    sections.extend(albums.map(|album| Section::default().with(Block::Album(album))));
    if !calls.is_empty() {
        let table = by_call(run, causes, &calls, true);
        let notes = vec![
            Note::always("Late: from the timer's deadline, or from the waker's wake-up, to the return of the call."),
            Note::on("blocked", "blocked: how often the call gave up the CPU."),
        ];
        sections.push(Section::new("Calls").with(Block::Table(table)).with(Block::Legend(notes)));
    }
    let lost: Vec<&CallCauses> = calls.into_iter().filter(|call| call.late.total_ns > 0).take(CALLS).collect();
    sections.extend(lost.iter().map(|call| of_call(run, call)));
    sections.extend(remedies(run, causes, &lost));
    sections.extend(worst::section(run, causes));
    Some(sections)
}

/// Who was watched, and how much of it is known.
fn extent(causes: &Causes) -> Section {
    let mut section = Section::default();
    section.blocks.extend(causes.program.iter().map(|program| Block::Paragraph(watching::program(program, causes))));
    section.blocks.push(Block::Paragraph(watching::extent(causes)));
    section.blocks.extend(causes.missing.iter().take(ROWS).map(|unseen| Block::Paragraph(watching::unseen(unseen))));
    section
}

fn of_call(run: &Run, call: &CallCauses) -> Section {
    let guest = run.host.hypervisor.is_some();
    let label = |one: &CauseTime| Why { cause: one.cause, culprit: one.culprit.as_deref(), guest }.label();
    let columns = Columns::new()
        .left("part", 60, |one: &&CauseTime| part(one.part).to_owned())
        .left("lost to", Column::ALWAYS, move |one| label(one))
        .count("n", 20, |one| Some(one.time.count))
        .ns("p50", 25, |one| Some(one.time.p50_ns))
        .ns("p99", 30, |one| one.time.p99_ns)
        .ns("max", 45, |one| Some(one.time.max_ns))
        .fine("a wake-up", Column::ALWAYS, |one| Some(each(one.time.total_ns, call)))
        .share("share", Column::ALWAYS, |one| Some(share(one.time.total_ns, call)));
    let mut causes: Vec<&CauseTime> = call.causes.iter().filter(|one| one.time.total_ns > 0).collect();
    causes.sort_by_key(|one| std::cmp::Reverse(one.time.total_ns));
    let rest = causes.split_off(causes.len().min(CAUSES));
    let mut rows: Vec<Row> = causes.iter().map(|one| columns.row(one, Paint::Plain)).collect();
    if !rest.is_empty() {
        let total = rest.iter().fold(0u64, |sum, one| sum.saturating_add(one.time.total_ns));
        let [each, share] = [units::duration_fine(each(total, call)), units::share(share(total, call))];
        rows.push(Row::Label(format!("and {} more: {each} a wake-up, {share}", units::count(rest.len() as u64))));
    }
    let notes = vec![
        Note::on("n", "n: wake-ups that the cause made late; p50, p99 and max are of those."),
        Note::always("A wake-up: the time lost, divided by all split wake-ups; these add up to the lateness."),
    ];
    let mut section = Section::new(format!("Why late: {}", heading(call)))
        .with(Block::Table(columns.table(rows)))
        .with(Block::Legend(notes));
    section.blocks.extend((!call.wakers.is_empty()).then(|| Block::Table(wakers(call))));
    if call.wakers.iter().any(|waker| waker.inherited > 0 || waker.inverted > 0) {
        section.blocks.push(Block::Legend(vec![
            Note::on("inherited", "inherited: a mutex lent the waker the higher priority of the thread."),
            Note::on("inverted", "inverted: the waker waited for a CPU at a lower priority, and none was lent."),
        ]));
    }
    section
}

/// Who woke the threads, how late it was itself, and how long it worked before.
fn wakers(call: &CallCauses) -> Table {
    let p50 = |spread: Option<Spread>| Some(spread.filter(|spread| spread.count > 0)?.p50_ns);
    Columns::new()
        .left("woken by", Column::ALWAYS, |waker: &Waker| match waker.tid {
            Some(tid) => format!("{} ({tid})", name(&waker.name)),
            None => name(&waker.name),
        })
        .left("in", 40, |waker| waker.call.as_deref().map_or(units::ABSENT.to_owned(), name))
        .count("n", Column::ALWAYS, |waker| Some(waker.count))
        .ns("late itself p50", Column::ALWAYS, move |waker| p50(waker.own_delay))
        .ns("its p99", 30, |waker| waker.own_delay?.p99_ns)
        .ns("worked p50", Column::ALWAYS, move |waker| p50(waker.worked))
        .count("inherited", Column::ALWAYS, |waker| Some(waker.inherited).filter(|count| *count > 0))
        .only_if(call.wakers.iter().any(|waker| waker.inherited > 0))
        .count("inverted", Column::ALWAYS, |waker| Some(waker.inverted).filter(|count| *count > 0))
        .only_if(call.wakers.iter().any(|waker| waker.inverted > 0))
        .plain(call.wakers.iter().take(ROWS))
}

/// The remedies of the largest causes, with what to write.
fn remedies(run: &Run, causes: &Causes, calls: &[&CallCauses]) -> Option<Section> {
    let place = Place { host: &run.host, foreign: causes.program.is_some() };
    let mut items: Vec<Item> = Vec::new();
    let mut seen = Vec::new();
    for lost in calls.iter().flat_map(|call| ranked(call, run.host.hypervisor.is_some())) {
        let Some(remedy) = remedy(&lost.why, place).filter(|remedy| !seen.contains(&remedy.short)) else { continue };
        seen.push(remedy.short);
        let code = Some(remedy.code.into_owned()).filter(|code| !code.is_empty());
        items.push(Item { text: format!("{}: {}.", lost.why.label(), remedy.short), code, ..Item::default() });
        if items.len() == REMEDIES {
            break;
        }
    }
    let tried = causes.trials.iter().any(|trial| !trial.pairs.is_empty());
    let gain =
        if tried { "Gains are only those of the remedies tried." } else { "Its gain was not measured in this run." };
    let note = format!("A remedy is for its cause. {gain}");
    (!items.is_empty())
        .then(|| Section::new("Remedies by cause").with(Block::Paragraph(note)).with(Block::Items(items)))
}
