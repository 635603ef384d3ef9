//! Own waits.

use std::time::Duration;

use anyhow::Context as _;
use punctual_lab::wait::{self, Plan, Request};

use super::finish::NAME;
use crate::args::WhyArgs;
use crate::commands::measure::measure;
use crate::cpu_lock;
use crate::exit::Exit;
use crate::refusal::BadUsage;

/// Default measuring time: a few thousand wake-ups of 1 ms.
const USUAL: Duration = Duration::from_secs(6);

/// Waits, and watches itself in every second round.
pub(super) fn run(args: &WhyArgs) -> anyhow::Result<Exit> {
    if args.trace.is_some() {
        let text = "--trace needs a program or --pid (example: why --trace FILE -- punctual wait)";
        return Err(BadUsage(text.into()).into());
    }
    args.conditions.check()?;
    let mut durations = args.durations.clone();
    durations.sort_unstable();
    durations.dedup();
    let request = Request {
        methods: WhyArgs::method().into_iter().collect(),
        durations,
        companions: Vec::new(),
        interrupt: None,
        frame: args.amount.request(USUAL, &args.conditions)?.watched(true),
    };
    let plan = Plan::new(request).map_err(BadUsage::from)?;
    measure(NAME, &args.outputs(), &cpu_lock::cpus(args.conditions.cpus().as_ref()), |session| {
        wait::run(plan, session).context("why")
    })
}
