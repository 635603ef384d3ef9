//! `punctual wait`.

use std::time::Duration;

use anyhow::Context as _;
use punctual_lab::checkup;
use punctual_lab::wait::method::Method;
use punctual_lab::wait::{self, Plan, Wanted, methods, observed};
use punctual_report::list::{self, ListRow};

use crate::args::{WaitArgs, chosen};
use crate::cpu_lock;
use crate::exit::{BadUsage, Exit};
use crate::terminal;

/// How long `wait` measures when nothing is asked: 40 methods and three durations get some hundred samples each.
const USUAL: Duration = Duration::from_secs(20);
/// The same for methods that were named: each of them gets as much.
const USUAL_FOR_NAMED: Duration = Duration::from_secs(10);

/// Measures, or lists.
pub(crate) fn run(args: &WaitArgs) -> anyhow::Result<Exit> {
    if args.list {
        return list(args);
    }
    args.conditions.check()?;
    let plan = Plan::new(wanted(args)?).map_err(|e| BadUsage(e.to_string()))?;
    super::measure(wait::EXPERIMENT, &args.output, &cpu_lock::cpus(args.conditions.cpu.as_ref()), |session| {
        super::under(&args.conditions, session, |session| wait::run(plan, session).context("wait"))
    })
}

fn wanted(args: &WaitArgs) -> anyhow::Result<Wanted> {
    let named = !args.methods.is_empty();
    let mut durations = args.durations.clone();
    durations.sort_unstable();
    durations.dedup();
    let conditions = &args.conditions;
    let compare = !named && !conditions.any();
    let companions = match methods::find("clock_nanosleep_abs") {
        Some(method) if compare => checkup::companions(method),
        _ => Vec::new(),
    };
    Ok(Wanted {
        methods: chosen(&args.methods).unwrap_or_else(|| methods::all().collect()),
        durations,
        variants: conditions.variants().map_err(|e| BadUsage(format!("--policy, --timer-slack: {e}")))?,
        companions,
        base: conditions.base(),
        amount: args.amount.or(if named { USUAL_FOR_NAMED } else { USUAL }),
        rounds: args.amount.rounds,
        warmup: args.amount.warmup,
        require: conditions.require,
    })
}

/// Shows the methods: those named, or all.
fn list(args: &WaitArgs) -> anyhow::Result<Exit> {
    let methods = chosen(&args.methods).unwrap_or_else(|| methods::all().collect());
    let rows: Vec<ListRow> = methods.into_iter().map(row).collect();
    terminal::print(&list::render(&rows, &terminal::style(args.output.color)))?;
    Ok(Exit::Done)
}

fn row(method: &Method) -> ListRow {
    let opened = (method.open)();
    ListRow {
        name: method.name.into(),
        about: method.about.into(),
        call: method.call.into(),
        kind: method.kind.name().into(),
        needs: method.needs.into(),
        available: opened.map(drop).map_err(|no| no.to_string()),
        observed: observed(method),
    }
}

/// The system calls of one wait of 1 ms, as seen; None: they could not be seen here.
fn observed(method: &Method) -> Option<Vec<String>> {
    let calls = observed::system_calls(method, 1_000_000).ok()?;
    Some(observed::names(&calls).into_iter().map(str::to_owned).collect())
}
