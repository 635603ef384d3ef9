//! The methods of a plan, opened on the measuring thread with socket and receiver.

use std::time::Duration;

use punctual::{Rate, RtThrottle, format_duration};
use punctual_linux as linux;
use punctual_record::{Hint, Notice, Recorder, SeriesTally, Usage};

use super::plan::{PacingMethod, PacingSession, Plan, Target, Terms};
use super::stand::{Counts, Figures, MOST_EVENTS, Order, Stand};
use crate::datagrams::{Receiver, Wire};
use crate::frame::figures::{Drift, Sum};
use crate::frame::plan::MethodCell;
use crate::frame::{Bench, Failure, Scene, Unavailable};

/// Longest stretch under a real-time policy between two checks whether others need the CPU.
const STRETCH: Duration = Duration::from_millis(50);

/// A cell's results beside its lateness.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beside {
    pub(super) jitter: SeriesTally,
    pub(super) one_way: SeriesTally,
    pub(super) arrival_jitter: SeriesTally,
    pub(super) counts: Counts,
    pub(super) drift: Drift,
    /// Trials whose departures are the kernel's stamps, and all trials.
    pub(super) by_kernel: u32,
    pub(super) rounds: u32,
    /// The rate that each trial reached.
    pub(super) rates: Vec<f64>,
}

/// An open method: its pacing session and, if datagrams are sent, its socket.
type Opened = Result<(Box<dyn PacingSession>, Option<Wire>), Failure>;

/// The open methods of a plan.
pub(super) struct PaceBench<'a> {
    plan: &'a Plan,
    opened: Vec<Opened>,
    receiver: Option<Receiver>,
    stand: Stand,
    recorders: [Recorder; 3],
    /// By cell: the batches that count.
    so_far: Vec<Beside>,
    /// The same with the last batch, until it counts.
    last: Beside,
    drift: Drift,
    throttle: RtThrottle,
    stream: u32,
    rate: Rate,
}

impl<'a> PaceBench<'a> {
    /// Opens all other resources on the calling thread.
    pub(super) fn open(plan: &'a Plan, receiver: Option<Receiver>, rate: Rate) -> Self {
        let disciplines = match plan.asked.target {
            Target::TickOnly => None,
            // If the kernel reports no facts of the interface, it cannot be asked to pace.
            Target::Udp { to, .. } => Some(Wire::disciplines(to).unwrap_or_default()),
        };
        let terms = Terms { disciplines, jitter: plan.asked.jitter };
        let opened = plan.asked.methods.iter().map(|method| open_method(method, plan.asked.target, &terms)).collect();
        Self {
            plan,
            opened,
            receiver,
            stand: Stand::new(),
            recorders: std::array::from_fn(|_| Recorder::new()),
            so_far: vec![Beside::default(); plan.cells.len()],
            last: Beside::default(),
            drift: Drift::default(),
            throttle: RtThrottle::new(),
            // Streams of another run that are still in flight do not belong to this one.
            stream: std::process::id().wrapping_mul(65_537),
            rate,
        }
    }

    /// One trial of a method at a rate.
    pub(super) fn trial(
        &mut self,
        method: usize,
        rate: Rate,
        events: u64,
        lateness: &mut Recorder,
    ) -> Result<(Usage, Counts, bool), Failure> {
        let (pacing, wire) = match &mut self.opened[method] {
            Ok((pacing, wire)) => (pacing.as_mut(), wire.as_mut()),
            Err(failure) => return Err(failure.clone()),
        };
        self.stream = self.stream.wrapping_add(1);
        let order = Order { rate, events, mode: self.plan.asked.methods[method].mode, stream: self.stream };
        self.recorders.iter_mut().for_each(Recorder::clear);
        let [jitter, one_way, arrival_jitter] = &mut self.recorders;
        self.drift = Drift::default();
        let mut figures = Figures { lateness, jitter, one_way, arrival_jitter, drift: &mut self.drift };
        let ended = self.stand.perform(order, pacing, wire, self.receiver.as_ref(), &mut figures);
        let (usage, counts, by_kernel) = ended.map_err(|error| match linux::stop::requested() {
            true => Failure::Stopped,
            false => Unavailable { why: error.to_string(), remedy: remedy_for(&error) }.into(),
        })?;
        if counts.events >= 10 && counts.sent == 0 && self.plan.asked.target != Target::TickOnly {
            let why = if counts.refused > 0 {
                "nobody listens there (ECONNREFUSED)"
            } else {
                "the kernel had no room for a single datagram"
            };
            return Err(Unavailable::but(why, "start a receiver of punctual there, or send to the loopback").into());
        }
        Ok((usage, counts, by_kernel))
    }

    /// Adds a trial of this batch.
    fn note(&mut self, counts: &Counts, usage: Usage, by_kernel: bool) {
        let [jitter, one_way, arrival_jitter] = &self.recorders;
        let last = &mut self.last;
        let round = last.rounds;
        last.rounds += 1;
        last.jitter.add_round(round, 0, jitter, usage);
        last.one_way.add_round(round, 0, one_way, usage);
        last.arrival_jitter.add_round(round, 0, arrival_jitter, usage);
        last.counts.add(counts);
        last.drift.add(&self.drift);
        last.by_kernel += u32::from(by_kernel);
        last.rates.extend(counts.rate_reached());
    }
}

fn open_method(method: &PacingMethod, target: Target, terms: &Terms) -> Opened {
    let pacing = (method.open)(terms)?;
    let wire = match target {
        Target::TickOnly => None,
        Target::Udp { to, size } => Some(
            Wire::open(to, size, method.mode, terms.clock())
                .map_err(|error| Unavailable { why: error.to_string(), remedy: remedy_for(&error) })?,
        ),
    };
    Ok((pacing, wire))
}

/// The remedy if a network refuses a datagram.
fn remedy_for(error: &linux::Error) -> Option<Hint> {
    let unreachable =
        matches!(error.source.kind(), std::io::ErrorKind::NetworkUnreachable | std::io::ErrorKind::HostUnreachable);
    let too_long = error.errno() == rustix::io::Errno::MSGSIZE.raw_os_error();
    match (unreachable, too_long) {
        (true, _) => Some("no route leads there: look at `ip route get ADDRESS`".into()),
        (_, true) => Some("the path takes no datagram of that size: send smaller ones".into()),
        _ => None,
    }
}

impl Bench for PaceBench<'_> {
    type Extra = Beside;

    fn doing(&self, cell: usize) -> String {
        let MethodCell { method, variant } = self.plan.cells[cell];
        let label = &self.plan.asked.frame.variants[variant].label;
        let every = format_duration(Duration::from_nanos(self.rate.period_ns()));
        format!("{} every {every} ({label})", self.plan.asked.methods[method].name)
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let MethodCell { method, variant } = self.plan.cells[cell];
        let real_time = self.plan.asked.frame.variants[variant].is_real_time();
        let stretch = (self.rate.per_second_f64() * STRETCH.as_secs_f64()) as u64;
        let most = if real_time { stretch.clamp(1, MOST_EVENTS) } else { MOST_EVENTS };
        self.last = self.so_far[cell].clone();
        let mut total = Sum::default();
        let mut to_go = operations;
        while to_go > 0 {
            let events = most.min(to_go);
            let (usage, counts, by_kernel) = self.trial(method, self.rate, events, into)?;
            if real_time {
                self.throttle.after(Duration::from_nanos(usage.cpu_ns.unwrap_or(usage.elapsed_ns)));
            }
            self.note(&counts, usage, by_kernel);
            total.add(usage);
            to_go -= events;
        }
        Ok(total.usage())
    }

    fn keep(&mut self, cell: usize, _: (u32, u64), beside: &mut Beside) {
        self.so_far[cell] = self.last.clone();
        *beside = std::mem::take(&mut self.last);
    }
}

impl Plan {
    /// The receiver, if datagrams go to this machine. Adds a notice if arrivals are not measured.
    pub(super) fn gather(&self, scene: &Scene<'_>) -> Option<Receiver> {
        let Target::Udp { to, .. } = self.asked.target else { return None };
        let here = to.ip().is_loopback().then(|| Receiver::start(to));
        let why = match here {
            None => "the datagrams go to another machine; a receiver of punctual there measures them".to_owned(),
            Some(Ok(receiver)) => return Some(receiver),
            Some(Err(error)) if error.source.kind() == std::io::ErrorKind::AddrInUse => {
                format!("another program receives at {to}; a receiver of punctual would measure them")
            }
            Some(Err(error)) => format!("no receiver could be started: {error}"),
        };
        scene.notice(Notice::Other { text: format!("arrivals are not measured: {why}") });
        None
    }
}
