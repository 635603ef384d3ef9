//! `punctual governor`: the actions that set, and those that measure.

mod show;

use anyhow::Context as _;
use punctual::CpuSet;
use punctual::cpufreq::{Cpufreq, Error, Wait};
use punctual_lab::governor::{Thread, boost, ramp, switch};

use crate::args::{Action, BoostArgs, GovernorArgs, RampArgs, SetArgs, SwitchArgs, ThreadArgs};
use crate::exit::{BadUsage, Exit};
use crate::terminal;

/// Longest wait for another program that holds the settings: it may be about to end.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Does what was asked.
pub(crate) fn run(args: &GovernorArgs) -> anyhow::Result<Exit> {
    match &args.action {
        None => show::run(&args.show),
        Some(Action::Show(args)) => show::run(args),
        Some(Action::Set(args)) => set(args),
        Some(Action::Restore) => restore(),
        Some(Action::Ramp(args)) => ramp(args),
        Some(Action::Switch(args)) => switch(args),
        Some(Action::Boost(args)) => boost(args),
    }
}

/// An error of the settings, with what would help.
fn told(error: &Error) -> anyhow::Error {
    anyhow::anyhow!("{error}; {}", error.remedy())
}

fn set(args: &SetArgs) -> anyhow::Result<Exit> {
    let cpufreq = Cpufreq::system();
    let cpus = args.cpu.as_ref().map(|cpus| cpus.as_slice().to_vec()).unwrap_or_default();
    let policies = cpufreq.set_governor(&cpus, &args.governor, Wait::AtMost(PATIENCE)).map_err(|e| told(&e))?;
    let policies: Vec<String> = policies.iter().map(|number| format!("policy{number}")).collect();
    let text = format!(
        "{}: governor {}, until the machine restarts or somebody sets another.\nBack to what was there before: sudo punctual governor restore\n",
        policies.join(", "),
        args.governor
    );
    terminal::print(&text)?;
    Ok(Exit::Done)
}

fn restore() -> anyhow::Result<Exit> {
    let restored = Cpufreq::system().restore(Wait::AtMost(PATIENCE)).map_err(|e| told(&e))?;
    if restored.told.is_empty() && restored.left.is_empty() {
        terminal::print("There is nothing to put back.\n")?;
    }
    for line in &restored.told {
        terminal::print(&format!("{line}\n"))?;
    }
    for left in &restored.left {
        terminal::complain(&format!("{left}; {}", left.remedy()));
    }
    Ok(if restored.left.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Refuses a CPU that the machine does not have.
fn check_cpu(cpu: Option<usize>) -> Result<(), BadUsage> {
    let cpus = cpu.map(|cpu| CpuSet::of([cpu]));
    match (punctual::Conditions { cpus, ..punctual::Conditions::default() }).impossible_here() {
        Some(no) => Err(BadUsage(format!("--cpu {}: {}; {}", no.asked, no.why, no.remedy))),
        None => Ok(()),
    }
}

/// The CPU that the loops run on.
fn looping(args: &ThreadArgs) -> CpuSet {
    Thread::from(args).its_cpu().into_iter().collect()
}

fn ramp(args: &RampArgs) -> anyhow::Result<Exit> {
    check_cpu(args.thread.cpu)?;
    let governors = match args.governors.as_slice() {
        [] => ramp::Governors::All,
        named => ramp::Governors::Named(named.to_vec()),
    };
    let wanted = ramp::Wanted {
        governors,
        loops: args.loops,
        work: args.work,
        rounds: args.rounds,
        rest: args.rest,
        thread: (&args.thread).into(),
        thread_priority: args.governor_thread_priority,
    };
    let plan = ramp::Plan::new(wanted).map_err(|e| BadUsage(e.to_string()))?;
    super::measure("governor", &args.output, &looping(&args.thread), |session| {
        ramp::run(plan, session).context("governor ramp")
    })
}

fn switch(args: &SwitchArgs) -> anyhow::Result<Exit> {
    check_cpu(args.thread.cpu)?;
    let governors = match args.governors.as_slice() {
        [from, to] => Some([from.clone(), to.clone()]),
        _ => None,
    };
    let wanted =
        switch::Wanted { governors, switches: args.switches, rounds: args.rounds, thread: (&args.thread).into() };
    let plan = switch::Plan::new(wanted).map_err(|e| BadUsage(e.to_string()))?;
    super::measure("governor", &args.output, &looping(&args.thread), |session| {
        switch::run(plan, session).context("governor switch")
    })
}

fn boost(args: &BoostArgs) -> anyhow::Result<Exit> {
    check_cpu(args.thread.cpu)?;
    let wanted = boost::Wanted {
        period: args.period,
        work: args.work,
        deadline: args.deadline,
        periods: args.periods,
        rounds: args.rounds,
        rest: args.rest,
        lever: args.by.map(Into::into),
        thread: (&args.thread).into(),
    };
    let plan = boost::Plan::new(wanted).map_err(|e| BadUsage(e.to_string()))?;
    super::measure("governor", &args.output, &looping(&args.thread), |session| {
        boost::run(plan, session).context("governor boost")
    })
}
