//! The error rates as tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use punctual_record::{Param, Run};
use punctual_report::compare::{Comparison, Figure, Options, SeriesComparison, Side, Verdict, compare};

use super::inject::{Injection, into_run};

/// How many, of how many.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    hits: usize,
    of: usize,
}

impl Rate {
    fn count(&mut self, hit: bool) {
        self.hits += usize::from(hit);
        self.of += 1;
    }

    fn shown(self) -> String {
        if self.of == 0 {
            return "–".into();
        }
        format!("{:.1} % ({} of {})", 100.0 * self.hits as f64 / self.of as f64, self.hits, self.of)
    }
}

/// Which runs stand on which side.
struct Arrangement {
    name: String,
    /// Places of the old and of the new runs, one entry per comparison.
    sides: Vec<(Vec<usize>, Vec<usize>)>,
}

/// Every run is in one comparison of each arrangement.
fn arrangements(runs: usize, each: usize) -> Vec<Arrangement> {
    let singles = (0..runs / 2).map(|i| (vec![2 * i], vec![2 * i + 1])).collect();
    let mut all = vec![Arrangement { name: "one run against the next".into(), sides: singles }];
    let starts = (0..runs / (2 * each)).map(|i| 2 * each * i);
    let turns = starts.clone().map(|start| {
        let place = |new: usize| (0..each).map(|i| start + 2 * i + new).collect::<Vec<_>>();
        (place(0), place(1))
    });
    all.push(Arrangement { name: format!("{each} and {each} runs, in turns"), sides: turns.collect() });
    let blocks = starts.map(|start| {
        let place = |new: usize| (0..each).map(|i| start + each * new + i).collect::<Vec<_>>();
        (place(0), place(1))
    });
    all.push(Arrangement {
        name: format!("{each} and {each} runs, one side after the other"),
        sides: blocks.collect(),
    });
    all
}

fn side(runs: &[Run], places: &[usize]) -> anyhow::Result<Side> {
    let mut side = Side::new();
    for &place in places {
        side.add(&format!("r{place}"), &runs[place])?;
    }
    Ok(side)
}

fn verdict(series: &SeriesComparison, figure: Figure) -> Verdict {
    series.figures.iter().find(|its| its.figure == figure).map_or(Verdict::NotComparable, |its| its.verdict)
}

/// Everything that one arrangement shows.
#[derive(Default)]
struct Rates {
    alarms: BTreeMap<Figure, Rate>,
    clean: Rate,
    together: BTreeMap<Figure, Rate>,
    alone: BTreeMap<Figure, Rate>,
    by_series: BTreeMap<String, [Rate; 5]>,
}

fn name(series: &SeriesComparison) -> String {
    let asked = match series.parameters.get("asked_ns") {
        Some(Param::Int(ns)) => format!(", {} µs", ns / 1000),
        _ => String::new(),
    };
    format!("{}{asked}", series.subject)
}

const P50: Injection = Injection::All(0.2);
const P99: Injection = Injection::Tail(0.5);

fn rates(runs: &[Run], arrangement: &Arrangement) -> anyhow::Result<Rates> {
    let mut rates = Rates::default();
    for (old, new) in &arrangement.sides {
        let old = side(runs, old)?;
        let compared = compare(&old, &side(runs, new)?, Options::default());
        alarms(&mut rates, &compared);
        for (figure, injection) in [(Figure::P50, P50), (Figure::P99, P99)] {
            let changed = |only: Option<usize>| -> anyhow::Result<Comparison> {
                let mut side = Side::new();
                for &place in new {
                    side.add(&format!("r{place}"), &into_run(&runs[place], only, injection)?)?;
                }
                Ok(compare(&old, &side, Options::default()))
            };
            for series in &changed(None)?.series {
                let found = verdict(series, figure);
                if found != Verdict::NotComparable {
                    rates.together.entry(figure).or_default().count(found == Verdict::Worse);
                }
            }
            for (place, its) in runs[new[0]].series.iter().enumerate() {
                let compared = changed(Some(place))?;
                let same =
                    |series: &&SeriesComparison| series.subject == its.subject && series.parameters == its.parameters;
                let Some(series) = compared.series.iter().find(same) else { continue };
                let found = verdict(series, figure);
                if found != Verdict::NotComparable {
                    rates.alone.entry(figure).or_default().count(found == Verdict::Worse);
                    let column = if figure == Figure::P50 { 3 } else { 4 };
                    rates.by_series.entry(name(series)).or_default()[column].count(found == Verdict::Worse);
                }
            }
        }
    }
    Ok(rates)
}

fn alarms(rates: &mut Rates, compared: &Comparison) {
    let mut any = false;
    for series in &compared.series {
        for (column, figure) in Figure::ALL.into_iter().enumerate() {
            let found = verdict(series, figure);
            if found == Verdict::NotComparable {
                continue;
            }
            let alarm = found != Verdict::NoDifference;
            any |= alarm;
            rates.alarms.entry(figure).or_default().count(alarm);
            rates.by_series.entry(name(series)).or_default()[column].count(alarm);
        }
    }
    rates.clean.count(any);
}

/// All arrangements, as Markdown.
pub(crate) fn all(runs: &[Run], each: usize) -> anyhow::Result<String> {
    let mut out = String::new();
    let mut detail = String::new();
    out.push_str("| arrangement | false alarms | comparisons with one or more | p50 +20 % found, in all series | alone in one | p99 +50 % found, in all series | alone in one |\n");
    out.push_str("|:--|:--|:--|:--|:--|:--|:--|\n");
    for arrangement in arrangements(runs.len(), each) {
        let rates = rates(runs, &arrangement)?;
        let total = rates
            .alarms
            .values()
            .fold(Rate::default(), |sum, rate| Rate { hits: sum.hits + rate.hits, of: sum.of + rate.of });
        let of = |map: &BTreeMap<Figure, Rate>, figure| map.get(&figure).copied().unwrap_or_default().shown();
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            arrangement.name,
            total.shown(),
            rates.clean.shown(),
            of(&rates.together, Figure::P50),
            of(&rates.alone, Figure::P50),
            of(&rates.together, Figure::P99),
            of(&rates.alone, Figure::P99),
        )?;
        writeln!(detail, "\n**{}**\n", arrangement.name)?;
        detail.push_str("| series | false alarms p50 | p99 | CPU | p50 +20 % found (alone) | p99 +50 % found (alone) |\n|:--|:--|:--|:--|:--|:--|\n");
        for (name, rates) in &rates.by_series {
            let cells: Vec<String> = rates.iter().map(|rate| rate.shown()).collect();
            writeln!(detail, "| {name} | {} |", cells.join(" | "))?;
        }
    }
    Ok(out + &detail)
}
