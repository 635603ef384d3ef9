//! The plan of `ipc`: what is measured, decided and checked before anything is touched.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::conditions::{Conditions, Policy};
use punctual::format_duration;

use super::mechanism::{Mechanism, Receive};
use super::message::SHORTEST;
use super::place::{NoPlace, Place, Places};
use super::topology::{Relation, Topology};
use super::traffic::Mode;
use crate::schedule::{Amount, CellCost, Schedule};
use crate::variant::Variant;
use crate::wait::plan::rough;

/// Longest run that is begun without a word: ten minutes.
const LONGEST_UNASKED: Duration = Duration::from_secs(600);
/// Up to this size the whole contents of each message are checked unless asked otherwise: a page, which takes less than a wake-up.
const VERIFIED_UP_TO: usize = 4096;
/// Size measured when none is asked: a cache line.
const USUAL_SIZE: usize = 64;
/// Messages that do not count where they come quickly: caches and pages of a process just started are warm then.
const QUICK_WARMUP: u64 = 50;
/// Messages that do not count where each takes its interval.
const SLOW_WARMUP: u64 = 3;
/// Longest time between two messages of a series.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);

/// One mechanism, size, mode, place, way of receiving and variant: what becomes a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Index into [`Plan::mechanisms`].
    pub mechanism: usize,
    /// Bytes of each message.
    pub size: usize,
    /// How they are sent.
    pub mode: Mode,
    /// Where.
    pub place: Place,
    /// How the receiver waits.
    pub receive: Receive,
    /// Index into [`Plan::variants`].
    pub variant: usize,
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The mechanisms.
    pub mechanisms: Vec<&'static Mechanism>,
    /// What is measured, in the order of the first round.
    pub cells: Vec<Cell>,
    /// Conditions of the measuring process put side by side.
    pub variants: Vec<Variant>,
    /// For each variant, the policy of the other process.
    pub peers: Vec<Option<Policy>>,
    /// Conditions that hold throughout, for both processes.
    pub base: Conditions,
    /// How much.
    pub amount: Amount,
    /// In how many rounds.
    pub rounds: u32,
    /// Messages at the beginning of each batch that are not recorded, at least.
    pub warmup: u32,
    /// A refused condition is an error.
    pub require: bool,
    /// Messages that may be under way.
    pub depth: Option<usize>,
    /// Whole contents are checked: always, never, or (none) when they are short.
    pub verify: Option<bool>,
    /// Messages of a block of which a line is told.
    pub blocks: Option<u64>,
    /// Which CPUs are of one core.
    pub topology: Topology,
}

/// Why a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A message too short to carry its time.
    #[error("--size {0}: a message carries its own time of sending, so {SHORTEST} bytes is the shortest")]
    TooShort(usize),
    /// No message may be under way.
    #[error("--depth 0: at least one message must fit between the two processes")]
    NoDepth,
    /// A size beyond what every mechanism named carries.
    #[error("--size {size}: {name} carries up to {limit} bytes, by {from}{}", .remedy.as_deref().map(|r| format!("; {r}")).unwrap_or_default())]
    TooLarge {
        /// The size.
        size: usize,
        /// The mechanism.
        name: String,
        /// Its limit.
        limit: u64,
        /// Where that is set.
        from: String,
        /// How to raise it.
        remedy: Option<String>,
    },
    /// No such place.
    #[error("--cpus: {0}")]
    Place(#[from] NoPlace),
    /// An interval of nothing, or too long.
    #[error("messages every {}: from 1us to 1h", format_duration(*.0))]
    Interval(Duration),
    /// Nothing to measure.
    #[error("{0} must be at least 1")]
    None(&'static str),
    /// The run would take too long.
    #[error("{samples} samples of {series} series would take about {}; give the time instead (--duration 60s), or fewer samples", rough(*.would_take))]
    Endless {
        /// Samples asked for.
        samples: u64,
        /// Series they were asked of.
        series: usize,
        /// What they would take.
        would_take: Duration,
    },
}

/// What a plan is made from.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The mechanisms.
    pub mechanisms: Vec<&'static Mechanism>,
    /// Sizes; none: 64 bytes, or 8 where no more fit.
    pub sizes: Vec<usize>,
    /// Modes.
    pub modes: Vec<Mode>,
    /// Places.
    pub places: Places,
    /// CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// Which of them are of one core.
    pub topology: Topology,
    /// Ways of receiving; none: in the kernel, or polling where there is no other way.
    pub receive: Vec<Receive>,
    /// Conditions of both processes put side by side.
    pub variants: Vec<Variant>,
    /// Policies of the sender, where they are to differ from the variant's.
    pub sender_policies: Vec<Policy>,
    /// Policies of the receiver, where they are to differ from the variant's.
    pub receiver_policies: Vec<Policy>,
    /// Conditions that hold throughout.
    pub base: Conditions,
    /// How much.
    pub amount: Amount,
    /// In how many rounds.
    pub rounds: u32,
    /// Unrecorded messages per batch, at least.
    pub warmup: u32,
    /// A refused condition is an error.
    pub require: bool,
    /// Messages that may be under way.
    pub depth: Option<usize>,
    /// Whole contents are checked.
    pub verify: Option<bool>,
    /// Messages of a block.
    pub blocks: Option<u64>,
}

impl Plan {
    /// Checks what is wanted and lays out the cells.
    pub fn new(wanted: Wanted) -> Result<Self, PlanError> {
        check(&wanted)?;
        let plan = Self::lay_out(wanted)?;
        if plan.cells.is_empty() {
            return Err(PlanError::None("the number of mechanisms"));
        }
        if let Amount::Samples(samples) = plan.amount {
            let would_take = plan.schedule().expected();
            if would_take > LONGEST_UNASKED {
                return Err(PlanError::Endless { samples, series: plan.cells.len(), would_take });
            }
        }
        Ok(plan)
    }

    fn lay_out(wanted: Wanted) -> Result<Self, PlanError> {
        let places = wanted.places.on(&wanted.cpus, &wanted.topology)?;
        let (variants, peers, fits) = variants(&wanted);
        let mut cells = Vec::new();
        for (variant, fits) in fits.iter().enumerate() {
            for &mode in wanted.modes.iter().filter(|mode| fits.allows(**mode)) {
                for &place in &places {
                    for (index, mechanism) in wanted.mechanisms.iter().enumerate() {
                        for size in sizes_of(mechanism, &wanted.sizes) {
                            for receive in ways_of(mechanism, &wanted.receive) {
                                cells.push(Cell { mechanism: index, size, mode, place, receive, variant });
                            }
                        }
                    }
                }
            }
        }
        Ok(Self {
            mechanisms: wanted.mechanisms,
            cells,
            variants,
            peers,
            base: wanted.base,
            amount: wanted.amount,
            rounds: wanted.rounds,
            warmup: wanted.warmup,
            require: wanted.require,
            depth: wanted.depth,
            verify: wanted.verify,
            blocks: wanted.blocks,
            topology: wanted.topology,
        })
    }

    /// The schedule of this plan's cells.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        let cost = |cell: &Cell| CellCost { ideal_ns: cost_ns(cell).min(1e6), expected_ns: cost_ns(cell) };
        Schedule::new(self.amount, self.rounds, &self.cells.iter().map(cost).collect::<Vec<_>>())
    }

    /// Whether the whole contents of this cell's messages are checked.
    #[must_use]
    pub fn verifies(&self, cell: &Cell) -> bool {
        self.verify.unwrap_or(cell.size <= VERIFIED_UP_TO)
    }

    /// Messages at the beginning of a batch that do not count.
    #[must_use]
    pub fn warmup_of(&self, cell: &Cell) -> u64 {
        let interval = cell.mode.interval().unwrap_or_default();
        let least = if interval < Duration::from_millis(1) { QUICK_WARMUP } else { SLOW_WARMUP };
        u64::from(self.warmup).max(least)
    }

    /// Whether a process of this cell can keep a CPU from others.
    #[must_use]
    pub fn is_real_time(&self, cell: &Cell) -> bool {
        self.variants[cell.variant].is_real_time() || self.peers[cell.variant].is_some_and(|p| p.is_real_time())
    }

    /// The pairs of different CPUs that messages pass between and that are to each other what is asked, each once.
    #[must_use]
    pub fn pairs(&self, wanted: Relation) -> Vec<(usize, usize)> {
        let of = |cell: &Cell| cell.place.sender.zip(cell.place.receiver).map(|(a, b)| (a.min(b), a.max(b)));
        let pairs: BTreeSet<_> = self.cells.iter().filter_map(of).filter(|(a, b)| a != b).collect();
        pairs.into_iter().filter(|(a, b)| self.topology.relation(*a, *b) == wanted).collect()
    }

    /// Why this cell must not, or cannot, be run, if so.
    #[must_use]
    pub fn forbidden(&self, cell: &Cell) -> Option<(String, Option<String>)> {
        let mechanism = self.mechanisms[cell.mechanism];
        let limit = (mechanism.largest)();
        if limit.bytes.is_some_and(|bytes| cell.size as u64 > bytes) {
            let why =
                format!("{} bytes are more than it carries: {} by {}", cell.size, limit.bytes.unwrap_or(0), limit.from);
            return Some((why, limit.remedy));
        }
        if mechanism.only_polls && cell.receive == Receive::Block {
            return Some(("it has no way to wait in the kernel".into(), Some("--receive poll or backoff".into())));
        }
        if mechanism.only_polls && cell.receive == Receive::Backoff {
            return Some(("it cannot sleep, so it cannot back off".into(), Some("--receive poll".into())));
        }
        let holds = cell.place.is_same() && cell.receive == Receive::Poll && self.is_real_time(cell);
        holds.then(|| {
            let why =
                "a receiver that polls under a real-time policy keeps the sender on the same CPU from ever sending";
            (why.into(), Some("--cpus different, or --receive block".into()))
        })
    }
}

fn check(wanted: &Wanted) -> Result<(), PlanError> {
    if let Some(short) = wanted.sizes.iter().find(|size| **size < SHORTEST) {
        return Err(PlanError::TooShort(*short));
    }
    if wanted.depth == Some(0) {
        return Err(PlanError::NoDepth);
    }
    if wanted.rounds == 0 {
        return Err(PlanError::None("--rounds"));
    }
    if wanted.amount == Amount::Samples(0) {
        return Err(PlanError::None("--samples"));
    }
    let intervals = wanted.modes.iter().filter_map(|mode| mode.interval());
    if let Some(bad) = intervals.into_iter().find(|i| *i < Duration::from_micros(1) || *i > LONGEST_INTERVAL) {
        return Err(PlanError::Interval(bad));
    }
    too_large(wanted)
}

/// Refuses a size that none of the mechanisms carries.
fn too_large(wanted: &Wanted) -> Result<(), PlanError> {
    for &size in &wanted.sizes {
        let mut limits = wanted.mechanisms.iter().map(|m| (m, (m.largest)()));
        let Some(largest) = limits.clone().max_by_key(|(_, l)| l.bytes.unwrap_or(u64::MAX)) else { continue };
        let carried = limits.any(|(_, limit)| limit.bytes.is_none_or(|bytes| size as u64 <= bytes));
        if let (false, (mechanism, limit)) = (carried, largest) {
            let name = mechanism.name.clone();
            let (limit, from, remedy) = (limit.bytes.unwrap_or(0), limit.from, limit.remedy);
            return Err(PlanError::TooLarge { size, name, limit, from, remedy });
        }
    }
    Ok(())
}

fn sizes_of(mechanism: &Mechanism, asked: &[usize]) -> Vec<usize> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    let largest = (mechanism.largest)().bytes.unwrap_or(u64::MAX);
    vec![if (USUAL_SIZE as u64) <= largest { USUAL_SIZE } else { SHORTEST }]
}

fn ways_of(mechanism: &Mechanism, asked: &[Receive]) -> Vec<Receive> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    vec![if mechanism.only_polls { Receive::Poll } else { Receive::Block }]
}

/// Which modes a variant is for: the measuring process is the receiver, but in ping-pong the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fits {
    All,
    OneWay,
    PingPong,
}

impl Fits {
    fn allows(self, mode: Mode) -> bool {
        match self {
            Self::All => true,
            Self::OneWay => mode != Mode::PingPong,
            Self::PingPong => mode == Mode::PingPong,
        }
    }
}

fn variants(wanted: &Wanted) -> (Vec<Variant>, Vec<Option<Policy>>, Vec<Fits>) {
    let (mut variants, mut peers, mut fits) = (Vec::new(), Vec::new(), Vec::new());
    let mut add = |label: &str, here, there, base: &Variant, fit| {
        let conditions = Conditions { policy: here, ..base.conditions.clone() };
        variants.push(Variant { label: label.to_owned(), conditions });
        peers.push(there);
        fits.push(fit);
    };
    let or = |list: &[Policy], base: Option<Policy>| -> Vec<Option<Policy>> {
        if list.is_empty() { vec![base] } else { list.iter().copied().map(Some).collect() }
    };
    for base in &wanted.variants {
        let own = base.conditions.policy;
        for sender in or(&wanted.sender_policies, own) {
            for receiver in or(&wanted.receiver_policies, own) {
                if sender == receiver {
                    let label = Variant::of(Conditions { policy: sender, ..base.conditions.clone() }).label;
                    add(&label, receiver, sender, base, Fits::All);
                    continue;
                }
                let name = |policy: Option<Policy>| policy.map_or("as found".to_owned(), |p| p.to_string());
                let mut label = format!("sender {}, receiver {}", name(sender), name(receiver));
                if let Some(slack) = base.conditions.timer_slack {
                    label.push_str(&format!(", slack {}", format_duration(slack)));
                }
                add(&label, receiver, sender, base, Fits::OneWay);
                add(&label, sender, receiver, base, Fits::PingPong);
            }
        }
    }
    (variants, peers, fits)
}

/// What a message is expected to take before anything is known of this machine: a wake-up on the same CPU takes 5 µs, on another one
/// 30 µs, a spinning receiver is found in 0.1 µs, and memory is copied twice at some 5 GB/s.
fn cost_ns(cell: &Cell) -> f64 {
    if let Some(interval) = cell.mode.interval() {
        return interval.as_nanos() as f64;
    }
    let copies = cell.size as f64 * 0.4;
    let wake = match (cell.receive, cell.place.is_same()) {
        // Each waits for the other's time slice to end.
        (Receive::Poll, true) => 8e6,
        (_, true) => 5e3,
        (Receive::Poll, false) => 500.0,
        (_, false) => 30e3,
    };
    match cell.mode {
        Mode::PingPong => 2.0 * (wake + copies),
        _ => (wake / 10.0).max(500.0) + copies,
    }
}
