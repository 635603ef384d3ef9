//! Pacing by the kernel's queueing discipline, if the interface has one that paces.

use punctual::rate::Grid;
use punctual::{Moment, Rate};
use punctual_linux as linux;
use punctual_linux::clock::Clock;
use punctual_linux::sleep::clock_nanosleep_until;

use crate::families::pace::method::{MOST_AHEAD_NS, Mode, PacingMethod, PacingSession, Terms};
use crate::frame::Unavailable;
use crate::frame::progress::go_on;

pub(super) static METHODS: &[PacingMethod] = &[
    PacingMethod {
        name: "so_max_pacing_rate",
        about: "hands everything to the kernel, which lets it leave at the rate",
        call: "setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_second, 8); send();",
        needs: "the queueing discipline fq; above its low_rate_threshold (550 kbit/s) fq spaces bursts of its quantum, not datagrams",
        mode: Mode::KernelRate,
        open: |terms: &Terms| {
            paced_by(terms, &["fq"])?;
            Ok(Box::new(AtOnce))
        },
    },
    PacingMethod {
        name: "so_txtime",
        about: "hands each datagram over up to 5 ms ahead, with the time to leave at",
        call: "setsockopt(fd, SOL_SOCKET, SO_TXTIME, &clock, 8); sendmsg() with SCM_TXTIME;",
        needs: "the queueing discipline fq or etf",
        mode: Mode::KernelTime,
        open: |terms: &Terms| {
            paced_by(terms, &["fq", "etf"])?;
            Ok(Box::new(Ahead { grid: None, ahead_ns: 0 }))
        },
    },
];

/// Most datagrams handed over in advance: fq drops datagrams beyond 100 of one flow (`flow_limit`, tc-fq(8)).
const AHEAD: i64 = 50;

/// Lead of datagrams over their departure, at a period. It is well above a wake-up latency: etf drops a late
/// datagram.
fn ahead_ns(period_ns: i64) -> i64 {
    period_ns.saturating_mul(AHEAD).min(MOST_AHEAD_NS)
}

fn paced_by(terms: &Terms, wanted: &[&str]) -> Result<(), Unavailable> {
    let Some(found) = &terms.disciplines else {
        let why = "nothing is sent, so the kernel has nothing to pace".to_owned();
        return Err(Unavailable { why, remedy: Some("send datagrams to an address".into()) });
    };
    if found.iter().any(|kind| wanted.contains(&kind.as_str())) {
        return Ok(());
    }
    Err(Unavailable {
        why: format!("the interface has {}, not {}", found.first().map_or("no discipline", |k| k), wanted.join(" or ")),
        remedy: Some(format!(
            "tc qdisc replace dev INTERFACE root {} (as root; needs the module sch_{})",
            wanted[0], wanted[0]
        )),
    })
}

/// Everything is due: the socket's buffer limits the sender.
struct AtOnce;

impl PacingSession for AtOnce {
    fn begin(&mut self, start: Moment, _: Rate) -> linux::Result<()> {
        clock_nanosleep_until(Clock::Monotonic, start.as_nanos()).map(drop)
    }

    fn next(&mut self) -> linux::Result<u64> {
        go_on("pace").map(|()| 1)
    }
}

struct Ahead {
    grid: Option<Grid>,
    ahead_ns: i64,
}

impl PacingSession for Ahead {
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()> {
        self.grid = Some(Grid::new(rate, start));
        self.ahead_ns = ahead_ns(rate.time_of(1));
        Ok(())
    }

    fn next(&mut self) -> linux::Result<u64> {
        if let Some(grid) = &mut self.grid {
            let early = grid.next().plus_nanos(-self.ahead_ns);
            grid.advance();
            let _ = clock_nanosleep_until(Clock::Monotonic, early.as_nanos())?;
        }
        go_on("pace").map(|()| 1)
    }
}
