//! `punctual calibrate`: what a sleep adds on this machine, and what reading the clock costs.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use punctual::{Conditions, Policy};
use punctual_lab::calibrate::{self, Plan, Request, can_be_calibrated};
use punctual_lab::checkup::FIFO_PRIORITY;
use punctual_lab::wait::methods;
use punctual_lab::ways::wait::Method;
use punctual_lab::{Observer, Progress, Variant};
use punctual_record::{Limit, Quantity};

use super::cpu_lock;
use super::measure::{Perform, Planned, measure, measure_watched};
use crate::args::names::{Chosen, Item, Names, Shelf, chosen};
use crate::args::{MeasureArgs, values};
use crate::exit::Exit;
use crate::refusal::BadUsage;

/// Options of `calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Ways to sleep [default: nanosleep]
    #[arg(value_name = "METHOD", value_parser = Names(&WAYS_TO_SLEEP), hide_possible_values = true)]
    pub(crate) methods: Vec<Chosen<Method>>,
    /// Wait that checks the calibration
    #[arg(long, value_name = "DUR", default_value = "100us", value_parser = values::positive_duration)]
    pub(crate) check: Duration,
    /// Print what a sleep adds, a line per round, until Ctrl-C or --duration
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
}

impl CalibrateArgs {
    /// The ways to sleep to measure.
    pub(crate) fn calibrated(&self) -> Vec<&'static Method> {
        chosen(&self.methods).unwrap_or_else(|| methods::find("nanosleep").into_iter().collect())
    }
}

/// Every way to sleep for a duration.
static WAYS_TO_SLEEP: Shelf<Method> = Shelf {
    what: "way to sleep that can be calibrated",
    list: "punctual wait --list",
    all: || methods::all().collect(),
    item: |method| Item { name: method.name, about: method.about, kind: Some(method.kind.name()) },
    is_offered: |method| can_be_calibrated(method).is_ok(),
};

/// Default measuring time of `calibrate`.
const USUAL: Duration = Duration::from_secs(6);
/// The default with `--watch`: in practice, until Ctrl-C.
const USUAL_FOR_WATCHING: Duration = Duration::from_secs(24 * 3_600);

impl Perform for CalibrateArgs {
    /// Calibrates.
    fn perform(&self) -> anyhow::Result<Exit> {
        let plan = Plan::new(request(self)?).map_err(BadUsage::from)?;
        let experiment = |session: &mut punctual_lab::Session<'_>| calibrate::run(plan, session).context("calibrate");
        let cpus = cpu_lock::cpus(self.measure.conditions.cpus().as_ref());
        if self.watch {
            let outputs = self.measure.output.open()?;
            let mut watch = Watch::new(outputs.takes_stdout());
            measure_watched("calibrate", &self.measure.output, outputs, &cpus, &mut watch, experiment)
        } else {
            measure("calibrate", &self.measure.output, &cpus, experiment)
        }
    }

    fn planned(&self) -> Option<(&[Limit], Vec<Planned>)> {
        let of_sleep = |method: &Method| (calibrate::EXPERIMENT, method.name.into(), Quantity::Overshoot);
        Some((&self.measure.output.fail_if, self.calibrated().into_iter().map(of_sleep).collect()))
    }
}

fn request(args: &CalibrateArgs) -> anyhow::Result<Request> {
    let conditions = &args.measure.conditions;
    let mut frame = args.measure.request(if args.watch { USUAL_FOR_WATCHING } else { USUAL })?;
    if !conditions.any() && !args.watch {
        let exact = Conditions::new().timer_slack(Duration::from_nanos(1));
        let fifo = Conditions::new().policy(Policy::Fifo(FIFO_PRIORITY));
        frame.variants.extend([exact, fifo].map(Variant::new));
    }
    Ok(Request { methods: args.calibrated(), check: args.check, frame })
}

/// Prints each progress report as a line, at most twice a second per method and variant.
struct Watch {
    begin: Instant,
    /// When each method and variant was last printed.
    said: Vec<(String, Instant)>,
    /// Stdout carries another output.
    to_stderr: bool,
}

/// Shortest time between two lines of one method and variant.
const BETWEEN: Duration = Duration::from_millis(500);

impl Watch {
    fn new(to_stderr: bool) -> Self {
        Self { begin: Instant::now(), said: Vec::new(), to_stderr }
    }
}

impl Observer for Watch {
    fn progress(&mut self, progress: &Progress) {
        let (who, Some(what)) = (&progress.doing, &progress.detail) else { return };
        let last = self.said.iter_mut().find(|(said, _)| said == who);
        match last {
            Some((_, at)) if at.elapsed() < BETWEEN => return,
            Some((_, at)) => *at = Instant::now(),
            None => self.said.push((who.clone(), Instant::now())),
        }
        // A write error shows again when the result is printed.
        let line = format!("{:8.1} s  {who}: {what}", self.begin.elapsed().as_secs_f64());
        let _ = match self.to_stderr {
            true => writeln!(std::io::stderr().lock(), "{line}"),
            false => writeln!(std::io::stdout().lock(), "{line}"),
        };
    }
}
