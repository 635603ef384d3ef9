//! The functions that computed, and the limits; and how far to trust a budget: what watching cost, what the kernel could not keep, and the
//! kernel's own counters beside the sums.

use punctual_record::{
    Budget, BudgetCheck, BudgetSource, Counter, MemoryLimit, Pressure, Quota, Resource, Spent, Steal, ThreadBudget,
    TimePart, WatchCost,
};

use crate::document::{Block, Column, Columns, Section};
use crate::format::{spoken, unbroken, units};

use super::super::phrase::name;
use super::words::{code, end_of, file_name, label, source_line};

/// A sum that differs from the kernel's counter by this share, and by so much, is said to.
const DIFFERS: f64 = 0.05;
const DIFFERS_NS: u64 = 10_000_000;
/// From this share of the time of the CPUs on, what the host took is said.
const STOLEN: f64 = 0.01;
/// Most rows of a table, and most letters of a name.
const MOST: usize = 40;

/// The sentences of the first screen.
pub(super) fn trust(budget: &Budget, watched_ns: u64) -> Vec<String> {
    let mut said = Vec::new();
    if budget.source == BudgetSource::Files {
        said.push("Source: counters of /proc and of control groups. Waits are shares of the moments at which threads were looked at; who \
             ended them is not known.".to_owned());
    }
    said.extend(budget.cost.and_then(|cost| price(cost, watched_ns)));
    match budget.dropped {
        0 => {}
        1 => said.push("1 stretch of time has few details: the kernel had no room for them.".to_owned()),
        n => said
            .push(format!("{} stretches of time have few details: the kernel had no room for them.", units::count(n))),
    }
    said.extend(budget.steal.and_then(stolen));
    said.extend(budget.checks.iter().filter(|check| differs(check)).map(|check| {
        let (summed, counted) = (spoken::duration(check.summed_ns), spoken::duration(check.counted_ns));
        format!("{} is {summed} here and {counted} by the kernel's counter.", counter(check.counter))
    }));
    said
}

/// `Watching took 21 ms, 0.7 % of a CPU: 120 000 events at 178 ns.`
fn price(cost: WatchCost, watched_ns: u64) -> Option<String> {
    let all = cost.events as f64 * cost.each_ns;
    let share = all / watched_ns as f64;
    if cost.events == 0 || !share.is_finite() {
        return None;
    }
    let (all, each, share) = (spoken::fine(all), spoken::fine(cost.each_ns), spoken::share(share));
    Some(format!("Watching took {all}, {share} of a CPU: {} events at {each}.", units::count(cost.events)))
}

/// `The host took 120 ms of the 6.00 s of its 2 CPUs (steal): from which thread is not counted.`
fn stolen(steal: Steal) -> Option<String> {
    let share = steal.ns as f64 / steal.of_ns as f64;
    if !share.is_finite() || share < STOLEN {
        return None;
    }
    let (took, of, cpus) =
        (spoken::duration(steal.ns), spoken::duration(steal.of_ns), units::many(steal.cpus.into(), "CPU"));
    Some(format!(
        "The host took {took} of the {of} of its {} (steal): from which thread is not counted.",
        unbroken(&cpus)
    ))
}

fn differs(check: &BudgetCheck) -> bool {
    let (least, most) = (check.summed_ns.saturating_sub(check.idle_ns), check.summed_ns);
    let by = check.counted_ns.abs_diff(check.counted_ns.clamp(least, most));
    by >= DIFFERS_NS && by as f64 > DIFFERS * check.counted_ns.max(check.summed_ns) as f64
}

const fn counter(counter: Counter) -> &'static str {
    match counter {
        Counter::Running => "Time on a CPU",
        Counter::Ready => "Time ready",
        Counter::Throttled => "Throttled time",
    }
}

/// The functions in which the threads computed, by samples.
pub(super) fn functions(budget: &Budget) -> Option<Section> {
    let is_code = |part: &&TimePart| part.spent == Spent::Running && part.thing.file.is_some();
    let threads = budget.threads.iter();
    let mut all: Vec<(&ThreadBudget, &TimePart)> =
        threads.flat_map(|thread| thread.parts.iter().filter(is_code).map(move |part| (thread, part))).collect();
    all.sort_by_key(|(_, part)| std::cmp::Reverse(part.ns));
    let nameless = || "(no name)".to_owned();
    let share = |thread: &ThreadBudget, part: &TimePart| part.ns as f64 / thread.wall_ns.max(1) as f64;
    let table = Columns::new()
        .left("function", Column::ALWAYS, |(_, part): &(&ThreadBudget, &TimePart)| {
            part.thing.function.as_deref().map_or_else(nameless, |function| end_of(function, MOST))
        })
        .left("line", Column::ALWAYS, |(_, part)| part.thing.line.as_ref().map_or(String::new(), source_line))
        .left("program or library", Column::ALWAYS, |(_, part)| end_of(file_name(part).unwrap_or_default(), MOST))
        .left("thread", Column::ALWAYS, |(thread, _)| format!("{} ({})", name(&thread.thread), thread.tid))
        .ns("time", Column::ALWAYS, |(_, part)| Some(part.ns))
        .share("share", Column::ALWAYS, |(thread, part)| Some(share(thread, part)))
        .first(MOST, &all, "functions");
    (!all.is_empty()).then(|| Section::new("Where the threads computed").with(Block::Table(table)))
}

/// Where in the program its long waits began, the longest first.
pub(super) fn callers(budget: &Budget) -> Option<Section> {
    /// Functions of a row.
    const FUNCTIONS: usize = 3;
    let threads = budget.threads.iter();
    let called =
        |part: &TimePart| part.caller.as_ref().filter(|caller| caller.own().next().is_some()).map(|caller| caller.ns);
    let mut all: Vec<(&ThreadBudget, &TimePart)> =
        threads.flat_map(|thread| thread.parts.iter().map(move |part| (thread, part))).collect();
    all.retain(|(_, part)| called(part).is_some() && part.spent != Spent::SleptLonger);
    all.sort_by_key(|(_, part)| std::cmp::Reverse(called(part)));
    let functions = |part: &TimePart| {
        let frames = part.caller.iter().flat_map(|caller| caller.own()).take(FUNCTIONS);
        frames.map(|frame| code(&frame.function, &frame.line)).collect::<Vec<_>>().join(", called by ")
    };
    let table = Columns::new()
        .left("wait", Column::ALWAYS, |(_, part): &(&ThreadBudget, &TimePart)| {
            label(part.spent, budget.source).to_owned()
        })
        .left("thread", Column::ALWAYS, |(thread, _)| format!("{} ({})", name(&thread.thread), thread.tid))
        .ns("time", Column::ALWAYS, |(_, part)| called(part))
        .left("began in", Column::ALWAYS, |(_, part)| functions(part))
        .first(MOST, &all, "waits");
    (!all.is_empty()).then(|| Section::new("Where long waits began").with(Block::Table(table)))
}

/// The control groups that limit the CPU time.
pub(super) fn quotas(budget: &Budget) -> Option<Section> {
    let table = Columns::new()
        .left("control group", Column::ALWAYS, |quota: &Quota| end_of(&quota.cgroup, MOST))
        .ns("quota", Column::ALWAYS, |quota| Some(quota.quota_ns))
        .ns("of", Column::ALWAYS, |quota| Some(quota.period_ns))
        .count("threads", 20, |quota| Some(quota.threads))
        .count("throttled", Column::ALWAYS, |quota| Some(quota.throttled))
        .ns("for", Column::ALWAYS, |quota| Some(quota.throttled_ns))
        .first(MOST, &budget.quotas, "groups");
    (!budget.quotas.is_empty()).then(|| Section::new("CPU quotas").with(Block::Table(table)))
}

/// The control groups that limit the memory, and what the kernel counted of that.
pub(super) fn memory(budget: &Budget) -> Option<Section> {
    let limit = |limit: &MemoryLimit| end_of(&limit.limit(), MOST);
    let table = Columns::new()
        .left("control group", Column::ALWAYS, |limit: &MemoryLimit| end_of(&limit.cgroup, MOST))
        .left("memory limit", Column::ALWAYS, limit)
        .count("hit", Column::ALWAYS, |limit| limit.hits)
        .count("pages read again", Column::ALWAYS, |limit| limit.read_again)
        .count("killed", 20, |limit| limit.oom_kills)
        .first(MOST, &budget.memory, "groups");
    (!budget.memory.is_empty()).then(|| Section::new("Memory limits").with(Block::Table(table)))
}

/// For how long the machine and the control groups were short of something, by the kernel's count.
pub(super) fn pressure(budget: &Budget) -> Option<Section> {
    let whose =
        |one: &Pressure| one.cgroup.as_deref().map_or_else(|| "the machine".to_owned(), |path| end_of(path, MOST));
    let of = |one: &Pressure| {
        let name = match one.of {
            Resource::Cpu => "CPU time",
            Resource::Memory => "memory",
            Resource::Io => "disks",
        };
        name.to_owned()
    };
    let table = Columns::new()
        .left("short of", Column::ALWAYS, of)
        .left("whose tasks", Column::ALWAYS, whose)
        .ns("some waited", Column::ALWAYS, |one: &Pressure| Some(one.some_ns))
        .ns("all waited", Column::ALWAYS, |one| one.full_ns)
        .first(MOST, &budget.pressure, "counters");
    (!budget.pressure.is_empty()).then(|| Section::new("Pressure (PSI)").with(Block::Table(table)))
}
