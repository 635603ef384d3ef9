//! Real programs, with `punctual why` and without: the same output and exit status, what was found, what watching costs.

mod choice;
mod found;
mod list;
mod play;
mod program;
pub(super) mod remedies;

use anyhow::bail;

pub(super) use self::choice::Choice;
use self::choice::Ready;
use self::play::{Mode, Outcome};
use self::program::Program;
use super::pairs::Pairs;

const HEAD: &str = "\
| program | version | same output, status | n | cut | lost | most time lost to | latest | s | watched | before, after, s | --pid: n | cut | lost |
|---|---|---|---:|---:|---:|---|---|---:|---:|---:|---:|---:|---:|";

/// Plays all programs and prints a row for each. Fails if one of them differs, or contradicts itself.
pub(super) fn run(choice: &Choice<'_>, pairs: u32) -> anyhow::Result<()> {
    let programs = choice.programs(|_| true);
    let Some(stage) = choice.stage(&programs)? else { return Ok(()) };
    println!("{HEAD}");
    let mut failed = Vec::new();
    for program in programs {
        let played = stage.prepare(program).and_then(|ready| match ready {
            Some(ready) => row(program, &ready, pairs),
            None => bail!("not installed: {}", program.packages),
        });
        match played {
            Ok((row, faults)) => {
                println!("{row}");
                failed.extend(faults.into_iter().map(|fault| format!("{}: {fault}", program.name)));
            }
            Err(error) => failed.push(format!("{}: {error:#}", program.name)),
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("\n")) }
}

/// The row of a program, and what is wrong.
fn row(program: &Program, ready: &Ready, pairs: u32) -> anyhow::Result<(String, Vec<String>)> {
    let place = &ready.place;
    let reference = place.play(program, Mode::Not)?;
    let mut faults = Vec::new();
    let mut judge = |outcome: &Outcome, mode: Mode| {
        if outcome.said != reference.said {
            faults.push(format!("{mode:?}: {:?}, but alone {:?}", outcome.said, reference.said));
        }
        faults.extend(outcome.causes.iter().flat_map(found::faults));
    };
    let (mut times, mut wholes) = (Pairs::default(), Pairs::default());
    let mut latest = None;
    for pair in 0..pairs {
        let order = if pair % 2 == 0 { [Mode::Started, Mode::Not] } else { [Mode::Not, Mode::Started] };
        let (mut took, mut whole) = ([0.0; 2], [0.0; 2]);
        for mode in order {
            let outcome = place.play(program, mode)?;
            judge(&outcome, mode);
            let place = usize::from(mode == Mode::Not);
            (took[place], whole[place]) = (outcome.took.as_secs_f64(), outcome.whole.as_secs_f64());
            latest = outcome.causes.or(latest);
        }
        times.push(took[0], took[1]);
        wholes.push(whole[0] - took[0], whole[1] - took[1]);
    }
    let attached = place.play(program, Mode::Attached)?;
    judge(&attached, Mode::Attached);
    let causes = latest.unwrap_or_default();
    let by_pid = attached.causes.unwrap_or_default();
    let ratio = times.ratio();
    let row = format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {:.2} | x {:.2} ({}) | {:+.2} | {} | {} | {} |",
        program.name,
        ready.version,
        if faults.is_empty() { "yes" } else { "NO" },
        causes.wake_ups,
        found::cut(&causes),
        causes.lost_events,
        found::largest(&causes),
        found::worst(&causes),
        times.theirs(),
        ratio.value,
        ratio.interval(|end| format!("{end:.2}")),
        wholes.difference().value,
        by_pid.wake_ups,
        found::cut(&by_pid),
        by_pid.lost_events,
    );
    Ok((row, faults))
}
