//! `--until`: measures until limits against an older run can be judged.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use punctual::{CpuSet, format_duration};
use punctual_lab::wait::{self, Plan, Request};
use punctual_lab::{Amount, Session};
use punctual_report::compare::Side;
use punctual_report::compare::limit::Limit;
use punctual_report::compare::sequential::{Gate, Look};
use punctual_report::gate::Outcome;

use super::measure::measure;
use crate::args::{OutputArgs, limits, values};
use crate::exit::Exit;
use crate::refusal::BadUsage;
use crate::{saved, terminal};

/// Limits that decide how long a run measures.
#[derive(Debug, Args)]
#[command(next_help_heading = "Amount")]
pub(crate) struct UntilArgs {
    /// Measure until it is judged whether a figure grew by this much ('p50 +25%', 'p99 of futex +50us')
    ///
    /// The run is compared with --against after 2 s, 4 s, 8 s and so on. It ends as soon as every figure is shown to keep its limit, or one to
    /// exceed it, and the first line says PASS, FAIL (status 3) or UNDECIDED (status 4). The looks together raise a false alarm in at most one
    /// of twenty runs. The grammar is that of `punctual compare --fail-if`.
    #[arg(
        long, value_name = "LIMIT", value_parser = limits::of_comparison, requires = "against",
        conflicts_with_all = ["samples", "duration", "rounds", "why"]
    )]
    pub(crate) until: Vec<Limit>,
    /// The older run of --until: JSON, a page, or `last`
    #[arg(long, value_name = "BASE.json", requires = "until", value_parser = saved::run_name())]
    pub(crate) against: Option<PathBuf>,
    /// With --until: the longest measuring time
    #[arg(long, value_name = "DUR", requires = "until", default_value = "60s", value_parser = values::positive_duration)]
    pub(crate) at_most: Duration,
    /// With --until: exit with status 0 where limits cannot be judged
    #[arg(long, requires = "until")]
    pub(crate) allow_unjudged: bool,
}

/// What each stretch may take longer than announced, as a run of its own may.
const GRACE: Duration = Duration::from_millis(600);

/// Measures in stretches, each as long as those before it together, until the limits are judged.
pub(crate) fn run(
    until: &UntilArgs,
    base: &Path,
    (output, cpus): (&OutputArgs, &CpuSet),
    request: impl Fn(Amount, u32) -> anyhow::Result<Request>,
) -> anyhow::Result<Exit> {
    let mut old = Side::new();
    old.add(&terminal::shown(base), &saved::read_run(base)?).with_context(|| base.display().to_string())?;
    let mut gate = Gate::new(until.until.clone(), old, until.at_most);
    let (first, rounds) = gate.next_stretch();
    Plan::new(request(Amount::Time(first), rounds)?).map_err(BadUsage::from)?;
    if !output.quiet {
        terminal::say(&forecast(&gate, until.at_most));
    }
    let mut last: Option<Look> = None;
    let outcome = measure(wait::EXPERIMENT, output, cpus, |session| {
        while last.as_ref().is_none_or(|look| !look.is_last) && !session.stopped() {
            last = stretch(session, &mut gate, &request)?.or(last.take());
        }
        let Some(look) = &last else { return Ok(()) };
        look.compared.head().iter().for_each(|sentence| session.line(sentence));
        Ok(())
    })?;
    let judged = last.and_then(|look| look.compared.gate()).map_or(Outcome::Undecided, |gate| gate.outcome);
    Ok(match (outcome, judged) {
        (Exit::Done, Outcome::Undecided) if until.allow_unjudged => Exit::Done,
        (Exit::Done, judged) => judged.into(),
        (exit, _) => exit,
    })
}

/// Measures the next stretch and looks; `None`: it was ended early.
fn stretch(
    session: &mut Session<'_>,
    gate: &mut Gate,
    request: &impl Fn(Amount, u32) -> anyhow::Result<Request>,
) -> anyhow::Result<Option<Look>> {
    let (time, rounds) = gate.next_stretch();
    let plan = Plan::new(request(Amount::Time(time), rounds)?).map_err(BadUsage::from)?;
    session.grant(GRACE);
    wait::run(plan, session).context("wait")?;
    session.join_stretches().context("joining the rounds")?;
    if session.stopped() {
        return Ok(None);
    }
    Ok(Some(gate.look("this run", session.run())?))
}

fn forecast(gate: &Gate, at_most: Duration) -> String {
    let most = format_duration(at_most);
    match gate.forecast() {
        Some(time) => format!("This probably takes {}, {most} at most.\n", format_duration(time)),
        None => format!(
            "This may take {most} and stay undecided: the older run wanders by too much for the limit. Save it with more \
             --duration, merge several, or widen the limit.\n"
        ),
    }
}
