//! `punctual governor show`: reads the machine's frequency settings.

use clap::Args;
use punctual::CpuSet;
use punctual::cpufreq::{Cpufreq, CpufreqPolicy, Error, GovernorThread, Serves, format_frequency};
use punctual_record::remedy;
use punctual_report::export::text;
use punctual_report::frequency::{self, IdleRow, Overview, PolicyRow};

use crate::exit::Exit;
use crate::terminal::{self, Color};

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
pub(crate) fn show(args: &ShowArgs) -> anyhow::Result<Exit> {
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
