//! `cargo xtask fuzz`: runs the tests that try any input, with far more inputs than `cargo test`. Arithmetic that overflows panics in them.
//!
//! Their strategies make saved runs, command lines, headers of rings, journals of the frequency keeper, and datagrams. A failure is a
//! panic, a hang, or too much memory. proptest prints the smallest input that fails. The same seed makes the same inputs.

use std::process::Command;

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};

use crate::tools;

/// Limit of the address space of a test program, in kB: an input that allocates without a limit soon meets it.
const MEMORY_KB: u64 = 4 << 20;
/// Limit of a target's time in seconds, beside that of its inputs. A busy machine takes longer.
const PATIENCE_S: u64 = 600;
const INPUTS_PER_S: u64 = 20;

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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Saved runs: altered text that is read again
    Record,
    /// Saved runs with an altered structure: reported in every form, compared, merged, judged
    Report,
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
    /// The programs of tests that have it, the name of the test, and the share of all inputs in thousandths. An input of `Datagram` is some
    /// hundred datagrams, and a journal is restored with retries.
    fn test(self) -> (&'static str, &'static str, u64) {
        match self {
            Self::Record => ("--test=all", "a_changed_run_is_an_error_or_a_run", 350),
            Self::Report => ("--test=all", "every_report_comes_to_its_end", 99),
            Self::CommandLine => ("--test=command", "any_line_is_taken_or_refused_with_words", 350),
            Self::Ring => ("--test=all", "a_hostile_header_is_refused_or_works", 180),
            Self::Journal => ("--test=all", "any_journal_changes_nothing_but_settings", 20),
            Self::Datagram => ("--lib", "any_datagrams_make_a_run", 1),
        }
    }
}

/// Runs every target, and fails with the first that fails.
pub(crate) fn run(args: &FuzzArgs) -> anyhow::Result<()> {
    let targets = if args.targets.is_empty() { Target::value_variants() } else { &args.targets };
    let shares: u64 = targets.iter().map(|target| target.test().2).sum();
    for &target in targets {
        let (tests, name, share) = target.test();
        let inputs = (args.inputs * share).div_ceil(shares);
        println!("{target:?}: {inputs} inputs, seed {}", args.seed);
        // Those that `cargo test` builds: of all packages, so that their features are the same.
        let test = ["test", "--quiet", tests];
        let built = Command::new("cargo").args(test).arg("--no-run").current_dir(tools::root()).status()?;
        ensure!(built.success(), "the tests do not build");
        let limited = "ulimit -v $1; shift; exec timeout \"$@\"";
        let limit_s = PATIENCE_S + inputs / INPUTS_PER_S;
        let mut command = Command::new("sh");
        command
            .args(["-c", limited, "sh", &MEMORY_KB.to_string(), &limit_s.to_string(), "cargo"])
            .args(test)
            .args(["--", name]);
        command.env("PUNCTUAL_INPUTS", inputs.to_string()).env("PROPTEST_RNG_SEED", args.seed.to_string());
        let said = tools::output(command.current_dir(tools::root())).with_context(|| format!("seed {}", args.seed))?;
        ensure!(said.contains("1 passed"), "there is no test {name}: {said}");
    }
    Ok(())
}
