//! `punctual yield`.

use std::time::Duration;

use anyhow::Context as _;
use punctual::CpuSet;
use punctual_lab::polls;
use punctual_lab::ways::yielding::Method;
use punctual_lab::yielding::{self, CompetitorPolicy, methods};
use punctual_report::export::text::list::ListRow;

use super::measure::{list, measure};
use crate::args::{YieldArgs, chosen};
use crate::exit::Exit;
use crate::refusal::BadUsage;

/// Default measuring time of `yield`: 15 methods have two cells with competitors each. A cell needs 500 ms for a CPU share exact to a
/// few percent.
const USUAL: Duration = Duration::from_secs(20);
/// The default for methods given by name.
const USUAL_FOR_NAMED: Duration = Duration::from_secs(8);
/// The default with --polls: 2 s per cell give some hundred messages.
const USUAL_FOR_POLLS: Duration = Duration::from_secs(60);

/// Measures or lists.
pub(crate) fn run(args: &YieldArgs) -> anyhow::Result<Exit> {
    if args.list {
        let methods = chosen(&args.methods).unwrap_or_else(|| methods::ALL.iter().collect());
        return list(methods.into_iter().map(row), args.measure.output.color);
    }
    if !args.polls.is_empty() {
        let plan = polls::Plan::new(request_polls(args)?).map_err(BadUsage::from)?;
        let cpus = CpuSet::of([plan.cpu, plan.sender_cpu]);
        return measure(yielding::EXPERIMENT, &args.watch.outputs(&args.measure.output), &cpus, |session| {
            polls::run(plan, session).context("yield --polls")
        });
    }
    if args.sender_cpu.is_some() {
        // The parser does not enforce this: a conflict of --polls suspends its requirement.
        return Err(BadUsage(
            "invalid --sender-cpu: it needs --polls, for only polling has a sender (example: --polls 100 --sender-cpu 1)".into(),
        )
        .into());
    }
    let plan = yielding::Plan::new(request(args)?).map_err(BadUsage::from)?;
    measure(yielding::EXPERIMENT, &args.watch.outputs(&args.measure.output), &CpuSet::of([plan.cpu]), |session| {
        yielding::run(plan, session).context("yield")
    })
}

fn request(args: &YieldArgs) -> anyhow::Result<yielding::Request> {
    BadUsage::unless_different("--competitor-policy", &args.competitor_policy)?;
    let named = !args.methods.is_empty();
    let mut competitors = vec![0, 1, args.competitors];
    competitors.retain(|n| *n <= args.competitors);
    competitors.sort_unstable();
    competitors.dedup();
    let competitor_policies = match args.competitor_policy.as_slice() {
        [] => vec![CompetitorPolicy::AsFound],
        policies => policies.iter().map(|p| p.0).collect(),
    };
    Ok(yielding::Request {
        methods: chosen(&args.methods).unwrap_or_else(|| methods::ALL.iter().collect()),
        competitors,
        kinds: args.competitor_kind.kinds(),
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

fn row(method: &Method) -> ListRow {
    let opened = (method.open)();
    let calls = methods::system_calls(method).ok().filter(|_| opened.is_ok());
    ListRow {
        name: method.name.into(),
        about: method.about.into(),
        call: method.call.into(),
        kind: String::new(),
        needs: String::new(),
        available: opened.map(drop).map_err(|no| no.to_string()),
        observed: calls.map(|calls| calls.into_iter().map(|call| call.name).collect()),
    }
}
