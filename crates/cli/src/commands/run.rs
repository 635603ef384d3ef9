//! `punctual run`.

use std::io::ErrorKind;
use std::process::Command;

use anyhow::Context as _;
use punctual::conditions::{Conditions, Policy, Refused};
use punctual::cpufreq::{Cpufreq, GovernorGuard, Wait};
use punctual::format_duration;
use punctual_linux::sched::{self, Attributes, RESET_ON_FORK};
use punctual_linux::supervise::{Ended, Settings, Supervised};
use punctual_record::plain;

use crate::args::RunArgs;
use crate::args::values::Frequency;
use crate::exit::{BadUsage, Exit};
use crate::terminal;

/// Longest wait for another program that holds the frequency settings.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
/// Characters of an argument in the plan.
const LONGEST_WORD: usize = 1000;
/// Statuses of a shell for a program that is not found, and one that cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Applies, runs, puts back.
pub(crate) fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    if let Some(no) = args.inherited().impossible_here() {
        return Err(BadUsage(format!("--{} {}: {}; {}", no.condition, no.asked, no.why, no.remedy)).into());
    }
    if args.dry_run {
        terminal::print(&plan(args))?;
        return Ok(Exit::Done);
    }
    let mut troubles = Troubles::default();
    let governed = govern(args, &mut troubles);
    let machine = Conditions { dma_latency: args.dma_latency, ..Conditions::default() }.apply();
    troubles.add(machine.refused());
    let thread = args.inherited().apply();
    troubles.add(thread.refused());
    let settings = Settings { attributes: policy(args, &mut troubles), may_lock_memory: args.lock_memory };
    if args.lock_memory {
        troubles.0.extend(lock_memory());
    }
    if !args.quiet || args.require {
        troubles.0.iter().for_each(|trouble| terminal::complain(trouble));
    }
    if args.require && !troubles.0.is_empty() {
        terminal::complain("error: a condition was refused, and --require is given: nothing was run");
        return Ok(Exit::Failed);
    }
    let mut command = Command::new(&args.program[0]);
    command.args(&args.program[1..]);
    let exit = match Supervised::spawn(command, settings) {
        Ok(program) => {
            // The program has inherited what it was to inherit.
            drop(thread);
            match program.wait().context("waiting for the program")? {
                Ended::Exited(status) => Exit::Program(status),
                Ended::Signalled(signal) => Exit::Signal(signal),
                Ended::Unknown => {
                    let program = args.program[0].to_string_lossy();
                    terminal::complain(&format!("error: {program} has ended, and the kernel did not keep its status"));
                    Exit::Failed
                }
            }
        }
        Err(error) => {
            terminal::complain(&format!("{}: {error}", args.program[0].to_string_lossy()));
            Exit::Program(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
        }
    };
    drop(machine);
    for left in governed.map(GovernorGuard::restore).unwrap_or_default() {
        terminal::complain(&format!("{left}; {}", left.remedy()));
    }
    Ok(exit)
}

/// What was refused, in words.
#[derive(Default)]
struct Troubles(Vec<String>);

impl Troubles {
    fn add(&mut self, refused: &[Refused]) {
        self.0.extend(refused.iter().map(|refused| format!("{refused}; {}", refused.remedy)));
    }
}

/// Sets governor, preference and lower limit.
fn govern(args: &RunArgs, troubles: &mut Troubles) -> Option<GovernorGuard> {
    if args.governor.is_none() && args.epp.is_none() && args.min_frequency.is_none() {
        return None;
    }
    let mut guard = match Cpufreq::system().guard(&args.cpus(), Wait::AtMost(PATIENCE)) {
        Ok(guard) => guard,
        Err(error) => {
            troubles.0.push(format!("CPU frequency: {error}; {}", error.remedy()));
            return None;
        }
    };
    for told in guard.replayed() {
        terminal::complain(told);
    }
    let mut keep = |what: &str, outcome: Result<(), punctual::cpufreq::Error>| {
        troubles.0.extend(outcome.err().map(|error| format!("{what} was refused: {error}; {}", error.remedy())));
    };
    if let Some(name) = &args.governor {
        keep(&format!("governor {name}"), guard.set_governor(name));
    }
    if let Some(preference) = &args.epp {
        keep(&format!("epp {preference}"), guard.set_preference(preference));
    }
    match args.min_frequency {
        Some(Frequency::Max) => keep("min-frequency", guard.set_min_to_max()),
        Some(Frequency::Khz(khz)) => keep(&format!("min-frequency {khz}kHz"), guard.set_min_khz(khz)),
        None => {}
    }
    Some(guard)
}

/// Tries the policy on this thread, and gives the attributes under which the program's process puts itself: a policy set here would
/// not be inherited, because conditions are set so that children start under SCHED_OTHER.
fn policy(args: &RunArgs, troubles: &mut Troubles) -> Option<Attributes> {
    let policy = args.policy?;
    let guard = Conditions { policy: Some(policy), one_way: true, ..Conditions::default() }.apply();
    troubles.add(guard.refused());
    if !guard.refused().is_empty() {
        return None;
    }
    let attributes = sched::attributes(0).ok()?;
    // The kernel lets a SCHED_DEADLINE thread fork or start threads only with this flag (sched(7)); elsewhere children are to have the policy too.
    let flags = match policy {
        Policy::Deadline { .. } => attributes.flags | RESET_ON_FORK,
        _ => attributes.flags & !RESET_ON_FORK,
    };
    Some(Attributes { flags, ..attributes })
}

/// What cannot be done for the program.
fn lock_memory() -> Option<String> {
    use rustix::process::{Resource, getrlimit};
    let unlimited = getrlimit(Resource::Memlock).maximum.is_none();
    let guard = Conditions { lock_memory: true, ..Conditions::default() }.apply();
    let allowed = unlimited || guard.refused().is_empty();
    let remedy = if rustix::process::geteuid().is_root() {
        "raise RLIMIT_MEMLOCK where this is started (ulimit -l, LimitMEMLOCK= of a systemd service), or give this root CAP_SYS_RESOURCE, which it lacks (capsh --print shows what it has)"
    } else {
        "raise RLIMIT_MEMLOCK (ulimit -l, limits.conf) or run as root"
    };
    (!allowed).then(|| format!("lock-memory: the program's limit of locked memory stays as it is; {remedy}"))
}

/// What would be done, one line each.
fn plan(args: &RunArgs) -> String {
    let mut lines = Vec::new();
    let here = Cpufreq::system();
    let cpus = args.cpu.as_ref().map_or_else(|| "all CPUs".to_owned(), |cpus| format!("CPUs {cpus}"));
    let governor = args.governor.iter().map(|name| format!("governor {name} on {cpus}"));
    let epp = args.epp.iter().map(|preference| format!("energy-performance preference {preference} on {cpus}"));
    let limit = args.min_frequency.iter().map(|frequency| match frequency {
        Frequency::Max => format!("lower frequency limit raised to the upper one on {cpus}"),
        Frequency::Khz(khz) => format!("lower frequency limit {khz} kHz on {cpus}"),
    });
    let frequency: Vec<String> = governor.chain(epp).chain(limit).collect();
    if !frequency.is_empty() {
        match here.policies_of(&args.cpus()) {
            Ok(policies) => lines.extend(frequency.into_iter().map(|line| {
                let now: Vec<String> = policies
                    .iter()
                    .map(|p| format!("policy{} {}", p.number, p.governor.as_deref().unwrap_or("without governor")))
                    .collect();
                format!("set {line} (now: {})", now.join(", "))
            })),
            Err(error) => lines.push(format!("cannot set {}: {error}; {}", frequency.join(", "), error.remedy())),
        }
    }
    lines.extend(args.dma_latency.map(|d| format!("hold /dev/cpu_dma_latency at {}", format_duration(d))));
    lines.extend(args.cpu.as_ref().map(|cpus| format!("run on CPUs {cpus}")));
    lines.extend(args.nice.map(|nice| format!("nice value {nice}")));
    lines.extend(args.timer_slack.map(|slack| format!("timer slack {}", format_duration(slack))));
    lines.extend(args.policy.map(|policy| format!("scheduling policy {policy}")));
    lines.extend(args.lock_memory.then(|| "lift the program's limit of locked memory".to_owned()));
    let words: Vec<String> =
        args.program.iter().map(|word| plain::line(&word.to_string_lossy(), LONGEST_WORD)).collect();
    lines.push(format!("run {}", words.join(" ")));
    lines.push("put everything back".into());
    lines.iter().map(|line| format!("{line}\n")).collect()
}
