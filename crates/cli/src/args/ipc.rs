//! `punctual ipc`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use punctual::conditions::Policy;
use punctual_lab::ipc::mechanism::{Mechanism, Receive};
use punctual_lab::ipc::place::Places;
use punctual_lab::ipc::{Mode, mechanisms};

use super::names::{Chosen, Item, Names, Shelf};
use super::{AmountArgs, ConditionArgs, OutputArgs, values};

/// How long a message takes between two processes.
///
/// Two real processes pass messages through each mechanism; the mechanisms take turns in rounds. The tables have the quickest on top.
#[derive(Debug, Args)]
pub(crate) struct IpcArgs {
    /// Mechanisms, by name or all of a kind (kind:socket); the usual ones when none is named, every one with --all (see --list)
    #[arg(value_name = "MECHANISM", value_parser = Names::<Mechanisms>::new(), hide_possible_values = true)]
    pub(crate) mechanisms: Vec<Chosen<Mechanism>>,
    /// Every mechanism that there is
    #[arg(long, conflicts_with = "mechanisms")]
    pub(crate) all: bool,
    /// Sizes of the messages (8, 64k, 1M); 64 where none is given, and 8 for mechanisms that carry no more
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size, allow_hyphen_values = true)]
    pub(crate) size: Vec<usize>,
    /// How they are sent: ping-pong (there and back, one at a time), saturated (as fast as they are taken), sporadic (one every
    /// --every), rate:N/s (by the clock, whether the last one was received or not)
    #[arg(long, value_name = "MODE", value_delimiter = ',', default_value = "ping-pong,saturated", value_parser = mode)]
    pub(crate) mode: Vec<ModeArg>,
    /// Time between sporadic messages
    #[arg(long, value_name = "DUR", default_value = "1s", value_parser = values::positive_duration)]
    pub(crate) every: Duration,
    /// Where the processes run: same (one CPU for both), different (one each), both of these side by side, or two CPUs as SENDER,RECEIVER
    #[arg(long, value_name = "CPUS", default_value = "both", value_parser = places, conflicts_with = "matrix")]
    pub(crate) cpus: Places,
    /// Every pair of CPUs, shown as a map
    #[arg(long)]
    pub(crate) matrix: bool,
    /// How the receiver waits: block (in the kernel), poll (it asks again and again), backoff (polls, then yields, then blocks);
    /// block where none is given, and poll where there is no other way
    #[arg(long, value_name = "HOW", value_delimiter = ',')]
    pub(crate) receive: Vec<ReceiveArg>,
    /// Messages that may be under way; the mechanism's own choice where not given
    #[arg(long, value_name = "N", value_parser = depth)]
    pub(crate) depth: Option<usize>,
    /// Check the whole contents of every message: always, never, or of messages up to 4 KiB
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "short", default_missing_value = "always")]
    pub(crate) verify: VerifyArg,
    /// Print a line with smallest, largest and mean latency per so many messages while the run goes on (100k)
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub(crate) blocks: Option<u64>,
    /// List the mechanisms, their limits and where these are set; measure nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Scheduling policy of the sender alone; several are put side by side
    #[arg(long, value_name = "POLICY", value_delimiter = ',', help_heading = "Conditions")]
    pub(crate) sender_policy: Vec<Policy>,
    /// Scheduling policy of the receiver alone; several are put side by side
    #[arg(long, value_name = "POLICY", value_delimiter = ',', help_heading = "Conditions")]
    pub(crate) receiver_policy: Vec<Policy>,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) amount: AmountArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A mode as typed; the interval of sporadic messages is another option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ModeArg {
    /// `sporadic`.
    Sporadic,
    /// Everything else.
    Other(Mode),
}

/// How the receiver waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReceiveArg {
    /// In the kernel.
    Block,
    /// Asks again and again.
    Poll,
    /// Asks, then yields, then blocks.
    Backoff,
}

impl From<ReceiveArg> for Receive {
    fn from(arg: ReceiveArg) -> Self {
        match arg {
            ReceiveArg::Block => Self::Block,
            ReceiveArg::Poll => Self::Poll,
            ReceiveArg::Backoff => Self::Backoff,
        }
    }
}

/// Which messages are checked as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyArg {
    /// Up to 4 KiB.
    Short,
    /// All.
    Always,
    /// None: number and time only.
    Never,
}

impl VerifyArg {
    /// As the plan has it.
    pub(crate) fn wanted(self) -> Option<bool> {
        match self {
            Self::Short => None,
            Self::Always => Some(true),
            Self::Never => Some(false),
        }
    }
}

/// Largest message that is accepted: a gigabyte, which takes half a second to copy.
const LARGEST: usize = 1 << 30;

fn size(text: &str) -> Result<usize, String> {
    let wanted =
        || format!("'{text}' is no size; a number of bytes from 8 to 1G is, such as 64, 16k or 1M (k is 1024)");
    let (digits, times) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(digits) => (digits, 1 << 20),
            None => text.strip_suffix('G').map_or((text, 1), |digits| (digits, 1 << 30)),
        },
    };
    let n: usize = digits.parse().map_err(|_| wanted())?;
    n.checked_mul(times).filter(|n| *n <= LARGEST).ok_or_else(wanted)
}

fn depth(text: &str) -> Result<usize, String> {
    values::integer(1, 1_000_000, "--depth 10")(text)
}

fn mode(text: &str) -> Result<ModeArg, String> {
    let wanted = || format!("'{text}' is no mode; ping-pong, saturated, sporadic and rate:N/s (rate:1000/s) are");
    match text {
        "sporadic" => Ok(ModeArg::Sporadic),
        "saturated" => Ok(ModeArg::Other(Mode::Saturated)),
        "ping-pong" => Ok(ModeArg::Other(Mode::PingPong)),
        _ => {
            let number = text.strip_prefix("rate:").and_then(|rate| rate.strip_suffix("/s")).ok_or_else(wanted)?;
            let per_second = match values::count(number) {
                Ok(n) => n as f64,
                Err(_) => number.parse::<f64>().map_err(|_| wanted())?,
            };
            let possible = per_second.is_finite() && (1.0 / 3600.0..=1e6).contains(&per_second);
            if possible {
                Ok(ModeArg::Other(Mode::Rate { per_second }))
            } else {
                Err("from one an hour to a million a second".into())
            }
        }
    }
}

fn places(text: &str) -> Result<Places, String> {
    let wanted = || format!("'{text}' is no place; same, different, both, or two CPUs as SENDER,RECEIVER (0,1) are");
    match text {
        "same" => Ok(Places::Same),
        "different" => Ok(Places::Different),
        "both" => Ok(Places::Both),
        _ => {
            let (sender, receiver) = text.split_once(',').ok_or_else(wanted)?;
            let cpu = |text: &str| text.trim().parse::<usize>().map_err(|_| wanted());
            Ok(Places::On(cpu(sender)?, cpu(receiver)?))
        }
    }
}

impl Item for Mechanism {
    fn name(&'static self) -> &'static str {
        &self.name
    }

    fn about(&'static self) -> &'static str {
        &self.about
    }

    fn kind(&'static self) -> Option<String> {
        Some(self.kind.name().replace(' ', "-"))
    }
}

/// Every mechanism.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mechanisms;

impl Shelf for Mechanisms {
    type Item = Mechanism;
    const WHAT: &'static str = "mechanism";
    const LIST: &'static str = "punctual ipc --list";

    fn all() -> impl Iterator<Item = &'static Mechanism> {
        mechanisms::all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_modes_and_places() {
        assert_eq!((size("8"), size("64k"), size("1M"), size("1G")), (Ok(8), Ok(65_536), Ok(1 << 20), Ok(1 << 30)));
        for bad in ["", "k", "-1", "1.5k", "2G", "99999999999999999999", "64kB"] {
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
