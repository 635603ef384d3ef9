//! `punctual yield`.

use std::fmt;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use punctual::CpuSet;
use punctual::policy::PolicyError;
use punctual_lab::ways::yielding::Method;
use punctual_lab::yielding::{CompetitorPolicy, methods};
use punctual_record::experiment::yielding::CompetitorKind as Kind;

use super::names::{Chosen, Item, Names, Shelf};
use super::{MeasureArgs, WatchArgs, values};
use crate::nearest::hint;

/// Options of `yield`.
#[derive(Debug, Args)]
pub(crate) struct YieldArgs {
    /// Ways to yield, see --list [default: all]
    #[arg(value_name = "METHOD", value_parser = Names(&WAYS_TO_YIELD), hide_possible_values = true)]
    pub(crate) methods: Vec<Chosen<Method>>,
    /// Competitors on the caller's CPU in the third situation, 0 to 64 (0: measure the caller alone)
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = values::competitors)]
    pub(crate) competitors: u32,
    /// Scheduling policy of the competitors, as for --policy, or 'same' as the caller; several are compared
    #[arg(long, value_name = "POLICY", value_delimiter = ',')]
    pub(crate) competitor_policy: Vec<CompetitorPolicyArg>,
    /// Nice value of the competitors, -20 (highest priority) to 19
    #[arg(long, value_name = "N", value_parser = values::integer(-20, 19, "5"))]
    pub(crate) competitor_nice: Option<i32>,
    /// Kind of competitors
    #[arg(long, value_name = "KIND", default_value = "process")]
    pub(crate) competitor_kind: CompetitorKind,
    /// Measure a receiver that polls N times before each yield (0: never yields)
    #[arg(
        long, value_name = "N,N,..", value_delimiter = ',', value_parser = values::polls,
        conflicts_with_all = ["competitors", "competitor_policy", "competitor_nice", "competitor_kind", "list"]
    )]
    pub(crate) polls: Vec<u32>,
    /// With --polls: CPU of the sender [default: another than the receiver's, if there is one]
    #[arg(long, value_name = "CPU", requires = "polls")]
    pub(crate) sender_cpu: Option<CpuSet>,
    /// List the ways to yield and their observed system calls; measure nothing
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
}

/// The kind of competitors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompetitorKind {
    /// Separate processes
    Process,
    /// Threads of the caller's process
    Thread,
    /// Processes, then threads
    Both,
}

impl CompetitorKind {
    /// The kinds to measure.
    pub(crate) fn kinds(self) -> Vec<Kind> {
        match self {
            Self::Process => vec![Kind::Process],
            Self::Thread => vec![Kind::Thread],
            Self::Both => vec![Kind::Process, Kind::Thread],
        }
    }
}

/// A policy, or the policy of the caller.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CompetitorPolicyArg(pub(crate) CompetitorPolicy);

impl fmt::Display for CompetitorPolicyArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            CompetitorPolicy::Policy(policy) => policy.fmt(f),
            CompetitorPolicy::Same | CompetitorPolicy::AsFound => f.pad("same"),
        }
    }
}

impl FromStr for CompetitorPolicyArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "same" => Ok(Self(CompetitorPolicy::Same)),
            text => text.parse().map(|policy| Self(CompetitorPolicy::Policy(policy))).map_err(|error| match error {
                PolicyError::UnknownName { .. } => {
                    error.to_string().replacen("expected", "expected same,", 1) + &hint(text, ["same".to_owned()])
                }
                _ => error.to_string(),
            }),
        }
    }
}

/// Every way to yield.
static WAYS_TO_YIELD: Shelf<Method> = Shelf {
    what: "way to yield",
    list: "punctual yield --list",
    all: || methods::ALL.iter().collect(),
    item: |its| Item { name: its.name, about: its.about, kind: None },
    is_offered: |_| true,
};
