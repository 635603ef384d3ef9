//! The plan of `pace`: what is sent where, how fast and by which ways, checked before anything is touched.

use std::net::SocketAddr;
use std::time::Duration;

use punctual::conditions::Conditions;
use punctual::{Rate, format_duration};

use super::packet::HEADER;
use super::way::Way;
use crate::schedule::{Amount, CellCost, Schedule};
use crate::variant::Variant;

/// Most events that are sent without a word: some minutes at a rate that one CPU can send.
pub const MOST_UNASKED: u64 = 10_000_000;
/// Most bytes that are sent without a word: 4 GB.
pub const MOST_BYTES_UNASKED: u64 = 4_000_000_000;
/// Longest run that is begun at all: a day.
const LONGEST: Duration = Duration::from_secs(86_400);
/// Largest payload of a UDP datagram over IPv4 (65535 less 20 and 8 of headers), and over IPv6 (less 8).
const LARGEST_V4: usize = 65_507;
const LARGEST_V6: usize = 65_527;

/// Where events go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Nowhere: only the times are taken.
    TickOnly,
    /// As UDP datagrams of so many bytes.
    Udp {
        /// To this address.
        to: SocketAddr,
        /// Bytes of payload.
        size: usize,
    },
}

/// What a plan is made from.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The ways to pace.
    pub ways: Vec<&'static Way>,
    /// Where to.
    pub target: Target,
    /// Conditions put side by side.
    pub variants: Vec<Variant>,
    /// Conditions that hold throughout.
    pub base: Conditions,
    /// How much.
    pub amount: Amount,
    /// In how many rounds.
    pub rounds: u32,
    /// A refused condition is an error.
    pub require: bool,
    /// The jitter that batches may bring.
    pub jitter: Duration,
    /// Many datagrams are meant.
    pub yes: bool,
    /// What is looked for.
    pub goal: Goal,
}

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// How well each way keeps one rate.
    Keep(Rate),
    /// The highest rate that each way holds.
    Highest {
        /// From here on.
        from: Rate,
        /// Up to here.
        to: Rate,
        /// With a 99th percentile of lateness up to this.
        within: Duration,
    },
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) wanted: Wanted,
    /// Index of way, index of variant.
    pub(super) cells: Vec<(usize, usize)>,
}

/// Why a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Too small for what a datagram says of itself.
    #[error("--size {0} is too small: a datagram carries its number and times in {HEADER} bytes")]
    TooSmall(usize),
    /// More than a datagram takes.
    #[error("--size {size} is too large: a UDP datagram over {protocol} takes {most} bytes")]
    TooLarge {
        /// What was asked.
        size: usize,
        /// `IPv4` or `IPv6`.
        protocol: &'static str,
        /// What is possible.
        most: usize,
    },
    /// Port 0.
    #[error("--to {0}: port 0 is no port to send to; 1 to 65535 are")]
    NoPort(SocketAddr),
    /// One datagram to many machines.
    #[error("--to {0} reaches many machines at once; this sends to one only")]
    ToMany(SocketAddr),
    /// Many datagrams.
    #[error("{events} datagrams ({bytes} MB) are a lot; say --yes if they are meant, or lower --rate or --duration")]
    Many {
        /// How many.
        events: u64,
        /// Megabytes.
        bytes: u64,
    },
    /// Too long.
    #[error("{events} events would take {}; the longest run is a day: raise --rate or lower --samples", format_duration(*.would_take))]
    TooLong {
        /// How many.
        events: u64,
        /// How long.
        would_take: Duration,
    },
    /// A range from high to low.
    #[error("--sweep goes from a lower rate to a higher one, as in 1k..1M")]
    EmptySweep,
    /// Nothing to measure.
    #[error("{0} must be at least 1")]
    None(&'static str),
}

impl Plan {
    /// Checks what is wanted.
    pub fn new(wanted: Wanted) -> Result<Self, PlanError> {
        if let Target::Udp { to, size } = wanted.target {
            check_target(to, size)?;
        }
        if wanted.rounds == 0 {
            return Err(PlanError::None("--rounds"));
        }
        if wanted.amount == Amount::Samples(0) {
            return Err(PlanError::None("--samples"));
        }
        if let Goal::Highest { from, to, .. } = wanted.goal
            && from.per_second_f64() >= to.per_second_f64()
        {
            return Err(PlanError::EmptySweep);
        }
        let variants = wanted.variants.len();
        let cells: Vec<_> = (0..variants).flat_map(|v| (0..wanted.ways.len()).map(move |w| (w, v))).collect();
        let plan = Self { wanted, cells };
        plan.check_amount()?;
        Ok(plan)
    }

    /// The highest rate asked of anybody.
    fn highest(&self) -> f64 {
        match self.wanted.goal {
            Goal::Keep(rate) => rate.per_second_f64(),
            // Half of the trials are below the middle of the range, most of the others fail early.
            Goal::Highest { to, .. } => to.per_second_f64() / 4.0,
        }
    }

    fn check_amount(&self) -> Result<(), PlanError> {
        let events = match self.wanted.amount {
            Amount::Samples(n) => n.saturating_mul(self.cells.len() as u64),
            Amount::Time(time) => (time.as_secs_f64() * self.highest()) as u64,
        };
        let would_take = Duration::try_from_secs_f64(events as f64 / self.highest()).unwrap_or(Duration::MAX);
        if would_take > LONGEST {
            return Err(PlanError::TooLong { events, would_take: Duration::from_secs(would_take.as_secs()) });
        }
        let Target::Udp { size, .. } = self.wanted.target else { return Ok(()) };
        let bytes = events.saturating_mul(size as u64);
        if !self.wanted.yes && (events > MOST_UNASKED || bytes > MOST_BYTES_UNASKED) {
            return Err(PlanError::Many { events, bytes: bytes / 1_000_000 });
        }
        Ok(())
    }

    /// The schedule at a rate.
    pub(super) fn place(&self) -> crate::Place {
        let real_time = self.wanted.variants.iter().any(crate::Variant::is_real_time);
        crate::Place::on(self.wanted.base.cpus.as_ref(), real_time)
    }

    pub(super) fn schedule(&self, rate: Rate) -> Schedule {
        let each = 1e9 / rate.per_second_f64();
        let cost = CellCost { ideal_ns: each, expected_ns: each };
        Schedule::new(self.wanted.amount, self.wanted.rounds, &vec![cost; self.cells.len()])
    }

    /// The ways, in the order asked.
    #[must_use]
    pub fn ways(&self) -> &[&'static Way] {
        &self.wanted.ways
    }
}

fn check_target(to: SocketAddr, size: usize) -> Result<(), PlanError> {
    if to.port() == 0 {
        return Err(PlanError::NoPort(to));
    }
    let broadcast = matches!(to, SocketAddr::V4(v4) if v4.ip().is_broadcast());
    if to.ip().is_multicast() || broadcast {
        return Err(PlanError::ToMany(to));
    }
    if size < HEADER {
        return Err(PlanError::TooSmall(size));
    }
    let (protocol, most) = if to.is_ipv4() { ("IPv4", LARGEST_V4) } else { ("IPv6", LARGEST_V6) };
    if size > most { Err(PlanError::TooLarge { size, protocol, most }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::ways;

    fn wanted() -> Wanted {
        Wanted {
            ways: ways::all().collect(),
            target: Target::Udp { to: "127.0.0.1:9999".parse().unwrap(), size: 64 },
            variants: vec![Variant::as_found()],
            base: Conditions::default(),
            amount: Amount::Time(Duration::from_secs(5)),
            rounds: 10,
            require: false,
            jitter: Duration::from_micros(50),
            yes: false,
            goal: Goal::Keep(Rate::per_second(15_000).unwrap()),
        }
    }

    fn refused(change: impl FnOnce(&mut Wanted)) -> String {
        let mut wanted = wanted();
        change(&mut wanted);
        Plan::new(wanted).unwrap_err().to_string()
    }

    fn to(address: &str, size: usize) -> Target {
        Target::Udp { to: address.parse().unwrap(), size }
    }

    #[test]
    fn what_makes_sense_is_planned() {
        assert_eq!(Plan::new(wanted()).unwrap().cells.len(), ways::all().count());
    }

    #[test]
    fn what_makes_none_is_refused_with_what_would() {
        let rate = |n| Rate::per_second(n).unwrap();
        for (refusal, says) in [
            (refused(|w| w.target = to("127.0.0.1:9", 47)), "48 bytes"),
            (refused(|w| w.target = to("127.0.0.1:9", 65_508)), "65507"),
            (refused(|w| w.target = to("[::1]:9", 65_528)), "65527"),
            (refused(|w| w.target = to("127.0.0.1:0", 64)), "port 0"),
            (refused(|w| w.target = to("224.0.0.1:9", 64)), "many machines"),
            (refused(|w| w.target = to("255.255.255.255:9", 64)), "many machines"),
            (refused(|w| w.rounds = 0), "--rounds"),
            (refused(|w| w.amount = Amount::Samples(0)), "--samples"),
            (refused(|w| w.goal = Goal::Keep(rate(10_000_000))), "--yes"),
            (refused(|w| w.amount = Amount::Samples(u64::MAX)), "longest run"),
            (
                refused(|w| w.goal = Goal::Highest { from: rate(10), to: rate(5), within: Duration::from_micros(100) }),
                "1k..1M",
            ),
        ] {
            assert!(refusal.contains(says), "{refusal}");
        }
    }

    #[test]
    fn many_are_sent_when_they_are_meant() {
        let goal = Goal::Keep(Rate::per_second(10_000_000).unwrap());
        assert!(Plan::new(Wanted { goal, yes: true, ..wanted() }).is_ok());
        assert!(Plan::new(Wanted { goal, target: Target::TickOnly, ..wanted() }).is_ok());
    }
}
