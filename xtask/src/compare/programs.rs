//! Real programs, with `punctual why` and without: the same output and exit status, what was found, what watching costs.

mod found;
mod list;
mod play;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use self::list::{PROGRAMS, Program};
use self::play::{Place, Turn, Way};
use super::pairs::Pairs;
use crate::tools;

/// What is asked.
pub(crate) struct Request<'a> {
    pub(crate) only: &'a [String],
    pub(crate) pairs: u32,
    pub(crate) binary: Option<&'a Path>,
    pub(crate) packages: bool,
}

const HEAD: &str = "\
| program | version | same output, status | n | cut | lost | most time lost to | latest | s | watched | before, after, s | --pid: n | cut | lost |
|---|---|---|---:|---:|---:|---|---|---:|---:|---:|---:|---:|---:|";

/// Plays all programs and prints a row for each. Fails if one of them differs, or contradicts itself.
pub(crate) fn run(request: &Request<'_>) -> anyhow::Result<()> {
    let wanted = |program: &&Program| {
        request.only.is_empty() || request.only.iter().any(|part| program.name.contains(part.as_str()))
    };
    let programs: Vec<&Program> = PROGRAMS.iter().filter(wanted).collect();
    if request.packages {
        println!("{}", programs.iter().map(|program| program.packages).collect::<Vec<_>>().join(" "));
        return Ok(());
    }
    let punctual = request.binary.map_or_else(tools::punctual, |path| Ok(path.canonicalize()?))?;
    let python = PathBuf::from(
        tools::output(std::process::Command::new("python3").args(["-c", "import sys; print(sys.executable)"]))?
            .trim_end(),
    );
    println!("{HEAD}");
    let mut failed = Vec::new();
    for program in programs {
        let folder = tempfile::Builder::new().prefix("punctual-program").tempdir()?;
        open_to_all(folder.path())?;
        let place = Place {
            punctual: punctual.clone(),
            sources: tools::root().join("xtask/programs"),
            python: python.clone(),
            folder: folder.path().to_owned(),
        };
        match row(program, &place, request.pairs) {
            Ok((row, faults)) => {
                println!("{row}");
                failed.extend(faults.into_iter().map(|fault| format!("{}: {fault}", program.name)));
            }
            Err(error) => failed.push(format!("{}: {error:#}", program.name)),
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("\n")) }
}

/// Servers that change their user have to enter it.
fn open_to_all(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?)
}

/// The row of a program, and what is wrong.
fn row(program: &Program, place: &Place, pairs: u32) -> anyhow::Result<(String, Vec<String>)> {
    let version = tools::output(&mut place.shell(program.version)).context("its version")?;
    tools::output(&mut place.shell(&format!("set -e; {}", program.setup))).context("its setup")?;
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
        "| {} | {} | {} | {} | {} | {} | {} | {} | {:.2} | x {:.2} [{:.2} {:.2}] | {:+.2} | {} | {} | {} |",
        program.name,
        version.lines().next().unwrap_or_default().trim().replace('|', "/"),
        if faults.is_empty() { "yes" } else { "NO" },
        causes.wake_ups,
        found::cut(&causes),
        causes.lost_events,
        found::largest(&causes),
        found::worst(&causes),
        times.theirs(),
        ratio.value,
        ratio.low,
        ratio.high,
        wholes.difference().value,
        by_pid.wake_ups,
        found::cut(&by_pid),
        by_pid.lost_events,
    );
    Ok((row, faults))
}
