//! `cargo xtask fuzz`: feeds malformed inputs to every parser of foreign data.
//!
//! It prints how many inputs each target accepted, and the failures. A failure is a panic, an input that takes over a minute, or memory
//! above a limit. Seed and number determine an input on every machine. Repeat a failure with `cargo xtask fuzz TARGET --seed S --first N
//! --inputs 1`.

mod command_line;
mod datagram;
mod journal;
mod mutate;
pub(crate) mod random;
mod record;
mod ring;
mod watch;

#[path = "../../../crates/report/tests/all/common/mod.rs"]
mod made;
#[path = "../../../crates/record/tests/all/sample.rs"]
mod sample;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::{Args, ValueEnum};

use random::Random;
use watch::Watch;

#[cfg(test)]
pub(crate) use sample::sample;

/// Most failures shown per target.
const SHOWN: usize = 10;

#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// Targets [default: all]
    targets: Vec<Target>,
    /// Total number of inputs
    #[arg(long, default_value_t = 1_000_000)]
    inputs: u64,
    /// Seed of the inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of the first input of each target
    #[arg(long, default_value_t = 0)]
    first: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Saved runs: read, reported in every form, compared, merged
    Record,
    /// Command lines
    CommandLine,
    /// Headers of rings
    Ring,
    /// Journals of the frequency keeper
    Journal,
    /// Datagrams to `pace --receive`
    Datagram,
}

impl Target {
    /// Share of all inputs, in per cent.
    fn share(self) -> u64 {
        match self {
            Self::Record | Self::CommandLine => 35,
            Self::Ring => 18,
            Self::Datagram => 10,
            // Slow: it reads back what it restores, with retries.
            Self::Journal => 2,
        }
    }

    /// The number of workers.
    fn at_once(self) -> u64 {
        if self == Self::Datagram { datagram::AT_ONCE } else { 1 }
    }
}

/// The target of a worker.
enum Fed {
    Record(Box<record::Records>),
    CommandLine(Box<command_line::Parser>),
    Ring,
    Journal(journal::Machine),
    Datagram,
}

impl Fed {
    fn new(target: Target) -> anyhow::Result<Self> {
        Ok(match target {
            Target::Record => {
                let runs = vec![
                    made::plain_run(),
                    made::lever_run(&["punctual", "checkup"]),
                    made::remedies_run(52_000, 52_000, 3_100),
                    sample::sample(),
                ];
                Self::Record(Box::new(record::Records::new(runs)))
            }
            Target::CommandLine => Self::CommandLine(Box::new(command_line::Parser::new())),
            Target::Ring => Self::Ring,
            Target::Journal => Self::Journal(journal::Machine::new()?),
            Target::Datagram => Self::Datagram,
        })
    }

    /// Feeds one input. Returns whether it was accepted.
    fn check(&self, random: &mut Random) -> Result<bool, String> {
        match self {
            Self::Record(records) => records.check(random),
            Self::CommandLine(parser) => parser.check(random),
            Self::Ring => ring::check(random),
            Self::Journal(machine) => machine.check(random),
            Self::Datagram => datagram::check(random),
        }
    }
}

/// Feeds every target, prints the results, and fails if any input failed.
pub(crate) fn run(args: &FuzzArgs) -> anyhow::Result<()> {
    let targets = if args.targets.is_empty() { Target::value_variants() } else { &args.targets };
    let shares: u64 = targets.iter().map(|target| target.share()).sum();
    watch::quiet_panics();
    let mut wrong = 0;
    println!("seed {}", args.seed);
    for &target in targets {
        let inputs = (args.inputs * target.share()).div_ceil(shares);
        let Fate { wrong: found, accepted, took } = feed(target, inputs, args)?;
        let name = target.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        println!(
            "{name:>12}: {inputs:>9} inputs, {accepted:>8} accepted, {} wrong, {:.0} s",
            found.len(),
            took.as_secs_f64()
        );
        for (number, what) in found.iter().take(SHOWN) {
            println!("    cargo xtask fuzz {name} --seed {} --first {number} --inputs 1\n        {what}", args.seed);
        }
        wrong += found.len();
    }
    println!("largest resident size: {} MB", watch::peak_mb());
    if wrong > 0 {
        bail!("{wrong} inputs failed");
    }
    Ok(())
}

/// The results of a target.
struct Fate {
    /// Failures by input number.
    wrong: Vec<(u64, String)>,
    accepted: u64,
    took: Duration,
}

/// Feeds one target on every CPU.
fn feed(target: Target, inputs: u64, args: &FuzzArgs) -> anyhow::Result<Fate> {
    let begin = Instant::now();
    let (next, accepted, wrong) = (AtomicU64::new(args.first), AtomicU64::new(0), Mutex::new(Vec::new()));
    let (step, end) = (target.at_once(), args.first + inputs);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let fed: Vec<Fed> = (0..workers).map(|_| Fed::new(target)).collect::<anyhow::Result<_>>()?;
    std::thread::scope(|scope| {
        for fed in &fed {
            scope.spawn(|| {
                let watch = Watch::start(format!("{target:?} --seed {}", args.seed));
                loop {
                    let number = next.fetch_add(step, Ordering::Relaxed);
                    if number >= end {
                        break;
                    }
                    watch.begin(number);
                    let mut random = Random::new(input_seed(args.seed, target, number));
                    let outcome = catch_unwind(AssertUnwindSafe(|| fed.check(&mut random)));
                    watch.end();
                    match outcome.unwrap_or_else(|_| Err(watch::last_panic())) {
                        Ok(taken) => drop(accepted.fetch_add(if taken { step } else { 0 }, Ordering::Relaxed)),
                        Err(what) => wrong.lock().unwrap_or_else(PoisonError::into_inner).push((number, what)),
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    wrong.sort_unstable();
    Ok(Fate { wrong, accepted: accepted.into_inner(), took: begin.elapsed() })
}

/// The state of the random numbers of an input.
fn input_seed(seed: u64, target: Target, number: u64) -> u64 {
    let mut random = Random::new(seed ^ (target as u64) << 56);
    random.bits() ^ number.wrapping_mul(0xD134_2543_DE82_EF95)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_inputs_of_every_target_go_well() {
        run(&FuzzArgs { targets: Vec::new(), inputs: 500, seed: 7, first: 0 }).unwrap();
    }
}
