//! `punctual pace`.

use std::time::Duration;

use anyhow::Context as _;
use punctual_lab::pace::{self, Goal, Mode, PacingMethod, Plan, Request, Target, Terms, methods, receive};
use punctual_report::export::text::list::ListRow;

use super::measure::{list, measure};
use crate::args::{PaceArgs, chosen};
use crate::cpu_lock;
use crate::exit::Exit;
use crate::refusal::BadUsage;

/// Default measuring time of `pace`: 1 s per method.
const USUAL: Duration = Duration::from_secs(10);
/// The default for a sweep: about fifteen trials per method.
const USUAL_FOR_A_SWEEP: Duration = Duration::from_secs(20);

/// Measures, receives or lists.
pub(crate) fn run(args: &PaceArgs) -> anyhow::Result<Exit> {
    if args.list {
        let methods = chosen(&args.by).unwrap_or_else(|| methods::all().collect());
        return list(methods.into_iter().map(|method| row(method, args.jitter)), args.measure.output.color);
    }
    if let Some(address) = args.receive {
        args.measure.conditions.check()?;
        let socket = receive::listen(address)?;
        let amount = args.measure.amount.given();
        // A receiver waits in the kernel. Without --cpu it locks no CPU, so a sender may run on the same machine.
        let cpus = args.measure.conditions.cpus().as_ref().map(|cpus| cpu_lock::cpus(Some(cpus))).unwrap_or_default();
        return measure("pace", &args.measure.output, &cpus, |session| {
            let under = (&args.measure.conditions.base(), args.measure.conditions.require);
            receive::run(socket, amount, under, session).context("pace --receive")
        });
    }
    let plan = Plan::new(request(args)?).map_err(BadUsage::from)?;
    measure(
        "pace",
        &args.watch.outputs(&args.measure.output),
        &cpu_lock::cpus(args.measure.conditions.cpus().as_ref()),
        |session| pace::run(plan, session).context("pace"),
    )
}

fn request(args: &PaceArgs) -> anyhow::Result<Request> {
    let target = args.to.map_or(Target::TickOnly, |to| Target::Udp { to, size: args.size });
    let goal = match args.sweep {
        Some((from, to)) => Goal::Highest { from, to, within: args.within },
        None => Goal::Keep(args.rate),
    };
    Ok(Request {
        methods: chosen(&args.by).unwrap_or_else(|| methods::all().collect()),
        target,
        jitter: args.jitter,
        yes: args.yes,
        goal,
        frame: args
            .measure
            .request(if args.sweep.is_some() { USUAL_FOR_A_SWEEP } else { USUAL })?
            .watched(args.watch.why),
    })
}

fn row(method: &PacingMethod, jitter: Duration) -> ListRow {
    // Kernel pacing depends on the interface, which is unknown here.
    let depends = matches!(method.mode, Mode::KernelRate | Mode::KernelTime);
    let terms = Terms { disciplines: None, jitter };
    let available = if depends { Ok(()) } else { (method.open)(&terms).map(drop).map_err(|no| no.to_string()) };
    ListRow {
        name: method.name.into(),
        about: method.about.into(),
        call: method.call.into(),
        kind: String::new(),
        needs: method.needs.into(),
        available,
        observed: None,
    }
}
