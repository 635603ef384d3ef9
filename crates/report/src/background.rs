//! The sections every report has, whatever was measured: the machine, what could not be measured, what else the machine
//! did meanwhile. A fact that the run does not hold is said to be unknown.

use std::collections::BTreeMap;

use punctual_record::{ConditionSet, DESCRIPTIVE, Host, NotMeasured, Param, Run};

use crate::plain::plain;
use crate::story::{Block, Item, Section, unbroken};
use crate::style::Style;
use crate::units;

/// The machine, in a few lines.
pub(crate) fn machine(run: &Run, style: &Style) -> Section {
    let host = &run.host;
    let known = |fact: &Option<String>| fact.as_deref().map(|fact| plain(fact, style));
    let kernel =
        known(&host.kernel).map_or("Linux of unknown release".to_owned(), |release| format!("Linux {release}"));
    let preemption = known(&host.preemption).unwrap_or("unknown".to_owned());
    let times = if style.unicode { "×" } else { "x" };
    let cpus = host.cpus_online.map_or("unknown".to_owned(), |n| n.to_string());
    let model = known(&host.cpu_model).unwrap_or("CPU of unknown model".to_owned());
    let mut first = vec![kernel, format!("preemption {preemption}"), format!("{model} {times} {cpus}")];
    first.push(known(&host.hypervisor).map_or("no hypervisor seen".to_owned(), |name| format!("hypervisor {name}")));
    first.extend(known(&host.container).map(|name| format!("container {name}")));
    let mut second = vec![
        format!("clock source {}", known(&host.clocksource).unwrap_or("unknown".to_owned())),
        format!("idle driver {}", idle(host, style)),
        format!("cpufreq: {}", frequency(host, style)),
        format!("timer slack {}", host.timer_slack_ns.map_or("unknown".to_owned(), |ns| slack(ns, style))),
        format!("real time: {}", real_time(host, style)),
    ];
    second.extend(host.cpu_quota.map(|cpus| format!("limited to {cpus:.2} CPUs by its cgroup")));
    second
        .extend(known(&host.isolated_cpus).filter(|list| !list.is_empty()).map(|list| format!("isolated CPUs {list}")));
    second.push(format!("one clock reading {}", units::duration_fine(run.clock.read_ns, style)));
    Section::default().with(facts(first)).with(facts(second))
}

fn facts(facts: Vec<String>) -> Block {
    Block::Paragraph(facts.iter().map(|fact| unbroken(fact).replace(",\u{a0}", ", ")).collect::<Vec<_>>().join("; "))
}

fn slack(ns: u64, style: &Style) -> String {
    units::exact(i64::try_from(ns).unwrap_or(i64::MAX), style)
}

fn idle(host: &Host, style: &Style) -> String {
    let Some(idle) = &host.cpuidle else { return "unknown".to_owned() };
    let mut text = idle.driver.as_deref().map_or("unknown".to_owned(), |driver| plain(driver, style));
    if let Some(state) = &idle.deepest_state {
        text.push_str(&format!(", deepest state {}", plain(state, style)));
        if let Some(exit) = idle.deepest_exit_latency_us {
            text.push_str(&format!(" ({} to leave)", units::exact(i64::from(exit) * 1000, style)));
        }
    }
    text
}

fn frequency(host: &Host, style: &Style) -> String {
    let Some(cpufreq) = &host.cpufreq else {
        let decides = if host.hypervisor.is_some() { ", the hypervisor decides" } else { "" };
        return format!("not exposed{decides}");
    };
    let driver = cpufreq.driver.as_deref().unwrap_or("unknown driver");
    let governors =
        if cpufreq.governors.is_empty() { "unknown governor".to_owned() } else { cpufreq.governors.join("+") };
    let mut text = format!("{}, {}", plain(driver, style), plain(&governors, style));
    if let (Some(min), Some(max)) = (cpufreq.min_khz, cpufreq.max_khz) {
        text.push_str(&format!(", {:.2} to {:.2} GHz", min as f64 / 1e6, max as f64 / 1e6));
    }
    text
}

fn real_time(host: &Host, style: &Style) -> String {
    let rt = &host.rt;
    let allowed = match (rt.cap_sys_nice, rt.rtprio_limit) {
        (Some(true), _) => "allowed (CAP_SYS_NICE)".to_owned(),
        (_, Some(limit)) if limit > 0 => format!("allowed up to priority {limit}"),
        (Some(false), Some(_)) => "not allowed (rtprio limit 0)".to_owned(),
        _ => "unknown whether allowed".to_owned(),
    };
    let throttle = match (rt.runtime_us, rt.period_us) {
        (Some(runtime), _) if runtime < 0 => "never throttled".to_owned(),
        (Some(runtime), Some(period)) => {
            let exact = |us: i64| units::exact(us.saturating_mul(1000), style);
            format!("throttled to {} of {}", exact(runtime), exact(period))
        }
        _ => "throttling unknown".to_owned(),
    };
    format!("{allowed}, {throttle}")
}

/// What was asked for and has no figures; `None` when nothing is missing.
pub(crate) fn not_measured(run: &Run, style: &Style) -> Option<Section> {
    if run.not_measured.is_empty() {
        return None;
    }
    let items =
        run.not_measured.iter().map(|missing| Item { text: missing_text(missing, style), code: None }).collect();
    Some(Section::new("Not measured").with(Block::Items(items)))
}

fn missing_text(missing: &NotMeasured, style: &Style) -> String {
    let mut text = plain(&missing.subject, style);
    if let Some(conditions) = &missing.conditions {
        text.push_str(&format!(" under {}", plain(conditions, style)));
    }
    for (name, value) in &missing.parameters {
        text.push_str(&format!(", {}", parameter(name, value, style)));
    }
    text.push_str(&format!(": {}", sentence(&plain(&missing.why, style))));
    if let Some(remedy) = &missing.remedy {
        text.push_str(&format!(" Remedy: {}", sentence(&plain(remedy, style))));
    }
    text
}

/// A parameter as text: `asked 100 µs`, `size 64`.
pub(crate) fn parameter(name: &str, value: &Param, style: &Style) -> String {
    let shown = match (name.strip_suffix("_ns"), value) {
        (Some(_), Param::Int(ns)) => units::exact(*ns, style),
        (_, Param::Int(n)) => n.to_string(),
        (_, Param::Flag(flag)) => if *flag { "yes" } else { "no" }.to_owned(),
        (_, Param::Real(x)) => format!("{x}"),
        (_, Param::Text(text)) => plain(text, style),
    };
    let name = name.strip_suffix("_ns").unwrap_or(name).replace('_', " ");
    format!("{} {shown}", plain(&name, style))
}

/// What tells a series from others of its subject: its parameters, but for descriptions and for what the subject made of them.
pub(crate) fn telling(series: &BTreeMap<String, Param>, style: &Style) -> String {
    let hidden = |name: &String| name == "effective_ns" || DESCRIPTIVE.contains(&name.as_str());
    let shown = series.iter().filter(|(name, _)| !hidden(name)).map(|(name, value)| parameter(name, value, style));
    shown.map(|text| format!(", {text}")).collect()
}

/// The label of a set of conditions, with what was refused of it: `fifo:40 (policy refused)`.
pub(crate) fn set_label(set: &ConditionSet, style: &Style) -> String {
    let label = plain(&set.label, style);
    let refused: Vec<String> = set.refused.iter().map(|refusal| plain(&refusal.condition, style)).collect();
    if refused.is_empty() { label } else { format!("{label} ({} refused)", refused.join(", ")) }
}

/// The same for the label that a series has.
pub(crate) fn conditions(run: &Run, label: &str, style: &Style) -> String {
    let set = run.conditions.iter().find(|set| set.label == label);
    set.map_or_else(|| plain(label, style), |set| set_label(set, style))
}

/// The text with a full stop, unless it is empty or ends a sentence already.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() || text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// What else the machine did while the run measured.
pub(crate) fn disturbance(run: &Run, style: &Style) -> Section {
    let d = &run.disturbance;
    let mut known = Vec::new();
    let mut unknown = Vec::new();
    let mut tell = |name: &'static str, text: Option<String>| match text {
        Some(text) => known.push(unbroken(&text)),
        None => unknown.push(unbroken(name)),
    };
    let steal = d.steal_ns.map(|ns| {
        let of = d.steal_share.map_or(String::new(), |share| format!(" ({})", units::share(share)));
        format!("steal {}{of}", units::exact(i64::try_from(ns).unwrap_or(i64::MAX), style))
    });
    tell("steal", steal);
    tell("preemptions", d.involuntary_switches.map(|n| format!("preempted {} times", units::count(n))));
    tell("use of the CPUs", d.busy_share.map(|share| format!("CPUs busy {}, this run included", units::share(share))));
    tell("CPU pressure", d.cpu_pressure_before.map(|share| format!("CPU pressure before {}", units::share(share))));
    tell("interrupts", d.interrupts.map(|n| format!("{} interrupts", units::count(n))));
    tell("page faults", d.major_faults.map(|n| format!("{} major page faults", units::count(n))));
    let mut text = if known.is_empty() { String::new() } else { format!("Meanwhile: {}.", known.join("; ")) };
    if !unknown.is_empty() {
        text.push_str(&format!(" Could not be read: {}.", unknown.join(", ")));
    }
    Section::default().with(Block::Paragraph(text.trim_start().to_owned()))
}
