//! `punctual yield`.

use std::time::Duration;

use anyhow::Context as _;
use punctual::CpuSet;
use punctual_lab::yielding::method::Method;
use punctual_lab::yielding::{self, Against, methods, observed};
use punctual_lab::{Variant, polling};
use punctual_report::list::{self, ListRow};

use crate::args::{YieldArgs, chosen};
use crate::exit::{BadUsage, Exit};
use crate::terminal;

/// How long `yield` measures when nothing is asked: a cell with competitors needs half a second for a share of the CPU that is
/// true to a few percent, and there are two for each of 15 methods.
const USUAL: Duration = Duration::from_secs(20);
/// The same for methods that were named.
const USUAL_FOR_NAMED: Duration = Duration::from_secs(8);
/// The same with --polls: for each cell two seconds give some hundred messages.
const USUAL_FOR_POLLS: Duration = Duration::from_secs(60);

/// Measures, or lists.
pub(crate) fn run(args: &YieldArgs) -> anyhow::Result<Exit> {
    if args.list {
        return list(args);
    }
    if !args.polls.is_empty() {
        let plan = polling::Plan::new(wanted_polls(args)?).map_err(|e| BadUsage(e.to_string()))?;
        let cpus = CpuSet::of([plan.cpu, plan.sender_cpu]);
        return super::measure(yielding::EXPERIMENT, &args.output, &cpus, |session| {
            super::under(&args.conditions, session, |session| polling::run(plan, session).context("yield --polls"))
        });
    }
    if args.sender_cpu.is_some() {
        // The parser does not see it: --polls conflicts with what else was given, and is then not asked for.
        return Err(
            BadUsage("--sender-cpu is for --polls: without polling there is no sender; leave one out".into()).into()
        );
    }
    let plan = yielding::Plan::new(wanted(args)?).map_err(|e| BadUsage(e.to_string()))?;
    super::measure(yielding::EXPERIMENT, &args.output, &CpuSet::of([plan.cpu]), |session| {
        super::under(&args.conditions, session, |session| yielding::run(plan, session).context("yield"))
    })
}

fn wanted(args: &YieldArgs) -> anyhow::Result<yielding::Wanted> {
    let named = !args.methods.is_empty();
    let mut competitors = vec![0, 1, args.competitors];
    competitors.retain(|n| *n <= args.competitors);
    competitors.sort_unstable();
    competitors.dedup();
    let against = match args.competitor_policy.as_slice() {
        [] => vec![Against::AsFound],
        policies => policies.iter().map(|p| p.0).collect(),
    };
    Ok(yielding::Wanted {
        methods: chosen(&args.methods).unwrap_or_else(|| methods::ALL.iter().collect()),
        competitors,
        kinds: args.competitor_kind.kinds(),
        against,
        competitor_nice: args.competitor_nice,
        variants: variants(args)?,
        base: args.conditions.base(),
        amount: args.amount.or(if named { USUAL_FOR_NAMED } else { USUAL }),
        rounds: args.amount.rounds,
        warmup: args.amount.warmup,
        require: args.conditions.require,
    })
}

fn wanted_polls(args: &YieldArgs) -> anyhow::Result<polling::Wanted> {
    Ok(polling::Wanted {
        methods: chosen(&args.methods).unwrap_or_else(polling::usual_methods),
        polls: args.polls.clone(),
        variants: variants(args)?,
        base: args.conditions.base(),
        sender_cpu: args.sender_cpu.clone(),
        amount: args.amount.or(USUAL_FOR_POLLS),
        rounds: args.amount.rounds,
        warmup: args.amount.warmup,
        require: args.conditions.require,
    })
}

fn variants(args: &YieldArgs) -> Result<Vec<Variant>, BadUsage> {
    args.conditions.variants().map_err(|e| BadUsage(format!("--policy, --timer-slack: {e}")))
}

/// Shows the methods: those named, or all.
fn list(args: &YieldArgs) -> anyhow::Result<Exit> {
    let methods = chosen(&args.methods).unwrap_or_else(|| methods::ALL.iter().collect());
    let rows: Vec<ListRow> = methods.into_iter().map(row).collect();
    terminal::print(&list::render(&rows, &terminal::style(args.output.color)))?;
    Ok(Exit::Done)
}

fn row(method: &Method) -> ListRow {
    let opened = (method.open)();
    let calls = observed::system_calls(method).ok().filter(|_| opened.is_ok());
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
