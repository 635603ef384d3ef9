//! The ways of calls through the kernel.

use std::time::Duration;

use anyhow::Context as _;
use punctual_lab::paths::{self, Way};

use super::finish::NAME;
use crate::args::WhyArgs;
use crate::commands::measure::measure;
use crate::cpu_lock;
use crate::exit::Exit;

/// Records one path of each.
pub(super) fn run(args: &WhyArgs, ways: Vec<Way>) -> anyhow::Result<Exit> {
    let asked = args.durations.iter().min().copied().unwrap_or(Duration::from_micros(100));
    measure(NAME, &args.outputs(), &cpu_lock::cpus(None), |session| {
        paths::run(ways, asked, session).context("why --path")
    })
}
