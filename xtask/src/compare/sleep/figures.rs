//! The figures of a peer: those of one turn, and of all.

use super::oracle::{self, WakeUp};
use super::place::Place;
use crate::compare::percentile::percentile;

/// Durations in ns.
pub(super) const ASKED_NS: [i64; 4] = [20_000, 100_000, 1_000_000, 10_000_000];
/// The lateness from which a wait counts as late.
const LATE_NS: i64 = 1_000;

/// All turns of one peer, duration and place.
#[derive(Debug, Default, Clone)]
pub(super) struct Tally {
    pub(super) lateness: Vec<f64>,
    pub(super) by_itself: Vec<f64>,
    pub(super) cpu_ns: i64,
    pub(super) elapsed_ns: i64,
    pub(super) wake_ups: Vec<WakeUp>,
}

/// The figures of one turn.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TurnFigures {
    pub(super) p50: f64,
    /// The same by the peer's own last clock reading, if known.
    pub(super) p50_by_itself: f64,
    pub(super) p99: f64,
    pub(super) cpu_share: f64,
}

/// The figures of a tally.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    pub(super) peer: &'static str,
    pub(super) asked_ns: i64,
    pub(super) place: Place,
    pub(super) waits: usize,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: Option<f64>,
    pub(super) late: f64,
    pub(super) cpu_share: f64,
    pub(super) oracle_share: Option<f64>,
}

impl Figures {
    pub(super) fn of(peer: &'static str, asked_ns: i64, place: Place, tally: &mut Tally) -> Self {
        tally.lateness.sort_by(f64::total_cmp);
        let waits = tally.lateness.len();
        let late = tally.lateness.iter().filter(|&&ns| ns > LATE_NS as f64).count() as f64 / waits.max(1) as f64;
        let oracle_share = oracle::cpu_ns(&tally.wake_ups, tally.cpu_ns as f64 / waits.max(1) as f64, LATE_NS)
            .filter(|_| tally.wake_ups.len() == waits)
            .map(|ns| ns * waits as f64 / tally.elapsed_ns as f64);
        Self {
            peer,
            asked_ns,
            place,
            waits,
            p50: percentile(&tally.lateness, 0.5),
            p99: percentile(&tally.lateness, 0.99),
            // A percentile needs at least ten samples above it.
            p999: (waits >= 10_000).then(|| percentile(&tally.lateness, 0.999)),
            late,
            cpu_share: tally.cpu_ns as f64 / tally.elapsed_ns.max(1) as f64,
            oracle_share,
        }
    }
}

/// Microseconds with three significant digits.
pub(super) fn us(ns: f64) -> String {
    let us = ns / 1e3;
    let decimals = if us.abs() < 10.0 { 2 } else { usize::from(us.abs() < 100.0) };
    format!("{us:.decimals$}")
}
