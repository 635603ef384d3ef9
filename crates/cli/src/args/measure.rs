//! What all measuring commands take: conditions, an amount, and where the results go.

use std::time::Duration;

use clap::Args;
use punctual_lab::{Amount, Request, Watched};
use punctual_record::Limit;

use super::conditions::ConditionArgs;
use super::{limits, values};
use crate::output::{Outputs, Target};
use crate::refusal::BadUsage;
use crate::terminal::Color;

/// The flags of a command whose conditions and amount the user chooses.
#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) amount: AmountArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl MeasureArgs {
    /// The request, not watched; `usual` is the default measuring time. Refuses conditions that this machine could not meet.
    pub(crate) fn request(&self, usual: Duration) -> Result<Request, BadUsage> {
        self.conditions.check()?;
        Ok(Request {
            variants: self.conditions.variants()?,
            base: self.conditions.base(),
            amount: self.amount.or(usual),
            rounds: self.amount.rounds,
            warmup: self.amount.warmup,
            require: self.conditions.require,
            watch: Watched::Never,
        })
    }
}

/// How much to measure.
#[derive(Debug, Args)]
#[command(next_help_heading = "Amount")]
pub(crate) struct AmountArgs {
    /// Samples per series, 1 to 1000M (500, 10k, 1M)
    #[arg(long, value_name = "N", value_parser = values::count, conflicts_with = "duration")]
    pub(crate) samples: Option<u64>,
    /// Total measuring time (20s, 5m); short operations get more samples
    #[arg(long, value_name = "DUR", value_parser = values::positive_duration)]
    pub(crate) duration: Option<Duration>,
    /// Interleaved rounds, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::integer(1u32, 10_000, "20"))]
    pub(crate) rounds: u32,
    /// Operations discarded at the start of each batch, 0 to 1000000
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::integer(0u32, 1_000_000, "10"))]
    pub(crate) warmup: u32,
}

impl AmountArgs {
    /// The amount asked for, if any.
    pub(crate) fn given(&self) -> Option<Amount> {
        self.samples.map(Amount::Samples).or(self.duration.map(Amount::Time))
    }

    /// The amount asked for, or `usual`.
    pub(crate) fn or(&self, usual: Duration) -> Amount {
        self.given().unwrap_or(Amount::Time(usual))
    }
}

/// Where the results go, and whether the run waits for its CPUs: what even a command without conditions and amount takes. The fields without
/// a flag are set by the command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Write the whole run as JSON (-: to stdout, instead of the tables)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<Target>,
    /// Write an HTML page with charts (-: to stdout, instead of the tables)
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<Target>,
    /// Write CSV, a line per series (-: to stdout, instead of the tables)
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<Target>,
    /// Print all tables, not only the first screen
    #[arg(long)]
    pub(crate) full: bool,
    /// Print no progress and no notices
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Colour the tables
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    /// Exit with status 3 if a figure exceeds this, with 4 if it is not judged ('p99 > 200us', 'p99 of nanosleep > 200us')
    ///
    /// The figures are min, p50, p90, p99, p99.9, max and mean. The first line of the report says PASS, FAIL or UNDECIDED. Without
    /// `of SUBJECT` a limit is about lateness: overshoot, lateness, period jitter, one-way and round-trip times. It is not about work loops
    /// and costs of calls. SUBJECT is a name (nanosleep), or an experiment and a name (ramp performance). It may have * for any letters;
    /// `of *` is every series. The earlier form p99=200us is read too.
    #[arg(long, alias = "fail-above", value_name = "LIMIT", value_delimiter = ',', value_parser = limits::of_run)]
    pub(crate) fail_if: Vec<Limit>,
    /// Do not keep this run as the last one, which `punctual report last` shows
    ///
    /// Every run that measured something replaces the one before it in the state folder: $XDG_STATE_HOME/punctual or
    /// ~/.local/state/punctual, else /var/tmp/punctual-UID. Only this user can read that folder.
    #[arg(long)]
    pub(crate) no_keep: bool,
    /// Fail if another run measures on the same CPUs, instead of waiting for it
    ///
    /// Each run locks every CPU that it may measure on; the locks end with the process. Runs in containers with their own network namespace
    /// are not seen. The environment variable PUNCTUAL_LOCK_NAMESPACE=NAME selects another set of locks, for programs that start many short
    /// runs at once. An empty name disables locking.
    #[arg(long, help_heading = "Conditions")]
    pub(crate) no_wait: bool,
    #[arg(skip)]
    pub(crate) tables: Tables,
    /// Write all tables to this file instead.
    #[arg(skip)]
    pub(crate) output: Option<Target>,
    /// Write the events of the watched program to this file.
    #[arg(skip)]
    pub(crate) trace: Option<Target>,
}

/// Where the tables are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tables {
    /// On stdout, unless another output takes it.
    #[default]
    Stdout,
    /// On stderr: stdout belongs to another program.
    Stderr,
    /// Nowhere: this is one of several runs, and each writes files.
    Nowhere,
}

impl OutputArgs {
    /// The outputs other than the tables, each with its flag.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (&'static str, &Target)> {
        let all = [
            ("--json", &self.json),
            ("--html", &self.html),
            ("--csv", &self.csv),
            ("--output", &self.output),
            ("--trace", &self.trace),
        ];
        all.into_iter().filter_map(|(flag, target)| Some((flag, target.as_ref()?)))
    }

    /// Opens all outputs of a command that leaves stdout to a program.
    pub(crate) fn open_beside_program(&self) -> anyhow::Result<Outputs> {
        let outputs = self.open()?;
        if outputs.takes_stdout() {
            let text = "invalid output: stdout belongs to the program; name a file (example: --json run.json)";
            return Err(BadUsage(text.into()).into());
        }
        Ok(outputs)
    }

    /// Opens all outputs. Refuses one that cannot be written.
    pub(crate) fn open(&self) -> anyhow::Result<Outputs> {
        Outputs::open(self.targets(), &[])
    }
}

/// Whether the measuring thread is watched.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Say why wake-ups are late: half of the rounds are watched, and give causes instead of figures
    #[arg(long)]
    pub(crate) why: bool,
    /// With --why: write all events of the watched rounds to FILE, for ui.perfetto.dev (-: to stdout, instead of the tables)
    #[arg(long, value_name = "FILE", requires = "why")]
    pub(crate) trace: Option<Target>,
}

impl WatchArgs {
    /// Where the results go, and the events.
    pub(crate) fn outputs(&self, output: &OutputArgs) -> OutputArgs {
        OutputArgs { trace: self.trace.clone(), ..output.clone() }
    }
}
