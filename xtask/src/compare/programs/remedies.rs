//! Real programs under each remedy of `punctual run`: the same output and exit status, and what they gain or lose. The CPU time
//! that a remedy costs is there too.
//!
//! A round is a turn under each remedy and two under `run` without any. Each round begins with another of them, so that drift hits all.

use anyhow::{Context as _, ensure};

use super::choice::Choice;
use super::play::{Mode, Outcome, Place};
use super::program::{Better, Program};
use crate::compare::pairs::{Pairs, Verdict};

/// `run` with these flags, and the control: a second turn without any.
const REMEDIES: [(&str, &[&str]); 7] = [
    ("`--timer-slack 1ns`", &["--timer-slack", "1ns"]),
    ("`--usleep0 yield`", &["--usleep0", "yield"]),
    ("`--sched-yield backoff`", &["--sched-yield", "backoff"]),
    ("`--precise-sleep`", &["--precise-sleep"]),
    ("`--precise-sleep=5%`", &["--precise-sleep=5%"]),
    ("`--poll-first 20us`", &["--poll-first", "20us"]),
    ("none again", &[]),
];
const NONE: (&str, &[&str]) = ("none", &[]);
/// With the turn without a remedy.
const WAYS: usize = REMEDIES.len() + 1;
/// From a turn to the next: the control does not directly precede the turn without a remedy. It has no factor in common with `WAYS`.
const STRIDE: usize = 3;
/// Fewer rounds show no difference. All rounds of one of seven comparisons agree by chance in less than 0.7 % of cases.
const FEWEST_ROUNDS: u32 = 9;

/// What a figure was in each round, beside that of the turn without a remedy.
type Row = [Pairs; REMEDIES.len()];

/// Plays all programs and prints a row for each figure. Fails if a program says something else under a remedy.
pub(crate) fn run(choice: &Choice<'_>, rounds: u32) -> anyhow::Result<()> {
    let programs = choice.programs(|program| program.remedies);
    let Some(stage) = choice.stage(&programs)? else { return Ok(()) };
    println!("{}", head(&["program", "version", "same output, status", "figure"]));
    let (mut prices, mut left_out, mut failed) = (String::new(), Vec::new(), Vec::new());
    for program in programs {
        let played = stage
            .prepare(program)
            .and_then(|ready| ready.map(|ready| Ok((play(program, &ready.place, rounds)?, ready.version))).transpose());
        match played {
            Ok(Some((played, version))) => {
                print!("{}", played.rows(program, &version));
                prices += &line(&[program.name], &played.cpu, Better::Less);
                failed.extend(played.faults.into_iter().map(|fault| format!("{}: {fault}", program.name)));
            }
            Ok(None) => left_out.push(format!("{} ({})", program.name, program.packages)),
            Err(error) => failed.push(format!("{}: {error:#}", program.name)),
        }
    }
    println!("\n{}\n{prices}", head(&["program: CPU time, s"]));
    if rounds < FEWEST_ROUNDS {
        println!("{rounds} rounds show no difference: it takes {FEWEST_ROUNDS}.");
    }
    if !left_out.is_empty() {
        println!("Left out, since they are not installed: {}.", left_out.join(", "));
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// What the rounds of a program showed.
struct Played {
    /// A row for each figure.
    figures: Vec<Row>,
    cpu: Row,
    faults: Vec<String>,
}

fn play(program: &Program, place: &Place, rounds: u32) -> anyhow::Result<Played> {
    let reference = place.play(program, Mode::Not)?;
    let figures = vec![Row::default(); program.judged_by().len()];
    let mut played = Played { figures, cpu: Row::default(), faults: Vec::new() };
    for round in 0..rounds as usize {
        let mut outcomes = Vec::new();
        for step in 0..WAYS {
            let way = (round + STRIDE * step) % WAYS;
            let (name, flags) = REMEDIES.get(way).copied().unwrap_or(NONE);
            let outcome = place.play(program, Mode::Under(flags)).context(name)?;
            if outcome.said != reference.said {
                played.faults.push(format!("{name}: {:?}, but without `run` {:?}", outcome.said, reference.said));
            }
            outcomes.push((way, outcome));
        }
        outcomes.sort_by_key(|(way, _)| *way);
        played.add(&outcomes);
    }
    Ok(played)
}

impl Played {
    /// Adds a round: the outcomes in the order of the remedies, that without one last.
    fn add(&mut self, outcomes: &[(usize, Outcome)]) {
        let Some(((_, none), remedied)) = outcomes.split_last() else { return };
        for (remedy, (_, outcome)) in remedied.iter().enumerate() {
            self.cpu[remedy].push(outcome.cpu.as_secs_f64(), none.cpu.as_secs_f64());
            for (figure, row) in self.figures.iter_mut().enumerate() {
                row[remedy].push(outcome.figures[figure], none.figures[figure]);
            }
        }
    }

    fn rows(&self, program: &Program, version: &str) -> String {
        let same = if self.faults.is_empty() { "yes" } else { "NO" };
        let rows = program.judged_by().iter().zip(&self.figures);
        rows.map(|(figure, row)| line(&[program.name, version, same, figure.name], row, figure.better)).collect()
    }
}

fn head(columns: &[&str]) -> String {
    let remedies = REMEDIES.map(|(name, _)| name);
    let names = [columns, &["none"], &remedies].concat();
    let rules = [vec!["---"; columns.len()], vec!["---:"; remedies.len() + 1]].concat();
    format!("| {} |\n|{}|", names.join(" | "), rules.join("|"))
}

fn line(columns: &[&str], row: &Row, better: Better) -> String {
    let cells: Vec<String> = row.iter().map(|pairs| cell(pairs, better)).collect();
    format!("| {} | {} | {} |\n", columns.join(" | "), number(row[0].theirs()), cells.join(" | "))
}

/// The median, and its ratio to the turn without a remedy. Or it says that the rounds do not agree on a difference.
fn cell(pairs: &Pairs, better: Better) -> String {
    let ratio = pairs.ratio_among(REMEDIES.len() as u32);
    let gain = match (ratio.is_within(0.0..=1.0), better) {
        (Verdict::CannotTell, _) if ratio.low.is_finite() => {
            return format!("scatter [{:.2} {:.2}]", ratio.low, ratio.high);
        }
        (Verdict::CannotTell, _) => return format!("few rounds: x {:.2}", ratio.value),
        (Verdict::Holds, Better::Less) | (Verdict::Fails, Better::More) => "better",
        (Verdict::Holds, Better::More) | (Verdict::Fails, Better::Less) => "**worse**",
    };
    format!("{gain} {}: x {:.2} [{:.2} {:.2}]", number(pairs.ours()), ratio.value, ratio.low, ratio.high)
}

/// Three digits.
fn number(value: f64) -> String {
    match value.abs() {
        0.0..1.0 => format!("{value:.3}"),
        1.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ratios: impl IntoIterator<Item = f64>) -> Pairs {
        let mut pairs = Pairs::default();
        ratios.into_iter().for_each(|ratio| pairs.push(200.0 * ratio, 200.0));
        pairs
    }

    #[test]
    fn a_gain_a_loss_and_neither() {
        let halved = pairs((0..9).map(|round| 0.46 + 0.01 * f64::from(round)));
        assert_eq!(cell(&halved, Better::Less), "better 100: x 0.50 [0.46 0.54]");
        assert_eq!(cell(&halved, Better::More), "**worse** 100: x 0.50 [0.46 0.54]");
        let one_differs = pairs((0..9).map(|round| if round == 3 { 1.1 } else { 0.5 }));
        assert_eq!(cell(&one_differs, Better::Less), "scatter [0.50 1.10]");
        assert_eq!(cell(&pairs([0.5; 8]), Better::Less), "few rounds: x 0.50");
    }

    #[test]
    fn programs_that_are_compared_are_unlike_and_have_packages() {
        let names: Vec<_> = Choice { only: &[], binary: None, packages: false }.programs(|_| true);
        for (n, program) in names.iter().enumerate() {
            assert!(names[..n].iter().all(|other| other.name != program.name), "{}", program.name);
            assert!(!program.packages.is_empty() && !program.version.is_empty(), "{}", program.name);
        }
        assert!(names.iter().filter(|program| program.remedies).count() >= 20);
    }
}
