//! The native form: a thread on each CPU, at the highest priority that may be had, and a run in the record.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use punctual::CpuSet;
use punctual::conditions::{Condition, Conditions, Value};
use punctual_lab::cyclic::{self, Load, Plan, Request, highest_priority};
use punctual_record::{Limit, Quantity};

use crate::args::{ConditionArgs, OutputArgs, values};
use crate::commands::cpu_lock;
use crate::commands::measure::{Perform, Planned, line_with_answer, measure_watched};
use crate::commands::until::{self, Judge, Judged, UntilArgs};
use crate::exit::Exit;
use crate::output::Target;
use crate::refusal::BadUsage;

use super::journal::Journal;

/// Options of `cyclic`.
#[derive(Debug, Args)]
#[command(mut_arg("until", |until| until.conflicts_with("duration")))]
pub(crate) struct CyclicArgs {
    /// From one wake-up to the next
    #[arg(long, value_name = "DUR", default_value = "1ms", value_parser = values::positive_duration)]
    pub(crate) every: Duration,
    /// How long (10m, 8h)
    #[arg(long, value_name = "DUR", default_value = "10s", value_parser = values::positive_duration)]
    pub(crate) duration: Duration,
    /// Load beside the threads: cpu, memory, io, fork, timers, network, 'stress-ng ARGS'
    #[arg(long, value_name = "LOAD", value_delimiter = ',')]
    pub(crate) load: Vec<Load>,
    /// Do not look for the causes of late wake-ups, which the kernel's events show
    #[arg(long, conflicts_with_all = ["trace", "break_above"])]
    pub(crate) no_causes: bool,
    /// Write the kernel's events to a file for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<Target>,
    /// Keep only the events around wake-ups later than this in the trace, and go on
    #[arg(long = "break", value_name = "DUR", value_parser = values::positive_duration, requires = "trace")]
    pub(crate) break_above: Option<Duration>,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) until: UntilArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl CyclicArgs {
    /// What is asked for: without a policy and a lock, the best that may be had.
    fn asked(&self) -> Result<Conditions, BadUsage> {
        self.conditions.check()?;
        let [variant] = <[_; 1]>::try_from(self.conditions.variants()?).map_err(|_| {
            BadUsage("invalid --policy: one set of conditions is measured at a time (example: --policy fifo:80)".into())
        })?;
        let mut asked = variant.over(&self.conditions.base());
        if asked.value(Condition::POLICY).is_none()
            && let Some(policy) = highest_priority()
        {
            asked = asked.with(Value::Policy(policy));
        }
        if asked.value(Condition::LOCK_MEMORY).is_none() && Condition::LOCK_MEMORY.available().is_ok() {
            asked = asked.lock_memory();
        }
        Ok(asked)
    }

    fn measured(&self, cpus: &CpuSet) -> Vec<Planned> {
        let of_cpu = |cpu: usize| Planned::new(cyclic::EXPERIMENT, format!("cpu{cpu}"), Quantity::Lateness);
        cpus.iter().map(of_cpu).collect()
    }
}

impl Perform for CyclicArgs {
    fn perform(&self) -> anyhow::Result<Exit> {
        let until = self.until.against.as_deref();
        let request = Request {
            conditions: self.asked()?,
            require: self.conditions.require,
            interval: self.every,
            duration: if until.is_some() { self.until.at_most } else { self.duration },
            round: until.map(|_| Judged::<Journal>::round(self.until.at_most)),
            loads: self.load.clone(),
            causes: !self.no_causes,
            spikes_above: self.break_above,
        };
        let plan = Plan::new(request).map_err(BadUsage::from)?;
        let cpus: CpuSet = cpu_lock::cpus(self.conditions.cpus().as_ref());
        self.until.check(&self.measured(&cpus))?;
        let judge = until.map(|base| Judge::open(&self.until, base)).transpose()?;
        let output = OutputArgs { trace: self.trace.clone(), ..self.output.clone() };
        let outputs = output.open()?;
        let mut journal = Journal::open(line_with_answer(&output, &outputs), !output.no_keep);
        let Some(judge) = judge else {
            return measure_watched(cyclic::EXPERIMENT, &output, outputs, &cpus, &mut journal, |session| {
                cyclic::run(plan, session).context("cyclic")
            });
        };
        if !output.quiet {
            judge.forecast();
        }
        let judge = RefCell::new(judge);
        let mut judged = Judged::beside(journal, &judge);
        let exit = measure_watched(cyclic::EXPERIMENT, &output, outputs, &cpus, &mut judged, |session| {
            cyclic::run(plan, session).context("cyclic")?;
            until::conclude(&judge, session)
        })?;
        Ok(judge.borrow().exit(exit))
    }

    fn lists_conditions(&self) -> bool {
        self.conditions.list
    }

    fn planned(&self) -> Option<(&[Limit], Vec<Planned>)> {
        Some((&self.output.fail_if, self.measured(&cpu_lock::cpus(self.conditions.cpus().as_ref()))))
    }
}
