//! The ways of calls through the kernel.

use std::time::Duration;

use anyhow::Context as _;
use punctual::format_duration;
use punctual_lab::paths::{self, Subject};

use super::finish::NAME;
use crate::args::WhyArgs;
use crate::commands::measure::measure;
use crate::cpu_lock;
use crate::exit::Exit;
use crate::refusal::BadUsage;

/// Records one path of each.
pub(super) fn run(args: &WhyArgs, named: &[Subject]) -> anyhow::Result<Exit> {
    let asked = args.durations.iter().min().copied().unwrap_or(Duration::from_micros(100));
    if asked > paths::LONGEST_WAIT {
        let longest = format_duration(paths::LONGEST_WAIT);
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
