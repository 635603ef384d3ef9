//! `punctual pace`.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use clap::Args;
use punctual::Rate;
use punctual_lab::pace::way::Way;
use punctual_lab::pace::{packet, ways};

use super::names::{Chosen, Item, Names, Shelf};
use super::{AmountArgs, ConditionArgs, OutputArgs, values};

/// How evenly events leave and arrive when a program paces them.
///
/// Sends UDP datagrams at a rate by each method, in turns, and compares every departure with its ideal time. To the
/// loopback, starts its own receiver and measures arrivals too. Sends nowhere but to the address named.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("where").required(true).args(["to", "tick_only", "receive", "list"]))]
pub(crate) struct PaceArgs {
    /// Events a second (15k, 44100, 0.5, 1M)
    #[arg(long, value_name = "RATE", default_value = "1k", value_parser = rate, allow_hyphen_values = true, conflicts_with = "sweep")]
    pub(crate) rate: Rate,
    /// Find the highest rate that each method holds within 1 %, from one rate to another (1k..1M)
    #[arg(long, value_name = "FROM..TO", value_parser = sweep, allow_hyphen_values = true)]
    pub(crate) sweep: Option<(Rate, Rate)>,
    /// The 99th percentile of lateness that a rate must keep in a sweep to count as held
    #[arg(long, value_name = "DUR", default_value = "100us", value_parser = values::positive_duration)]
    pub(crate) within: Duration,
    /// Where to send: an address and a port ([::1]:9999, 127.0.0.1:9999)
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    pub(crate) to: Option<SocketAddr>,
    /// Send nothing: only take the times at which the events would leave
    #[arg(long, conflicts_with_all = ["to", "receive", "size", "yes"])]
    pub(crate) tick_only: bool,
    /// Only receive, until Ctrl-C or as long as --duration or --samples say
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:9999", value_parser = address,
          conflicts_with_all = ["to", "by", "rate", "sweep", "size"])]
    pub(crate) receive: Option<SocketAddr>,
    /// Bytes of each datagram
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = size)]
    pub(crate) size: usize,
    /// Methods of pacing; all of them when none is named (see --list)
    #[arg(long, value_name = "METHOD", value_delimiter = ',', value_parser = Names::<WaysToPace>::new(), hide_possible_values = true)]
    pub(crate) by: Vec<Chosen<Way>>,
    /// The jitter that hybrid_batch may bring: decides how many datagrams go out together
    #[arg(long, value_name = "DUR", default_value = "50us", value_parser = values::positive_duration)]
    pub(crate) jitter: Duration,
    /// Send even more than 10 million datagrams or 4 GB
    #[arg(long)]
    pub(crate) yes: bool,
    /// List the methods and what each needs; measure nothing
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) amount: AmountArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A rate: a number, with decimals or without, that may end in k or M.
fn rate(text: &str) -> Result<Rate, String> {
    let (number, times) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => text.strip_suffix('M').map_or((text, 1.0), |number| (number, 1e6)),
    };
    let wrong = || format!("'{text}' is no rate; a number of events a second above 0 is, such as 0.5, 15k or 1M");
    if !number.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-') {
        return Err(wrong());
    }
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Rate::hertz(number * times).map_err(|e| e.to_string())
}

/// Two rates with two dots between them.
fn sweep(text: &str) -> Result<(Rate, Rate), String> {
    let (from, to) = text.split_once("..").ok_or("a sweep goes from a rate to a higher one, as in 1k..1M")?;
    Ok((rate(from)?, rate(to)?))
}

/// An address with a port; a name is looked up.
fn address(text: &str) -> Result<SocketAddr, String> {
    let how = "an address and a port are needed, as in 127.0.0.1:9999 or [::1]:9999";
    match text.to_socket_addrs() {
        Ok(mut found) => found.next().ok_or_else(|| format!("'{text}' leads nowhere; {how}")),
        Err(e) => Err(format!("{e}; {how}")),
    }
}

/// Largest payload of a UDP datagram: 65 535 bytes less its own header; IPv4 takes another 20, which the plan knows.
const LARGEST: usize = 65_527;

/// The size of a datagram, which carries its number and times.
fn size(text: &str) -> Result<usize, String> {
    values::integer(packet::HEADER, LARGEST, "--size 64")(text)
}

impl Item for Way {
    fn name(&'static self) -> &'static str {
        self.name
    }

    fn about(&'static self) -> &'static str {
        self.about
    }
}

/// Every way to pace.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaysToPace;

impl Shelf for WaysToPace {
    type Item = Way;
    const WHAT: &'static str = "way to pace";
    const LIST: &'static str = "punctual pace --list";

    fn all() -> impl Iterator<Item = &'static Way> {
        ways::all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(rate("15k"), Ok(Rate::per_second(15_000).unwrap()));
        assert_eq!(rate("1.5M"), Ok(Rate::per_second(1_500_000).unwrap()));
        assert_eq!(rate("0.01"), Ok(Rate::every(Duration::from_secs(100)).unwrap()));
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
