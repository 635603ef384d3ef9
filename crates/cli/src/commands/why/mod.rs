//! `punctual why`: of own waits, of the ways of own calls through the kernel, of a program, of a running process.

mod args;
mod process;
mod program;

use std::time::Duration;

use anyhow::Context as _;
use args::NAME;
pub(crate) use args::WhyArgs;
use punctual::{CpuSet, format_duration};
use punctual_lab::Sight;
use punctual_lab::paths::{self, LONGEST_WAIT, Subject};
use punctual_lab::wait::{self, Plan, Request};
use punctual_record::{Limit, Notice, Unseen};
use punctual_trace::Room;

use super::cpu_lock;
use super::measure::{Perform, Planned, measure};
use crate::args::values;
use crate::exit::Exit;
use crate::refusal::BadUsage;

impl Perform for WhyArgs {
    /// Watches what the arguments name.
    fn perform(&self) -> anyhow::Result<Exit> {
        if !self.program.is_empty() && self.measure.amount.duration.is_some() && !self.advise {
            let text = "invalid --duration: a program is watched until it ends; the time of --advise can be given (example: --advise --duration 60s)";
            return Err(BadUsage(text.into()).into());
        }
        for (flag, given) in [("--advise", self.advise), ("--redact", self.redact)] {
            if given && self.program.is_empty() && self.pid.is_none() {
                let text = format!("invalid {flag}: it takes a program (example: punctual why {flag} --pid 1234)");
                return Err(BadUsage(text).into());
            }
        }
        match self.pid {
            Some(pid) => process::run(self, pid),
            None if !self.path.is_empty() => paths(self, &self.path),
            None if self.program.is_empty() => own_waits(self),
            None => program::run(self),
        }
    }

    fn planned(&self) -> Option<(&[Limit], Vec<Planned>)> {
        Some((&self.measure.output.fail_if, Self::method().into_iter().map(super::wait::planned).collect()))
    }
}

/// Default measuring time: a few thousand wake-ups of 1 ms.
const USUAL: Duration = Duration::from_secs(6);

/// Waits on one CPU, and watches itself in every second round. Without `--cpu`, on one that shows the events of its idle thread.
fn own_waits(args: &WhyArgs) -> anyhow::Result<Exit> {
    let request = Request {
        methods: WhyArgs::method().into_iter().collect(),
        durations: values::sorted(&args.durations),
        companions: Vec::new(),
        interrupt: None,
        frame: args.measure.request(USUAL)?.watched(true),
    };
    let mut plan = Plan::new(request).map_err(BadUsage::from)?;
    let asked = args.measure.conditions.cpus();
    measure(NAME, &args.outputs(), &cpu_lock::cpus(asked.as_ref()), |session| {
        let sight = if asked.is_none() { punctual_lab::sight(Room::Small) } else { None };
        if let Some(Sight { cpu, .. }) = sight {
            plan.request.base = plan.request.base.cpu(cpu);
        }
        wait::run(plan, session).context("why")?;
        if let Some(Sight { cpu, hidden }) = &sight {
            session.notice(Notice::Other { text: format!("the waits are on CPU {cpu}; --cpu chooses another") });
            unseen(*cpu, hidden).into_iter().for_each(|unseen| session.add_unseen(unseen));
        }
        Ok(())
    })
}

/// Which CPUs were not taken, and why.
fn unseen(cpu: usize, hidden: &[usize]) -> Option<Unseen> {
    let others = CpuSet::from_iter(hidden.iter().copied());
    let what = format!("the idle thread of CPU {others}, so the waits are on CPU {cpu}");
    (!hidden.is_empty()).then_some(Unseen { what, ..Unseen::default() })
}

/// Records one path of each of these calls through the kernel.
fn paths(args: &WhyArgs, named: &[Subject]) -> anyhow::Result<Exit> {
    let asked = args.durations.iter().min().copied().unwrap_or(Duration::from_micros(100));
    if asked > LONGEST_WAIT {
        let longest = format_duration(LONGEST_WAIT);
        let why = format!("a path takes dozens of waits; expected at most {longest} (example: 100us)");
        return Err(BadUsage::invalid("--for", format_duration(asked), why).into());
    }
    let ways = values::unique(named.iter().copied(), |one, other| one.name() == other.name());
    args.measure.conditions.check()?;
    let cpus = args.measure.conditions.cpus();
    measure(NAME, &args.outputs(), &cpu_lock::cpus(cpus.as_ref()), |session| {
        paths::run(ways, asked, cpus.as_ref(), session).context("why --path")
    })
}
