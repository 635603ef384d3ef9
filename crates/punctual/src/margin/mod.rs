//! The margin: how much of a wait to leave to spinning, learned from the wake-up latencies actually seen.
//!
//! In go, after each sleep, the length of the wait and how late the sleep ended; out comes, before the next wait of that
//! length, how long before the deadline to ask the kernel to wake the thread ([`Decision`]). Waits are told apart by
//! length, in classes, because the CPU wakes more slowly from the deeper idle states of longer waits.
//!
//! Per class, the latencies are counted in a small histogram that forgets. The margin is where spinning longer costs more than the late
//! waits it avoids are worth ([`Aim::Balanced`]), or a quantile ([`Aim::Lateness`]), or what a budget of CPU time pays for
//! ([`Aim::CpuBudget`]), or a little more than the middle ([`Aim::Typical`]). Three rules keep it sane:
//! - A latency beyond the *cap* cannot be bought off by spinning and is left out; one bad sample, or a hundred, never makes the
//!   thread spin longer than the cap. Where more wake-ups are beyond it than a lateness to keep allows, that lateness cannot be kept, and as
//!   many again are let go rather than paid for.
//! - The margin is at most one and a half times the largest latency of the last 32 to 64 sleeps, so that it comes down
//!   within tens of waits after the machine became faster; rises are followed at once.
//! - A class whose waits are too short to sleep at all tries a sleep now and then, so that it finds out when the machine wakes
//!   faster than it used to.
//!
//! Memory and time are constant: 112 bytes a class, 10 to 25 ns a wait (`cargo bench -p punctual --bench bookkeeping`), nothing allocated.

mod aim;
mod histogram;

pub use aim::{Aim, BadAim};
pub(crate) use histogram::{HIGHEST_NS, Histogram};

/// Classes of wait length: below 32 µs, then by factors of four, then 33 ms and more.
const CLASSES: usize = 7;
/// Sleeps per block, of which the largest latency is remembered.
const BLOCK: u8 = 32;
/// In what the largest latencies are kept: 512 µs of it fit into 16 bits.
const LARGEST_UNIT_NS: u32 = 16;
/// How much larger than the largest recent latency the margin may be.
const HEADROOM: f32 = 1.5;
/// With fewer latencies than this no quantile is taken: the largest counts.
const FEW: u8 = 32;
/// So many latencies of one block not covered by the margin: the machine has changed.
const CHANGED: u8 = 10;
/// How often the margin is computed anew while nothing unexpected happens.
const EVERY: u8 = 8;
/// The margin before anything is known, unless the cap is lower: 50 µs of default timer slack and a slow wake-up.
const AT_FIRST_NS: u32 = 100_000;
/// A sleep shorter than this is not asked of the kernel: the timer would expire before the thread is off the CPU.
const SHORTEST_SLEEP_NS: u32 = 1_000;
/// What the spin itself adds to the lateness at most, usually: two readings of the clock.
const SPIN_ENTRY_NS: u32 = 100;
/// A class that only spins tries a sleep after so many waits, then after twice as many, up to [`RAREST_TRY`].
const FIRST_TRY: u16 = 64;
/// The same while little is known of the class.
const TRY_WHILE_WEAK: u16 = 4;
/// The most waits between two tries: one in a thousand costs no promise of 99.9 %.
const RAREST_TRY: u16 = 1024;
/// For a balanced aim tries are so rare that, each being a late wait, they cost at most a tenth of the spinning that they might save: with
/// 2 ms for a late wait, one wait in a thousand is tried at 20 µs, and one in two hundred at 100 µs.
const TRIES_COST_A: u128 = 10;
/// But this often at least.
const OFTENEST_BALANCED_TRY: u16 = 128;

/// What to do with a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Spin all of it.
    Spin,
    /// Sleep until so many nanoseconds before the deadline, and spin the rest.
    Sleep {
        /// The margin, in ns; less than the wait.
        margin_ns: u32,
        /// The aim cannot be met, because the wait is shorter than what the kernel takes to wake the thread.
        too_short: bool,
    },
}

/// Learns the margin.
#[derive(Debug, Clone)]
pub struct MarginLearner {
    aim: Aim,
    terms: Terms,
    /// CPU time of the sleeping call itself, for budgets.
    call_ns: f32,
    classes: [Class; CLASSES],
}

/// What follows from aim and cap for every wait, worked out once.
#[derive(Debug, Clone, Copy)]
struct Terms {
    cap_ns: u32,
    tolerance_ns: u32,
    memory: u16,
    follows: bool,
}

/// Waits of about one length.
#[derive(Debug, Clone)]
struct Class {
    latencies: Histogram,
    /// Largest latency of the block before, and of the one under way, in units of [`LARGEST_UNIT_NS`].
    largest: [u16; 2],
    in_block: u8,
    /// Latencies of this block that the margin did not cover.
    surprises: u8,
    /// The margin is held down by the largest recent latency.
    held_down: bool,
    /// Latencies seen, up to [`FEW`].
    seen: u8,
    /// Latencies beyond the cap since one below it was seen.
    beyond: u8,
    /// Latencies until the margin is computed anew.
    until_update: u8,
    margin_ns: u32,
    /// Only waits longer than this are slept: those below are shorter than the margin, or cheaper spun.
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
    /// The largest cap: 512 µs.
    pub const LARGEST_CAP_NS: u32 = HIGHEST_NS;

    /// A learner that knows nothing yet. `cap_ns` is the longest margin, at most [`Self::LARGEST_CAP_NS`].
    #[must_use]
    pub fn new(aim: Aim, cap_ns: u32) -> Self {
        let terms = Terms {
            cap_ns: cap_ns.clamp(SHORTEST_SLEEP_NS, HIGHEST_NS),
            tolerance_ns: aim.tolerance_ns(),
            memory: aim.memory(),
            follows: matches!(aim, Aim::Typical),
        };
        Self { aim, terms, call_ns: 2_000.0, classes: [const { Class::new() }; CLASSES] }
    }

    /// What it aims at.
    #[must_use]
    pub const fn aim(&self) -> Aim {
        self.aim
    }

    /// What to do with a wait of `wait_ns`.
    #[inline]
    pub fn decide(&mut self, wait_ns: i64) -> Decision {
        let wait = u32::try_from(wait_ns).unwrap_or(u32::MAX);
        let class = &self.classes[class_of(wait_ns)];
        if class.seen > 0 && wait > class.sleep_above_ns {
            return Decision::Sleep { margin_ns: class.margin_ns, too_short: false };
        }
        self.decide_otherwise(wait_ns, wait)
    }

    /// The same for a class that has seen nothing, and for a wait too short to sleep.
    #[inline(never)]
    fn decide_otherwise(&mut self, wait_ns: i64, wait: u32) -> Decision {
        let margin_ns = self.margin_ns(wait_ns);
        let class = &mut self.classes[class_of(wait_ns)];
        if wait > margin_ns.saturating_add(SHORTEST_SLEEP_NS).max(class.sleep_above_ns) {
            return Decision::Sleep { margin_ns, too_short: false };
        }
        if self.aim.may_spin_all() {
            // Once in a while the sleep is tried all the same, to learn.
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

    /// The margin for a wait of `wait_ns`, as it is known now.
    #[inline]
    #[must_use]
    pub fn margin_ns(&self, wait_ns: i64) -> u32 {
        let class = class_of(wait_ns);
        if self.classes[class].seen > 0 {
            return self.classes[class].margin_ns;
        }
        self.margin_of_a_stranger(class, wait_ns)
    }

    /// For a class that has seen nothing: the margin of the nearest one that has, else a guess.
    #[cold]
    fn margin_of_a_stranger(&self, class: usize, wait_ns: i64) -> u32 {
        if self.classes[class].beyond >= 4 {
            return 0;
        }
        (1..CLASSES)
            .flat_map(|away| [class.checked_sub(away), Some(class + away)])
            .flatten()
            .filter_map(|near| self.classes.get(near).filter(|c| c.seen > 0))
            .map(|near| near.margin_ns)
            .next()
            // Half of the wait at most, so that there is a sleep to learn from.
            .unwrap_or(AT_FIRST_NS.min(u32::try_from(wait_ns / 2).unwrap_or(AT_FIRST_NS)))
            .min(self.terms.cap_ns)
    }

    /// Takes in that a sleep within a wait of `wait_ns` ended `latency_ns` after the time it was to end.
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
        let surprised = latency > class.margin_ns.saturating_add(terms.tolerance_ns);
        if class.until_update == 0 || surprised || class.seen < FEW {
            class.update(surprised.then_some(latency), self.aim, terms, self.call_ns);
        }
        if class.sleep_above_ns < wait {
            (class.until_try, class.try_every) = (FIRST_TRY, FIRST_TRY);
        } else if latency < wait / 2 {
            // A try that went so well invites the next.
            (class.until_try, class.try_every) = (2, FIRST_TRY);
        }
    }

    /// Takes in what the sleeping call itself costs in CPU time, in ns.
    pub fn call_costs(&mut self, cpu_ns: i64) {
        // Beyond a millisecond it was not the call.
        let cost = cpu_ns.clamp(0, 1_000_000) as f32;
        self.call_ns += (cost - self.call_ns) / 8.0;
    }

    /// The typical wake-up latency of waits of `wait_ns` (median), in ns; none before the first.
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

    /// Moves the margin towards a latency: a fourth of the way up or an eighth of the way down, as if it were no farther than a quarter of
    /// the margin away, so that an outlier cannot pull far. Up faster, since what the margin covers too much is spun off and what it covers
    /// too little is late: that settles above the middle, where what is beyond weighs half of what is below (an expectile of two thirds).
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

    /// Computes the margin anew; `surprise` is a latency that it did not cover.
    #[inline(never)]
    fn update(&mut self, surprise: Option<u32>, aim: Aim, terms: &Terms, call_ns: f32) {
        if let Some(latency) = surprise.filter(|_| self.seen == FEW) {
            self.surprises += 1;
            if self.surprises == CHANGED {
                self.start_anew(latency, terms.memory);
            }
        }
        self.until_update = EVERY;
        let (margin, spin_below) = self.margin(aim, call_ns);
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
        // What is remembered is far above anything recent: it was another machine.
        if self.held_down {
            self.latencies.forget_half();
        }
    }

    /// Forgets all but the newest latency.
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

    /// The margin by itself, and the length below which waits are spun from end to end.
    fn margin(&self, aim: Aim, call_ns: f32) -> (u32, u32) {
        match aim {
            Aim::Balanced { .. } | Aim::Lateness { .. } if self.seen < FEW => {
                let largest = self.largest_ns();
                (largest + largest / 4, 0)
            }
            Aim::Balanced { worth } => {
                // Four seconds are as good as any price.
                let (margin, cost) =
                    self.latencies.cheapest_margin(u32::try_from(worth.as_nanos()).unwrap_or(u32::MAX));
                // Spun only where sleeping costs twice as much: a sleeping thread leaves the CPU to others.
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
