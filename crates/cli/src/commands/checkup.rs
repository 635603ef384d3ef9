//! The check-up.

use std::path::Path;

use anyhow::Context as _;
use punctual_lab::checkup::{self, Depth};

use crate::args::{CheckupArgs, OutputArgs};
use crate::cpu_lock;
use crate::exit::{BadUsage, Exit};
use crate::output::{self, Target};

/// Measures this machine and says what to use; several times over where that was asked.
pub(crate) fn run(args: &CheckupArgs) -> anyhow::Result<Exit> {
    let depth = match (args.quick, args.thorough) {
        (true, _) => Depth::Quick,
        (_, true) => Depth::Thorough,
        _ => Depth::Usual,
    };
    let Some(times) = args.repeat else { return once(depth, &args.output) };
    if !matches!(args.output.json, Some(Target::File(_))) {
        let why = "needs --json FILE: each run is written to a file of its own (FILE-1.json, FILE-2.json, ...)";
        return Err(BadUsage(format!("--repeat {times} {why}")).into());
    }
    let name = |number| args.output.json.as_ref().map(|target| numbered(target, number, times).to_string());
    let mut worst = Exit::Done;
    for number in 1..=times {
        let wanted = OutputArgs {
            json: args.output.json.as_ref().map(|target| numbered(target, number, times)),
            html: args.output.html.as_ref().map(|target| numbered(target, number, times)),
            csv: args.output.csv.as_ref().map(|target| numbered(target, number, times)),
            without_tables: true,
            ..args.output.clone()
        };
        if !wanted.quiet {
            let into = wanted.json.as_ref().map(Target::to_string).unwrap_or_default();
            output::complain(&format!("run {number} of {times}, into {into}"));
        }
        match once(depth, &wanted)? {
            Exit::Done => {}
            interrupted @ Exit::Signal(_) => return Ok(interrupted),
            other => worst = other,
        }
    }
    if let (false, Some(first), Some(last)) = (args.output.quiet, name(1), name(times)) {
        let text = format!(
            "to see one: punctual report {first}; what differs: punctual compare {first} {last}; added up: punctual merge"
        );
        output::complain(&text);
    }
    Ok(worst)
}

fn once(depth: Depth, wanted: &OutputArgs) -> anyhow::Result<Exit> {
    super::measure("checkup", wanted, &cpu_lock::cpus(None), |session| checkup::run(depth, session).context("check-up"))
}

/// `run.json` as `run-03.json`, with as many digits as the largest number needs, so that the files sort in the order of time.
fn numbered(target: &Target, number: u32, times: u32) -> Target {
    let Target::File(path) = target else { return Target::Stdout };
    let digits = times.to_string().len();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{stem}-{number:0digits$}");
    let name = match path.extension() {
        Some(extension) => format!("{name}.{}", extension.to_string_lossy()),
        None => name,
    };
    Target::File(path.parent().unwrap_or(Path::new("")).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_sort_in_the_order_of_time() {
        let named = |path: &str, number, times| match numbered(&Target::File(path.into()), number, times) {
            Target::File(path) => path.display().to_string(),
            Target::Stdout => "-".into(),
        };
        assert_eq!(named("a/run.json", 3, 9), "a/run-3.json");
        assert_eq!(named("run.json", 3, 12), "run-03.json");
        assert_eq!(named("run", 1, 2), "run-1");
        assert_eq!(named("/tmp/a.b.json", 1, 2), "/tmp/a.b-1.json");
    }
}
