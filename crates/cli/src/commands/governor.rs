//! `punctual governor`: set, restore and measure.

mod show;

use anyhow::Context as _;
use punctual::cpufreq::{Cpufreq, Error, format_frequency};
use punctual::restore::LockWait;
use punctual::{Conditions, CpuSet};
use punctual_lab::{Thread, boost, ramp, switch};

use super::measure::measure;
use crate::args::{Action, BoostArgs, GovernorArgs, RampArgs, SetArgs, SwitchArgs, ThreadArgs, check};
use crate::exit::Exit;
use crate::refusal::BadUsage;
use crate::terminal;

/// Longest wait for another program that holds the settings.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Runs the action.
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

/// An error of the settings, with its remedy.
fn told(error: &Error) -> anyhow::Error {
    anyhow::anyhow!("{error}; {}", error.remedy())
}

fn set(args: &SetArgs) -> anyhow::Result<Exit> {
    let cpufreq = Cpufreq::system();
    let cpus = args.cpu.as_ref().map(|cpus| cpus.as_slice().to_vec()).unwrap_or_default();
    let wait = LockWait::AtMost(PATIENCE);
    let policies = match args.speed {
        Some(khz) if args.governor != "userspace" => {
            let why = "only the governor userspace keeps a speed (example: set userspace --speed 1.2GHz)";
            return Err(BadUsage::invalid("--speed", format_frequency(khz), why).into());
        }
        Some(khz) => cpufreq.set_speed_khz(&cpus, khz, wait),
        None => cpufreq.set_governor(&cpus, &args.governor, wait),
    };
    let policies: Vec<String> =
        policies.map_err(|e| told(&e))?.iter().map(|number| format!("policy{number}")).collect();
    let speed = args.speed.map_or(String::new(), |khz| format!(" at {}", format_frequency(khz)));
    let text = format!(
        "{}: governor {}{speed}, until a reboot or another change.\nRestore the previous one: sudo punctual governor restore\n",
        policies.join(", "),
        args.governor
    );
    terminal::print(&text)?;
    Ok(Exit::Done)
}

fn restore() -> anyhow::Result<Exit> {
    let mut restored = Cpufreq::system().restore(LockWait::AtMost(PATIENCE)).map_err(|e| told(&e))?;
    // Moved interrupts have a journal of their own.
    let (recovered, refused) = punctual::conditions::recover();
    restored.told.extend(recovered);
    if restored.told.is_empty() && restored.left.is_empty() && refused.is_empty() {
        terminal::print("Nothing to restore.\n")?;
    }
    for line in &restored.told {
        terminal::print(&format!("{line}\n"))?;
    }
    for left in &restored.left {
        terminal::complain(&format!("{left}; {}", left.remedy));
    }
    for no in &refused {
        terminal::complain(&format!("{} cannot be put back: {}; {}", no.condition, no.why, no.remedy));
    }
    Ok(if restored.left.is_empty() && refused.is_empty() { Exit::Done } else { Exit::Failed })
}

/// The looping thread. Refuses a CPU that the machine does not have.
fn thread(args: &ThreadArgs) -> Result<Thread, BadUsage> {
    check(&Conditions::new().maybe(args.cpu, Conditions::cpu))?;
    Ok(args.into())
}

/// The CPU that the loops run on.
fn looping(args: &ThreadArgs) -> CpuSet {
    Thread::from(args).its_cpu().into_iter().collect()
}

fn ramp(args: &RampArgs) -> anyhow::Result<Exit> {
    let request = ramp::Request {
        governors: args.measured(),
        loops: args.loops,
        work: args.work,
        rounds: args.rounds,
        rest: args.rest,
        thread: thread(&args.thread)?,
        thread_priority: args.governor_thread_priority,
    };
    let plan = ramp::Plan::new(request).map_err(BadUsage::from)?;
    measure("governor ramp", &args.output, &looping(&args.thread), |session| {
        ramp::run(plan, session).context("governor ramp")
    })
}

fn switch(args: &SwitchArgs) -> anyhow::Result<Exit> {
    if let [from, to] = args.governors.as_slice()
        && from == to
    {
        let why = "there is nothing to switch between; expected two that differ (example: powersave performance)";
        return Err(BadUsage::invalid("governors", format!("{from} {to}"), why).into());
    }
    let request = switch::Request {
        governors: args.between(),
        switches: args.switches,
        rounds: args.rounds,
        thread: thread(&args.thread)?,
    };
    let plan = switch::Plan::new(request).map_err(BadUsage::from)?;
    measure("governor switch", &args.output, &looping(&args.thread), |session| {
        let follows = switch::run(plan, session).context("governor switch")?;
        anyhow::ensure!(follows, "nothing to see: the speed does not follow the governor here");
        Ok(())
    })
}

fn boost(args: &BoostArgs) -> anyhow::Result<Exit> {
    let request = boost::Request {
        period: args.period,
        work: args.work,
        deadline: args.deadline,
        periods: args.periods,
        rounds: args.rounds,
        rest: args.rest,
        lever: args.by.map(Into::into),
        thread: thread(&args.thread)?,
    };
    let plan = boost::Plan::new(request).map_err(BadUsage::from)?;
    measure("governor boost", &args.output, &looping(&args.thread), |session| {
        boost::run(plan, session).context("governor boost")
    })
}
