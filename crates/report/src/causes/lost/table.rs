//! The time of a thread by parts: rows add up to its wall time.

use punctual_record::{BudgetSource, Loss, LossKind, Spent, ThreadBudget, TimePart};

use crate::document::{Column, Paint, Row, Table};
use crate::format::units;

use super::super::phrase::name;
use super::words::{belongs, is_of, label, what};

/// Parts of one kind.
struct Group<'a> {
    spent: Spent,
    /// Address of the lock: each has a row of its own.
    lock: Option<u64>,
    parts: Vec<&'a TimePart>,
}

impl Group<'_> {
    fn ns(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.ns))
    }

    fn times(&self) -> u64 {
        TimePart::stretches(&self.parts)
    }

    fn longest(&self) -> u64 {
        self.parts.iter().map(|part| part.longest_ns).max().unwrap_or(0)
    }

    /// Whether the loss is made of this group. That of an interpreter's lock has the waits that time out too.
    fn is_of(&self, loss: &Loss) -> bool {
        let of_interpreter = loss.kind == LossKind::InterpreterLock && belongs(self.spent, loss.kind);
        of_interpreter || self.parts.iter().any(|part| is_of(part, loss))
    }

    /// Who and what took the most of it, and how many others.
    fn what(&self) -> String {
        let mut all: Vec<(String, u64)> = Vec::new();
        let mut nameless_ns = 0u64;
        for part in &self.parts {
            let Some(what) = what(part) else {
                nameless_ns = nameless_ns.saturating_add(part.ns);
                continue;
            };
            match all.iter_mut().find(|(known, _)| *known == what) {
                Some((_, ns)) => *ns = ns.saturating_add(part.ns),
                None => all.push((what, part.ns)),
            }
        }
        all.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        match all.as_slice() {
            [] => String::new(),
            // Code that is made at run time has no name, and may be most of it.
            [(_, ns), ..] if self.spent == Spent::Running && nameless_ns > *ns => String::new(),
            [(what, _)] => what.clone(),
            [(what, _), others @ ..] => format!("{what}; {} more", others.len()),
        }
    }
}

/// The table of a thread: its longest parts, those of the loss that is spoken of, and the sum of the others.
pub(super) fn table(thread: &ThreadBudget, source: BudgetSource, most: usize, spoken_of: Option<&Loss>) -> Table {
    let columns = vec![
        Column::left("where the time went", Column::ALWAYS),
        Column::right("time", Column::ALWAYS),
        Column::right("share", Column::ALWAYS),
        Column::right("times", Column::ALWAYS),
        Column::right("longest", 30),
        Column::left("who, what", Column::ALWAYS),
    ];
    let is_it = |group: &Group<'_>| spoken_of.is_some_and(|loss| group.is_of(loss));
    let mut groups = groups(thread, spoken_of);
    // One lock alone needs no mark.
    if groups.iter().filter(|group| group.lock.is_some()).count() == 1 {
        groups.iter_mut().for_each(|group| group.lock = None);
    }
    // The longest first; what is spoken of is among those that have a row.
    groups.sort_by_key(|group| std::cmp::Reverse(group.ns()));
    if let Some(at) = groups.iter().position(is_it).filter(|at| *at >= most) {
        groups[most.saturating_sub(1)..=at].rotate_right(1);
    }
    let rest = groups.split_off(groups.len().min(most));
    let mut rows = vec![Row::Label(heading(thread))];
    rows.extend(groups.iter().map(|group| row(thread, source, group, spoken_of.filter(|_| is_it(group)))));
    if !rest.is_empty() {
        let sum = rest.iter().fold(0u64, |sum, group| sum.saturating_add(group.ns()));
        let times = rest.iter().fold(0u64, |sum, group| sum.saturating_add(group.times()));
        let cells = vec![
            format!("{} more", units::count(rest.len() as u64)),
            units::duration(sum),
            units::share(share(thread, sum)),
            known(times, units::count),
        ];
        rows.push(Row::Cells(cells, Paint::Faint));
    }
    Table { columns, rows, ranking: None }
}

/// `server (4711): 3.00 s`.
fn heading(thread: &ThreadBudget) -> String {
    let wall = units::duration(thread.wall_ns);
    if thread.thread.is_empty() {
        return format!("all other threads: {wall} together");
    }
    let of = if thread.process == thread.thread || thread.process.is_empty() {
        String::new()
    } else {
        format!(" of {}", name(&thread.process))
    };
    format!("{}{of} ({}): {wall}", name(&thread.thread), thread.tid)
}

fn row(thread: &ThreadBudget, source: BudgetSource, group: &Group<'_>, spoken_of: Option<&Loss>) -> Row {
    let label = match spoken_of.map(|loss| loss.kind) {
        Some(LossKind::InterpreterLock) => "waiting for the interpreter's lock",
        _ => label(group.spent, source),
    };
    let cells = vec![
        label.to_owned(),
        units::duration(group.ns()),
        units::share(share(thread, group.ns())),
        known(group.times(), units::count),
        known(group.longest(), units::duration),
        [group.what(), group.lock.map_or(String::new(), |at| format!("{at:#x}"))]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join(", "),
    ];
    Row::Cells(cells, if spoken_of.is_some() { Paint::Name } else { Paint::Plain })
}

/// Stretches that were not counted have the figure 0.
fn known(figure: u64, shown: impl Fn(u64) -> String) -> String {
    if figure == 0 { units::ABSENT.to_owned() } else { shown(figure) }
}

fn share(thread: &ThreadBudget, ns: u64) -> f64 {
    ns as f64 / thread.wall_ns.max(1) as f64
}

/// What the part counts as: a wait for the interpreter's lock is many short ones that time out.
fn kind(part: &TimePart, spoken_of: Option<&Loss>) -> Spent {
    let of_interpreter = spoken_of.is_some_and(|loss| loss.kind == LossKind::InterpreterLock);
    let timed_out = matches!(part.spent, Spent::Asleep | Spent::SleptLonger) && part.call.as_deref() == Some("futex");
    if of_interpreter && timed_out { Spent::Condition } else { part.spent }
}

fn groups<'a>(thread: &'a ThreadBudget, spoken_of: Option<&Loss>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for part in thread.parts.iter().filter(|part| part.ns > 0) {
        let (spent, lock) = (kind(part, spoken_of), part.thing.futex.filter(|_| part.spent == Spent::Lock));
        match groups.iter_mut().find(|group| group.spent == spent && group.lock == lock) {
            Some(group) => group.parts.push(part),
            None => groups.push(Group { spent, lock, parts: vec![part] }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_nobody_counted_are_not_0() {
        let part = TimePart { spent: Spent::Asleep, ns: 150_000_000, ..TimePart::default() };
        let thread = ThreadBudget { wall_ns: 150_000_000, parts: vec![part; 3], ..ThreadBudget::default() };
        for most in [0, 9] {
            let table = table(&thread, BudgetSource::Kernel, most, None);
            let Some(Row::Cells(cells, _)) = table.rows.last() else { panic!("no row") };
            assert_eq!(cells[3], units::ABSENT, "{cells:?}");
            assert!(cells.get(4).is_none_or(|longest| longest == units::ABSENT), "{cells:?}");
        }
    }
}
