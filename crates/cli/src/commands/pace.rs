//! `punctual pace`.

use std::time::Duration;

use anyhow::Context as _;
use punctual_lab::pace::way::{Terms, Way};
use punctual_lab::pace::{self, Goal, Plan, Target, Wanted, receive, ways};
use punctual_report::list::{self, ListRow};

use crate::args::{PaceArgs, chosen};
use crate::cpu_lock;
use crate::exit::{BadUsage, Exit};
use crate::terminal;

/// How long `pace` measures when nothing is asked: a second for each way.
const USUAL: Duration = Duration::from_secs(10);
/// The same for a sweep: some fifteen trials for each way.
const USUAL_FOR_A_SWEEP: Duration = Duration::from_secs(20);

/// Measures, receives, or lists.
pub(crate) fn run(args: &PaceArgs) -> anyhow::Result<Exit> {
    if args.list {
        return list(args);
    }
    if let Some(address) = args.receive {
        let socket = receive::listen(address)?;
        let amount = args.amount.given();
        // A receiver waits in the kernel: without --cpu it leaves every CPU to a sender on the same machine.
        let cpus = args.conditions.cpu.as_ref().map(|cpus| cpu_lock::cpus(Some(cpus))).unwrap_or_default();
        return super::measure("pace", &args.output, &cpus, |session| {
            super::under(&args.conditions, session, |session| {
                receive::run(socket, amount, session).context("pace --receive")
            })
        });
    }
    let plan = Plan::new(wanted(args)?).map_err(|e| BadUsage(e.to_string()))?;
    super::measure("pace", &args.output, &cpu_lock::cpus(args.conditions.cpu.as_ref()), |session| {
        super::under(&args.conditions, session, |session| pace::run(plan, session).context("pace"))
    })
}

fn wanted(args: &PaceArgs) -> anyhow::Result<Wanted> {
    let target = args.to.map_or(Target::TickOnly, |to| Target::Udp { to, size: args.size });
    let goal = match args.sweep {
        Some((from, to)) => Goal::Highest { from, to, within: args.within },
        None => Goal::Keep(args.rate),
    };
    let conditions = &args.conditions;
    Ok(Wanted {
        ways: chosen(&args.by).unwrap_or_else(|| ways::all().collect()),
        target,
        variants: conditions.variants().map_err(|e| BadUsage(format!("--policy, --timer-slack: {e}")))?,
        base: conditions.base(),
        amount: args.amount.or(if args.sweep.is_some() { USUAL_FOR_A_SWEEP } else { USUAL }),
        rounds: args.amount.rounds,
        require: conditions.require,
        jitter: args.jitter,
        yes: args.yes,
        goal,
    })
}

/// Shows the ways: those named, or all.
fn list(args: &PaceArgs) -> anyhow::Result<Exit> {
    let ways = chosen(&args.by).unwrap_or_else(|| ways::all().collect());
    let rows: Vec<ListRow> = ways.into_iter().map(|way| row(way, args.jitter)).collect();
    terminal::print(&list::render(&rows, &terminal::style(args.output.color)))?;
    Ok(Exit::Done)
}

fn row(way: &Way, jitter: Duration) -> ListRow {
    // What an interface has is known only when one is named; nothing is opened for that.
    let depends = matches!(way.mode, pace::way::Mode::KernelRate | pace::way::Mode::KernelTime);
    let terms = Terms { disciplines: None, jitter };
    let available = if depends { Ok(()) } else { (way.open)(&terms).map(drop).map_err(|no| no.to_string()) };
    ListRow {
        name: way.name.into(),
        about: way.about.into(),
        call: way.call.into(),
        kind: String::new(),
        needs: way.needs.into(),
        available,
        observed: None,
    }
}
