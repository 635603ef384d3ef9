//! `punctual calibrate`.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use punctual::{Conditions, Policy};
use punctual_lab::calibrate::{self, Plan, Wanted};
use punctual_lab::checkup::FIFO_PRIORITY;
use punctual_lab::wait::methods;
use punctual_lab::{Observer, Progress, Variant};

use crate::args::{CalibrateArgs, chosen};
use crate::cpu_lock;
use crate::exit::{BadUsage, Exit};

/// How long `calibrate` measures when nothing is asked.
const USUAL: Duration = Duration::from_secs(6);
/// The same with `--watch`: until Ctrl-C, in practice.
const USUAL_FOR_WATCHING: Duration = Duration::from_secs(24 * 3_600);

/// Calibrates.
pub(crate) fn run(args: &CalibrateArgs) -> anyhow::Result<Exit> {
    let plan = Plan::new(wanted(args)?).map_err(|e| BadUsage(e.to_string()))?;
    let experiment = |session: &mut punctual_lab::Session<'_>| {
        super::under(&args.conditions, session, |session| calibrate::run(plan, session).context("calibrate"))
    };
    let cpus = cpu_lock::cpus(args.conditions.cpu.as_ref());
    if args.watch {
        let outputs = args.output.open()?;
        let mut watch = Watch::new(outputs.takes_stdout());
        super::measure_watched("calibrate", &args.output, outputs, &cpus, &mut watch, experiment)
    } else {
        super::measure("calibrate", &args.output, &cpus, experiment)
    }
}

fn wanted(args: &CalibrateArgs) -> anyhow::Result<Wanted> {
    let conditions = &args.conditions;
    let mut variants = conditions.variants().map_err(|e| BadUsage(format!("--policy, --timer-slack: {e}")))?;
    if !conditions.any() && !args.watch {
        let exact = Conditions { timer_slack: Some(Duration::from_nanos(1)), ..Conditions::default() };
        let fifo = Conditions { policy: Some(Policy::Fifo(FIFO_PRIORITY)), ..Conditions::default() };
        variants.extend([exact, fifo].map(Variant::of));
    }
    Ok(Wanted {
        methods: chosen(&args.methods).unwrap_or_else(|| methods::find("nanosleep").into_iter().collect()),
        variants,
        base: conditions.base(),
        amount: args.amount.or(if args.watch { USUAL_FOR_WATCHING } else { USUAL }),
        check: args.check,
        require: conditions.require,
    })
}

/// Prints what is known, a line each time it is told, at most a few times a second.
struct Watch {
    begin: Instant,
    /// What was said last of each method and variant, and when.
    said: Vec<(String, Instant)>,
    /// Stdout is for something else.
    to_stderr: bool,
}

/// Between two lines of one method and variant.
const BETWEEN: Duration = Duration::from_millis(500);

impl Watch {
    fn new(to_stderr: bool) -> Self {
        Self { begin: Instant::now(), said: Vec::new(), to_stderr }
    }
}

impl Observer for Watch {
    fn progress(&mut self, progress: &Progress) {
        let Some((who, what)) = progress.doing.split_once(": ") else { return };
        let last = self.said.iter_mut().find(|(said, _)| said == who);
        match last {
            Some((_, at)) if at.elapsed() < BETWEEN => return,
            Some((_, at)) => *at = Instant::now(),
            None => self.said.push((who.to_owned(), Instant::now())),
        }
        // A reader that went away shows when the result is printed.
        let line = format!("{:8.1} s  {who}: {what}", self.begin.elapsed().as_secs_f64());
        let _ = match self.to_stderr {
            true => writeln!(std::io::stderr().lock(), "{line}"),
            false => writeln!(std::io::stdout().lock(), "{line}"),
        };
    }
}
