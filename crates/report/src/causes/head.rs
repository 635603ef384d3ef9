//! The first screen of causes. It has a table by call, a table of causes with their remedies, and how far to trust
//! them.

use punctual_record::{CallCauses, Causes, Run, Series};

use crate::document::machine;
use crate::document::{Block, Column, Columns, Paint, Row, Section, Table};
use crate::format::units;

use super::phrase::{Place, name, remedy};
use super::tally::{calls, each, ranked, share};
use super::{lost, watching};

/// Most calls of the first screen, and of a report.
const CALLS: usize = 3;
const ROWS: usize = 300;
/// Most causes: of one call, and of each of two.
const CAUSES: [usize; 2] = [5, 2];
/// Most things that could not be seen.
const UNSEEN: usize = 1;

/// The tables of the first screen. None if only the time that our own threads waited for a CPU was watched.
pub(crate) fn figures(run: &Run) -> Vec<Section> {
    let Some(causes) = run.causes.as_ref().filter(|causes| !causes.calls.is_empty() || causes.program.is_some()) else {
        return Vec::new();
    };
    let mut first = Section::default().with(Block::Paragraph(machine::name(&run.host)));
    first.blocks.extend(causes.program.iter().map(|program| Block::Paragraph(watching::program(program, causes))));
    // Where the whole time is known, the wake-ups are a part of it, and in the full report.
    if let Some((budget, losses)) = lost::judged(causes) {
        first.blocks.extend(lost::figures(budget, losses));
        return vec![first];
    }
    let mut calls = calls(causes);
    // Calls that return at once are of interest only where no other is.
    if calls.first().is_some_and(|call| call.late.count > 0) {
        calls.retain(|call| call.late.count > 0);
    }
    if !calls.is_empty() {
        first.blocks.push(Block::Table(by_call(run, causes, &calls, false)));
    }
    // Where remedies were tried, the screen is theirs.
    let causes = by_cause(run, causes, &calls).filter(|_| causes.trials.is_empty());
    std::iter::once(first).chain(causes.map(|table| Section::default().with(Block::Table(table)))).collect()
}

/// How far to trust them.
pub(crate) fn trust(run: &Run) -> Option<Vec<Block>> {
    let causes = run.causes.as_ref()?;
    let unseen = causes.missing.iter().take(UNSEEN).map(watching::unseen);
    let more = causes.missing.len().saturating_sub(UNSEEN);
    let more = (more > 0).then(|| format!("Not seen: {more} more {}.", if more == 1 { "thing" } else { "things" }));
    let budget = lost::trust(causes);
    let extent = budget.is_empty().then(|| watching::extent(causes));
    let texts = budget.into_iter().chain(extent).chain(unseen).chain(more);
    Some(texts.map(Block::Paragraph).collect())
}

/// The calls; in full, or what matters most of the first.
pub(super) fn by_call(run: &Run, causes: &Causes, calls: &[&CallCauses], full: bool) -> Table {
    let late = |call: &&CallCauses| (call.late.count > 0).then_some(call.late);
    let own = causes.program.is_none();
    let one_thread = calls.iter().all(|call| call.thread == calls[0].thread);
    let columns = Columns::new()
        .left("thread", 60, |call: &&CallCauses| name(&call.thread))
        .only_if(!(own && one_thread))
        .left("call", Column::ALWAYS, |call| name(&call.call))
        .count("n", Column::ALWAYS, |call| Some(call.calls))
        .count("blocked", 20, |call| Some(call.blocked))
        .only_if(full)
        .known("asked", 50, |call| asked(call), |text| text)
        .ns("late p50", Column::ALWAYS, move |call| Some(late(call)?.p50_ns))
        .ns("p99", Column::ALWAYS, move |call| late(call)?.p99_ns)
        .ns("max", 10, move |call| Some(late(call)?.max_ns))
        .only_if(full)
        .share("CPU", 40, |call| cpu(run, call))
        .only_if(own);
    columns.first(if full { ROWS } else { CALLS }, calls, "calls")
}

/// What was asked: as it was typed, or the median.
fn asked(call: &CallCauses) -> Option<String> {
    let median = || Some(call.asked.filter(|asked| asked.count > 0)?.p50_ns);
    call.nominal_ns.map(units::exact).or_else(|| median().map(units::duration))
}

/// The CPU share of the series that made the call. It is the only one of this duration, or has the name of the call.
fn cpu(run: &Run, call: &CallCauses) -> Option<f64> {
    let nominal = i64::try_from(call.nominal_ns?).ok()?;
    let asks = |series: &&Series| series.experiment.any_wait().is_some_and(|wait| wait.parameters.asked_ns == nominal);
    let asking: Vec<&Series> = run.series.iter().filter(asks).collect();
    let series = match asking.as_slice() {
        [one] => Some(*one),
        several => several.iter().copied().find(|series| series.subject == call.call),
    };
    series?.cpu_share.filter(|share| share.is_finite())
}

/// What a call is called in a heading.
pub(super) fn heading(causes: &CallCauses) -> String {
    call(&causes.thread, &causes.call, causes.nominal_ns)
}

/// `redis-server, epoll_wait`; of a wait of our own `clock_nanosleep, 100 µs`.
pub(crate) fn call(thread: &str, call: &str, nominal_ns: Option<u64>) -> String {
    match nominal_ns {
        Some(ns) => format!("{}, {}", name(call), units::exact(ns)),
        None => format!("{}, {}", name(thread), name(call)),
    }
}

/// The causes of the first call, or of our own waits of the two shortest times. `None` where no time was lost.
fn by_cause(run: &Run, causes: &Causes, calls: &[&CallCauses]) -> Option<Table> {
    let guest = run.host.hypervisor.is_some();
    let place = Place { host: &run.host, foreign: causes.program.is_some() };
    let shown: Vec<&&CallCauses> =
        calls.iter().filter(|call| call.late.total_ns > 0).take(if place.foreign { 1 } else { 2 }).collect();
    let most = CAUSES[shown.len().checked_sub(1)?];
    let columns = [
        Column::left("lost to", Column::ALWAYS),
        Column::right("share", Column::ALWAYS),
        Column::right("a wake-up", Column::ALWAYS),
        Column::left("for that cause", Column::ALWAYS),
    ];
    let mut rows = Vec::new();
    for call in &shown {
        if calls.len() > 1 {
            rows.push(Row::Label(heading(call)));
        }
        let all = ranked(call, guest);
        rows.extend(all.iter().take(most).map(|lost| {
            let remedy = remedy(&lost.why, place).map_or(units::ABSENT, |remedy| remedy.short);
            Row::plain(vec![
                lost.why.label(),
                units::share(share(lost.total_ns, call)),
                units::duration_fine(each(lost.total_ns, call)),
                remedy.to_owned(),
            ])
        }));
        if let Some(rest) = all.get(most..).filter(|rest| !rest.is_empty()) {
            let total = rest.iter().fold(0u64, |sum, lost| sum.saturating_add(lost.total_ns));
            let name = format!("{} more", units::count(rest.len() as u64));
            let cells =
                vec![name, units::share(share(total, call)), units::duration_fine(each(total, call)), String::new()];
            rows.push(Row::Cells(cells, Paint::Faint));
        }
    }
    Some(Table { columns: columns.to_vec(), rows, ranking: None })
}
