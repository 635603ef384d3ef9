//! `punctual ipc`: how long a message takes between two processes.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use punctual::{CpuSet, Policy};
use punctual_lab::ipc::{self, Mechanism, Mode, Places, Plan, Receive, Request, Topology};
use punctual_record::{Limit, Quantity};
use punctual_report::export::text::list::ListRow;

use super::measure::{Perform, Planned, list, measure};
use crate::args::names::{Chosen, Item, Names, Shelf, chosen};
use crate::args::{MeasureArgs, WatchArgs, values};
use crate::exit::Exit;
use crate::refusal::BadUsage;
use crate::terminal;

/// Options of `ipc`.
#[derive(Debug, Args)]
pub(crate) struct IpcArgs {
    /// Mechanisms, by name or kind (kind:socket), see --list [default: the usual ones]
    #[arg(value_name = "MECHANISM", value_parser = Names(&MECHANISMS), hide_possible_values = true)]
    pub(crate) mechanisms: Vec<Chosen<Mechanism>>,
    /// Measure every mechanism
    #[arg(long, conflicts_with = "mechanisms")]
    pub(crate) all: bool,
    /// Message sizes in bytes, 8 to 1G (8, 64k, 1M) [default: 64, or 8 if the mechanism carries no more]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size)]
    pub(crate) size: Vec<usize>,
    /// Traffic: ping-pong (round trips), saturated (as fast as received), sporadic (one per --every), rate:N/s (open loop)
    #[arg(long, value_name = "MODE", value_delimiter = ',', default_value = "ping-pong,saturated", value_parser = mode)]
    pub(crate) mode: Vec<ModeArg>,
    /// Intervals of sporadic messages; several are compared [default: 1s]
    #[arg(long, value_name = "DUR", value_delimiter = ',', value_parser = values::positive_duration)]
    pub(crate) every: Vec<Duration>,
    /// Placement: same (one CPU for both), different (one each), both (same and different), or two CPUs as SENDER,RECEIVER
    #[arg(long, value_name = "CPUS", default_value = "both", value_parser = places, conflicts_with = "matrix")]
    pub(crate) cpus: Places,
    /// Measure every pair of CPUs, shown as a heat map
    #[arg(long)]
    pub(crate) matrix: bool,
    /// How the receiver waits [default: block if supported, else poll]
    #[arg(long, value_name = "HOW", value_delimiter = ',', value_parser = values::one_of(&WAYS_TO_RECEIVE))]
    pub(crate) receive: Vec<Receive>,
    /// Most messages in flight, 1 to 1000000 [default: set by the mechanism]
    #[arg(long, value_name = "N", value_parser = depth)]
    pub(crate) depth: Option<usize>,
    /// Verify the whole message: always, never, or short (up to 4 KiB)
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "short", default_missing_value = "always", value_parser = values::one_of(&VERIFIED))]
    pub(crate) verify: Verified,
    /// Print minimum, maximum and mean latency per N messages during the run (100k); on stderr with --fail-if
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub(crate) blocks: Option<u64>,
    /// List the mechanisms, their limits and where to set these; measure nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Scheduling policy of the sender alone; several are compared
    #[arg(long, value_name = "POLICY", value_delimiter = ',', help_heading = "Conditions")]
    pub(crate) sender_policy: Vec<Policy>,
    /// Scheduling policy of the receiver alone; several are compared
    #[arg(long, value_name = "POLICY", value_delimiter = ',', help_heading = "Conditions")]
    pub(crate) receiver_policy: Vec<Policy>,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
}

/// A mode as typed. The interval of sporadic messages is another option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ModeArg {
    /// `sporadic`.
    Sporadic,
    /// Everything else.
    Other(Mode),
}

/// How the receiver waits.
const WAYS_TO_RECEIVE: [(&str, &str, Receive); 3] = [
    ("block", "Block in the kernel", Receive::Block),
    ("poll", "Busy-wait", Receive::Poll),
    ("backoff", "Poll, then yield, then block", Receive::Backoff),
];

/// Whether messages are verified as a whole; `None`: short ones are.
type Verified = Option<bool>;

/// Which messages are verified as a whole.
const VERIFIED: [(&str, &str, Verified); 3] = [
    ("short", "Messages up to 4 KiB", None),
    ("always", "All messages", Some(true)),
    ("never", "None: only number and time", Some(false)),
];

/// Smallest message accepted: it carries its time of sending.
const SMALLEST: usize = 8;
/// Largest message accepted: 1 GiB takes half a second to copy.
const LARGEST: usize = 1 << 30;

const SIZE: &str = "expected a number of bytes from 8 to 1G (example: 64, 16k or 1M; k is 1024)";
const MODE: &str = "expected ping-pong, saturated, sporadic or rate:N/s (example: rate:1000/s)";
const RATE: &str = "expected a rate from one per hour to 1M per second (example: rate:1000/s)";
const PLACES: &str = "expected same, different, both, or two CPUs as SENDER,RECEIVER (example: 0,1)";

fn size(text: &str) -> Result<usize, &'static str> {
    let bytes = values::in_units(text, &[('k', 1 << 10), ('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30)]);
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    bytes.filter(|bytes| (SMALLEST..=LARGEST).contains(bytes)).ok_or(SIZE)
}

fn depth(text: &str) -> Result<usize, String> {
    values::integer(1, 1_000_000, "10")(text)
}

fn mode(text: &str) -> Result<ModeArg, &'static str> {
    match text {
        "sporadic" => Ok(ModeArg::Sporadic),
        "saturated" => Ok(ModeArg::Other(Mode::Saturated)),
        "ping-pong" => Ok(ModeArg::Other(Mode::PingPong)),
        _ => {
            let number = text.strip_prefix("rate:").and_then(|rate| rate.strip_suffix("/s")).ok_or(MODE)?;
            let per_second = match values::count(number) {
                Ok(n) => n as f64,
                Err(_) => number.parse::<f64>().map_err(|_| MODE)?,
            };
            let possible = per_second.is_finite() && (1.0 / 3600.0..=1e6).contains(&per_second);
            if possible { Ok(ModeArg::Other(Mode::Rate { per_second })) } else { Err(RATE) }
        }
    }
}

fn places(text: &str) -> Result<Places, &'static str> {
    match text {
        "same" => Ok(Places::Same),
        "different" => Ok(Places::Different),
        "both" => Ok(Places::Both),
        _ => {
            let (sender, receiver) = text.split_once(',').ok_or(PLACES)?;
            let cpu = |text: &str| text.trim().parse::<usize>().map_err(|_| PLACES);
            Ok(Places::On(cpu(sender)?, cpu(receiver)?))
        }
    }
}

/// Every mechanism.
static MECHANISMS: Shelf<Mechanism> = Shelf {
    what: "mechanism",
    list: "punctual ipc --list",
    all: || ipc::mechanisms().collect(),
    item: |mechanism| Item { name: &mechanism.name, about: &mechanism.about, kind: Some(mechanism.kind) },
    is_offered: |_| true,
};

/// Default measuring time of `ipc`: 250 ms for each of 20 mechanisms in two modes and two places.
const USUAL: Duration = Duration::from_secs(20);
/// The default for mechanisms given by name.
const USUAL_FOR_NAMED: Duration = Duration::from_secs(10);

/// The figure of a mechanism that may be measured.
pub(super) fn planned(mechanism: &'static Mechanism) -> Planned {
    (ipc::EXPERIMENT, mechanism.name.clone(), Quantity::OneWay)
}

impl Perform for IpcArgs {
    /// Measures or lists.
    fn perform(&self) -> anyhow::Result<Exit> {
        if self.list {
            let mechanisms = chosen(&self.mechanisms).unwrap_or_else(|| ipc::mechanisms().collect());
            return list(mechanisms.into_iter().map(row), self.measure.output.color);
        }
        let plan = Plan::new(request(self)?).map_err(BadUsage::from)?;
        let cpus: CpuSet = plan.cells.iter().flat_map(|cell| [cell.place.sender, cell.place.receiver]).collect();
        let mut wrong = Vec::new();
        let exit = measure("ipc", &self.watch.outputs(&self.measure.output), &cpus, |session| {
            wrong = ipc::run(plan, session).context("ipc")?;
            Ok(())
        })?;
        for what in &wrong {
            terminal::complain(&format!("error: {what}"));
        }
        Ok(if exit == Exit::Done && !wrong.is_empty() { Exit::Failed } else { exit })
    }

    fn planned(&self) -> Option<(&[Limit], Vec<Planned>)> {
        let mechanisms = chosen(&self.mechanisms).unwrap_or_else(|| ipc::mechanisms().collect());
        Some((&self.measure.output.fail_if, mechanisms.into_iter().map(planned).collect()))
    }
}

fn request(args: &IpcArgs) -> anyhow::Result<Request> {
    BadUsage::unless_different("--sender-policy", &args.sender_policy)?;
    BadUsage::unless_different("--receiver-policy", &args.receiver_policy)?;
    let conditions = &args.measure.conditions;
    let allowed = punctual_linux::sched::affinity(0)?;
    let cpus: Vec<usize> = match conditions.cpus() {
        Some(asked) => allowed.iter().copied().filter(|cpu| asked.contains(*cpu)).collect(),
        None => allowed,
    };
    let topology = Topology::read(Path::new("/"), &cpus);
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
        sizes: values::sorted(&args.size),
        modes: values::unique(modes, Mode::eq),
        places: if args.matrix { Places::Matrix } else { args.cpus.clone() },
        cpus,
        topology,
        receive: values::unique(args.receive.iter().copied(), Receive::eq),
        sender_policies: args.sender_policy.clone(),
        receiver_policies: args.receiver_policy.clone(),
        frame: args
            .measure
            .request(if args.mechanisms.is_empty() { USUAL } else { USUAL_FOR_NAMED })?
            .watched(args.watch.why),
        depth: args.depth,
        verify: args.verify,
        blocks: args.blocks,
    })
}

/// The mechanisms given by name; else the usual ones, or all.
fn asked(args: &IpcArgs) -> Vec<&'static Mechanism> {
    chosen(&args.mechanisms).unwrap_or_else(|| ipc::mechanisms().filter(|m| args.all || m.usual).collect())
}

fn row(mechanism: &Mechanism) -> ListRow {
    let limit = (mechanism.largest)();
    let carries = limit.bytes.map_or("messages of any size".to_owned(), |bytes| format!("up to {bytes} bytes"));
    let raise = limit.remedy.map(|r| format!("; {r}")).unwrap_or_default();
    ListRow {
        name: mechanism.name.clone(),
        about: format!("{}. Carries {carries}, by {}{raise}", mechanism.about, limit.from),
        call: mechanism.call.clone(),
        kind: mechanism.kind.into(),
        needs: mechanism.needs.into(),
        unavailable: ipc::try_open(mechanism).err().map(|no| no.to_string()),
        observed: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_modes_and_places() {
        assert_eq!((size("8"), size("64k"), size("1M"), size("1G")), (Ok(8), Ok(65_536), Ok(1 << 20), Ok(1 << 30)));
        for bad in ["", "k", "-1", "7", "1.5k", "2G", "99999999999999999999", "64kB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert_eq!(mode("rate:10k/s"), Ok(ModeArg::Other(Mode::Rate { per_second: 10_000.0 })));
        assert_eq!(mode("rate:0.5/s"), Ok(ModeArg::Other(Mode::Rate { per_second: 0.5 })));
        for bad in ["rate:", "rate:5", "rate:0/s", "rate:nan/s", "rate:-1/s", "rate:1e9/s", "pingpong", ""] {
            assert!(mode(bad).is_err(), "{bad}");
        }
        assert_eq!(places("3,1"), Ok(Places::On(3, 1)));
        assert!(places("3").is_err() && places("a,b").is_err() && places("1,2,3").is_err());
        assert!(depth("0").is_err() && depth("x").is_err() && depth("10") == Ok(10));
    }
}
