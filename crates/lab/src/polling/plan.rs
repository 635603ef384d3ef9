//! The plan of `yield --polls`: which ways to wait for a message, how many polls before each yield, where the sender sits.

use std::time::Duration;

use punctual::conditions::{Conditions, CpuSet};
use punctual_linux as linux;

use crate::schedule::{Amount, CellCost, Schedule};
use crate::variant::Variant;
use crate::yielding::method::Method;
use crate::yielding::plan::{PlanError as YieldPlanError, one_cpu};

/// Most polls before a yield: a second of polling, more than anybody would call waiting.
pub const MOST_POLLS: u32 = 100_000_000;
/// Most numbers of polls in one run.
const MOST_SETTINGS: usize = 32;
/// Longest run that is begun without a word: ten minutes.
const LONGEST_UNASKED: Duration = Duration::from_secs(600);

/// One way to wait for a message.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// Polls and never yields.
    Spin,
    /// Polls so many times, then yields, then polls again.
    Yield {
        /// Index into [`Plan::methods`].
        method: usize,
        /// Polls before each yield, at least 1.
        polls: u32,
    },
    /// Sleeps on a futex until the sender wakes it.
    Block,
    /// `punctual::Backoff`, tuned.
    Backoff,
}

/// One way, with or without a busy program on the receiver's CPU, under one variant.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    /// How it waits.
    pub way: Way,
    /// A busy program competes for the receiver's CPU.
    pub busy: bool,
    /// Index into [`Plan::variants`].
    pub variant: usize,
}

impl Cell {
    /// Shortest and longest pause before a message. With a busy program it spans several slices of the scheduler, so that messages
    /// come at any moment of the receiver's life, also long after it has lost the CPU.
    #[must_use]
    pub fn pause(&self) -> (Duration, Duration) {
        let most = if self.busy { Duration::from_millis(20) } else { Duration::from_millis(2) };
        (Duration::from_micros(50), most)
    }

    /// How long the receiver waits for a message that never comes, per message that came: only then the shares of the CPU are taken.
    #[must_use]
    pub fn silence(&self) -> Duration {
        if self.busy { Duration::from_millis(5) } else { Duration::ZERO }
    }
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The ways to yield.
    pub methods: Vec<&'static Method>,
    /// What is measured, in the order of the first round.
    pub cells: Vec<Cell>,
    /// Conditions of the receiver, put side by side.
    pub variants: Vec<Variant>,
    /// Conditions of the receiver that hold throughout; its only CPU among them.
    pub base: Conditions,
    /// The receiver's CPU, and that of the busy program.
    pub cpu: usize,
    /// The sender's CPU.
    pub sender_cpu: usize,
    /// How much.
    pub amount: Amount,
    /// In how many rounds.
    pub rounds: u32,
    /// Messages at the beginning of each batch that are not recorded.
    pub warmup: u32,
    /// A refused condition is an error.
    pub require: bool,
}

/// What a plan is made from.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The ways to yield.
    pub methods: Vec<&'static Method>,
    /// Polls before each yield; 0: never yields.
    pub polls: Vec<u32>,
    /// Conditions of the receiver, put side by side.
    pub variants: Vec<Variant>,
    /// Conditions of the receiver that hold throughout. One CPU, or none: one is chosen.
    pub base: Conditions,
    /// The sender's CPU; none: another than the receiver's, where there is one.
    pub sender_cpu: Option<CpuSet>,
    /// How much.
    pub amount: Amount,
    /// In how many rounds.
    pub rounds: u32,
    /// Unrecorded messages per batch.
    pub warmup: u32,
    /// A refused condition is an error.
    pub require: bool,
}

/// Why a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A CPU, or an amount.
    #[error(transparent)]
    Common(#[from] YieldPlanError),
    /// The sender's CPU.
    #[error("--sender-cpu {asked}: name one of the CPUs that this process may run on ({allowed})")]
    SenderCpu {
        /// What was asked.
        asked: CpuSet,
        /// Where it may run.
        allowed: CpuSet,
    },
    /// Too many numbers of polls.
    #[error("--polls has {0} numbers; at most {most} are compared in one run", most = MOST_SETTINGS)]
    TooManySettings(usize),
    /// A number of polls that is too large.
    #[error("--polls {0} would poll for seconds before the first yield; at most {most} polls", most = MOST_POLLS)]
    TooManyPolls(u32),
}

impl Plan {
    /// Checks what is wanted and lays out the cells.
    pub fn new(wanted: Wanted) -> Result<Self, PlanError> {
        let cpu = one_cpu(wanted.base.cpus.as_ref())?;
        let sender_cpu = sender_cpu(wanted.sender_cpu.as_ref(), cpu)?;
        let mut polls = wanted.polls.clone();
        polls.sort_unstable();
        polls.dedup();
        if polls.len() > MOST_SETTINGS {
            return Err(PlanError::TooManySettings(polls.len()));
        }
        if let Some(many) = polls.iter().find(|n| **n > MOST_POLLS) {
            return Err(PlanError::TooManyPolls(*many));
        }
        for (empty, what) in [
            (wanted.rounds == 0, "--rounds"),
            (wanted.amount == Amount::Samples(0), "--samples"),
            (polls.is_empty(), "the number of --polls"),
        ] {
            if empty {
                return Err(YieldPlanError::None(what).into());
            }
        }
        let plan = Self::lay_out(wanted, &polls, (cpu, sender_cpu));
        if let Amount::Samples(samples) = plan.amount {
            let would_take = plan.schedule().expected();
            if would_take > LONGEST_UNASKED {
                return Err(YieldPlanError::Endless { samples, series: plan.cells.len(), would_take }.into());
            }
        }
        Ok(plan)
    }

    fn lay_out(wanted: Wanted, polls: &[u32], (cpu, sender_cpu): (usize, usize)) -> Self {
        let mut ways = Vec::new();
        ways.extend(polls.contains(&0).then_some(Way::Spin));
        for method in 0..wanted.methods.len() {
            ways.extend(polls.iter().filter(|n| **n > 0).map(|&polls| Way::Yield { method, polls }));
        }
        ways.extend([Way::Block, Way::Backoff]);
        let mut cells = Vec::new();
        for variant in 0..wanted.variants.len() {
            for busy in [false, true] {
                cells.extend(ways.iter().map(|&way| Cell { way, busy, variant }));
            }
        }
        Self {
            methods: wanted.methods,
            cells,
            variants: wanted.variants,
            base: Conditions { cpus: Some(CpuSet::of([cpu])), ..wanted.base },
            cpu,
            sender_cpu,
            amount: wanted.amount,
            rounds: wanted.rounds,
            warmup: wanted.warmup,
            require: wanted.require,
        }
    }

    /// Whether sender and receiver share a CPU.
    #[must_use]
    pub fn shares_cpu(&self) -> bool {
        self.cpu == self.sender_cpu
    }

    /// Why this cell must not be run, if it must not.
    #[must_use]
    pub fn forbidden(&self, cell: &Cell) -> Option<(String, String)> {
        let polls = matches!(cell.way, Way::Spin | Way::Yield { .. });
        (polls && self.shares_cpu() && self.variants[cell.variant].is_real_time()).then(|| {
            (
                "a receiver that polls under a real-time policy keeps a sender on its CPU from sending".into(),
                "give the sender another CPU (--sender-cpu), or leave out --policy".into(),
            )
        })
    }

    /// The schedule of this plan's cells.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        let cost = |cell: &Cell| {
            let (least, most) = cell.pause();
            let ns = ((least + most) / 2 + cell.silence()).as_nanos() as f64;
            CellCost { ideal_ns: ns, expected_ns: ns }
        };
        Schedule::new(self.amount, self.rounds, &self.cells.iter().map(cost).collect::<Vec<_>>())
    }
}

/// The one asked for, or any but the receiver's, or, on a single CPU, the receiver's.
fn sender_cpu(asked: Option<&CpuSet>, receiver: usize) -> Result<usize, PlanError> {
    let allowed = CpuSet::of(linux::affinity::affinity(0).map_err(YieldPlanError::Cpus)?);
    match asked.map(|set| (set, set.as_slice())) {
        None => Ok(allowed.iter().find(|cpu| *cpu != receiver).unwrap_or(receiver)),
        Some((_, [cpu])) if allowed.contains(*cpu) => Ok(*cpu),
        Some((asked, _)) => Err(PlanError::SenderCpu { asked: asked.clone(), allowed }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::polling::usual_methods;

    fn wanted(polls: &[u32]) -> Wanted {
        Wanted {
            methods: usual_methods(),
            polls: polls.to_vec(),
            variants: vec![Variant::as_found()],
            base: Conditions::default(),
            sender_cpu: None,
            amount: Amount::Time(Duration::from_secs(1)),
            rounds: 10,
            warmup: 1,
            require: false,
        }
    }

    #[test]
    fn zero_is_one_way_whatever_the_methods() {
        let plan = Plan::new(wanted(&[0, 100, 100, 1])).unwrap();
        let spins = plan.cells.iter().filter(|c| matches!(c.way, Way::Spin)).count();
        // Two methods with two numbers each, spinning, blocking, backing off; idle and busy.
        assert_eq!((plan.cells.len(), spins), (2 * (2 * 2 + 3), 2));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |wanted: Wanted| Plan::new(wanted).unwrap_err().to_string();
        assert!(refused(wanted(&[MOST_POLLS + 1])).contains("at most 100000000 polls"));
        assert!(refused(wanted(&(0..40).collect::<Vec<_>>())).contains("--polls has 40 numbers"));
        assert!(refused(wanted(&[])).contains("--polls"));
        let far = Wanted { sender_cpu: Some(CpuSet::of([7999])), ..wanted(&[1]) };
        assert!(refused(far).contains("--sender-cpu 7999"));
        let endless = Wanted { amount: Amount::Samples(1 << 30), ..wanted(&[1]) };
        assert!(refused(endless).contains("--duration"));
    }

    #[test]
    fn a_real_time_poller_never_shares_its_senders_cpu() {
        let fifo = Variant::of(Conditions { policy: Some(punctual::Policy::Fifo(1)), ..Conditions::default() });
        let mut plan = Plan::new(Wanted { variants: vec![fifo], ..wanted(&[0, 1]) }).unwrap();
        plan.sender_cpu = plan.cpu;
        let allowed = plan.cells.iter().filter(|c| plan.forbidden(c).is_none());
        assert!(allowed.clone().all(|c| matches!(c.way, Way::Block | Way::Backoff)));
        assert_eq!(allowed.count(), 4);
    }
}
