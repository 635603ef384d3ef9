//! The error rates of `punctual compare`: on identical runs (A/A), and on the same runs with an injected change.
//!
//! Measures the runs that the folder lacks, and compares them in several arrangements. Prints tables for docs/results/aa.md. `--at-most`
//! spreads the measurements over several calls.

mod checkup;
mod gate;
mod measured;
mod ramp;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use punctual_record::{Param, Run};
use punctual_report::compare::{Comparison, Figure, Options, SeriesComparison, Side, Verdict, compare};

use self::measured::{Injection, Measuring, into_run};

/// Options of `aa`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, mut_arg("at_most", |most| most.default_value("450")))]
pub(crate) struct AaArgs {
    /// Of what instead of `punctual compare`
    #[command(subcommand)]
    of: Option<Of>,
    /// Pairs of sides
    #[arg(long, default_value_t = 40)]
    pairs: usize,
    /// Runs per side; several numbers are tried on the same runs
    #[arg(long, value_delimiter = ',', default_value = "1,4,10,20")]
    each: Vec<usize>,
    /// Command that each run measures
    #[arg(
        long,
        default_value = "wait nanosleep clock_nanosleep_abs ppoll futex timerfd spin_clock --for 100us --duration 500ms --rounds 10"
    )]
    command: String,
    /// Compare the existing runs; measure nothing
    #[arg(long)]
    measure_nothing: bool,
    #[command(flatten)]
    measuring: Measuring,
}

/// What else is measured without a change.
#[derive(Debug, clap::Subcommand)]
enum Of {
    /// Count the runs of `governor ramp` that claim something
    Ramp(ramp::RampArgs),
    /// Count advice of check-ups that another one denies, by trust and load; screens that contradict themselves; busy ones that do not say so
    Checkup(checkup::CheckupArgs),
    /// Count what `wait --until` says of an unchanged machine and of changed ones, quiet and beside a compiler
    Gate(gate::GateArgs),
}

/// Measures the missing runs, and shows the error rates once all exist.
pub(crate) fn run(args: &AaArgs) -> anyhow::Result<()> {
    match &args.of {
        Some(Of::Ramp(args)) => return ramp::run(args),
        Some(Of::Checkup(args)) => return checkup::run(args),
        Some(Of::Gate(args)) => return gate::run(args),
        None => {}
    }
    let folder = args.measuring.folder("xtask-aa")?;
    let most = args.each.iter().copied().max().unwrap_or(1);
    let file = |number: usize| ((), folder.join(format!("r{number:03}.json")));
    let files: Vec<((), PathBuf)> = (1..=2 * args.pairs * most).map(file).collect();
    let words: Vec<&str> = args.command.split_whitespace().collect();
    let measure = |binary: &Path, (): &(), path: &Path| measured::save(binary, &words, path);
    if !args.measure_nothing && !args.measuring.missing(&files, measure)? {
        println!("some runs are missing: call again");
        return Ok(());
    }
    let there = files.iter().filter(|(_, path)| path.exists());
    let runs: Vec<Run> = there.map(|(_, path)| measured::read(path)).collect::<anyhow::Result<_>>()?;
    ensure!(runs.len() >= 2, "{} has fewer than two runs", folder.display());
    print!("{}", tables(&runs, &args.each)?);
    Ok(())
}

/// A count out of a total.
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

/// An assignment of runs to sides.
struct Arrangement {
    name: String,
    /// Indices of the old and the new runs, one entry per comparison.
    sides: Vec<(Vec<usize>, Vec<usize>)>,
}

/// Every run is in one comparison of each arrangement, if their number is divisible.
fn arrangements(runs: usize, each: &[usize]) -> Vec<Arrangement> {
    let mut all = Vec::new();
    for &each in each {
        let arrangement = |name: String, place: &dyn Fn(usize, usize) -> usize| {
            let side = |start: usize, new| (0..each).map(|i| start + place(i, new)).collect();
            let starts = (0..runs / (2 * each)).map(|i| 2 * each * i);
            Arrangement { name, sides: starts.map(|start| (side(start, 0), side(start, 1))).collect() }
        };
        let turns = |i, new| 2 * i + new;
        if each == 1 {
            all.push(arrangement("one run against the next".into(), &turns));
            continue;
        }
        all.push(arrangement(format!("{each} and {each} runs, interleaved"), &turns));
        let blocks = |i, new| each * new + i;
        all.push(arrangement(format!("{each} and {each} runs, one side after the other"), &blocks));
    }
    all
}

fn side(runs: &[Run], places: &[usize]) -> anyhow::Result<Side> {
    let mut side = Side::new();
    for &place in places {
        side.add(&format!("r{place}"), &runs[place])?;
    }
    Ok(side)
}

/// What is said of a figure, if it can be compared.
fn verdict(series: &SeriesComparison, figure: Figure) -> Option<Verdict> {
    let compared = series.figures.iter().find(|compared| compared.figure == figure)?;
    Some(compared.verdict).filter(|verdict| *verdict != Verdict::NotComparable)
}

/// The result of one arrangement. Of two, the first is of p50, the second of p99, as in [`INJECTED`].
#[derive(Default)]
struct Rates {
    alarms: Rate,
    clean: Rate,
    together: [Rate; 2],
    alone: [Rate; 2],
    /// False alarms by figure, and what was found alone.
    by_series: BTreeMap<String, [Rate; 5]>,
    /// The smallest detectable change of each comparison, by series, as the logarithm of the ratio.
    finds: BTreeMap<String, [Vec<f64>; 2]>,
}

fn name(series: &SeriesComparison) -> String {
    let asked = match series.parameters.get("asked_ns") {
        Some(Param::Int(ns)) => format!(", {} µs", ns / 1000),
        _ => String::new(),
    };
    format!("{}{asked}", series.subject)
}

/// The figures that are changed, and how.
const INJECTED: [(Figure, Injection); 2] = [(Figure::P50, Injection::All(0.2)), (Figure::P99, Injection::Tail(0.5))];

fn rates(runs: &[Run], arrangement: &Arrangement) -> anyhow::Result<Rates> {
    let mut rates = Rates::default();
    for (old, new) in &arrangement.sides {
        let old = side(runs, old)?;
        let compared = compare(&old, &side(runs, new)?, Options::default());
        alarms(&mut rates, &compared);
        finds(&mut rates, &compared);
        for (column, (figure, injection)) in INJECTED.into_iter().enumerate() {
            let changed = |only: Option<usize>| -> anyhow::Result<Comparison> {
                let mut side = Side::new();
                for &place in new {
                    side.add(&format!("r{place}"), &into_run(&runs[place], only, injection)?)?;
                }
                Ok(compare(&old, &side, Options::default()))
            };
            for found in changed(None)?.series.iter().filter_map(|series| verdict(series, figure)) {
                rates.together[column].count(found == Verdict::Worse);
            }
            for (place, measured) in runs[new[0]].series.iter().enumerate() {
                let compared = changed(Some(place))?;
                let same = |series: &&SeriesComparison| {
                    series.subject == measured.subject && series.parameters == measured.experiment.parameters()
                };
                let Some(series) = compared.series.iter().find(same) else { continue };
                let Some(found) = verdict(series, figure) else { continue };
                rates.alone[column].count(found == Verdict::Worse);
                rates.by_series.entry(name(series)).or_default()[3 + column].count(found == Verdict::Worse);
            }
        }
    }
    Ok(rates)
}

fn alarms(rates: &mut Rates, compared: &Comparison) {
    let mut any = false;
    for series in &compared.series {
        for (column, figure) in Figure::ALL.into_iter().enumerate() {
            let Some(found) = verdict(series, figure) else { continue };
            let alarm = found != Verdict::NoDifference;
            any |= alarm;
            rates.alarms.count(alarm);
            rates.by_series.entry(name(series)).or_default()[column].count(alarm);
        }
    }
    rates.clean.count(any);
}

fn finds(rates: &mut Rates, compared: &Comparison) {
    for series in &compared.series {
        for (column, (figure, _)) in INJECTED.into_iter().enumerate() {
            let judged = series.figures.iter().find(|judged| judged.figure == figure);
            if let Some(share) = judged.and_then(|judged| judged.difference?.shows_share) {
                rates.finds.entry(name(series)).or_default()[column].push(share.ln_1p());
            }
        }
    }
}

/// The median of the smallest detectable changes. For interleaved runs also the runs per side that a change of this size needs. The error
/// of a difference falls with the square root of their number.
fn needed(finds: &[f64], change: f64, each: Option<usize>) -> String {
    let mut finds = finds.to_vec();
    finds.sort_by(f64::total_cmp);
    let Some(middle) = finds.get(finds.len() / 2) else { return "–".into() };
    let found = format!("+{:.0} %", middle.exp_m1() * 100.0);
    match each {
        Some(each) => format!("{found} ({:.0})", (each as f64 * (middle / change.ln_1p()).powi(2)).ceil()),
        None => found,
    }
}

/// All arrangements, as Markdown.
fn tables(runs: &[Run], each: &[usize]) -> anyhow::Result<String> {
    let mut out = String::new();
    let mut detail = String::new();
    out.push_str("| arrangement | false alarms | comparisons with one or more | p50 +20 % found, in all series | alone in one | p99 +50 % found, in all series | alone in one |\n");
    out.push_str("|:--|:--|:--|:--|:--|:--|:--|\n");
    for arrangement in arrangements(runs.len(), each).iter().filter(|arrangement| !arrangement.sides.is_empty()) {
        let rates = rates(runs, arrangement)?;
        let Rates { alarms, clean, together, alone, .. } = &rates;
        let all = [alarms, clean, &together[0], &alone[0], &together[1], &alone[1]];
        writeln!(out, "| {} | {} |", arrangement.name, all.map(|rate| rate.shown()).join(" | "))?;
        writeln!(detail, "\n**{}**\n", arrangement.name)?;
        detail.push_str("| series | false alarms p50 | p99 | CPU | p50 +20 % found (alone) | p99 +50 % found (alone) | claims to find at p50 (runs for 20 %) | at p99 (runs for 50 %) |\n|:--|:--|:--|:--|:--|:--|:--|:--|\n");
        let interleaved = arrangement.name.ends_with("interleaved");
        let each = arrangement.sides.first().map(|(old, _)| old.len()).filter(|_| interleaved);
        for (name, of_series) in &rates.by_series {
            let mut cells: Vec<String> = of_series.iter().map(|rate| rate.shown()).collect();
            let empty = Default::default();
            let [p50, p99] = rates.finds.get(name).unwrap_or(&empty);
            cells.extend([needed(p50, 0.2, each), needed(p99, 0.5, each)]);
            writeln!(detail, "| {name} | {} |", cells.join(" | "))?;
        }
    }
    Ok(out + &detail)
}
