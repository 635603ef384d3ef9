//! The plan of `yield --polls`: ways to receive a message, polls before each yield, and the sender's CPU.

use std::time::Duration;

use punctual::CpuSet;

use crate::frame::places::allowed_cpu;
use crate::frame::{self, Family as _, Input, PlanError, one_cpu};
use crate::ways::YieldMethod;

/// Most polls before a yield: about a second of polling.
pub const MOST_POLLS: u32 = 100_000_000;
/// Most numbers of polls in one run.
const MOST_SETTINGS: usize = 32;

/// One way to wait for a message.
#[derive(Debug, Clone, Copy)]
pub enum ReceiveMethod {
    /// Polls without yielding.
    Spin,
    /// Polls N times, then yields, then polls again.
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

impl ReceiveMethod {
    /// The ways that these polls and this many ways to yield make.
    fn all(methods: usize, polls: &[u32]) -> Vec<Self> {
        let mut all = Vec::new();
        all.extend(polls.contains(&0).then_some(Self::Spin));
        for method in 0..methods {
            all.extend(polls.iter().filter(|n| **n > 0).map(|&polls| Self::Yield { method, polls }));
        }
        all.extend([Self::Block, Self::Backoff]);
        all
    }

    /// Its name in the record.
    pub(super) fn subject(self, methods: &[&'static YieldMethod]) -> &'static str {
        match self {
            Self::Spin => "never_yields",
            Self::Yield { method, .. } => methods[method].name,
            Self::Block => "futex_wait",
            Self::Backoff => "backoff",
        }
    }
}

/// The subjects of a run with these ways to yield and these polls.
#[must_use]
pub fn subjects(methods: &[&'static YieldMethod], polls: &[u32]) -> Vec<&'static str> {
    ReceiveMethod::all(methods.len(), polls).into_iter().map(|how| how.subject(methods)).collect()
}

/// One way, with or without a busy program on the receiver's CPU, under one variant.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    /// The receiver's way of waiting.
    pub how: ReceiveMethod,
    /// A busy program competes for the receiver's CPU.
    pub busy: bool,
    /// Index into the variants of the request.
    pub variant: usize,
}

impl Cell {
    /// Shortest and longest pause before a message. With a busy program it spans several time slices. So
    /// messages come at any time of the receiver's slice, also long after it has lost the CPU.
    pub(crate) fn pause(&self) -> (Duration, Duration) {
        let most = if self.busy { Duration::from_millis(20) } else { Duration::from_millis(2) };
        (Duration::from_micros(50), most)
    }

    /// Time for which the receiver waits without a message, per received message. The shares of the CPU are
    /// measured only then.
    pub(crate) fn silence(&self) -> Duration {
        if self.busy { Duration::from_millis(5) } else { Duration::ZERO }
    }
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The ways to yield.
    pub methods: Vec<&'static YieldMethod>,
    /// The cells, in the order of the first round.
    pub cells: Vec<Cell>,
    /// Conditions of the receiver, including its only CPU, and amounts.
    pub request: frame::Request,
    /// The CPU of the receiver and of the busy program.
    pub cpu: usize,
    /// The sender's CPU.
    pub sender_cpu: usize,
}

/// The request for a plan.
#[derive(Debug, Clone)]
pub struct Request {
    /// The ways to yield.
    pub methods: Vec<&'static YieldMethod>,
    /// Polls before each yield. 0: it never yields.
    pub polls: Vec<u32>,
    /// The sender's CPU. None: another than the receiver's, if there is one.
    pub sender_cpu: Option<CpuSet>,
    /// Conditions of the receiver, and amounts. They name one CPU, or none: then one is chosen.
    pub frame: frame::Request,
}

impl Plan {
    /// Checks the request and lays out the cells.
    pub fn new(request: Request) -> Result<Self, PlanError> {
        let cpu = one_cpu(request.frame.base.get_cpus().as_ref())?;
        // Any CPU but the receiver's, or the receiver's if it is the only one.
        let other = |allowed: &CpuSet| allowed.iter().find(|other| *other != cpu).or(Some(cpu));
        let sender_cpu = allowed_cpu(Input::SenderCpu, request.sender_cpu.as_ref(), other)?;
        let mut polls = request.polls.clone();
        polls.sort_unstable();
        polls.dedup();
        Input::Polls.check((1..=MOST_SETTINGS).contains(&polls.len()), || {
            format!("must be 1 to {MOST_SETTINGS} different numbers, not {}", polls.len())
        })?;
        let many = polls.iter().find(|number| **number > MOST_POLLS).copied().unwrap_or_default();
        Input::Polls.check(many == 0, || {
            format!("must be at most {MOST_POLLS}, not {many}: that is seconds before the first yield")
        })?;
        request.frame.check()?;
        let plan = Self::lay_out(request, &polls, (cpu, sender_cpu));
        plan.checked()
    }

    fn lay_out(request: Request, polls: &[u32], (cpu, sender_cpu): (usize, usize)) -> Self {
        let receive_methods = ReceiveMethod::all(request.methods.len(), polls);
        let mut cells = Vec::new();
        for variant in 0..request.frame.variants.len() {
            for busy in [false, true] {
                cells.extend(receive_methods.iter().map(|&how| Cell { how, busy, variant }));
            }
        }
        let base = request.frame.base.cpu(cpu);
        let frame = frame::Request { base, ..request.frame };
        Self { methods: request.methods, cells, request: frame, cpu, sender_cpu }
    }

    /// Whether sender and receiver share a CPU.
    pub(crate) fn shares_cpu(&self) -> bool {
        self.cpu == self.sender_cpu
    }
}

#[cfg(test)]
mod tests {
    use punctual::Conditions;

    use super::*;
    use crate::families::yielding::methods;
    use crate::frame::{Amount, Variant};

    fn request(polls: &[u32]) -> Request {
        Request {
            methods: methods::usual(),
            polls: polls.to_vec(),
            sender_cpu: None,
            frame: frame::Request::as_found(Amount::Time(Duration::from_secs(1)), 10),
        }
    }

    #[test]
    fn zero_is_one_way_whatever_the_methods() {
        let plan = Plan::new(request(&[0, 100, 100, 1])).unwrap();
        let spins = plan.cells.iter().filter(|c| matches!(c.how, ReceiveMethod::Spin)).count();
        // Two methods with two numbers each, and spinning, blocking, backing off; each idle and busy.
        assert_eq!((plan.cells.len(), spins), (2 * (2 * 2 + 3), 2));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |request: Request| Plan::new(request).unwrap_err();
        assert!(refused(request(&[MOST_POLLS + 1])).why.contains("at most 100000000"));
        assert!(refused(request(&(0..40).collect::<Vec<_>>())).why.contains("1 to 32 different numbers, not 40"));
        assert_eq!(refused(request(&[])).input, Input::Polls);
        let far = refused(Request { sender_cpu: Some(CpuSet::from_iter([7999])), ..request(&[1]) });
        assert!(
            far.to_string().starts_with("invalid CPU of the sender: this process may not run on CPU 7999"),
            "{far}"
        );
        let frame = frame::Request { amount: Amount::Samples(1 << 30), ..request(&[1]).frame };
        assert!(refused(Request { frame, ..request(&[1]) }).why.contains("give the time instead"));
    }

    #[test]
    fn a_real_time_poller_never_shares_its_senders_cpu() {
        let fifo = Variant::new(Conditions::new().policy(punctual::Policy::Fifo(1)));
        let frame = frame::Request { variants: vec![fifo], ..request(&[]).frame };
        let mut plan = Plan::new(Request { frame, ..request(&[0, 1]) }).unwrap();
        plan.sender_cpu = plan.cpu;
        let allowed = (0..plan.cells.len()).filter(|cell| plan.forbidden(*cell).is_none());
        assert!(
            allowed.clone().all(|cell| matches!(plan.cells[cell].how, ReceiveMethod::Block | ReceiveMethod::Backoff))
        );
        assert_eq!(allowed.count(), 4);
    }
}
