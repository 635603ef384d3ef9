//! `punctual pace`: how evenly packets that are sent at a rate leave and arrive.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use punctual::Rate;
use punctual_lab::pace::{self, Goal, Mode, PacingMethod, Plan, Request, Target, Terms, methods, receive};
use punctual_record::{Experiment, Limit, Quantity};
use punctual_report::export::text::list::ListRow;

use super::cpu_lock;
use super::measure::{Perform, Planned, list, measure};
use crate::args::names::{Chosen, Item, Names, Shelf, chosen};
use crate::args::{MeasureArgs, WatchArgs, values};
use crate::exit::Exit;
use crate::refusal::BadUsage;

/// Options of `pace`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("where").required(true).args(["to", "tick_only", "receive", "list", "list-conditions"]))]
pub(crate) struct PaceArgs {
    /// Events per second (15k, 44100, 0.5, 1M)
    #[arg(long, value_name = "RATE", default_value = "1k", value_parser = rate, conflicts_with = "sweep")]
    pub(crate) rate: Rate,
    /// Find the highest rate that each method holds within 1 %, between two rates (1k..1M)
    #[arg(long, value_name = "FROM..TO", value_parser = sweep, conflicts_with = "why")]
    pub(crate) sweep: Option<(Rate, Rate)>,
    /// With --sweep: largest p99 lateness at which a rate counts as held
    #[arg(long, value_name = "DUR", default_value = "100us", value_parser = values::positive_duration, requires = "sweep")]
    pub(crate) within: Duration,
    /// Destination address and port ([::1]:9999, 127.0.0.1:9999)
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    pub(crate) to: Option<SocketAddr>,
    /// Send nothing; only record when the events would leave
    #[arg(long, conflicts_with_all = ["to", "receive", "size", "yes"])]
    pub(crate) tick_only: bool,
    /// Only receive, until Ctrl-C, --duration or --samples
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:9999", value_parser = address,
          conflicts_with_all = ["to", "by", "rate", "sweep", "size", "why"])]
    pub(crate) receive: Option<SocketAddr>,
    /// Datagram size in bytes, 48 to 65527
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = size)]
    pub(crate) size: usize,
    /// Pacing methods, see --list [default: all]
    #[arg(long, value_name = "METHOD", value_delimiter = ',', value_parser = Names(&WAYS_TO_PACE), hide_possible_values = true)]
    pub(crate) by: Vec<Chosen<PacingMethod>>,
    /// Jitter allowed to hybrid_batch: sets how many datagrams leave together
    #[arg(long, value_name = "DUR", default_value = "50us", value_parser = values::positive_duration)]
    pub(crate) jitter: Duration,
    /// Allow more than 10 million datagrams or 4 GB
    #[arg(long)]
    pub(crate) yes: bool,
    /// List the methods and their requirements; measure nothing
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
}

const EVENTS: &str = "expected a number of events per second above 0 (example: 0.5, 15k or 1M)";
const ADDRESS: &str = "expected an address and a port (example: 127.0.0.1:9999 or [::1]:9999)";

/// Parses a rate: a decimal number with an optional suffix k or M.
fn rate(text: &str) -> Result<Rate, String> {
    let (number, times) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => text.strip_suffix('M').map_or((text, 1.0), |number| (number, 1e6)),
    };
    if !number.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-') {
        return Err(EVENTS.into());
    }
    let number: f64 = number.parse().map_err(|_| EVENTS)?;
    Rate::hertz(number * times).map_err(|error| error.to_string())
}

/// Parses two rates with two dots between them.
fn sweep(text: &str) -> Result<(Rate, Rate), String> {
    let (from, to) = text.split_once("..").ok_or("expected a rate and a higher one (example: 1k..1M)")?;
    Ok((rate(from)?, rate(to)?))
}

/// Parses an address with a port; looks a name up.
fn address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| format!("{error}; {ADDRESS}"))?;
    found.next().ok_or_else(|| format!("the name has no address; {ADDRESS}"))
}

/// Largest payload of a UDP datagram: 65 535 bytes less the UDP header. The plan subtracts another 20 for IPv4.
const LARGEST: usize = 65_527;

/// Parses a datagram size; at least the header with number and times must fit.
fn size(text: &str) -> Result<usize, String> {
    values::integer(pace::HEADER, LARGEST, "64")(text)
}

/// Every way to pace.
static WAYS_TO_PACE: Shelf<PacingMethod> = Shelf {
    what: "way to pace",
    list: "punctual pace --list",
    all: || methods::all().collect(),
    item: |method| Item { name: method.name, about: method.about, kind: None },
    is_offered: |_| true,
};

/// Default measuring time of `pace`: 1 s per method.
const USUAL: Duration = Duration::from_secs(10);
/// The default for a sweep: about fifteen trials per method.
const USUAL_FOR_A_SWEEP: Duration = Duration::from_secs(20);

impl Perform for PaceArgs {
    /// Measures, receives or lists.
    fn perform(&self) -> anyhow::Result<Exit> {
        if self.list {
            let methods = chosen(&self.by).unwrap_or_else(|| methods::all().collect());
            return list(methods.into_iter().map(|method| row(method, self.jitter)), self.measure.output.color);
        }
        if let Some(address) = self.receive {
            self.measure.conditions.check()?;
            let socket = receive::listen(address)?;
            let amount = self.measure.amount.given();
            // A receiver waits in the kernel. Without --cpu it locks no CPU, so a sender may run on the same machine.
            let cpus =
                self.measure.conditions.cpus().as_ref().map(|cpus| cpu_lock::cpus(Some(cpus))).unwrap_or_default();
            return measure("pace", &self.measure.output, &cpus, |session| {
                let under = (&self.measure.conditions.base(), self.measure.conditions.require);
                receive::run(socket, amount, under, session).context("pace --receive")
            });
        }
        let plan = Plan::new(request(self)?).map_err(BadUsage::from)?;
        let cpus = cpu_lock::cpus(self.measure.conditions.cpus().as_ref());
        measure("pace", &self.watch.outputs(&self.measure.output), &cpus, |session| {
            pace::run(plan, session).context("pace")
        })
    }

    fn planned(&self) -> Option<(&[Limit], Vec<Planned>)> {
        let planned = match self.receive {
            Some(_) => vec![(pace::EXPERIMENT, receive::SUBJECT.into(), Quantity::PeriodJitter)],
            None => {
                let methods = chosen(&self.by).unwrap_or_else(|| methods::all().collect());
                let experiment = if self.sweep.is_some() { Experiment::SWEEP } else { pace::EXPERIMENT };
                methods.into_iter().map(|method| (experiment, method.name.into(), Quantity::Lateness)).collect()
            }
        };
        Some((&self.measure.output.fail_if, planned))
    }
}

fn request(args: &PaceArgs) -> anyhow::Result<Request> {
    let target = args.to.map_or(Target::TickOnly, |to| Target::Udp { to, size: args.size });
    let goal = match args.sweep {
        Some((from, to)) => Goal::Highest { from, to, within: args.within },
        None => Goal::Keep(args.rate),
    };
    Ok(Request {
        methods: chosen(&args.by).unwrap_or_else(|| methods::all().collect()),
        target,
        jitter: args.jitter,
        yes: args.yes,
        goal,
        frame: args
            .measure
            .request(if args.sweep.is_some() { USUAL_FOR_A_SWEEP } else { USUAL })?
            .watched(args.watch.why),
    })
}

fn row(method: &PacingMethod, jitter: Duration) -> ListRow {
    // Kernel pacing depends on the interface, which is unknown here.
    let depends = matches!(method.mode, Mode::KernelRate | Mode::KernelTime);
    let terms = Terms { disciplines: None, jitter };
    let refused = if depends { None } else { (method.open)(&terms).err() };
    ListRow {
        name: method.name.into(),
        about: method.about.into(),
        call: method.call.into(),
        needs: method.needs.into(),
        unavailable: refused.map(|no| no.to_string()),
        ..ListRow::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(rate("15k").unwrap(), Rate::per_second(15_000).unwrap());
        assert_eq!(rate("1.5M").unwrap(), Rate::per_second(1_500_000).unwrap());
        assert_eq!(rate("0.01").unwrap(), Rate::every(Duration::from_secs(100)).unwrap());
        for bad in ["", "k", "0", "-5", "1e400", "nan", "inf", "15x", "99999M", "1..2"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        assert!(sweep("1k..1M").is_ok());
        assert!(sweep("1k").is_err());
    }

    #[test]
    fn addresses() {
        assert!(address("127.0.0.1:9999").is_ok());
        assert!(address("[::1]:9999").is_ok());
        for bad in ["127.0.0.1", "127.0.0.1:99999", "", ":::", "::1:9999x"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
