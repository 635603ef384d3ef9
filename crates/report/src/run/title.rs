//! The title of a run: the question, the machine and the date.

use punctual_record::Run;

use crate::causes;
use crate::format::sanitize;

/// `How late: AMD EPYC 7763, Linux 6.18.44, 2026-11-22`. What is unknown is left out.
pub(super) fn title(run: &Run) -> String {
    let subject = match run.subcommand.as_str() {
        "checkup" | "wait" | "pace" => "How late".to_owned(),
        "why" if !run.paths.is_empty() => "Through the kernel".to_owned(),
        "why" => causes::program(run).map_or("Why late".to_owned(), |program| format!("Why {program} is late")),
        name => format!("punctual {}", sanitize(name)).trim_end().to_owned(),
    };
    let known = |fact: &Option<String>| fact.as_deref().map(sanitize);
    // The rest of the release names a build; the machine's line has it.
    let version = |release: String| release.split('-').next().map(|version| format!("Linux {version}"));
    let mut facts: Vec<String> = Vec::new();
    // Merged runs may be of several machines.
    if run.merged_from.is_empty() {
        facts.extend(known(&run.host.cpu_model));
        facts.extend(known(&run.host.kernel).and_then(version));
    }
    facts.push(run.started.to_string().chars().take(DATE).collect());
    format!("{subject}: {}", facts.join(", "))
}

/// Characters of a date in the form of ISO 8601.
const DATE: usize = 10;

/// The command line.
pub(super) fn command(run: &Run) -> String {
    let words: Vec<String> = run.command.iter().map(|word| sanitize(word)).collect();
    words.join(" ")
}
