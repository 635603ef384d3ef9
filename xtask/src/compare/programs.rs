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
use self::play::{Turn, Way};
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
    let reference = place.play(program, Way::Not)?;
    let mut faults = Vec::new();
    let mut judge = |turn: &Turn, way: Way| {
        if turn.said != reference.said {
            faults.push(format!("{way:?}: {:?}, but alone {:?}", turn.said, reference.said));
        }
        faults.extend(turn.causes.iter().flat_map(found::faults));
    };
    let (mut times, mut wholes) = (Pairs::default(), Pairs::default());
    let mut latest = None;
    for pair in 0..pairs {
        let order = if pair % 2 == 0 { [Way::Started, Way::Not] } else { [Way::Not, Way::Started] };
        let (mut took, mut whole) = ([0.0; 2], [0.0; 2]);
        for way in order {
            let turn = place.play(program, way)?;
            judge(&turn, way);
            let place = usize::from(way == Way::Not);
            (took[place], whole[place]) = (turn.took.as_secs_f64(), turn.whole.as_secs_f64());
            latest = turn.causes.or(latest);
        }
        times.push(took[0], took[1]);
        wholes.push(whole[0] - took[0], whole[1] - took[1]);
    }
    let attached = place.play(program, Way::Attached)?;
    judge(&attached, Way::Attached);
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
