//! The ways to pace that leave the waits to others: the library's pacer with each of its strategies, and the kernel's queueing
//! discipline, if the interface has one that paces.

use punctual::rate::Grid;
use punctual::{Moment, Pacer, Rate, SleeperOptions, Strategy};
use punctual_linux as linux;
use punctual_linux::clock::Clock;
use punctual_linux::sleep::clock_nanosleep_until;

use crate::families::pace::plan::{MOST_AHEAD_NS, PacingMethod, PacingSession, Terms};
use crate::families::pace::wire::Mode;
use crate::frame::Unavailable;
use crate::frame::progress::go_on;
use punctual_record::{Ask, Hint};

pub(super) static METHODS: &[PacingMethod] = &[
    PacingMethod {
        name: "compensated",
        about: "the library's pacer; sleeps end sooner by the typical wake-up latency",
        call: "Pacer::options(rate).sleeper(SleeperOptions::new().strategy(Strategy::Compensated)).build()",
        needs: "",
        mode: Mode::Single,
        open: |_: &Terms| open_pacer(Strategy::Compensated, None),
    },
    PacingMethod {
        name: "hybrid",
        about: "the library's pacer: sleeps until a learned margin before each event, then spins",
        call: "Pacer::new(rate)",
        needs: "",
        mode: Mode::Single,
        open: |_: &Terms| open_pacer(Strategy::Hybrid, None),
    },
    PacingMethod {
        name: "hybrid_batch",
        about: "the same in batches as large as the jitter allows, each sent by one sendmmsg",
        call: "Pacer::options(rate).jitter(jitter).build()",
        needs: "",
        mode: Mode::Batch,
        open: |terms: &Terms| open_pacer(Strategy::Hybrid, Some(terms.jitter)),
    },
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

struct Paced {
    pacer: Pacer,
}

fn open_pacer(strategy: Strategy, jitter: Option<std::time::Duration>) -> Result<Box<dyn PacingSession>, Unavailable> {
    let any = Rate::per_second(1_000).map_err(|e| Unavailable { why: e.to_string(), remedy: None })?;
    let options = Pacer::options(any).sleeper(SleeperOptions::new().strategy(strategy));
    let options = match jitter {
        Some(jitter) => options.jitter(jitter),
        None => options,
    };
    Ok(Box::new(Paced { pacer: options.build() }))
}

impl PacingSession for Paced {
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()> {
        self.pacer.restart(start, rate);
        Ok(())
    }

    fn next(&mut self) -> linux::Result<u64> {
        match self.pacer.next_unless(linux::stop::requested) {
            // At high rates there is no sleep that would notice the request.
            Some(batch) if !linux::stop::requested() => Ok(batch.count),
            _ => Err(linux::Error::from_errno("pace", linux::EINTR)),
        }
    }

    fn end(&mut self) {
        self.pacer.restore_timer_slack();
    }
}

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
        return Err(Unavailable { why, remedy: Some(Ask::Address.into()) });
    };
    if found.iter().any(|kind| wanted.contains(&kind.as_str())) {
        return Ok(());
    }
    Err(Unavailable {
        why: format!("the interface has {}, not {}", found.first().map_or("no discipline", |k| k), wanted.join(" or ")),
        remedy: Some(Hint::from(format!(
            "tc qdisc replace dev INTERFACE root {} (as root; needs the module sch_{})",
            wanted[0], wanted[0]
        ))),
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
