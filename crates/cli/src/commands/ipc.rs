//! `punctual ipc`.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use punctual::CpuSet;
use punctual_lab::ipc::mechanism::Mechanism;
use punctual_lab::ipc::places::Places;
use punctual_lab::ipc::places::Topology;
use punctual_lab::ipc::{self, Mode, Plan, Request, mechanisms};
use punctual_report::export::text::list::ListRow;

use super::measure::{list, measure};
use crate::args::{IpcArgs, ModeArg, chosen};
use crate::exit::Exit;
use crate::refusal::BadUsage;
use crate::terminal;

/// Default measuring time of `ipc`: 250 ms for each of 20 mechanisms in two modes and two places.
const USUAL: Duration = Duration::from_secs(20);
/// The default for mechanisms given by name.
const USUAL_FOR_NAMED: Duration = Duration::from_secs(10);

/// Measures or lists.
pub(crate) fn run(args: &IpcArgs) -> anyhow::Result<Exit> {
    if args.list {
        let mechanisms = chosen(&args.mechanisms).unwrap_or_else(|| mechanisms::all().collect());
        return list(mechanisms.into_iter().map(row), args.measure.output.color);
    }
    let plan = Plan::new(request(args)?).map_err(BadUsage::from)?;
    let cpus: CpuSet = plan.cells.iter().flat_map(|cell| [cell.place.sender, cell.place.receiver]).flatten().collect();
    let mut wrong = Vec::new();
    let exit = measure("ipc", &args.watch.outputs(&args.measure.output), &cpus, |session| {
        wrong = ipc::run(plan, session).context("ipc")?;
        Ok(())
    })?;
    for what in &wrong {
        terminal::complain(&format!("error: {what}"));
    }
    Ok(if exit == Exit::Done && !wrong.is_empty() { Exit::Failed } else { exit })
}

fn request(args: &IpcArgs) -> anyhow::Result<Request> {
    BadUsage::unless_different("--sender-policy", &args.sender_policy)?;
    BadUsage::unless_different("--receiver-policy", &args.receiver_policy)?;
    let conditions = &args.measure.conditions;
    let allowed = punctual_linux::affinity::affinity(0)?;
    let cpus: Vec<usize> = match conditions.cpus() {
        Some(asked) => allowed.iter().copied().filter(|cpu| asked.contains(*cpu)).collect(),
        None => allowed,
    };
    let topology = Topology::read(Path::new("/"), &cpus);
    let mut sizes = args.size.clone();
    sizes.sort_unstable();
    sizes.dedup();
    if !args.every.is_empty() && !args.mode.contains(&ModeArg::Sporadic) {
        let text = "invalid --every: it needs --mode sporadic (example: --mode sporadic --every 10ms)";
        return Err(BadUsage(text.into()).into());
    }
    let every = if args.every.is_empty() { &[Duration::from_secs(1)][..] } else { &args.every };
    let sporadic = || every.iter().map(|every| Mode::Sporadic { every: *every }).collect();
    let modes = args.mode.iter().flat_map(|mode| match *mode {
        ModeArg::Sporadic => sporadic(),
        ModeArg::Other(mode) => vec![mode],
    });
    Ok(Request {
        mechanisms: asked(args),
        sizes,
        modes: unique(modes),
        places: if args.matrix { Places::Matrix } else { args.cpus.clone() },
        cpus,
        topology,
        receive: unique(args.receive.iter().map(|how| (*how).into())),
        sender_policies: args.sender_policy.clone(),
        receiver_policies: args.receiver_policy.clone(),
        frame: args
            .measure
            .request(if args.mechanisms.is_empty() { USUAL } else { USUAL_FOR_NAMED })?
            .watched(args.watch.why),
        depth: args.depth,
        verify: args.verify.wanted(),
        blocks: args.blocks,
    })
}

/// The mechanisms given by name; else the usual ones, or all.
fn asked(args: &IpcArgs) -> Vec<&'static Mechanism> {
    chosen(&args.mechanisms).unwrap_or_else(|| mechanisms::all().filter(|m| args.all || m.usual).collect())
}

fn unique<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

fn row(mechanism: &Mechanism) -> ListRow {
    let limit = (mechanism.largest)();
    let carries = limit.bytes.map_or("messages of any size".to_owned(), |bytes| format!("up to {bytes} bytes"));
    let raise = limit.remedy.map(|r| format!("; {r}")).unwrap_or_default();
    ListRow {
        name: mechanism.name.clone(),
        about: format!("{}. Carries {carries}, by {}{raise}", mechanism.about, limit.from),
        call: mechanism.call.clone(),
        kind: mechanism.kind.name().into(),
        needs: mechanism.needs.into(),
        available: ipc::try_open(mechanism).map_err(|no| no.to_string()),
        observed: None,
    }
}
