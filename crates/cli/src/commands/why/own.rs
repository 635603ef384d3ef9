//! Own waits, and the ways of own calls through the kernel.

use std::time::Duration;

use anyhow::Context as _;
use punctual::{CpuSet, format_duration};
use punctual_lab::Sight;
use punctual_lab::paths::{self, LONGEST_WAIT, Subject};
use punctual_lab::wait::{self, Plan, Request};
use punctual_record::{Notice, Unseen};
use punctual_trace::Room;

use super::args::{NAME, WhyArgs};
use crate::commands::cpu_lock;
use crate::commands::measure::measure;
use crate::exit::Exit;
use crate::refusal::BadUsage;

/// Default measuring time: a few thousand wake-ups of 1 ms.
const USUAL: Duration = Duration::from_secs(6);

/// Waits on one CPU, and watches itself in every second round. Without `--cpu`, on one that shows the events of its idle thread.
pub(super) fn run(args: &WhyArgs) -> anyhow::Result<Exit> {
    let mut durations = args.durations.clone();
    durations.sort_unstable();
    durations.dedup();
    let request = Request {
        methods: WhyArgs::method().into_iter().collect(),
        durations,
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
pub(super) fn paths(args: &WhyArgs, named: &[Subject]) -> anyhow::Result<Exit> {
    let asked = args.durations.iter().min().copied().unwrap_or(Duration::from_micros(100));
    if asked > LONGEST_WAIT {
        let longest = format_duration(LONGEST_WAIT);
        let why = format!("a path takes dozens of waits; expected at most {longest} (example: 100us)");
        return Err(BadUsage::invalid("--for", format_duration(asked), why).into());
    }
    let mut ways: Vec<Subject> = Vec::new();
    for way in named {
        if !ways.iter().any(|known| known.name() == way.name()) {
            ways.push(*way);
        }
    }
    args.measure.conditions.check()?;
    let cpus = args.measure.conditions.cpus();
    measure(NAME, &args.outputs(), &cpu_lock::cpus(cpus.as_ref()), |session| {
        paths::run(ways, asked, cpus.as_ref(), session).context("why --path")
    })
}
