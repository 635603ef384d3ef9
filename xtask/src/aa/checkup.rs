//! Check-ups of the unchanged machine, quiet and beside other programs. How often is an advice denied by another check-up of the same load,
//! by its level of trust? Does any screen contradict itself, and do the busy ones say so first?
//!
//! What a check-up claims is held as pairs of which one is better: so that two claims can be held against each other whatever their advice is
//! called, and whichever way round it is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use punctual_record::Run;
use punctual_report::Verdict;
use punctual_report::evidence::Outcome;
use punctual_report::verdict::{Advice, Case, Goal, Level};

use super::measured::{self, Load, Measuring};

/// Options of `aa checkup`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckupArgs {
    /// Check-ups of each load
    #[arg(long, default_value_t = 40)]
    runs: usize,
    /// The loads; their check-ups take turns
    #[arg(long, value_enum, value_delimiter = ',', default_value = "quiet,compiler,forks")]
    loads: Vec<Load>,
    /// Five seconds each instead of less than half a minute
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    measuring: Measuring,
}

/// How the first line of a busy machine's check-up begins.
const BUSY: &str = "Busy machine";
/// The share of the advices of a level that another check-up of the same load may deny.
const ALLOWED: [(Level, f64); 2] = [(Level::Good, 0.02), (Level::Fair, 0.1)];

/// A check-up, its verdict, and the first line that it printed.
struct Checkup {
    name: String,
    load: Load,
    verdict: Verdict,
    first_line: String,
}

impl Checkup {
    fn read(load: Load, path: &Path) -> anyhow::Result<Self> {
        let text = path.with_extension("txt");
        let printed = std::fs::read_to_string(&text).with_context(|| text.display().to_string())?;
        let first_line = printed.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let run: Run = measured::read(path)?;
        Ok(Self { name, load, verdict: Verdict::from_run(&run), first_line })
    }

    fn says_busy(&self) -> bool {
        self.first_line.trim_start().starts_with(BUSY)
    }

    /// All that it claims, advised or not.
    fn claims(&self) -> BTreeSet<Claim> {
        self.verdict.advice.iter().chain(&self.verdict.tried).flat_map(Claim::all).collect()
    }

    /// Pairs of its advices that contradict each other.
    fn contradictions(&self) -> Vec<String> {
        let all = &self.verdict.advice;
        let names = |advice: &Advice| {
            let mut names: Vec<String> = advice.equal.iter().map(|equal| equal.what.clone()).collect();
            names.push(advice.what.clone());
            names
        };
        let contradict = |one: &Advice, other: &Advice| {
            let reversed = Claim::gains(one).iter().any(|claim| Claim::gains(other).contains(&claim.reversed()));
            let both = names(one);
            reversed || (one.goal == other.goal && both.contains(&other.what) && both.contains(&other.instead_of))
        };
        let pairs =
            all.iter().enumerate().flat_map(|(place, one)| all[place + 1..].iter().map(move |other| (one, other)));
        let wrong = pairs.filter(|(one, other)| contradict(one, other) || contradict(other, one));
        wrong.map(|(one, other)| format!("{}: {} / {}", self.name, one.id, other.id)).collect()
    }
}

/// Measures the missing check-ups and prints what became of their advice.
pub(crate) fn run(args: &CheckupArgs) -> anyhow::Result<()> {
    let folder = args.measuring.folder("xtask-aa-checkup")?;
    let of_round = |number: usize| {
        let folder = &folder;
        args.loads.iter().map(move |load| (*load, folder.join(format!("{}-{number:02}.json", load.name()))))
    };
    let all: Vec<(Load, PathBuf)> = (1..=args.runs).flat_map(of_round).collect();
    let words: &[&str] = if args.quick { &["checkup", "--quick"] } else { &["checkup"] };
    if !args.measuring.missing(&all, |binary, load, path| measure(binary, words, (*load, path)))? {
        println!("some check-ups are missing: call again");
        return Ok(());
    }
    let all: Vec<Checkup> = all.iter().map(|(load, path)| Checkup::read(*load, path)).collect::<anyhow::Result<_>>()?;
    let contradicting: Vec<String> = all.iter().flat_map(Checkup::contradictions).collect();
    let silent: Vec<&Checkup> =
        all.iter().filter(|checkup| checkup.load != Load::Quiet && !checkup.says_busy()).collect();
    by_load(&all, &args.loads);
    let denied = by_trust(&all);
    println!("\nContradictions on a screen: {}", contradicting.len());
    contradicting.iter().for_each(|line| println!("- {line}"));
    silent.iter().for_each(|checkup| println!("- {} does not say that the machine was busy", checkup.name));
    ensure!(contradicting.is_empty(), "a screen contradicts itself");
    ensure!(silent.is_empty(), "a busy run does not say so");
    ensure!(denied, "more advice is denied than its trust allows");
    Ok(())
}

/// One check-up into a file, and its screen beside it.
fn measure(binary: &Path, words: &[&str], (load, into): (Load, &Path)) -> anyhow::Result<()> {
    let running = load.start()?;
    let printed = measured::printed(binary, words, into)?;
    drop(running);
    std::fs::write(into.with_extension("txt"), printed).with_context(|| into.display().to_string())
}

fn by_load(all: &[Checkup], loads: &[Load]) {
    println!("| load | check-ups | the first line says busy | trust in the figures | with an advice of trust good |");
    println!("|:--|--:|--:|:--|--:|");
    for load in loads {
        let own: Vec<&Checkup> = all.iter().filter(|checkup| checkup.load == *load).collect();
        let busy = own.iter().filter(|checkup| checkup.says_busy()).count();
        let good = own
            .iter()
            .filter(|checkup| checkup.verdict.advice.iter().any(|advice| advice.trust == Level::Good))
            .count();
        let mut levels: BTreeMap<Level, usize> = BTreeMap::new();
        own.iter().for_each(|checkup| *levels.entry(checkup.verdict.trust.level).or_default() += 1);
        let levels: Vec<String> = levels.iter().map(|(level, count)| format!("{count} {}", level.word())).collect();
        println!("| {} | {} | {busy} | {} | {good} |", load.name(), own.len(), levels.join(", "));
    }
}

/// Prints the advices of each level and those that another check-up of the same load denies. Returns whether these are few enough.
fn by_trust(all: &[Checkup]) -> bool {
    let claims: Vec<BTreeSet<Claim>> = all.iter().map(Checkup::claims).collect();
    let mut counts: BTreeMap<Level, (usize, usize)> = BTreeMap::new();
    let mut lines: Vec<String> = Vec::new();
    for (place, checkup) in all.iter().enumerate() {
        let others = || all.iter().enumerate().filter(|(other, run)| *other != place && run.load == checkup.load);
        for advice in &checkup.verdict.advice {
            let (sum, denied) = counts.entry(advice.trust).or_default();
            *sum += 1;
            let gains = Claim::gains(advice);
            let denies =
                |(other, _): &(usize, &Checkup)| gains.iter().any(|claim| claims[*other].contains(&claim.reversed()));
            let by: Vec<&str> = others().filter(denies).map(|(_, run)| run.name.as_str()).collect();
            if !by.is_empty() {
                *denied += 1;
                let (level, id) = (advice.trust.word(), &advice.id);
                lines.push(format!(
                    "- {}, {level}: {:?}, {id}; denied by {}",
                    checkup.name,
                    advice.goal,
                    by.join(", ")
                ));
            }
        }
    }
    println!("\n| trust in the advice | advices | denied by another check-up of the same load |\n|:--|--:|--:|");
    for (level, (sum, denied)) in &counts {
        println!("| {} | {sum} | {denied} ({:.1} %) |", level.word(), 100.0 * *denied as f64 / (*sum).max(1) as f64);
    }
    println!();
    lines.iter().for_each(|line| println!("{line}"));
    ALLOWED.iter().all(|(level, share)| {
        let (sum, denied) = counts.get(level).copied().unwrap_or_default();
        denied as f64 <= share * sum as f64
    })
}

/// The figure of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Figure {
    P50,
    P99,
    /// What is left to others.
    Share,
}

/// One thing is better than another for a goal, in a case, at a figure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    goal: Goal,
    better: String,
    than: String,
    case: String,
    figure: Figure,
}

impl Claim {
    /// The claim that denies it.
    fn reversed(&self) -> Self {
        Self { better: self.than.clone(), than: self.better.clone(), ..self.clone() }
    }

    /// What an advice claims; a thing that is shown to be worse makes what it replaces better.
    fn all(advice: &Advice) -> BTreeSet<Self> {
        advice.cases.iter().flat_map(|case| claims_of_case(advice, case)).collect()
    }

    /// Its gains alone: what it is advised for.
    fn gains(advice: &Advice) -> BTreeSet<Self> {
        Self::all(advice).into_iter().filter(|claim| claim.better == advice.what).collect()
    }
}

fn claims_of_case<'a>(advice: &'a Advice, case: &'a Case) -> impl Iterator<Item = Claim> + 'a {
    let share = case.others.as_ref().map(|others| others.outcome).unwrap_or_default();
    let share = if advice.goal == Goal::LetOthersRun { share } else { Outcome::NotTested };
    let figures = [(Figure::P50, case.p50.outcome), (Figure::P99, case.p99.outcome), (Figure::Share, share)];
    figures.into_iter().filter_map(move |(figure, outcome)| {
        let (better, than) = match outcome {
            Outcome::Better => (&advice.what, &advice.instead_of),
            Outcome::Worse => (&advice.instead_of, &advice.what),
            Outcome::NoDifference | Outcome::NotTested => return None,
        };
        let (better, than, case) = (better.clone(), than.clone(), case.case.clone());
        Some(Claim { goal: advice.goal, better, than, case, figure })
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// A reversal is seen whatever the advice is called, and a share is a claim too.
    #[test]
    fn a_claim_is_denied_by_its_reverse() {
        let record = crate::tools::root().join("crates/cli/tests/golden/records/yield-few.json");
        let run = Run::from_json(File::open(record).unwrap()).unwrap();
        let verdict = Verdict::from_run(&run);
        let advice = &verdict.advice[0];
        let gains = Claim::gains(advice);
        assert!(gains.iter().any(|claim| claim.figure == Figure::Share), "{advice:?}");
        let turned = Advice { what: advice.instead_of.clone(), instead_of: advice.what.clone(), ..advice.clone() };
        assert!(
            gains.iter().all(|claim| Claim::all(&turned).contains(&claim.reversed())
                && !Claim::all(advice).contains(&claim.reversed()))
        );
    }
}
