//! The margin: how long before the deadline a sleep should end, learned from the wake-up latencies.
//!
//! After each sleep, [`MarginLearner::saw`] takes the length of the wait and the latency of the wake-up. Before each wait,
//! [`MarginLearner::decide`] returns a [`Decision`]: spin, or sleep with a margin. Waits form classes by length, because a CPU wakes more
//! slowly from the deeper idle states of longer waits.
//!
//! Each class counts its latencies in a small histogram with exponential forgetting. The aim sets the margin:
//! - [`Aim::Balanced`]: where spinning longer costs more than it avoids
//! - [`Aim::Lateness`]: a quantile of the latencies
//! - [`Aim::CpuBudget`]: what the budget pays for
//! - [`Aim::Typical`]: a little above the median
//!
//! Four rules bound it:
//! - A latency above the *cap* is left out, since spinning cannot make up for it. No sample makes the thread spin longer than the cap.
//!   If more wake-ups exceed the cap than the aim allows, the aim cannot be met. The margin then gives up as many again.
//! - The margin is at most 1.5 times the largest latency of the last 32 to 64 sleeps. So it falls within tens of waits after the machine
//!   becomes faster; it rises at once.
//! - A class whose waits are too short to sleep tries a sleep now and then. It so notices a machine that wakes faster.
//! - A thread that takes more than its share of a busy CPU is late by whole time slices. So a balanced aim spins for a smaller share of its
//!   time after such a loss ([`MarginLearner::lost_the_cpu`]), and for more while it keeps the CPU.
//!
//! Memory and time are constant, without allocation: 11 to 19 ns per wait on one machine (docs/results/sleep.md).

mod histogram;

pub(crate) use crate::margin::histogram::{HIGHEST_NS, Histogram};

use std::time::Duration;

use crate::margin::histogram::LONGEST_MEMORY;

/// Classes of wait length: below 32 µs, then in factors of four, up to 33 ms and more.
const CLASSES: usize = 7;
/// Sleeps per block; the largest latency of a block is remembered.
const BLOCK: u8 = 32;
/// The unit of the largest latencies: 512 µs fit into 16 bits.
const LARGEST_UNIT_NS: u32 = 16;
/// The largest margin, as a multiple of the largest recent latency.
const HEADROOM: f32 = 1.5;
/// Below this number of latencies, the largest one counts instead of a quantile.
const FEW: u8 = 32;
/// Latencies of one block above the margin from which the machine counts as changed.
const CHANGED: u8 = 10;
/// Latencies between two computations of the margin, without surprises.
const EVERY: u8 = 8;
/// The initial margin, unless the cap is lower: the default timer slack of 50 µs plus a slow wake-up.
const AT_FIRST_NS: u32 = 100_000;
/// The shortest sleep: a shorter timer would expire before the thread is off the CPU.
const SHORTEST_SLEEP_NS: u32 = 1_000;
/// The usual upper bound of the lateness of a spin: two clock readings.
const SPIN_ENTRY_NS: u32 = 100;
/// Waits before a class that only spins tries a sleep; doubles up to [`RAREST_TRY`].
const FIRST_TRY: u16 = 64;
/// The same while the class has few latencies.
const TRY_WHILE_WEAK: u16 = 4;
/// Most waits between two tries: one late wait in a thousand keeps a share of 99.9 %.
const RAREST_TRY: u16 = 1024;
/// For a balanced aim, tries cost at most a tenth of the spinning that they might save. Each is a late wait. At 2 ms per late wait, a wait
/// of 20 µs is a try once in a thousand. One of 100 µs is a try once in two hundred.
const TRIES_COST_A: u128 = 10;
/// Fewest waits between two tries of a balanced aim.
const OFTENEST_BALANCED_TRY: u16 = 128;

/// The least share of its time for which a thread waits with the CPU, after many losses: on average eight threads want the CPU then.
const LEAST_SHARE: f32 = 0.125;
/// The share grows by this factor while the thread keeps the CPU. A loss halves it: one in 500 waits keeps it where it is.
const REGAINED: f32 = 1.1;

/// The CPU time of a sleeping call, until it is measured.
const CALL_NS: f32 = 2_000.0;

/// How to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Spin the whole wait.
    Spin,
    /// Sleep until the margin before the deadline, then spin.
    Sleep {
        /// The margin in ns, shorter than the wait.
        margin_ns: u32,
        /// The wait is shorter than a wake-up takes, so the aim cannot be met.
        too_short: bool,
    },
}

/// Learns the margin. Constant memory; never allocates.
#[derive(Debug, Clone)]
pub struct MarginLearner {
    aim: Aim,
    terms: Terms,
    /// CPU time of the sleeping call itself, for budgets.
    call_ns: f32,
    /// The largest share of the time that a balanced aim waits with the CPU; 1 on a CPU that nothing else wants.
    share: f32,
    classes: [Class; CLASSES],
}

/// Constants that follow from aim and cap.
#[derive(Debug, Clone, Copy)]
struct Terms {
    cap_ns: u32,
    tolerance_ns: u32,
    memory: u16,
    follows: bool,
}

impl Terms {
    const fn new(aim: Aim, cap_ns: u32) -> Self {
        let cap_ns = match cap_ns {
            ..SHORTEST_SLEEP_NS => SHORTEST_SLEEP_NS,
            HIGHEST_NS.. => HIGHEST_NS,
            between => between,
        };
        Self { cap_ns, tolerance_ns: aim.tolerance_ns(), memory: aim.memory(), follows: matches!(aim, Aim::Typical) }
    }
}

/// What sleeping costs, and what spinning may cost.
#[derive(Debug, Clone, Copy)]
struct Prices {
    call_ns: f32,
    share: f32,
}

/// Waits of one class of length.
#[derive(Debug, Clone)]
struct Class {
    latencies: Histogram,
    /// Largest latency of the previous and the current block, in units of [`LARGEST_UNIT_NS`].
    largest: [u16; 2],
    in_block: u8,
    /// Latencies of this block above the margin.
    surprises: u8,
    /// The largest recent latency limits the margin.
    held_down: bool,
    /// The share of a busy CPU limits the margin, so that latencies above it are expected.
    shares: bool,
    /// Latencies counted, up to [`FEW`].
    seen: u8,
    /// Latencies above the cap since the last one below it.
    beyond: u8,
    /// Latencies until the next computation of the margin.
    until_update: u8,
    margin_ns: u32,
    /// Only longer waits sleep: shorter ones are below the margin, or cheaper to spin.
    sleep_above_ns: u32,
    /// Mean length of the waits.
    wait_ns: u32,
    until_try: u16,
    try_every: u16,
}

/// The class of a wait.
fn class_of(wait_ns: i64) -> usize {
    let units = (wait_ns >> 15).max(0).unsigned_abs();
    ((64 - units.leading_zeros() as usize).div_ceil(2)).min(CLASSES - 1)
}

impl MarginLearner {
    /// The largest cap in ns: 512 µs.
    pub const LARGEST_CAP_NS: u32 = HIGHEST_NS;

    /// A learner without latencies. `cap_ns` is the longest margin, 1 µs to [`Self::LARGEST_CAP_NS`], clamped.
    #[must_use]
    pub const fn new(aim: Aim, cap_ns: u32) -> Self {
        let terms = Terms::new(aim, cap_ns);
        Self { aim, terms, call_ns: CALL_NS, share: 1.0, classes: [const { Class::new() }; CLASSES] }
    }

    /// Begins anew, as [`Self::new`] would. It is made in place: a signal handler may have no room for a second one on its stack.
    pub fn restart(&mut self, aim: Aim, cap_ns: u32) {
        (self.aim, self.terms) = (aim, Terms::new(aim, cap_ns));
        (self.call_ns, self.share) = (CALL_NS, 1.0);
        self.classes.iter_mut().for_each(|class| *class = Class::new());
    }

    /// The aim.
    #[must_use]
    pub const fn aim(&self) -> Aim {
        self.aim
    }

    /// Decides how to wait for `wait_ns` nanoseconds.
    #[inline]
    pub fn decide(&mut self, wait_ns: i64) -> Decision {
        let wait = u32::try_from(wait_ns).unwrap_or(u32::MAX);
        let class = &self.classes[class_of(wait_ns)];
        if class.seen > 0 && wait > class.sleep_above_ns {
            return Decision::Sleep { margin_ns: class.margin_ns, too_short: false };
        }
        self.decide_otherwise(wait_ns, wait)
    }

    /// Decides for a class without latencies, and for a wait too short to sleep.
    #[inline(never)]
    fn decide_otherwise(&mut self, wait_ns: i64, wait: u32) -> Decision {
        let margin_ns = self.margin_ns(wait_ns);
        let class = &mut self.classes[class_of(wait_ns)];
        if wait > margin_ns.saturating_add(SHORTEST_SLEEP_NS).max(class.sleep_above_ns) {
            return Decision::Sleep { margin_ns, too_short: false };
        }
        if self.aim.may_spin_all() {
            // Tries a sleep now and then, to learn.
            class.until_try = class.until_try.saturating_sub(1);
            if class.until_try > 0 || wait <= 2 * SHORTEST_SLEEP_NS {
                return Decision::Spin;
            }
            let weak = class.latencies.samples() < FEW.into();
            let rarest = match self.aim {
                Aim::Balanced { worth } => u16::try_from(TRIES_COST_A * worth.as_nanos() / u128::from(wait))
                    .unwrap_or(RAREST_TRY)
                    .clamp(OFTENEST_BALANCED_TRY, RAREST_TRY),
                _ => RAREST_TRY,
            };
            class.try_every = if weak { TRY_WHILE_WEAK } else { (class.try_every * 2).clamp(FIRST_TRY, rarest) };
            class.until_try = class.try_every;
        }
        if wait <= SHORTEST_SLEEP_NS {
            return Decision::Spin;
        }
        let margin_ns = margin_ns.min(wait - SHORTEST_SLEEP_NS);
        Decision::Sleep { margin_ns, too_short: true }
    }

    /// The present margin in ns for a wait of `wait_ns`.
    #[inline]
    #[must_use]
    pub fn margin_ns(&self, wait_ns: i64) -> u32 {
        let class = class_of(wait_ns);
        if self.classes[class].seen > 0 {
            return self.classes[class].margin_ns;
        }
        self.initial_margin(class, wait_ns)
    }

    /// The margin of a class without latencies: that of the nearest class with some, else a guess.
    #[cold]
    fn initial_margin(&self, class: usize, wait_ns: i64) -> u32 {
        if self.classes[class].beyond >= 4 {
            return 0;
        }
        let known = |near: &&Class| near.seen > 0;
        // Without iterators, which need room on the stack where nothing is optimised.
        for away in 1..CLASSES {
            let shorter = self.classes.get(class.wrapping_sub(away)).filter(known);
            if let Some(near) = shorter.or(self.classes.get(class + away).filter(known)) {
                return near.margin_ns.min(self.terms.cap_ns);
            }
        }
        // At most half of the wait, so that a sleep remains to learn from.
        AT_FIRST_NS.min(u32::try_from(wait_ns / 2).unwrap_or(AT_FIRST_NS)).min(self.terms.cap_ns)
    }

    /// Records a sleep: it was part of a wait of `wait_ns` and ended `latency_ns` after its target.
    #[inline]
    pub fn saw(&mut self, wait_ns: i64, latency_ns: i64) {
        let terms = &self.terms;
        let class = &mut self.classes[class_of(wait_ns)];
        let wait = u32::try_from(wait_ns).unwrap_or(u32::MAX);
        if latency_ns >= i64::from(terms.cap_ns) {
            class.beyond = class.beyond.saturating_add(1);
            class.latencies.add_beyond();
            return;
        }
        let latency = latency_ns.max(0) as u32;
        class.beyond = 0;
        class.wait_ns = if class.seen == 0 { wait } else { class.wait_ns - class.wait_ns / 8 + wait / 8 };
        class.latencies.add(latency, terms.memory);
        class.seen = (class.seen + 1).min(FEW);
        class.remember_largest(latency);
        if terms.follows {
            class.follow(latency);
            return;
        }
        class.until_update = class.until_update.saturating_sub(1);
        let surprised = !class.shares && latency > class.margin_ns.saturating_add(terms.tolerance_ns);
        if class.until_update == 0 || surprised || class.seen < FEW {
            class.update(
                surprised.then_some(latency),
                self.aim,
                terms,
                Prices { call_ns: self.call_ns, share: self.share },
            );
        }
        if class.sleep_above_ns < wait {
            (class.until_try, class.try_every) = (FIRST_TRY, FIRST_TRY);
        } else if latency < wait / 2 {
            // After such a good try, try again soon.
            (class.until_try, class.try_every) = (2, FIRST_TRY);
        }
    }

    /// Records the CPU time of the sleeping call itself, in ns.
    pub fn call_costs(&mut self, cpu_ns: i64) {
        // More than a millisecond was not the call.
        let cost = cpu_ns.clamp(0, 1_000_000) as f32;
        self.call_ns += (cost - self.call_ns) / 8.0;
    }

    /// Records that a wait ended late since other threads had the CPU.
    pub fn lost_the_cpu(&mut self) {
        self.share = (self.share / 2.0).max(LEAST_SHARE);
    }

    /// Records that the thread has kept the CPU for some dozens of waits.
    pub fn kept_the_cpu(&mut self) {
        self.share = (self.share * REGAINED).min(1.0);
    }

    /// The median wake-up latency in ns of waits of `wait_ns`; `None` before the first.
    #[must_use]
    pub fn typical_latency_ns(&self, wait_ns: i64) -> Option<u32> {
        let class = &self.classes[class_of(wait_ns)];
        (!class.latencies.is_empty()).then(|| class.latencies.exceeded_by(0.5))
    }
}

impl Class {
    const fn new() -> Self {
        Self {
            latencies: Histogram::new(),
            largest: [0; 2],
            in_block: 0,
            surprises: 0,
            held_down: false,
            shares: false,
            seen: 0,
            beyond: 0,
            until_update: 0,
            margin_ns: 0,
            sleep_above_ns: 0,
            wait_ns: 0,
            until_try: TRY_WHILE_WEAK,
            try_every: FIRST_TRY,
        }
    }

    /// Moves the margin towards a latency: a quarter of the distance up, or an eighth down. The distance is limited to a quarter of the
    /// margin, against outliers. Upwards is faster, since too long a margin is spun off but too short a one is late. The margin settles
    /// at the expectile of two thirds.
    fn follow(&mut self, latency: u32) {
        let margin = if self.seen <= 1 {
            latency
        } else {
            let margin = i64::from(self.margin_ns);
            let reach = (margin / 4).max(SHORTEST_SLEEP_NS.into());
            let away = (i64::from(latency) - margin).clamp(-reach, reach);
            (margin + if away > 0 { away / 4 } else { away / 8 }).max(0) as u32
        };
        self.set_margin(margin, 0);
    }

    fn set_margin(&mut self, margin_ns: u32, spin_below_ns: u32) {
        self.margin_ns = margin_ns;
        self.sleep_above_ns = margin_ns.saturating_add(SHORTEST_SLEEP_NS).max(spin_below_ns);
    }

    /// Computes the margin again; `surprise` is a latency above it.
    #[inline(never)]
    fn update(&mut self, surprise: Option<u32>, aim: Aim, terms: &Terms, prices: Prices) {
        if let Some(latency) = surprise.filter(|_| self.seen == FEW) {
            self.surprises += 1;
            if self.surprises == CHANGED {
                self.start_anew(latency, terms.memory);
            }
        }
        self.until_update = EVERY;
        let (wanted, spin_below) = self.margin(aim, prices.call_ns);
        let margin = wanted.min(self.paid_by(aim, prices));
        self.shares = margin < wanted;
        let ceiling = self.ceiling();
        self.held_down = margin > ceiling && self.seen == FEW;
        self.set_margin(margin.min(ceiling).saturating_sub(aim.slip_ns()).min(terms.cap_ns), spin_below);
    }

    fn remember_largest(&mut self, latency: u32) {
        self.largest[1] = self.largest[1].max(latency.div_ceil(LARGEST_UNIT_NS) as u16);
        self.in_block += 1;
        if self.in_block < BLOCK {
            return;
        }
        self.in_block = 0;
        self.surprises = 0;
        self.largest = [self.largest[1], 0];
        // The remembered latencies are far above the recent ones: the machine has changed.
        if self.held_down {
            self.latencies.forget_half();
        }
    }

    /// Forgets all latencies but the newest.
    #[cold]
    fn start_anew(&mut self, latency: u32, memory: u16) {
        self.latencies = Histogram::new();
        self.latencies.add(latency, memory);
        (self.seen, self.surprises) = (1, 0);
        self.largest = [latency.div_ceil(LARGEST_UNIT_NS) as u16; 2];
    }

    fn largest_ns(&self) -> u32 {
        u32::from(self.largest[0].max(self.largest[1])) * LARGEST_UNIT_NS
    }

    fn ceiling(&self) -> u32 {
        (self.largest_ns() as f32 * HEADROOM) as u32
    }

    /// The margin for which a share of a busy CPU pays, and at least what most wake-ups take, which costs little. There is no limit for
    /// waits that sleeping calls fill: sleeping would leave nothing to others.
    fn paid_by(&self, aim: Aim, prices: Prices) -> u32 {
        let wait_ns = self.wait_ns as f32;
        if prices.share >= 1.0 || prices.call_ns > wait_ns / 2.0 || !matches!(aim, Aim::Balanced { .. }) {
            return u32::MAX;
        }
        let spinning = wait_ns * prices.share - prices.call_ns;
        self.latencies.margin_spinning(spinning.max(0.0)).max(self.latencies.exceeded_by(0.25))
    }

    /// The margin, before its limits, and the length below which waits are spun from end to end.
    fn margin(&self, aim: Aim, call_ns: f32) -> (u32, u32) {
        match aim {
            Aim::Balanced { .. } | Aim::Lateness { .. } if self.seen < FEW => {
                let largest = self.largest_ns();
                (largest + largest / 4, 0)
            }
            Aim::Balanced { worth } => {
                // Above four seconds the price makes no difference.
                let (margin, cost) =
                    self.latencies.cheapest_margin(u32::try_from(worth.as_nanos()).unwrap_or(u32::MAX));
                // Spins only if sleeping costs twice as much: a sleeping thread leaves the CPU to others.
                (margin, (cost.saturating_add(call_ns as u32)) / 2)
            }
            Aim::Lateness { .. } => (self.latencies.exceeded_by(aim.above().max(self.latencies.beyond())), 0),
            Aim::CpuBudget { share } => {
                let pays_for = self.wait_ns as f32 * share - call_ns;
                (if pays_for <= 0.0 { 0 } else { self.latencies.margin_spinning(pays_for) }, 0)
            }
            Aim::Typical => (self.margin_ns, 0),
        }
    }
}

// The aim of a margin: [`Aim`].

/// The default worth of avoiding a late wait: 2 ms of CPU time. If one wake-up in a hundred is long, the others do not spin for it.
/// The shares of late waits are in docs/results/sleep.md.
const WORTH: Duration = Duration::from_millis(2);
/// The lateness from which a wait counts as late for a balanced aim.
const TOLERANCE_NS: u32 = 1_000;

/// What a sleeper optimises.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// Spends up to `worth` of CPU time to avoid one wait that is late by more than 1 µs. It promises no share of punctual waits: rare
    /// long wake-ups stay late, since avoiding them would spin in every wait.
    Balanced {
        /// CPU time spent to avoid one late wait.
        worth: Duration,
    },
    /// At most `within` late in a `share` of the waits, at the least CPU time.
    Lateness {
        /// The lateness tolerated.
        within: Duration,
        /// The share of waits that must keep it, 0.5 to 0.9999.
        share: f32,
    },
    /// The least lateness within a budget of CPU time.
    CpuBudget {
        /// CPU time as a share of the time waited, above 0, at most 1.
        share: f32,
    },
    /// Compensates the typical latency only, a little above the median, without outliers: the compensated sleep.
    Typical,
}

/// An invalid aim.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum BadAim {
    /// A share of waits out of range.
    #[error("invalid share of waits {0}: 0.5 to 0.9999 (example: 0.99 for 99 %)")]
    Share(f32),
    /// A budget out of range.
    #[error("invalid CPU budget {0}: above 0, at most 1 (example: 0.05 for 5 %)")]
    Budget(f32),
}

impl Aim {
    /// At most `within` late in a `share` (0.5 to 0.9999) of the waits.
    pub fn lateness(within: Duration, share: f32) -> Result<Self, BadAim> {
        if (0.5..=0.9999).contains(&share) { Ok(Self::Lateness { within, share }) } else { Err(BadAim::Share(share)) }
    }

    /// At most a `share` (above 0, at most 1) of the time waited as CPU time.
    pub fn cpu_budget(share: f32) -> Result<Self, BadAim> {
        if share > 0.0 && share <= 1.0 { Ok(Self::CpuBudget { share }) } else { Err(BadAim::Budget(share)) }
    }

    /// The number of latencies remembered: enough for three in the tail that matters, within limits.
    const fn memory(self) -> u16 {
        match self {
            Self::Lateness { .. } => (3.0 / self.above()).clamp(64.0, LONGEST_MEMORY as f32) as u16,
            Self::Balanced { .. } => 512,
            Self::CpuBudget { .. } => 256,
            Self::Typical => 64,
        }
    }

    /// The share of waits that may be later than the aim.
    const fn above(self) -> f32 {
        match self {
            Self::Lateness { share, .. } => (1.0 - share).clamp(0.0001, 0.5),
            Self::Balanced { .. } | Self::CpuBudget { .. } | Self::Typical => 0.5,
        }
    }

    /// The lateness that needs no compensation.
    const fn tolerance_ns(self) -> u32 {
        match self {
            Self::Balanced { .. } => TOLERANCE_NS - SPIN_ENTRY_NS,
            Self::Lateness { within, .. } => match within.as_nanos() {
                within_ns @ 0..0xffff_ffff => (within_ns as u32).saturating_sub(SPIN_ENTRY_NS),
                _ => u32::MAX - SPIN_ENTRY_NS,
            },
            // For budgets and compensation, no latency is a surprise.
            Self::CpuBudget { .. } | Self::Typical => u32::MAX,
        }
    }

    /// How much shorter the tolerance makes the margin.
    fn slip_ns(self) -> u32 {
        match self {
            Self::Balanced { .. } | Self::Lateness { .. } => self.tolerance_ns(),
            Self::CpuBudget { .. } | Self::Typical => 0,
        }
    }

    /// Whether a wait too short to sleep is spun from end to end.
    fn may_spin_all(self) -> bool {
        match self {
            Self::Balanced { .. } | Self::Lateness { .. } => true,
            Self::CpuBudget { share } => share >= 1.0,
            Self::Typical => false,
        }
    }
}

impl Default for Aim {
    /// Balanced, with 2 ms of CPU time to avoid a late wait.
    fn default() -> Self {
        Self::Balanced { worth: WORTH }
    }
}
