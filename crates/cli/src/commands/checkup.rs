//! The check-up: measures this machine and says what to use.

use clap::Args;
use punctual_lab as lab;
use punctual_lab::checkup::{self, Depth};
use punctual_record::{Limit, Quantity};

use super::cpu_lock;
use super::measure::{Perform, Planned, line_with_answer, measure_watched};
use super::{ipc, wait, yielding};
use crate::args::{OutputArgs, Tables, values};
use crate::exit::Exit;
use crate::output::{Outputs, Target};
use crate::refusal::BadUsage;
use crate::terminal;

/// Options of the check-up.
#[derive(Debug, Args)]
pub(crate) struct CheckupArgs {
    /// Take 5 s: only the methods that the verdict needs
    #[arg(long, conflicts_with = "thorough")]
    quick: bool,
    /// Take some minutes: more methods, waits and sizes; narrower intervals
    #[arg(long)]
    thorough: bool,
    /// Repeat N times, 2 to 1000, one file per run (--json run.json: run-1.json, run-2.json, ...)
    #[arg(long, value_name = "N", value_parser = values::integer(2u32, 1000, "5"))]
    repeat: Option<u32>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl Perform for CheckupArgs {
    /// Measures this machine and recommends what to use; with `--repeat`, several times.
    fn perform(&self) -> anyhow::Result<Exit> {
        let depth = match (self.quick, self.thorough) {
            (true, _) => Depth::Quick,
            (_, true) => Depth::Thorough,
            _ => Depth::Usual,
        };
        let Some(times) = self.repeat else {
            return once(depth, &self.output);
        };
        if !matches!(self.output.json, Some(Target::File(_))) {
            let why =
                "it needs --json FILE, one file per run (example: --json run.json writes run-1.json, run-2.json, ...)";
            return Err(BadUsage(format!("invalid --repeat: {why}")).into());
        }
        let all: Vec<OutputArgs> = (1..=times).map(|number| one_of(&self.output, number, times)).collect();
        Outputs::rehearse(all.iter().flat_map(OutputArgs::targets))?;
        let name = |number| self.output.json.as_ref().map(|target| numbered(target, number, times).to_string());
        let mut worst = Exit::Done;
        for (number, wanted) in (1..=times).zip(all) {
            if !wanted.quiet {
                let into = wanted.json.as_ref().map(Target::to_string).unwrap_or_default();
                terminal::complain(&format!("run {number} of {times}, into {into}"));
            }
            match once(depth, &wanted)? {
                Exit::Done => {}
                interrupted @ Exit::Signal(_) => return Ok(interrupted),
                other => worst = other,
            }
        }
        if let (false, Some(first), Some(last)) = (self.output.quiet, name(1), name(times)) {
            let text = format!(
                "show a run: punctual report {first}; compare: punctual compare {first} {last}; merge: punctual merge"
            );
            terminal::complain(&text);
        }
        Ok(worst)
    }

    fn planned(&self) -> Option<(&[Limit], Vec<Planned>)> {
        // Whatever its parts may measure.
        let loops = lab::ramp::Governors::AgainstPerformance.subjects(None);
        let loops = loops.into_iter().map(|governor| (lab::ramp::EXPERIMENT, governor, Quantity::Loop));
        let yields = lab::yielding::methods::ALL.iter().map(yielding::planned);
        let waits = lab::wait::methods::all().map(wait::planned);
        let all = waits.chain(lab::ipc::mechanisms().map(ipc::planned)).chain(yields).chain(loops);
        Some((&self.output.fail_if, all.collect()))
    }
}

fn once(depth: Depth, wanted: &OutputArgs) -> anyhow::Result<Exit> {
    let outputs = wanted.open()?;
    let mut line = line_with_answer(wanted, &outputs);
    measure_watched("checkup", wanted, outputs, &cpu_lock::cpus(None), &mut line, |session| {
        checkup::run(depth, session);
        Ok(())
    })
}

/// The outputs of one of several runs.
fn one_of(output: &OutputArgs, number: u32, times: u32) -> OutputArgs {
    let numbered = |target: &Option<Target>| target.as_ref().map(|target| numbered(target, number, times));
    OutputArgs {
        json: numbered(&output.json),
        html: numbered(&output.html),
        csv: numbered(&output.csv),
        tables: Tables::Nowhere,
        ..output.clone()
    }
}

/// `run.json` as `run-03.json`: as many digits as the largest number needs, so that files sort by time.
fn numbered(target: &Target, number: u32, times: u32) -> Target {
    let Target::File(path) = target else { return Target::Stdout };
    let digits = times.to_string().len();
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number:0digits$}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    Target::File(path.with_file_name(name))
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
