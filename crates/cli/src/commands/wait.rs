//! `punctual wait`: how late each way of waiting wakes up, and its CPU time.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use punctual_lab::wait::{self, Plan, Request, interruptible, methods};
use punctual_lab::ways::wait::Method;
use punctual_lab::{Amount, checkup};
use punctual_record::{Limit, Quantity};
use punctual_report::export::text::list::ListRow;

use super::cpu_lock;
use super::measure::{Perform, Planned, list, measure};
use super::until::{self, UntilArgs};
use crate::args::names::{Chosen, Item, Names, Shelf, chosen};
use crate::args::{MeasureArgs, WatchArgs, values};
use crate::exit::Exit;
use crate::refusal::BadUsage;

/// Options of `wait`.
#[derive(Debug, Args)]
#[command(mut_arg("until", |until| until.conflicts_with_all(["samples", "duration", "rounds", "why"])))]
pub(crate) struct WaitArgs {
    /// Ways to wait, by name or kind (kind:timer), see --list [default: all]
    #[arg(value_name = "METHOD", value_parser = Names(&WAYS_TO_WAIT), hide_possible_values = true)]
    pub(crate) methods: Vec<Chosen<Method>>,
    /// Wait durations
    #[arg(
        long = "for", value_name = "DUR", value_delimiter = ',', default_value = "10us,100us,1ms",
        value_parser = values::positive_duration
    )]
    pub(crate) durations: Vec<Duration>,
    /// A signal every DUR: sleeps return early with EINTR (signal(7)) and continue with what they say is left
    #[arg(long, value_name = "DUR", value_parser = values::signal_period)]
    pub(crate) interrupt: Option<Duration>,
    /// List the ways to wait, their requirements and observed system calls; measure nothing
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    #[command(flatten)]
    pub(crate) until: UntilArgs,
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
}

impl WaitArgs {
    /// The ways to wait that are measured: those named, else all that can be.
    pub(crate) fn measured(&self) -> Vec<&'static Method> {
        chosen(&self.methods).unwrap_or_else(|| match self.interrupt {
            Some(_) => interruptible().collect(),
            None => methods::all().collect(),
        })
    }
}

/// Every way to wait.
static WAYS_TO_WAIT: Shelf<Method> = Shelf {
    what: "way to wait",
    list: "punctual wait --list",
    all: || methods::all().collect(),
    item: |method| Item { name: method.name, about: method.about, kind: Some(method.kind.name()) },
    is_offered: |_| true,
};

/// Default measuring time of `wait`: some hundred samples for each of 40 methods and three durations.
const USUAL: Duration = Duration::from_secs(20);
/// The default for methods given by name.
const USUAL_FOR_NAMED: Duration = Duration::from_secs(10);

/// The figure of a method that may be measured.
pub(super) fn planned(method: &'static Method) -> Planned {
    let quantity = if method.absolute { Quantity::Lateness } else { Quantity::Overshoot };
    (wait::EXPERIMENT, method.name.into(), quantity)
}

impl Perform for WaitArgs {
    /// Measures or lists.
    fn perform(&self) -> anyhow::Result<Exit> {
        if self.list {
            let methods = chosen(&self.methods).unwrap_or_else(|| methods::all().collect());
            return list(methods.into_iter().map(row), self.measure.output.color);
        }
        let cpus = cpu_lock::cpus(self.measure.conditions.cpus().as_ref());
        if let Some(base) = &self.until.against {
            self.until.check(&self.measured().into_iter().map(planned).collect::<Vec<_>>())?;
            let request = |amount, rounds| request(self, Some((amount, rounds)));
            return until::run(&self.until, base, (&self.measure.output, &cpus), request);
        }
        let plan = Plan::new(request(self, None)?).map_err(BadUsage::from)?;
        measure(wait::EXPERIMENT, &self.watch.outputs(&self.measure.output), &cpus, |session| {
            wait::run(plan, session).context("wait")
        })
    }

    fn planned(&self) -> Option<(&[Limit], Vec<Planned>)> {
        Some((&self.measure.output.fail_if, self.measured().into_iter().map(planned).collect()))
    }
}

/// The request; for an amount and a number of rounds instead of those of the command line.
fn request(args: &WaitArgs, amount: Option<(Amount, u32)>) -> anyhow::Result<Request> {
    let named = !args.methods.is_empty();
    let durations = values::sorted(&args.durations);
    let conditions = &args.measure.conditions;
    let compare = !named && !conditions.any() && args.interrupt.is_none();
    let companions = match methods::find("clock_nanosleep_abs") {
        Some(method) if compare => checkup::companions(method),
        _ => Vec::new(),
    };
    let mut frame = args.measure.request(if named { USUAL_FOR_NAMED } else { USUAL })?.watched(args.watch.why);
    if let Some((amount, rounds)) = amount {
        (frame.amount, frame.rounds) = (amount, rounds);
    }
    Ok(Request { methods: args.measured(), durations, companions, interrupt: args.interrupt, frame })
}

fn row(method: &Method) -> ListRow {
    let opened = (method.open)();
    ListRow {
        name: method.name.into(),
        about: method.about.into(),
        call: method.call.into(),
        kind: method.kind.name().into(),
        needs: method.needs.into(),
        unavailable: opened.err().map(|no| no.to_string()),
        observed: observed(method),
    }
}

/// The observed system calls of one 1 ms wait. `None`: they cannot be observed here.
fn observed(method: &Method) -> Option<Vec<String>> {
    let calls = methods::system_calls(method, 1_000_000).ok()?;
    Some(methods::names(&calls).into_iter().map(str::to_owned).collect())
}
