//! `--until`: measures until limits against an older run can be judged.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use punctual::{CpuSet, format_duration};
use punctual_lab::wait::{self, Plan, Request};
use punctual_lab::{Amount, Observer, Progress, Session};
use punctual_record::Run;
use punctual_report::compare::limit::Limit;
use punctual_report::compare::sequential::{Gate, Look, ROUND};
use punctual_report::compare::{Side, SideError};
use punctual_report::gate::{self, Outcome};

use super::measure::{Planned, measure, named};
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
    #[arg(long, value_name = "LIMIT", value_parser = limits::of_comparison, requires = "against")]
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

impl UntilArgs {
    /// Refuses a limit that is about nothing that is measured.
    pub(crate) fn check(&self, planned: &[Planned]) -> Result<(), BadUsage> {
        let planned: Vec<_> = planned.iter().map(named).collect();
        let subjects = self.until.iter().map(|limit| limit.subject.as_deref());
        gate::check(subjects, &planned).map_err(|missing| limits::about_nothing("--until", &missing))
    }
}

/// What each stretch may take longer than announced, as a run of its own may.
const GRACE: Duration = Duration::from_millis(600);
/// Most rounds of a run.
const MOST_ROUNDS: u32 = 10_000;

/// The limits, the older run, and what the last look said.
pub(crate) struct Judge<'a> {
    until: &'a UntilArgs,
    gate: Gate,
    last: Option<Look>,
    failed: Option<SideError>,
}

impl<'a> Judge<'a> {
    /// Reads the older run.
    pub(crate) fn open(until: &'a UntilArgs, base: &Path) -> anyhow::Result<Self> {
        let mut old = Side::new();
        old.add(&terminal::shown(base), &saved::read_run(base)?).with_context(|| base.display().to_string())?;
        let gate = Gate::new(until.until.clone(), old, until.at_most);
        Ok(Self { until, gate, last: None, failed: None })
    }

    /// Says on stderr how long it may take.
    pub(crate) fn forecast(&self) {
        let most = format_duration(self.until.at_most);
        terminal::say(&match self.gate.forecast() {
            Some(time) => format!("This probably takes {}, {most} at most.\n", format_duration(time)),
            None => format!(
                "This may take {most} and stay undecided: the older run wanders by too much for the limit. Save it with more \
                 --duration, merge several, or widen the limit.\n"
            ),
        });
    }

    fn is_open(&self) -> bool {
        self.failed.is_none() && self.last.as_ref().is_none_or(|look| !look.is_last)
    }

    fn look(&mut self, run: &Run) {
        match self.gate.look("this run", run) {
            Ok(look) => self.last = Some(look),
            Err(error) => self.failed = Some(error),
        }
    }

    /// Shows the verdict of the last look.
    fn tell(&mut self, session: &mut Session<'_>) -> anyhow::Result<()> {
        let sentences = self.last.iter().flat_map(|look| look.compared.head());
        sentences.for_each(|sentence| session.line(&sentence));
        Ok(self.failed.take().map_or(Ok(()), Err)?)
    }

    /// The status of a command that would have this one without limits.
    pub(crate) fn exit(&self, exit: Exit) -> Exit {
        let gate = self.last.as_ref().and_then(|look| look.compared.gate());
        match (exit, gate.map_or(Outcome::Undecided, |gate| gate.outcome)) {
            (Exit::Done, Outcome::Undecided) if self.until.allow_unjudged => Exit::Done,
            (Exit::Done, judged) => judged.into(),
            (exit, _) => exit,
        }
    }
}

/// Measures in stretches, each as long as those before it together, until the limits are judged.
pub(crate) fn run(
    until: &UntilArgs,
    base: &Path,
    (output, cpus): (&OutputArgs, &CpuSet),
    request: impl Fn(Amount, u32) -> anyhow::Result<Request>,
) -> anyhow::Result<Exit> {
    let mut judge = Judge::open(until, base)?;
    let (first, rounds) = judge.gate.next_stretch();
    Plan::new(request(Amount::Time(first), rounds)?).map_err(BadUsage::from)?;
    if !output.quiet {
        judge.forecast();
    }
    let exit = measure(wait::EXPERIMENT, output, cpus, |session| {
        while judge.is_open() && !session.stopped() {
            let (time, rounds) = judge.gate.next_stretch();
            let plan = Plan::new(request(Amount::Time(time), rounds)?).map_err(BadUsage::from)?;
            session.grant(GRACE);
            wait::run(plan, session).context("wait")?;
            session.join_stretches().context("joining the rounds")?;
            if !session.stopped() {
                judge.look(session.run());
            }
        }
        judge.tell(session)
    })?;
    Ok(judge.exit(exit))
}

/// Looks at a run that goes on, and ends it when the limits are judged.
pub(crate) struct Judged<'j, 'a, O> {
    observer: O,
    judge: &'j RefCell<Judge<'a>>,
    /// Measured so far, and when the next look is due.
    measured: Duration,
    due: Duration,
}

impl<'j, 'a, O: Observer> Judged<'j, 'a, O> {
    /// The length of a round: as many are wanted as show how the figures wander.
    pub(crate) fn round(at_most: Duration) -> Duration {
        ROUND.max(at_most / MOST_ROUNDS)
    }

    /// Hands everything on to this observer too.
    pub(crate) fn beside(observer: O, judge: &'j RefCell<Judge<'a>>) -> Self {
        let due = judge.borrow().gate.next_stretch().0;
        Self { observer, judge, measured: Duration::ZERO, due }
    }
}

/// The last look, at the whole run, and its verdict.
pub(crate) fn conclude(judge: &RefCell<Judge<'_>>, session: &mut Session<'_>) -> anyhow::Result<()> {
    let mut judge = judge.borrow_mut();
    while judge.is_open() && !session.stopped() {
        judge.look(session.run());
    }
    judge.tell(session)
}

impl<O: Observer> Observer for Judged<'_, '_, O> {
    fn progress(&mut self, progress: &Progress) {
        self.measured = self.judge.borrow().until.at_most.mul_f64(progress.done.clamp(0.0, 1.0));
        self.observer.progress(progress);
    }

    fn takes_runs(&self) -> bool {
        true
    }

    fn so_far(&mut self, run: &dyn Fn() -> Run) {
        if self.observer.takes_runs() {
            self.observer.so_far(run);
        }
        let mut judge = self.judge.borrow_mut();
        // The last look is at the whole run.
        if self.measured >= self.due && self.measured < judge.until.at_most && judge.is_open() {
            judge.look(&Run { complete: true, ..run() });
            self.due += judge.gate.next_stretch().0;
        }
    }

    fn has_enough(&self) -> bool {
        !self.judge.borrow().is_open()
    }

    fn line(&mut self, text: &str) {
        self.observer.line(text);
    }

    fn warn(&mut self, text: &str) {
        self.observer.warn(text);
    }

    fn finish(&mut self) {
        self.observer.finish();
    }
}
