//! The ramp: how a fixed piece of work speeds up under each governor, as table, chart and words.

use std::io::Write;

use punctual_record::statistics::confidence_ranks;
use punctual_record::{Interval, Param, Quantile, Run, Series};

use crate::background::conditions;
use crate::chart::{self, Line};
use crate::plain::plain;
use crate::story::{Block, Item, Note, Section, unbroken};
use crate::style::{Paint, Style};
use crate::table::{Column, Row, Table};
use crate::units;
use crate::words::int;

use super::{Advice, Family};

pub(super) const FAMILY: Family = Family { experiment: EXPERIMENT, sections, advice };
const EXPERIMENT: &str = "ramp";
/// The subject where no governor was set.
const AS_FOUND: &str = "as found";
/// The one that the check-up tries.
const PERFORMANCE: &str = "performance";
/// A loop so much longer than the best one was stretched by somebody, as no change of frequency does in the middle of a run.
const STRETCHED: f64 = 1.5;
/// From this ratio of the first loop to the best one on, a rest costs speed that is worth a word.
const SLOW_START: f64 = 1.2;

const COLUMNS: [Column; 10] = [
    Column::left("governor", Column::ALWAYS),
    Column::right("first", Column::ALWAYS),
    Column::right("final", Column::ALWAYS),
    Column::right("p50", Column::ALWAYS),
    Column::joined("[95 %]", 40),
    Column::right("max", 50),
    Column::right("spread", 60),
    Column::right("to full speed", Column::ALWAYS),
    Column::right("changes", 70),
    Column::right("ended at", 75),
];

fn sections(run: &Run, series: &[&Series], style: &Style) -> Vec<Section> {
    let Some(first) = series.first() else { return Vec::new() };
    let work = int(first, "work_ns").map_or("fixed".to_owned(), |ns| units::exact(ns, style));
    let on = int(first, "cpu").map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
    let rest =
        int(first, "rested_ns").map_or(String::new(), |ns| format!(", after a rest of {}", units::exact(ns, style)));
    let heading =
        format!("ramp: loops of {work} of fixed work{on}, under {}{rest}", conditions(run, &first.conditions, style));
    let rows = series.iter().map(|series| Row::Cells(cells(series, style), Paint::Plain)).collect();
    let mut section = Section::new(heading).with(Block::Table(Table { columns: COLUMNS.to_vec(), rows }));
    section.blocks.push(Block::Legend(vec![
        Note::always("first, final: median over the rounds of the first and the last loop."),
        Note::on("spread", "spread: (p90 - p10) / p50 of the later half of the loops, with what interrupted them."),
        Note::always("to full speed: until loops take at most 5 % longer than the shortest loop of the run, median over the rounds."),
        Note::on("changes", "changes: frequency transitions that the kernel counted during the loops, all rounds together."),
        Note::on("ended at", "ended at: what the kernel last asked for, after the last loop."),
    ]));
    let lines: Vec<Line> =
        series.iter().map(|series| Line { name: plain(&series.subject, style), values: typical(series) }).collect();
    if lines.iter().any(|line| line.values.len() > 1) {
        section.blocks.push(Block::Drawing(chart::draw(&lines, "loop number", style)));
    }
    let mut sections = vec![section];
    let said = series.iter().flat_map(|series| words(series, style)).chain(variation(series, style));
    let items: Vec<Item> = said.map(|text| Item { text, code: None }).collect();
    if !items.is_empty() {
        sections.push(Section::default().with(Block::Items(items)));
    }
    sections
}

fn cells(series: &Series, style: &Style) -> Vec<String> {
    let summary = &series.summary;
    let figure = |ns: Option<i64>| ns.map_or_else(|| style.absent().to_owned(), |ns| units::duration(ns, style));
    let interval = match (summary.p50, summary.ci95.p50) {
        (Some(p50), Some(interval)) => units::interval_like(interval, p50),
        _ => String::new(),
    };
    let full = match (int(series, "to_full_speed_ns"), int(series, "rounds_at_full_speed")) {
        (Some(0), _) => "at once".to_owned(),
        (Some(ns), _) => units::duration(ns, style),
        (None, Some(0)) => "never".to_owned(),
        (None, Some(n)) => format!("{n} of {} rounds", series.rounds.len()),
        (None, None) => style.absent().to_owned(),
    };
    vec![
        plain(&series.subject, style),
        figure(int(series, "first_ns")),
        figure(int(series, "final_ns")),
        figure(summary.p50),
        interval,
        figure(summary.max),
        spread(series).map_or_else(|| style.absent().to_owned(), units::share),
        full,
        int(series, "transitions").map_or_else(|| style.absent().to_owned(), |n| units::count(n.unsigned_abs())),
        int(series, "ended_khz")
            .map_or_else(|| style.absent().to_owned(), |khz| format!("{:.2} GHz", khz as f64 / 1e6)),
    ]
}

/// The rounds' loops, each round in order.
fn rounds(series: &Series) -> Vec<&[i64]> {
    let samples = series.samples.as_deref().unwrap_or_default();
    let loops = int(series, "loops").and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
    samples.chunks(loops.unwrap_or(samples.len().max(1))).collect()
}

/// Loop by loop the middle one of all rounds.
fn typical(series: &Series) -> Vec<i64> {
    let rounds = rounds(series);
    let loops = rounds.iter().map(|round| round.len()).max().unwrap_or(0);
    let middle = |index: usize| {
        let mut here: Vec<i64> = rounds.iter().filter_map(|round| round.get(index).copied()).collect();
        here.sort_unstable();
        here.get(here.len().saturating_sub(1) / 2).copied()
    };
    (0..loops).filter_map(middle).collect()
}

/// How much the settled loops vary.
fn spread(series: &Series) -> Option<f64> {
    let mut settled: Vec<i64> =
        rounds(series).into_iter().flat_map(|round| round[round.len() / 2..].iter().copied()).collect();
    settled.sort_unstable();
    let at = |share: f64| settled.get(((settled.len() as f64 * share).ceil() as usize).saturating_sub(1)).copied();
    // Fewer than twenty values have no tenth worth the name.
    let (p10, p50, p90) = (at(0.1)?, at(0.5)?, at(0.9)?);
    (settled.len() >= 20 && p50 > 0).then(|| (p90 - p10) as f64 / p50 as f64)
}

/// What is to be said of a series.
fn words(series: &Series, style: &Style) -> Vec<String> {
    let name = plain(&series.subject, style);
    let mut said = Vec::new();
    let text = |key: &str| match series.parameters.get(key) {
        Some(Param::Text(text)) => Some(plain(text, style)),
        _ => None,
    };
    match (int(series, "to_full_speed_ns"), text("why")) {
        (None, Some(why)) => said.push(format!("{name} did not reach full speed: {why}.")),
        (None, None) if is_at_the_highest(series) => said.push(format!(
            "{name} did not reach full speed within these loops although the kernel had the CPU at its highest frequency: what slowed \
             them was something else."
        )),
        (None, None) => {
            said.push(format!("{name} did not reach full speed within these loops, and nothing here tells why."))
        }
        (Some(_), Some(why)) => said.push(format!("{name} ended below the highest frequency: {why}.")),
        (Some(ns), _) if ns > 0 => {
            said.push(format!("{name} needed {} of work to reach full speed.", unbroken(&units::duration(ns, style))));
        }
        _ => {}
    }
    if let Some(raised) =
        text("raised").filter(|_| ["ondemand", "conservative", "schedutil"].contains(&series.subject.as_str()))
    {
        said.push(format!("For the run of {name} these kernel threads were raised, and put back: {raised}."));
    }
    let best = int(series, "best_ns").unwrap_or(i64::MAX) as f64;
    let samples = series.samples.as_deref().unwrap_or_default();
    let stretched = samples.iter().filter(|ns| **ns as f64 > best * STRETCHED).count();
    if series.subject == AS_FOUND && stretched > 0 {
        let share = units::share(stretched as f64 / samples.len() as f64);
        said.push(format!(
            "{stretched} of {} loops ({share}) took more than half as long again as the best: a lower clock, the hypervisor, or others \
             on this CPU.",
            units::count(samples.len() as u64)
        ));
    }
    said
}

/// Whether the kernel asked for the highest frequency allowed after the last loop.
fn is_at_the_highest(series: &Series) -> bool {
    int(series, "ended_khz").zip(int(series, "max_khz")).is_some_and(|(ended, max)| ended >= max)
}

/// What of the spread is the work's own, and what interrupted it: one sentence for all governors.
fn variation(all: &[&Series], style: &Style) -> Option<String> {
    let real = |series: &Series, name: &str| match series.outcome.get(name) {
        Some(Param::Real(n)) => Some(*n),
        _ => None,
    };
    let told: Vec<&Series> = all.iter().copied().filter(|series| real(series, "own_spread").is_some()).collect();
    // The figure, under its governor where there are several.
    let each = |figure: &dyn Fn(&Series) -> Option<String>| {
        let one = |series: &&Series| {
            let figure = unbroken(&figure(series)?);
            Some(if told.len() > 1 { format!("{figure} ({})", plain(&series.subject, style)) } else { figure })
        };
        told.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    };
    let share = |name: &'static str| move |series: &Series| real(series, name).map(units::share);
    let own = each(&share("own_spread"));
    if own.is_empty() {
        return None;
    }
    let interruption = |series: &Series| match series.outcome.get("interruption_ns") {
        Some(Param::Int(ns)) => Some(units::duration(*ns, style)),
        _ => None,
    };
    let name =
        if let [one] = told[..] { format!("{}: without", plain(&one.subject, style)) } else { "Without".to_owned() };
    let own = format!("{name} interruptions the loops vary by {own}");
    let took = each(&interruption);
    if took.is_empty() {
        return Some(format!("{own}; none was interrupted."));
    }
    Some(format!(
        "{own}; {} were interrupted, for {took} at the median: the timer's tick, other interrupts, or the hypervisor. What slows all of \
         a loop alike, a lower clock or a busy sibling of the core, is not taken out.",
        each(&share("interrupted_share"))
    ))
}

/// The check-up's part: what a rest costs, and what would keep the speed. Where `performance` was tried in turns, what that brought; otherwise
/// what the first loops suggest.
fn advice(run: &Run, series: &[&Series], style: &Style) -> Advice {
    let mut advice = Advice::default();
    let of = |subject: &str| series.iter().copied().find(|series| series.subject == subject);
    let Some(found) = of(AS_FOUND) else { return advice };
    let governors = run.host.cpufreq.as_ref().map(|cpufreq| plain(&cpufreq.governors.join(", "), style));
    let (Some(first), Some(best), Some(governors)) = (int(found, "first_ns"), int(found, "best_ns"), governors) else {
        return advice;
    };
    let code = || Some("sudo punctual run --governor performance -- PROGRAM".to_owned());
    let work = unbroken(&units::duration(best, style));
    if let Some(difference) = of(PERFORMANCE).and_then(|tried| sooner(found, tried)) {
        let name = format!("governor performance instead of {governors}");
        let each = unbroken(&units::duration(difference.middle.abs(), style));
        let interval = units::interval_like(Interval { low: difference.low, high: difference.high }, difference.middle);
        // Less than a hundredth of the work is not worth a changed governor.
        if difference.low > best / 100 {
            let text = format!(
                "{name}: the first {work} of work after a rest is done {each} sooner at p50 {interval}. It costs energy and heat; for \
                 one program, and put back after it:"
            );
            advice.helps.push((difference.middle, Item { text, code: code() }));
        } else if difference.high < -best / 100 {
            advice.worse.push(format!("{name}: the first {work} of work after a rest is done {each} later at p50"));
        } else {
            advice.no_difference.push(name);
        }
        return advice;
    }
    if first as f64 <= best as f64 * SLOW_START {
        return advice;
    }
    let text = format!(
        "After a rest, the first {work} of work took {} under the governor {governors}. Keep the speed up around what matters:",
        unbroken(&units::duration(first, style)),
    );
    advice.helps.push((first - best, Item { text, code: code() }));
    advice
}

/// By how much the first loop of a round was sooner done, at the median over the rounds, with its interval.
struct Sooner {
    middle: i64,
    low: i64,
    high: i64,
}

/// From the rounds that both have, which follow each other. `None`: too few to tell anything from chance.
fn sooner(found: &Series, tried: &Series) -> Option<Sooner> {
    let first = |series| rounds(series).into_iter().filter_map(|round| round.first().copied());
    let mut differences: Vec<i64> = first(found).zip(first(tried)).map(|(found, tried)| found - tried).collect();
    differences.sort_unstable();
    let ranks = confidence_ranks(differences.len() as u64, Quantile::P50)?;
    let at = |rank: u64| differences.get(usize::try_from(rank).ok()?.checked_sub(1)?).copied();
    Some(Sooner { middle: differences[differences.len() / 2], low: at(ranks.low)?, high: at(ranks.high)? })
}

/// Whether a run is one of ramps alone.
pub(crate) fn is_all(run: &Run) -> bool {
    !run.series.is_empty() && run.series.iter().all(|s| s.experiment == EXPERIMENT && s.samples.is_some())
}

/// The loops as columns for gnuplot: `loop`, and per governor the duration of that loop in ns, the middle one of all rounds.
pub(crate) fn columns(run: &Run, writer: impl Write) -> Result<(), csv::Error> {
    let lines: Vec<(String, Vec<i64>)> =
        run.series.iter().map(|series| (series.subject.clone(), typical(series))).collect();
    let loops = lines.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let mut csv = csv::WriterBuilder::new().from_writer(writer);
    csv.write_record(std::iter::once("loop").chain(lines.iter().map(|(name, _)| name.as_str())))?;
    for index in 0..loops {
        let cell = |(_, values): &(String, Vec<i64>)| values.get(index).map(i64::to_string).unwrap_or_default();
        csv.write_record(std::iter::once((index + 1).to_string()).chain(lines.iter().map(cell)))?;
    }
    csv.flush()?;
    Ok(())
}
