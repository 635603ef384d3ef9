//! `punctual yield`.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use punctual::conditions::{CpuSet, Policy};
use punctual_lab::crowd::Kind;
use punctual_lab::yielding::method::Method;
use punctual_lab::yielding::{Against, methods};

use super::names::{Chosen, Item, Names, Shelf};
use super::{AmountArgs, ConditionArgs, OutputArgs, values};

/// What each way of giving up the CPU costs, and who gains by it.
///
/// Every method is called alone on its CPU, with one competitor there, and with several; they take turns in rounds. With --polls,
/// a receiver polls a mailbox so many times before each yield: the latency of a message, and the share of the CPU that another
/// program gets meanwhile.
#[derive(Debug, Args)]
pub(crate) struct YieldArgs {
    /// Ways to yield; all of them when none is named (see --list)
    #[arg(value_name = "METHOD", value_parser = Names::<WaysToYield>::new(), hide_possible_values = true)]
    pub(crate) methods: Vec<Chosen<Method>>,
    /// Competitors on the caller's CPU in the third situation (0: the caller is only measured alone)
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true, value_parser = values::competitors)]
    pub(crate) competitors: u32,
    /// Policy of the competitors: as of --policy, or 'same' as the caller; several are put side by side
    #[arg(long, value_name = "POLICY", value_delimiter = ',')]
    pub(crate) competitor_policy: Vec<CompetitorPolicy>,
    /// Nice value of the competitors, -20 (favoured) to 19
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::integer(-20, 19, "--competitor-nice 5"))]
    pub(crate) competitor_nice: Option<i32>,
    /// What the competitors are
    #[arg(long, value_name = "KIND", default_value = "process")]
    pub(crate) competitor_kind: CompetitorKind,
    /// Measure a receiver that polls so many times before each yield; 0: never yields
    #[arg(
        long, value_name = "N,N,..", value_delimiter = ',', allow_hyphen_values = true, value_parser = values::polls,
        conflicts_with_all = ["competitors", "competitor_policy", "competitor_nice", "competitor_kind", "list"]
    )]
    pub(crate) polls: Vec<u32>,
    /// With --polls: CPU of the sender; without it another one than the receiver's, where there is one
    #[arg(long, value_name = "CPU", requires = "polls")]
    pub(crate) sender_cpu: Option<CpuSet>,
    /// List the ways to yield and which system calls each is seen to make; measure nothing
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) amount: AmountArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What the competitors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompetitorKind {
    /// Processes of their own
    Process,
    /// Threads of the caller's process
    Thread,
    /// One after the other
    Both,
}

impl CompetitorKind {
    /// The kinds that are measured.
    pub(crate) fn kinds(self) -> Vec<Kind> {
        match self {
            Self::Process => vec![Kind::Process],
            Self::Thread => vec![Kind::Thread],
            Self::Both => vec![Kind::Process, Kind::Thread],
        }
    }
}

/// A policy, or that of the caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompetitorPolicy(pub(crate) Against);

impl FromStr for CompetitorPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "same" => Ok(Self(Against::Same)),
            text => text.parse::<Policy>().map(|p| Self(Against::Policy(p))).map_err(|e| format!("{e}; or 'same'")),
        }
    }
}

impl Item for Method {
    fn name(&'static self) -> &'static str {
        self.name
    }

    fn about(&'static self) -> &'static str {
        self.about
    }
}

/// Every way to yield.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaysToYield;

impl Shelf for WaysToYield {
    type Item = Method;
    const WHAT: &'static str = "way to yield";
    const LIST: &'static str = "punctual yield --list";

    fn all() -> impl Iterator<Item = &'static Method> {
        methods::ALL.iter()
    }
}
