//! The claims about the hybrid sleeper against spin_sleep, checked turn by turn.
//!
//! Each turn of the hybrid is compared with those of spin_sleep in the same round. The median of the rounds' ratios counts. A hypervisor
//! that takes the CPU in some rounds spoils those, not the median.

use std::fmt;

use super::figures::{ASKED_NS, TurnFigures, us};
use super::peers::PEERS;
use crate::compare::pairs::Pairs;

const HYBRID: &str = "punctual hybrid";
const PEER: &str = "spin_sleep";
/// Durations with claims. At 20 µs all spin, and at 10 ms a turn has too few waits for a 99th percentile.
const CLAIMED_NS: [i64; 2] = [ASKED_NS[1], ASKED_NS[2]];
/// Largest median lateness of the hybrid by its own clock reading: the figures of the tables include two more readings.
const P50_NS: f64 = 100.0;
/// Largest CPU time, as a share of the peer's.
const CPU: f64 = 0.5;

/// Against one of spin_sleep's strategies, for one duration.
#[derive(Debug, Clone, Default)]
struct Beside {
    p50: Pairs,
    by_itself: Pairs,
    p99: Pairs,
    cpu: Pairs,
}

/// All rounds in one place: per claimed duration, against each of spin_sleep's strategies.
#[derive(Debug, Default)]
pub(super) struct Claims(Vec<(i64, &'static str, Beside)>);

impl Claims {
    /// Adds a round: one turn per peer.
    pub(super) fn take(&mut self, asked_ns: i64, turns: &[TurnFigures; PEERS.len()]) {
        let Some(hybrid) =
            PEERS.iter().position(|(name, _)| *name == HYBRID).filter(|_| CLAIMED_NS.contains(&asked_ns))
        else {
            return;
        };
        for ((name, _), theirs) in PEERS.iter().zip(turns).filter(|((name, _), _)| name.starts_with(PEER)) {
            let place = self.0.iter().position(|(asked, peer, _)| (*asked, *peer) == (asked_ns, *name));
            let place = place.unwrap_or_else(|| {
                self.0.push((asked_ns, name, Beside::default()));
                self.0.len() - 1
            });
            let (beside, ours) = (&mut self.0[place].2, turns[hybrid]);
            beside.p50.push(ours.p50, theirs.p50);
            beside.by_itself.push(ours.p50_by_itself, theirs.p50_by_itself);
            beside.p99.push(ours.p99, theirs.p99);
            beside.cpu.push(ours.cpu_share, theirs.cpu_share);
        }
    }
}

impl fmt::Display for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "The middle turn of hybrid and its peer, and the middle of the rounds' ratios with its 95 % interval:\n"
        )?;
        writeln!(f, "| wait | beside | p50 µs | p99 µs | p99, ratio | no later? | CPU, ratio | at most half? |")?;
        writeln!(f, "|---|---|---:|---:|---:|---|---:|---|")?;
        for (asked_ns, peer, beside) in &self.0 {
            let both = |pairs: &Pairs| format!("{} : {}", us(pairs.ours()), us(pairs.theirs()));
            let end = |end| format!("{end:.2}");
            let (p99, cpu) = (beside.p99.ratio(), beside.cpu.ratio());
            writeln!(
                f,
                "| {} µs | {peer} | {} | {} | {:.2} ({}) | {} | {:.2} ({}) | {} |",
                asked_ns / 1_000,
                both(&beside.p50),
                both(&beside.p99),
                p99.value,
                p99.interval(end),
                p99.is_within(0.0..=1.0),
                cpu.value,
                cpu.interval(end),
                cpu.is_within(0.0..=CPU),
            )?;
        }
        let late: Vec<String> = CLAIMED_NS
            .iter()
            .filter_map(|asked| {
                let (_, _, beside) = self.0.iter().find(|(a, _, _)| a == asked)?;
                let middle = beside.by_itself.our_middle();
                let verdict = middle.is_within(0.0..=P50_NS);
                let interval = middle.interval(|end| format!("{end:.0}"));
                Some(format!("{} µs: {verdict}, {:.0} ns ({interval})", asked / 1_000, middle.value))
            })
            .collect();
        write!(f, "\nHybrid's p50 at most {P50_NS} ns by its own last reading of the clock: {}.", late.join("; "))
    }
}
