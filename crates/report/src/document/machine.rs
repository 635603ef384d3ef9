//! Sections on machines: that of a run, the sources of a merged run with their figures side by side, missing measurements, and other
//! activity. Facts that the run lacks are reported as unknown.

use punctual_record::{FairServer, Host, NotMeasured, Part, Refusal, Run, Series, Source};

use crate::document::{Block, Column, Columns, Note, Section};
use crate::format::{naming, sentence, unbroken, units};

/// The machine: one line that names it, then one line per fact that affects lateness.
pub(crate) fn machine(run: &Run) -> Section {
    let host = &run.host;
    let unknown = || "unknown".to_owned();
    let reading = units::duration_fine(run.clock.read_ns);
    let clock = format!("{}, {reading} a reading", host.clocksource.clone().unwrap_or_else(unknown));
    let slack = host.timer_slack_ns.map_or_else(unknown, units::exact);
    let mut facts = vec![
        ("clock", clock),
        ("idle", idle(host)),
        ("frequency", frequency(host)),
        ("real time", real_time(host)),
        ("timer slack", slack),
    ];
    facts.extend(host.cpu_quota.map(|cpus| ("CPU limit", format!("{} CPUs, by the cgroup", units::significant(cpus)))));
    let isolated = host.isolated_cpus.clone().filter(|list| !list.is_empty());
    facts.extend(isolated.map(|list| ("isolated", format!("CPUs {list}"))));
    let refusal = |condition: &str| {
        run.conditions.iter().flat_map(|set| &set.refused).find(|refusal| refusal.condition == condition)
    };
    let (mut refused, mut asked) = (Vec::new(), Vec::new());
    for setting in naming::asked_of_all(run) {
        match refusal(&setting.condition) {
            Some(Refusal { condition, asked, .. }) => {
                refused.push(format!("{condition} {asked}").trim_end().to_owned())
            }
            // The phrase of a setting describes the value that the kernel applied.
            None => asked.push(setting.phrase.as_str()),
        }
    }
    // The name of a single set begins with it.
    let is_named = |asked: &String| match run.conditions.as_slice() {
        [only] => only.label.starts_with(asked),
        sets => sets.first().is_some_and(|first| first.label == *asked),
    };
    let asked = Some(asked.join(", ")).filter(|asked| !asked.is_empty() && !is_named(asked));
    facts.extend(asked.map(|asked| ("asked", asked)));
    facts.extend((!refused.is_empty()).then(|| ("refused", refused.join(", "))));
    let facts = facts.into_iter().map(|(name, fact)| (name.to_owned(), keep_units(&fact))).collect();
    Section::default().with(Block::Line(name(host))).with(Block::Facts(facts))
}

/// `Linux 6.1.0, voluntary preemption, 250 Hz; 2 CPUs (AMD EPYC 7763), KVM guest, container: docker`.
pub(crate) fn name(host: &Host) -> String {
    let ticks = host.hz.map_or(String::new(), |hz| format!(", {hz} Hz"));
    let container = host.container.clone().map_or(String::new(), |name| format!(", container: {name}"));
    keep_units(&format!("{}{ticks}; {}{container}", kernel(host), hardware(host)))
}

/// `Linux 6.1.0, voluntary preemption; 2 CPUs (AMD EPYC 7763), KVM guest`: what a first screen has room for.
pub(crate) fn brief(host: &Host) -> String {
    keep_units(&format!("{}; {}", kernel(host), hardware(host)))
}

fn kernel(host: &Host) -> String {
    let preemption = host.preemption.clone().map_or("preemption unknown".to_owned(), |model| {
        if model == "rt" { "PREEMPT_RT".to_owned() } else { format!("{model} preemption") }
    });
    format!("Linux {}, {preemption}", host.kernel.as_deref().unwrap_or("of unknown release"))
}

fn hardware(host: &Host) -> String {
    let cpus = match host.cpus_online {
        None => "unknown number of CPUs".to_owned(),
        Some(n) => units::many(n.into(), "CPU"),
    };
    let model = host.cpu_model.clone().unwrap_or("unknown model".to_owned());
    let guest = host.hypervisor.clone().map_or("no hypervisor seen".to_owned(), |name| {
        // `kvm`, `qemu`, `wsl` are abbreviations; longer names are names.
        let name = if name.len() <= 4 { name.to_uppercase() } else { name };
        format!("{name} guest")
    });
    let emulated = host.emulator.as_deref().map_or(String::new(), |by| format!(", through {by}"));
    format!("{cpus} ({model}), {guest}{emulated}")
}

/// Numbers stay on one line with the next word.
fn keep_units(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split(' ') {
        if !out.is_empty() {
            let number = out.ends_with(|c: char| c.is_ascii_digit());
            out.push(if number { '\u{a0}' } else { ' ' });
        }
        out.push_str(word);
    }
    out
}

fn idle(host: &Host) -> String {
    let Some(idle) = &host.cpuidle else { return "unknown".to_owned() };
    let mut text = idle.driver.clone().unwrap_or_else(|| "unknown".to_owned());
    if let Some(state) = &idle.deepest_state {
        text.push_str(&format!(", deepest state {state}"));
        if let Some(exit) = idle.deepest_exit_latency_us {
            text.push_str(&format!(" ({} to leave)", units::exact(i64::from(exit) * 1000)));
        }
    }
    text
}

fn frequency(host: &Host) -> String {
    let Some(cpufreq) = &host.cpufreq else {
        let decides = if host.hypervisor.is_some() { ", the hypervisor decides" } else { "" };
        return format!("not exposed{decides}");
    };
    let driver = cpufreq.driver.as_deref().unwrap_or("unknown driver");
    let governors =
        if cpufreq.governors.is_empty() { "unknown governor".to_owned() } else { cpufreq.governors.join("+") };
    let mut text = format!("{driver}, {governors}");
    if let (Some(min), Some(max)) = (cpufreq.min_khz, cpufreq.max_khz) {
        text.push_str(&format!(", {:.2} to {:.2} GHz", min as f64 / 1e6, max as f64 / 1e6));
    }
    text
}

fn real_time(host: &Host) -> String {
    let rt = &host.rt;
    let allowed = match (rt.cap_sys_nice, rt.rtprio_limit) {
        (Some(true), _) => "allowed (CAP_SYS_NICE)".to_owned(),
        (_, Some(limit)) if limit > 0 => format!("allowed up to priority {limit}"),
        (Some(false), Some(_)) => "not allowed (rtprio limit 0)".to_owned(),
        _ => "unknown whether allowed".to_owned(),
    };
    let throttle = match (rt.runtime_us, rt.period_us) {
        (Some(runtime), _) if runtime < 0 => "never throttled".to_owned(),
        // As Linux 7.2 and later have by default.
        (Some(runtime), Some(period)) if runtime >= period => "never throttled".to_owned(),
        (Some(runtime), Some(period)) => {
            let exact = |us: i64| units::exact(us.saturating_mul(1000));
            format!("throttled to {} of {}", exact(runtime), exact(period))
        }
        _ => "throttling unknown".to_owned(),
    };
    let kept = |server: &FairServer| {
        let [runtime, period] = [server.runtime_ns, server.period_ns].map(|ns| units::exact(ns.cast_signed()));
        format!(", fair server {runtime} of {period}")
    };
    format!("{allowed}, {throttle}{}", rt.fair_server.as_ref().map(kept).unwrap_or_default())
}

/// Requested subjects without figures; `None` if nothing is missing.
pub(crate) fn not_measured(run: &Run) -> Option<Section> {
    if run.not_measured.is_empty() {
        return None;
    }
    Some(Section::new("Not measured").with(Block::said(run.not_measured.iter().map(missing_text))))
}

fn missing_text(missing: &NotMeasured) -> String {
    let mut text = missing.subject.clone();
    if let Some(conditions) = &missing.conditions {
        text.push_str(&format!(" {}", naming::under(conditions)));
    }
    for (name, value) in &missing.parameters {
        text.push_str(&format!(", {}", naming::parameter(name, value)));
    }
    format!("{text}: {}", reason(missing))
}

/// Why, and what would help.
pub(crate) fn reason(missing: &NotMeasured) -> String {
    let remedy = missing.remedy.as_ref().map(|remedy| format!(" Remedy: {}", sentence(&remedy.to_string())));
    sentence(&missing.why) + &remedy.unwrap_or_default()
}

/// Other activity of the machine during the run.
pub(crate) fn disturbance(run: &Run) -> Section {
    let d = &run.disturbance;
    let mut known = Vec::new();
    let mut unknown = Vec::new();
    let mut tell = |name: &'static str, text: Option<String>| match text {
        Some(text) => known.push(unbroken(&text)),
        None => unknown.push(unbroken(name)),
    };
    let steal = d.steal_ns.map(|ns| {
        let share = d.steal_share.map_or(String::new(), |share| format!(" ({})", units::share(share)));
        let stolen = units::exact(ns);
        if ns == 0 { "no steal".to_owned() } else { format!("steal {stolen}{share}") }
    });
    tell("steal", steal);
    tell("preemptions", d.involuntary_switches.map(|n| format!("preempted {}", units::many(n, "time"))));
    tell("use of the CPUs", d.busy_share.map(|share| format!("CPUs busy {}, this run included", units::share(share))));
    tell("CPU pressure", d.cpu_pressure_before.map(|share| format!("CPU pressure before {}", units::share(share))));
    tell("interrupts", d.interrupts.map(|n| units::many(n, "interrupt")));
    tell("page faults", d.major_faults.map(|n| units::many(n, "major page fault")));
    let mut text = if known.is_empty() { String::new() } else { format!("Meanwhile: {}.", known.join("; ")) };
    if !unknown.is_empty() {
        text.push_str(&format!(" Could not be read: {}.", unknown.join(", ")));
    }
    Section::default().with(Block::Paragraph(text.trim_start().to_owned()))
}

/// Most rows of a table.
const MOST: usize = 300;

/// Of how many runs and machines; `None` where the run was not merged.
pub(crate) fn merged(run: &Run) -> Option<String> {
    let runs = run.merged_from.len();
    (runs > 0).then(|| format!("{}.", merged_from(runs, machines(run).len())))
}

fn merged_from(runs: usize, machines: usize) -> String {
    format!("Merged from {runs} runs of {}", units::many(machines as u64, "machine"))
}

/// The sections; none where the run was not merged.
pub(crate) fn sources(run: &Run) -> Vec<Section> {
    if run.merged_from.is_empty() {
        return Vec::new();
    }
    let machines = machines(run);
    let heading = merged_from(run.merged_from.len(), machines.len());
    let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
    let elapsed = |machine: &Machine<'_>| machine.runs.iter().fold(0u64, |sum, run| sum.saturating_add(run.elapsed_ns));
    let first = |machine: &Machine<'_>| machine.runs.iter().map(|run| run.started).min();
    let table = Columns::new()
        .left("machine", Column::ALWAYS, |machine: &Machine<'_>| machine.name.clone())
        .left("kernel", 90, |machine| known(&machine.host.kernel))
        .left("CPU", 50, |machine| known(&machine.host.cpu_model))
        .right("runs", Column::ALWAYS, |machine| machine.runs.len().to_string())
        .ns("measured", 60, |machine| Some(elapsed(machine)))
        .left("first", 40, |machine| first(machine).map_or(String::new(), |first| first.to_string()[..10].to_owned()))
        .plain(&machines);
    let mut sections = vec![Section::new(heading).with(Block::Table(table))];
    let rows: Vec<Line<'_>> = run.series.iter().flat_map(|series| lines(run, series, &machines)).collect();
    if !rows.is_empty() {
        sections.push(machine_by_machine(&rows));
    }
    sections
}

/// Runs whose hosts differ only in their load.
struct Machine<'a> {
    name: String,
    /// Without the load.
    host: Host,
    runs: Vec<&'a Source>,
    /// The places of the runs.
    places: Vec<u32>,
}

fn machines(run: &Run) -> Vec<Machine<'_>> {
    let mut machines: Vec<Machine<'_>> = Vec::new();
    for (place, source) in (0..).zip(&run.merged_from) {
        let host = Host { load1: None, ..source.host.clone() };
        let at = machines.iter().position(|machine| machine.host == host);
        let number = at.unwrap_or(machines.len());
        if at.is_none() {
            let name = source.host.name.as_deref().map_or(String::new(), |name| format!(" {name}"));
            let name = format!("{}{name}", number + 1);
            machines.push(Machine { name, host, runs: Vec::new(), places: Vec::new() });
        }
        machines[number].runs.push(source);
        machines[number].places.push(place);
    }
    machines
}

/// What one machine contributed to a series.
struct Line<'a> {
    /// The series, in its first line.
    series: String,
    machine: &'a str,
    parts: Vec<&'a Part>,
}

fn lines<'a>(run: &'a Run, series: &'a Series, machines: &'a [Machine<'a>]) -> Vec<Line<'a>> {
    let mut name = naming::subject(&series.subject, &series.experiment.parameters());
    if run.conditions.len() > 1 {
        name.push_str(&format!(", {}", series.conditions));
    }
    let parts_of = |machine: &'a Machine<'a>| -> Vec<&'a Part> {
        series.parts.iter().filter(|part| machine.places.contains(&part.source)).collect()
    };
    let parts = machines.iter().map(|machine| (machine, parts_of(machine))).filter(|(_, parts)| !parts.is_empty());
    parts.map(|(machine, parts)| Line { series: std::mem::take(&mut name), machine: &machine.name, parts }).collect()
}

fn machine_by_machine(lines: &[Line<'_>]) -> Section {
    let count = |line: &Line<'_>| line.parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.summary.count));
    let cpu = |part: &Part| part.cpu_ns_per_op.filter(|ns| ns.is_finite()).map(|ns| ns.round() as i64);
    let table = Columns::new()
        .left("series", Column::ALWAYS, |line: &Line<'_>| line.series.clone())
        .left("machine", Column::ALWAYS, |line| line.machine.to_owned())
        .count("n", 30, |line| Some(count(line)))
        .right("p50", Column::ALWAYS, |line| range(line, |part| part.summary.p50))
        .right("p99", Column::ALWAYS, |line| range(line, |part| part.summary.p99))
        .right("CPU/op", 60, |line| range(line, cpu))
        .first(MOST, lines, "rows");
    let note = Note::always("Where a machine has several runs: from the least to the largest of its runs' figures.");
    Section::new("Machine by machine").with(Block::Table(table)).with(Block::Legend(vec![note]))
}

/// From the least to the largest; absent where no run has it.
fn range(line: &Line<'_>, figure: impl Fn(&Part) -> Option<i64>) -> String {
    let known = || line.parts.iter().filter_map(|part| figure(part));
    let (Some(least), Some(most)) = (known().min(), known().max()) else { return units::ABSENT.to_owned() };
    let (low, high) = (units::duration(least), units::duration(most));
    if low == high { low } else { format!("{low}–{high}") }
}
