//! `punctual yield`: what each way of giving up the CPU costs, and who gets it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use punctual::CpuSet;
use punctual::policy::PolicyError;
use punctual_lab::polls;
use punctual_lab::ways::YieldMethod;
use punctual_lab::yielding::{self, CompetitorPolicy, methods};
use punctual_record::experiment::yielding::CompetitorKind;
use punctual_record::{Limit, Quantity};
use punctual_report::export::text::list::ListRow;

use super::measure::{Perform, Planned, list, measure};
use crate::args::names::{Chosen, Item, Names, Shelf, chosen};
use crate::args::{MeasureArgs, WatchArgs, values};
use crate::exit::Exit;
use crate::refusal::{BadUsage, Nearest};

/// Options of `yield`.
#[derive(Debug, Args)]
pub(crate) struct YieldArgs {
    /// Ways to yield, see --list [default: all]
    #[arg(value_name = "METHOD", value_parser = Names(&WAYS_TO_YIELD), hide_possible_values = true)]
    pub(crate) methods: Vec<Chosen<YieldMethod>>,
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
    #[arg(long, value_name = "KIND", default_value = "process", value_parser = values::one_of(&KINDS))]
    pub(crate) competitor_kind: &'static [CompetitorKind],
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

/// The kinds of competitors to measure.
const KINDS: [(&str, &str, &[CompetitorKind]); 3] = [
    ("process", "Separate processes", &[CompetitorKind::Process]),
    ("thread", "Threads of the caller's process", &[CompetitorKind::Thread]),
    ("both", "Processes, then threads", &[CompetitorKind::Process, CompetitorKind::Thread]),
];

/// The policy of the caller, as it is typed.
const SAME: &str = "same";

/// The policies that have a name.
const POLICIES: &str = "other, batch, idle, rr:1 to rr:99, fifo:1 to fifo:99, or deadline:RUNTIME/DEADLINE/PERIOD";

/// A policy, or the policy of the caller.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CompetitorPolicyArg(pub(crate) CompetitorPolicy);

impl fmt::Display for CompetitorPolicyArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            CompetitorPolicy::Policy(policy) => policy.fmt(f),
            CompetitorPolicy::Same | CompetitorPolicy::AsFound => f.pad(SAME),
        }
    }
}

impl FromStr for CompetitorPolicyArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == SAME {
            return Ok(Self(CompetitorPolicy::Same));
        }
        text.parse().map(|policy| Self(CompetitorPolicy::Policy(policy))).map_err(|error| match error {
            PolicyError::UnknownName { nearest, .. } => {
                let nearest = nearest.map(|name| format!("; nearest: {name}")).unwrap_or_default();
                let same = Nearest::to(text, [SAME.to_owned()]);
                format!("expected {SAME}, {POLICIES} (example: fifo:40){nearest}{same}")
            }
            other => other.to_string(),
        })
    }
}

/// Every way to yield.
static WAYS_TO_YIELD: Shelf<YieldMethod> = Shelf {
    what: "way to yield",
    list: "punctual yield --list",
    all: || methods::ALL.iter().collect(),
    item: |method| Item { name: method.name, about: method.about, kind: None },
    is_offered: |_| true,
};

/// Default measuring time of `yield`: 15 methods have two cells with competitors each. A cell needs 500 ms for a CPU share exact to a
/// few percent.
const USUAL: Duration = Duration::from_secs(20);
/// The default for methods given by name.
const USUAL_FOR_NAMED: Duration = Duration::from_secs(8);
/// The default with --polls: 2 s per cell give some hundred messages.
const USUAL_FOR_POLLS: Duration = Duration::from_secs(60);

/// The figure of a way to yield that may be measured.
pub(super) fn planned(method: &'static YieldMethod) -> Planned {
    (yielding::EXPERIMENT, method.name.into(), Quantity::CallCost)
}

impl Perform for YieldArgs {
    /// Measures or lists.
    fn perform(&self) -> anyhow::Result<Exit> {
        if self.list {
            let methods = chosen(&self.methods).unwrap_or_else(|| methods::ALL.iter().collect());
            return list(methods.into_iter().map(row), self.measure.output.color);
        }
        if !self.polls.is_empty() {
            let plan = polls::Plan::new(request_polls(self)?).map_err(BadUsage::from)?;
            let cpus = CpuSet::from_iter([plan.cpu, plan.sender_cpu]);
            return measure(yielding::EXPERIMENT, &self.watch.outputs(&self.measure.output), &cpus, |session| {
                polls::run(plan, session).context("yield --polls")
            });
        }
        if self.sender_cpu.is_some() {
            // The parser does not enforce this: a conflict of --polls suspends its requirement.
            return Err(BadUsage(
                "invalid --sender-cpu: it needs --polls, for only polling has a sender (example: --polls 100 --sender-cpu 1)".into(),
            )
            .into());
        }
        let plan = yielding::Plan::new(request(self)?).map_err(BadUsage::from)?;
        let cpus = CpuSet::from_iter([plan.cpu]);
        measure(yielding::EXPERIMENT, &self.watch.outputs(&self.measure.output), &cpus, |session| {
            yielding::run(plan, session).context("yield")
        })
    }

    fn planned(&self) -> Option<(&[Limit], Vec<Planned>)> {
        let named = chosen(&self.methods);
        let planned = match self.polls.is_empty() {
            true => named.unwrap_or_else(|| methods::ALL.iter().collect()).into_iter().map(planned).collect(),
            false => {
                let subjects = polls::subjects(&named.unwrap_or_else(methods::usual), &self.polls);
                subjects.into_iter().map(|subject| (polls::EXPERIMENT, subject.into(), Quantity::OneWay)).collect()
            }
        };
        Some((&self.measure.output.fail_if, planned))
    }
}

fn request(args: &YieldArgs) -> anyhow::Result<yielding::Request> {
    BadUsage::unless_different("--competitor-policy", &args.competitor_policy)?;
    let named = !args.methods.is_empty();
    let mut competitors = values::sorted(&[0, 1, args.competitors]);
    competitors.retain(|n| *n <= args.competitors);
    let competitor_policies = match args.competitor_policy.as_slice() {
        [] => vec![CompetitorPolicy::AsFound],
        policies => policies.iter().map(|p| p.0).collect(),
    };
    Ok(yielding::Request {
        methods: chosen(&args.methods).unwrap_or_else(|| methods::ALL.iter().collect()),
        competitors,
        kinds: args.competitor_kind.to_vec(),
        competitor_policies,
        competitor_nice: args.competitor_nice,
        frame: args.measure.request(if named { USUAL_FOR_NAMED } else { USUAL })?.watched(args.watch.why),
    })
}

fn request_polls(args: &YieldArgs) -> anyhow::Result<polls::Request> {
    BadUsage::unless_different("--polls", &args.polls)?;
    Ok(polls::Request {
        methods: chosen(&args.methods).unwrap_or_else(methods::usual),
        polls: args.polls.clone(),
        sender_cpu: args.sender_cpu.clone(),
        frame: args.measure.request(USUAL_FOR_POLLS)?.watched(args.watch.why),
    })
}

fn row(method: &YieldMethod) -> ListRow {
    let opened = (method.open)();
    let calls = methods::system_calls(method).ok().filter(|_| opened.is_ok());
    ListRow {
        name: method.name.into(),
        about: method.about.into(),
        call: method.call.into(),
        unavailable: opened.err().map(|no| no.to_string()),
        observed: calls.map(|calls| calls.into_iter().map(|call| call.name).collect()),
        ..ListRow::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_policy_of_competitors_is_answered_as_that_of_the_caller_and_with_same() {
        for typed in ["fiof:40", "saem", "qqqq"] {
            let policy = typed.parse::<punctual::Policy>().unwrap_err().to_string();
            let near_same = Nearest::to(typed, [SAME.to_owned()]);
            let expected = format!("{}{near_same}", policy.replacen("expected ", "expected same, ", 1));
            assert_eq!(typed.parse::<CompetitorPolicyArg>().unwrap_err(), expected);
        }
        assert!("saem".parse::<CompetitorPolicyArg>().unwrap_err().ends_with("; nearest: same"));
        let priority = "fifo:100".parse::<CompetitorPolicyArg>().unwrap_err();
        assert_eq!(priority, "fifo:100".parse::<punctual::Policy>().unwrap_err().to_string());
    }
}
