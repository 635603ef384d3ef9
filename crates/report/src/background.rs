//! The sections every report has, whatever was measured: the machine, what could not be measured, what else the machine
//! did meanwhile. A fact that the run does not hold is said to be unknown.

use std::collections::BTreeMap;

use punctual_record::{DESCRIPTIVE, Host, NotMeasured, Param, Run};

use crate::naming;
use crate::plain::plain;
use crate::story::{Block, Item, Section, unbroken};
use crate::style::Style;
use crate::units;

pub(crate) use crate::naming::conditions;

/// The machine: one line that names it, then what bears on its lateness, a line each.
pub(crate) fn machine(run: &Run, style: &Style) -> Section {
    let host = &run.host;
    let known = |fact: &Option<String>| fact.as_deref().map(|fact| plain(fact, style));
    let unknown = || "unknown".to_owned();
    let reading = units::duration_fine(run.clock.read_ns, style);
    let clock = format!("{}, {reading} a reading", known(&host.clocksource).unwrap_or_else(unknown));
    let slack = host.timer_slack_ns.map_or_else(unknown, |ns| slack(ns, style));
    let mut facts = vec![
        ("clock", clock),
        ("idle", idle(host, style)),
        ("frequency", frequency(host, style)),
        ("real time", real_time(host, style)),
        ("timer slack", slack),
    ];
    facts.extend(host.cpu_quota.map(|cpus| ("CPU limit", format!("{} CPUs, by the cgroup", units::significant(cpus)))));
    let isolated = known(&host.isolated_cpus).filter(|list| !list.is_empty());
    facts.extend(isolated.map(|list| ("isolated", format!("CPUs {list}"))));
    let asked = naming::asked_of_all(run, style);
    facts.extend((!asked.is_empty()).then(|| ("asked", asked.join(", "))));
    let facts = facts.into_iter().map(|(name, fact)| (name.to_owned(), keep_units(&fact))).collect();
    Section::default().with(Block::Line(name(host, style))).with(Block::Facts(facts))
}

/// `Linux 6.1.0 (voluntary preemption, 250 Hz), 2 × AMD EPYC 7763, KVM guest, container: docker`.
fn name(host: &Host, style: &Style) -> String {
    let known = |fact: &Option<String>| fact.as_deref().map(|fact| plain(fact, style));
    let preemption = known(&host.preemption).map_or("preemption unknown".to_owned(), |model| {
        if model == "rt" { "PREEMPT_RT".to_owned() } else { format!("{model} preemption") }
    });
    let ticks = host.hz.map_or(String::new(), |hz| format!(", {hz} Hz"));
    let release = known(&host.kernel).unwrap_or("of unknown release".to_owned());
    let times = if style.unicode { "×" } else { "x" };
    let cpus = host.cpus_online.map_or("unknown number".to_owned(), |n| n.to_string());
    let model = known(&host.cpu_model).unwrap_or("CPU of unknown model".to_owned());
    let guest = known(&host.hypervisor).map_or("no hypervisor seen".to_owned(), |name| {
        // `kvm`, `qemu`, `wsl` are abbreviations; longer names are names.
        let name = if name.len() <= 4 { name.to_uppercase() } else { name };
        format!("{name} guest")
    });
    let mut parts = vec![format!("Linux {release} ({preemption}{ticks})"), format!("{cpus} {times} {model}"), guest];
    parts.extend(known(&host.container).map(|name| format!("container: {name}")));
    parts.iter().map(|part| keep_units(part)).collect::<Vec<_>>().join(", ")
}

/// Numbers kept on one line with what follows them.
fn keep_units(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split(' ') {
        if !out.is_empty() {
            let number = out.ends_with(|c: char| c.is_ascii_digit() || c == '×');
            out.push(if number { '\u{a0}' } else { ' ' });
        }
        out.push_str(word);
    }
    out
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
        run.not_measured.iter().map(|missing| Item { text: missing_text(run, missing, style), code: None }).collect();
    Some(Section::new("Not measured").with(Block::Items(items)))
}

fn missing_text(run: &Run, missing: &NotMeasured, style: &Style) -> String {
    let mut text = plain(&missing.subject, style);
    if let Some(conditions) = &missing.conditions {
        text.push_str(&format!(" under {}", self::conditions(run, conditions, style)));
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
        (_, Param::Real(x)) => units::significant(*x),
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

/// `fifo:40`, `rr:1`, `deadline:...`.
pub(crate) fn is_real_time(policy: &str) -> bool {
    ["fifo", "rr", "deadline"].iter().any(|name| policy == *name || policy.starts_with(&format!("{name}:")))
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
    let many = |n: u64, what: &str| format!("{} {what}{}", units::count(n), if n == 1 { "" } else { "s" });
    let steal = d.steal_ns.map(|ns| {
        let of = d.steal_share.map_or(String::new(), |share| format!(" ({})", units::share(share)));
        let stolen = units::exact(i64::try_from(ns).unwrap_or(i64::MAX), style);
        if ns == 0 { "no steal".to_owned() } else { format!("steal {stolen}{of}") }
    });
    tell("steal", steal);
    tell("preemptions", d.involuntary_switches.map(|n| format!("preempted {}", many(n, "time"))));
    tell("use of the CPUs", d.busy_share.map(|share| format!("CPUs busy {}, this run included", units::share(share))));
    tell("CPU pressure", d.cpu_pressure_before.map(|share| format!("CPU pressure before {}", units::share(share))));
    tell("interrupts", d.interrupts.map(|n| many(n, "interrupt")));
    tell("page faults", d.major_faults.map(|n| many(n, "major page fault")));
    let mut text = if known.is_empty() { String::new() } else { format!("Meanwhile: {}.", known.join("; ")) };
    if !unknown.is_empty() {
        text.push_str(&format!(" Could not be read: {}.", unknown.join(", ")));
    }
    Section::default().with(Block::Paragraph(text.trim_start().to_owned()))
}
