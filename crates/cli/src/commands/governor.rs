//! `punctual governor` and its actions: CPU frequency as it is set, as it can be set, and what it brings.

use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use punctual::cpu_set::HIGHEST_CPU;
use punctual::cpufreq::{Cpufreq, CpufreqPolicy, Error, GovernorThread, Lever, Serves, format_frequency};
use punctual::restore::LockWait;
use punctual::{Conditions, CpuSet, Policy};
use punctual_lab::ramp::{self, Governors};
use punctual_lab::{Thread, boost, switch};
use punctual_record::{Limit, Quantity, remedy};
use punctual_report::export::text;
use punctual_report::frequency::{self, IdleRow, Overview, PolicyRow};

use super::measure::{Perform, Planned, measure};
use crate::args::{OutputArgs, check, values};
use crate::exit::Exit;
use crate::refusal::BadUsage;
use crate::terminal::{self, Color};

/// Options of `governor`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct GovernorArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: Option<Action>,
    /// Options of `show`.
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// The actions.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show policies, governor threads, idle states and energy counters (default)
    Show(ShowArgs),
    /// Set a governor; `restore` undoes it
    Set(SetArgs),
    /// Restore what `set` or a killed program changed
    Restore,
    /// Measure how fixed work speeds up under each governor
    Ramp(Box<RampArgs>),
    /// Measure how long a governor switch takes, and when the new speed is reached
    Switch(Box<SwitchArgs>),
    /// Measure a periodic task unboosted, boosted per activation, and at full speed: deadlines met, and the cost
    Boost(Box<BoostArgs>),
}

/// Options of `set`.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The governor
    #[arg(value_name = "GOVERNOR", value_parser = values::governor)]
    pub(crate) governor: String,
    /// Frequency to keep, with the governor userspace (example: 1.2GHz)
    #[arg(long, value_name = "FREQ", value_parser = values::frequency)]
    pub(crate) speed: Option<u64>,
    /// CPUs whose policies to set (0-3,8) [default: all]
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<CpuSet>,
}

/// Options of `ramp`.
#[derive(Debug, Args)]
pub(crate) struct RampArgs {
    /// Governors, in this order [default: all that the CPU offers; the present one if none can be set]
    #[arg(value_name = "GOVERNOR", value_parser = values::governor)]
    pub(crate) governors: Vec<String>,
    /// Loops per round, 1 to 1000000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = values::integer(1u32, 1_000_000, "100"))]
    pub(crate) loops: u32,
    /// Duration of one loop at full speed
    #[arg(long, value_name = "DUR", default_value = "750us", value_parser = values::positive_duration)]
    pub(crate) work: Duration,
    /// Idle time before each round
    #[arg(long, value_name = "DUR", default_value = "300ms", value_parser = values::positive_duration)]
    pub(crate) rest: Duration,
    /// Interleaved rounds, 1 to 10000; a claim takes 5
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = values::integer(1u32, 10_000, "6"))]
    pub(crate) rounds: u32,
    /// SCHED_FIFO priority of the governors' kernel threads for the run, 1 to 99
    #[arg(long, value_name = "N", value_parser = values::integer(1u8, 99, "50"))]
    pub(crate) governor_thread_priority: Option<u8>,
    #[command(flatten)]
    pub(crate) thread: ThreadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl RampArgs {
    /// The governors to measure.
    pub(crate) fn measured(&self) -> Governors {
        match self.governors.as_slice() {
            [] => Governors::All,
            named => Governors::Named(named.to_vec()),
        }
    }
}

/// Options of `switch`.
#[derive(Debug, Args)]
pub(crate) struct SwitchArgs {
    /// Two governors to switch between [default: powersave performance]
    #[arg(value_names = ["FROM", "TO"], num_args = 2, action = clap::ArgAction::Set, value_parser = values::governor)]
    pub(crate) governors: Vec<String>,
    /// Switches in each direction per round, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::integer(1u32, 10_000, "10"))]
    pub(crate) switches: u32,
    /// Rounds, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = values::integer(1u32, 10_000, "5"))]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) thread: ThreadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl SwitchArgs {
    /// The two governors, if they are named.
    pub(crate) fn between(&self) -> Option<[String; 2]> {
        <[String; 2]>::try_from(self.governors.clone()).ok()
    }
}

/// Options of `boost`.
#[derive(Debug, Args)]
pub(crate) struct BoostArgs {
    /// Period of the activations
    #[arg(long, value_name = "DUR", default_value = "10ms", value_parser = values::positive_duration)]
    pub(crate) period: Duration,
    /// Work per activation, as its duration at full speed
    #[arg(long, value_name = "DUR", default_value = "750us", value_parser = values::positive_duration)]
    pub(crate) work: Duration,
    /// Time from activation to deadline [default: 1.5 x work, at most the period]
    #[arg(long, value_name = "DUR", value_parser = values::positive_duration)]
    pub(crate) deadline: Option<Duration>,
    /// Activations per round, 1 to 1000000
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = values::integer(1u32, 1_000_000, "50"))]
    pub(crate) periods: u32,
    /// Interleaved rounds, 1 to 10000; a claim takes 5
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = values::integer(1u32, 10_000, "6"))]
    pub(crate) rounds: u32,
    /// Idle time before each round
    #[arg(long, value_name = "DUR", default_value = "300ms", value_parser = values::positive_duration)]
    pub(crate) rest: Duration,
    /// How to raise the speed [default: the first of these that works here]
    #[arg(long, value_name = "LEVER", value_parser = values::one_of(&LEVERS))]
    pub(crate) by: Option<Lever>,
    #[command(flatten)]
    pub(crate) thread: ThreadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The ways to raise the speed, cheapest first.
const LEVERS: [(&str, &str, Lever); 4] = [
    ("clamp", "Utilization clamp of the thread (uclamp), under schedutil", Lever::Clamp),
    ("min-frequency", "Lower frequency limit (scaling_min_freq), raised to the upper one", Lever::MinFrequency),
    ("epp", "Energy-performance preference", Lever::Preference),
    ("governor", "Governor performance", Lever::Governor),
];

/// The looping thread.
#[derive(Debug, Args)]
#[command(next_help_heading = "Conditions")]
pub(crate) struct ThreadArgs {
    /// Scheduling policy of the looping thread: other, batch, idle, rr:PRIO, fifo:PRIO (1-99)
    #[arg(long, value_name = "POLICY", default_value = "fifo:10")]
    pub(crate) policy: Policy,
    /// CPU to loop on [default: the last one that this process may use]
    #[arg(long, value_name = "N", value_parser = values::integer(0, HIGHEST_CPU, "1"))]
    pub(crate) cpu: Option<usize>,
    /// Fail if a condition is refused, instead of measuring without it
    #[arg(long)]
    pub(crate) require: bool,
}

impl From<&ThreadArgs> for Thread {
    fn from(args: &ThreadArgs) -> Self {
        Self { cpu: args.cpu, policy: Some(args.policy), require: args.require }
    }
}

/// Longest wait for another program that holds the settings.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

impl Perform for GovernorArgs {
    /// Runs the action.
    fn perform(&self) -> anyhow::Result<Exit> {
        match &self.action {
            None => show(&self.show),
            Some(Action::Show(args)) => show(args),
            Some(Action::Set(args)) => set(args),
            Some(Action::Restore) => restore(),
            Some(Action::Ramp(args)) => ramp(args),
            Some(Action::Switch(args)) => switch(args),
            Some(Action::Boost(args)) => boost(args),
        }
    }

    fn planned(&self) -> Option<(&[Limit], Vec<Planned>)> {
        // Work loops and switches are not late: their limits name a subject.
        Some(match self.action.as_ref()? {
            Action::Ramp(args) => {
                let subjects = args.measured().subjects(Thread::from(&args.thread).its_cpu());
                let loops = subjects.into_iter().map(|governor| (ramp::EXPERIMENT, governor, Quantity::Loop));
                (&args.output.fail_if, loops.collect())
            }
            Action::Switch(args) => {
                let of_direction = |direction| (switch::EXPERIMENT, direction, Quantity::Settling);
                (&args.output.fail_if, switch::subjects(args.between()).map(of_direction).into())
            }
            Action::Boost(args) => {
                let of_subject = |subject: &str| (boost::EXPERIMENT, subject.into(), Quantity::Response);
                (&args.output.fail_if, boost::subjects().map(of_subject).collect())
            }
            Action::Show(_) | Action::Set(_) | Action::Restore => return None,
        })
    }
}

/// An error of the settings, with its remedy.
fn told(error: &Error) -> anyhow::Error {
    anyhow::anyhow!("{error}; {}", remedy::of_need(&error.needs()))
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
        terminal::complain(&format!("{left}; {}", remedy::of_need(&left.needs)));
    }
    for no in &refused {
        terminal::complain(&format!("{} cannot be put back: {}; {}", no.condition, no.why, remedy::of_refused(no)));
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
        lever: args.by,
        thread: thread(&args.thread)?,
    };
    let plan = boost::Plan::new(request).map_err(BadUsage::from)?;
    measure("governor boost", &args.output, &looping(&args.thread), |session| {
        boost::run(plan, session).context("governor boost")
    })
}

/// A usual real-time priority of programs: below the kernel's threaded interrupts (50).
const USUAL_PRIORITY: u32 = 40;

/// Options of `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Colour the tables
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// Prints the tables.
fn show(args: &ShowArgs) -> anyhow::Result<Exit> {
    let overview = gather(&Cpufreq::system());
    terminal::print(&text::sections(&frequency::sections(&overview), &terminal::style_of_tables(args.color)))?;
    Ok(Exit::Done)
}

fn gather(cpufreq: &Cpufreq) -> Overview {
    let mut overview = Overview { idle: idle(cpufreq), energy: energy(cpufreq), ..Overview::default() };
    match cpufreq.policies() {
        Ok(policies) => {
            let threads = concerned(cpufreq.governor_threads(), &policies);
            overview.policies = policies.iter().map(row).collect();
            overview.threads = threads.iter().map(ToString::to_string).collect();
            overview.notices = notices(&policies, &threads);
        }
        Err(error) => overview.notices.push(not_exposed(&error)),
    }
    if overview.energy.is_empty() {
        overview
            .notices
            .push(("Energy is not counted here: there is no RAPL zone in /sys/class/powercap.".into(), None));
    }
    if cpufreq.has_something_to_restore() {
        let text = "Something that was set can be put back:".to_owned();
        overview.notices.push((text, Some("sudo punctual governor restore".into())));
    }
    overview
}

fn not_exposed(error: &Error) -> (String, Option<String>) {
    let why = match error {
        Error::NotExposed { why, .. } => why.clone(),
        other => other.to_string(),
    };
    let text = format!(
        "CPU frequency is not exposed: {why} ({}). How evenly this machine works shows all the same:",
        remedy::of_need(&error.needs())
    );
    (text, Some("punctual governor ramp".into()))
}

fn row(policy: &CpufreqPolicy) -> PolicyRow {
    let total: u128 = policy.time_in_state.iter().map(|(_, time)| time.as_millis()).sum();
    let most = policy.time_in_state.iter().max_by_key(|(_, time)| *time);
    let mostly = most.filter(|_| total > 0).map(|(khz, time)| (*khz, (time.as_millis() * 100 / total) as u8));
    PolicyRow {
        number: policy.number,
        cpus: CpuSet::from_iter(policy.cpus.iter().copied()).to_string(),
        driver: policy.driver.clone(),
        governor: policy.governor.clone().map(|name| match policy.set_speed_khz {
            Some(khz) => format!("{name} at {:.2} GHz", khz as f64 / 1e6),
            None => name,
        }),
        governors: policy.governors.clone(),
        limits_khz: (policy.min_khz, policy.max_khz),
        hardware_khz: (policy.hardware_min_khz, policy.hardware_max_khz),
        current_khz: policy.current_khz,
        measured_khz: policy.hardware_khz,
        latency_ns: policy.transition_latency_ns,
        boost: policy.boost,
        preference: policy.preference.clone(),
        transitions: policy.transitions,
        mostly,
    }
}

/// The threads that a governor in force works in.
fn concerned(threads: Vec<GovernorThread>, policies: &[CpufreqPolicy]) -> Vec<GovernorThread> {
    let works = |thread: &GovernorThread| match thread.serves {
        Serves::Schedutil { policy } => policies.iter().any(|p| p.number == policy),
        Serves::Worker { cpu } => policies
            .iter()
            .any(|p| p.cpus.contains(&cpu) && matches!(p.governor.as_deref(), Some("ondemand" | "conservative"))),
    };
    threads.into_iter().filter(works).collect()
}

fn notices(policies: &[CpufreqPolicy], threads: &[GovernorThread]) -> Vec<(String, Option<String>)> {
    let mut notices = Vec::new();
    let starved: Vec<&str> = threads
        .iter()
        .filter(|thread| thread.starves_below(USUAL_PRIORITY))
        .map(|thread| thread.name.as_str())
        .collect();
    if !starved.is_empty() {
        let text = format!(
            "A busy thread under fifo:{USUAL_PRIORITY} on the same CPU starves {}: the governor then cannot raise the frequency. To \
            measure it, and the remedy:",
            starved.join(", ")
        );
        notices.push((text, Some("sudo punctual governor ramp --governor-thread-priority 60".into())));
    }
    for policy in policies {
        if let (Some(max), Some(hardware)) = (policy.max_khz, policy.hardware_max_khz)
            && max < hardware
        {
            let [max, hardware] = [max, hardware].map(format_frequency);
            let text = format!("policy{} is limited to {max} of {hardware} (scaling_max_freq).", policy.number);
            notices.push((text, None));
        }
        if policy.governor.as_deref() == Some("powersave") && !policy.is_autonomous() {
            let text =
                format!("policy{} stays at its lowest frequency under powersave, whatever the load.", policy.number);
            notices.push((text, Some("sudo punctual run --governor performance -- PROGRAM".into())));
        }
    }
    notices
}

fn idle(cpufreq: &Cpufreq) -> Vec<IdleRow> {
    let row = |state: punctual::cpufreq::IdleState| IdleRow {
        name: state.name,
        exit_us: state.exit_latency_us,
        residency_us: state.residency_us,
        disabled: state.disabled,
    };
    cpufreq.idle_states(0).into_iter().map(row).collect()
}

fn energy(cpufreq: &Cpufreq) -> Vec<(String, Option<u64>)> {
    cpufreq.energy_zones().into_iter().map(|zone| (zone.name.clone(), zone.read_uj())).collect()
}
