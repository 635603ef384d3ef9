//! The plan of `pace`: target, rate and methods, validated before anything is changed. A [`PacingMethod`] is one small value;
//! it opens a [`PacingSession`].

use std::net::SocketAddr;
use std::time::Duration;

use punctual::{Moment, Rate, format_duration};
use punctual_linux as linux;
use punctual_linux::clock::Clock;
use punctual_record::Experiment;

use super::datagrams::{HEADER, Mode};
use crate::frame::{self, Amount, CellCost, CellId, Input, MethodCell, PlanError, Schedule, Unavailable};

/// Most events without explicit consent: some minutes at a rate that one CPU can send.
const MOST_UNASKED: u64 = 10_000_000;
/// Most bytes sent without explicit consent: 4 GB.
const MOST_BYTES_UNASKED: u64 = 4_000_000_000;
/// Longest run that is allowed: a day.
const LONGEST: Duration = Duration::from_secs(86_400);
/// Largest payload of a UDP datagram over IPv4 (65535 less 20 and 8 of headers), and over IPv6 (less 8).
const LARGEST_V4: usize = 65_507;
const LARGEST_V6: usize = 65_527;

/// The target of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// None: only the times are measured.
    TickOnly,
    /// UDP datagrams of this size.
    Udp {
        /// The destination address.
        to: SocketAddr,
        /// Bytes of payload.
        size: usize,
    },
}

impl Target {
    /// Destination and size, for the record.
    pub(super) fn for_record(self) -> (Option<String>, Option<u64>) {
        match self {
            Self::TickOnly => (Some("tick-only".into()), None),
            Self::Udp { to, size } => (Some(format!("udp {to}")), Some(size as u64)),
        }
    }
}

/// The request for a plan.
#[derive(Debug, Clone)]
pub struct Request {
    /// The ways to pace.
    pub methods: Vec<&'static PacingMethod>,
    /// The target.
    pub target: Target,
    /// The jitter allowed for batches.
    pub jitter: Duration,
    /// Explicit consent to many datagrams.
    pub yes: bool,
    /// The goal.
    pub goal: Goal,
    /// Conditions and amounts.
    pub frame: frame::Request,
}

/// The goal of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// The accuracy of each method at one rate.
    Keep(Rate),
    /// The highest rate that each method holds.
    Highest {
        /// Lowest rate.
        from: Rate,
        /// Highest rate.
        to: Rate,
        /// Limit on the 99th percentile of lateness.
        within: Duration,
    },
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) asked: Request,
    pub(super) cells: Vec<MethodCell>,
}

impl Plan {
    /// Checks the request.
    pub fn new(request: Request) -> Result<Self, PlanError> {
        if let Target::Udp { to, size } = request.target {
            check_target(to, size)?;
        }
        request.frame.check()?;
        if let Goal::Highest { from, to, .. } = request.goal {
            let why = || "must go from a lower rate to a higher one (example: 1k..1M)".to_owned();
            Input::Sweep.check(from.per_second_f64() < to.per_second_f64(), why)?;
        }
        let cells = request.frame.each_of(request.methods.len());
        let plan = Self { asked: request, cells };
        plan.check_amount()?;
        Ok(plan)
    }

    /// The subject and parameters of a cell.
    pub(super) fn identity(&self, cell: usize, experiment: Experiment) -> CellId {
        let method = self.asked.methods[self.cells[cell].method];
        CellId::of_call(method.name, method.call, experiment)
    }

    /// The highest rate requested of any method.
    fn highest(&self) -> f64 {
        match self.asked.goal {
            Goal::Keep(rate) => rate.per_second_f64(),
            // Half of the trials are below the middle of the range. Most of the others fail early.
            Goal::Highest { to, .. } => to.per_second_f64() / 4.0,
        }
    }

    fn check_amount(&self) -> Result<(), PlanError> {
        let events = match self.asked.frame.amount {
            Amount::Samples(n) => n.saturating_mul(self.cells.len() as u64),
            Amount::Time(time) => (time.as_secs_f64() * self.highest()) as u64,
        };
        let would_take = Duration::try_from_secs_f64(events as f64 / self.highest()).unwrap_or(Duration::MAX);
        Input::Samples.check(would_take <= LONGEST, || {
            let would_take = format_duration(Duration::from_secs(would_take.as_secs()));
            format!("{events} events would take {would_take}, longest 24h; ask for a higher rate or fewer samples")
        })?;
        let Target::Udp { size, .. } = self.asked.target else { return Ok(()) };
        let bytes = events.saturating_mul(size as u64);
        Input::Datagrams.check(self.asked.yes || (events <= MOST_UNASKED && bytes <= MOST_BYTES_UNASKED), || {
            let megabytes = bytes / 1_000_000;
            format!(
                "{events} datagrams ({megabytes} MB) are a lot; confirm that they are meant, \
                 or ask for a lower rate or less time"
            )
        })
    }

    /// The schedule at a rate.
    pub(super) fn schedule(&self, rate: Rate) -> Schedule {
        let each = 1e9 / rate.per_second_f64();
        let cost = CellCost::exactly(each);
        Schedule::new(self.asked.frame.amount, self.asked.frame.rounds, vec![cost; self.cells.len()])
    }
}

fn check_target(to: SocketAddr, size: usize) -> Result<(), PlanError> {
    Input::Target.check(to.port() != 0, || format!("must have a port from 1 to 65535, not {to}"))?;
    let many = to.ip().is_multicast() || matches!(to, SocketAddr::V4(v4) if v4.ip().is_broadcast());
    Input::Target.check(!many, || format!("must be one machine; {to} reaches many machines at once"))?;
    let (protocol, most) = if to.is_ipv4() { ("IPv4", LARGEST_V4) } else { ("IPv6", LARGEST_V6) };
    Input::Size.check((HEADER..=most).contains(&size), || {
        format!(
            "must be {HEADER} to {most} bytes, not {size}: a datagram carries its number and times in {HEADER} bytes, \
             and UDP over {protocol} takes {most}"
        )
    })
}

/// A method of pacing events at a rate.
#[derive(Debug, Clone, Copy)]
pub struct PacingMethod {
    /// Its name on the command line and in the record.
    pub name: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    /// The call as a programmer writes it.
    pub call: &'static str,
    /// Its requirements, in a few words, or empty.
    pub needs: &'static str,
    /// The way in which its events are sent.
    pub mode: Mode,
    /// Opens it on the thread that will pace.
    pub open: fn(&Terms) -> Result<Box<dyn PacingSession>, Unavailable>,
}

/// Longest lead of a datagram handed to the kernel over its departure.
pub(super) const MOST_AHEAD_NS: i64 = 5_000_000;

/// The parameters for opening a method.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The queueing disciplines of the interface, the root's first. None: nothing is sent.
    pub disciplines: Option<Vec<String>>,
    /// The jitter allowed for batches.
    pub jitter: std::time::Duration,
}

impl Terms {
    /// The clock of departure times: etf supports CLOCK_TAI only, fq the monotonic one (tc-etf(8),
    /// net/sched/sch_fq.c).
    pub(super) fn clock(&self) -> Clock {
        let has = |kind: &str| self.disciplines.iter().flatten().any(|discipline| discipline == kind);
        if has("etf") && !has("fq") { Clock::Tai } else { Clock::Monotonic }
    }
}

/// An opened method: waits until events are due.
pub trait PacingSession {
    /// Starts over: event n is due n periods after `start`.
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()>;

    /// Waits until the next events are due, and returns their number, at least one. Fails with EINTR if the process
    /// wants to stop.
    fn next(&mut self) -> linux::Result<u64>;

    /// Restores after a batch what the session changed of the thread.
    fn end(&mut self) {}
}

#[cfg(test)]
mod tests {
    use crate::families::pace::methods;

    use super::*;

    fn request() -> Request {
        Request {
            methods: methods::all().collect(),
            target: Target::Udp { to: "127.0.0.1:9999".parse().unwrap(), size: 64 },
            jitter: Duration::from_micros(50),
            yes: false,
            goal: Goal::Keep(Rate::per_second(15_000).unwrap()),
            frame: frame::Request::as_found(Amount::Time(Duration::from_secs(5)), 10),
        }
    }

    fn refused(change: impl FnOnce(&mut Request)) -> String {
        let mut request = request();
        change(&mut request);
        Plan::new(request).unwrap_err().to_string()
    }

    fn to(address: &str, size: usize) -> Target {
        Target::Udp { to: address.parse().unwrap(), size }
    }

    #[test]
    fn what_makes_sense_is_planned() {
        assert_eq!(Plan::new(request()).unwrap().cells.len(), methods::all().count());
    }

    #[test]
    fn what_makes_none_is_refused_with_what_would() {
        let rate = |n| Rate::per_second(n).unwrap();
        for (refusal, says) in [
            (refused(|w| w.target = to("127.0.0.1:9", 47)), "48 bytes"),
            (refused(|w| w.target = to("127.0.0.1:9", 65_508)), "65507"),
            (refused(|w| w.target = to("[::1]:9", 65_528)), "65527"),
            (refused(|w| w.target = to("127.0.0.1:0", 64)), "a port from 1"),
            (refused(|w| w.target = to("224.0.0.1:9", 64)), "many machines"),
            (refused(|w| w.target = to("255.255.255.255:9", 64)), "many machines"),
            (refused(|w| w.frame.rounds = 0), "number of rounds"),
            (refused(|w| w.frame.amount = Amount::Samples(0)), "number of samples"),
            (refused(|w| w.goal = Goal::Keep(rate(10_000_000))), "confirm"),
            (refused(|w| w.frame.amount = Amount::Samples(u64::MAX)), "longest 24h"),
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
        assert!(Plan::new(Request { goal, yes: true, ..request() }).is_ok());
        assert!(Plan::new(Request { goal, target: Target::TickOnly, ..request() }).is_ok());
    }
}
