//! The ways of a plan, opened on the measuring thread, with socket and receiver.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::{Breather, Rate, format_duration};
use punctual_linux as linux;
use punctual_record::{Recorder, SeriesTally, Usage};

use super::drift::Drift;
use super::plan::{Goal, Plan, Target};
use super::receiver::{NoReceiver, Receiver};
use super::stand::{Counts, Figures, MOST_EVENTS, Order, Stand};
use super::way::{Gate, Terms};
use super::wire::Wire;
use crate::rounds::{Bench, Failure};
use crate::usage::Sum;

/// Longest stretch under a real-time policy between two looks at whether others need the CPU.
const STRETCH: Duration = Duration::from_millis(50);

/// What a cell has beside its lateness.
#[derive(Debug, Clone, Default)]
pub(super) struct Beside {
    pub(super) jitter: SeriesTally,
    pub(super) one_way: SeriesTally,
    pub(super) arrival_jitter: SeriesTally,
    pub(super) counts: Counts,
    pub(super) drift: Drift,
    pub(super) by_kernel: bool,
    rounds: u32,
}

/// What all cells have beside their lateness; seen by two threads.
pub(super) type SharedBeside = Arc<Mutex<Vec<Beside>>>;

pub(super) fn open(beside: &SharedBeside) -> MutexGuard<'_, Vec<Beside>> {
    beside.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A way, opened: its gate and, where datagrams are sent, its socket.
type Opened = Result<(Box<dyn Gate>, Option<Wire>), Failure>;

/// The ways of a plan, opened.
pub(super) struct PaceBench<'a> {
    plan: &'a Plan,
    opened: Vec<Opened>,
    pub(super) receiver: Option<Receiver>,
    stand: Stand,
    recorders: [Recorder; 3],
    /// What the cell has beside its lateness with the trials of the last batch, until that is known to count.
    last: Beside,
    drift: Drift,
    breather: Breather,
    beside: SharedBeside,
    stream: u32,
    rate: Rate,
}

/// Whether datagrams are received by ourselves, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reception {
    /// They are, or nothing is sent.
    Own,
    /// They go to another machine.
    Elsewhere,
    /// Somebody else listens there.
    Taken(SocketAddr),
    /// It could not be.
    Failed(String),
}

impl<'a> PaceBench<'a> {
    /// Opens everything on the calling thread.
    pub(super) fn open(plan: &'a Plan, beside: &SharedBeside) -> (Self, Reception) {
        let wanted = &plan.wanted;
        let (receiver, reception) = receiver_for(wanted.target);
        let disciplines = match wanted.target {
            Target::TickOnly => None,
            // What the kernel does not tell, it cannot be asked to do.
            Target::Udp { to, .. } => Some(Wire::disciplines(to).unwrap_or_default()),
        };
        let terms = Terms { disciplines, jitter: wanted.jitter };
        let opened = wanted.ways.iter().map(|way| open_way(way, wanted.target, &terms)).collect();
        let rate = match wanted.goal {
            Goal::Keep(rate) | Goal::Highest { from: rate, .. } => rate,
        };
        let bench = Self {
            plan,
            opened,
            receiver,
            stand: Stand::new(),
            recorders: std::array::from_fn(|_| Recorder::new()),
            last: Beside::default(),
            drift: Drift::default(),
            breather: Breather::new(),
            beside: Arc::clone(beside),
            // Streams of another run that are still on their way are not ours.
            stream: std::process::id().wrapping_mul(65_537),
            rate,
        };
        (bench, reception)
    }

    /// One trial of a way at a rate.
    pub(super) fn trial(
        &mut self,
        way: usize,
        rate: Rate,
        events: u64,
        lateness: &mut Recorder,
    ) -> Result<(Usage, Counts, bool), Failure> {
        let (gate, wire) = match &mut self.opened[way] {
            Ok((gate, wire)) => (gate.as_mut(), wire.as_mut()),
            Err(failure) => return Err(failure.clone()),
        };
        self.stream = self.stream.wrapping_add(1);
        let order = Order { rate, events, mode: self.plan.wanted.ways[way].mode, stream: self.stream };
        self.recorders.iter_mut().for_each(Recorder::clear);
        let [jitter, one_way, arrival_jitter] = &mut self.recorders;
        self.drift = Drift::default();
        let mut figures = Figures { lateness, jitter, one_way, arrival_jitter, drift: &mut self.drift };
        let ended = self.stand.perform(order, gate, wire, self.receiver.as_ref(), &mut figures);
        let (usage, counts, by_kernel) = ended.map_err(|error| match linux::stop::requested() {
            true => Failure::Stopped,
            false => Failure::Impossible { why: error.to_string(), remedy: remedy_for(&error) },
        })?;
        if counts.events >= 10 && counts.sent == 0 && self.plan.wanted.target != Target::TickOnly {
            let why = if counts.refused > 0 {
                "nobody listens there (ECONNREFUSED)"
            } else {
                "the kernel had no room for a single datagram"
            };
            let remedy = Some("start `punctual pace --receive` there, or send to the loopback".into());
            return Err(Failure::Impossible { why: why.into(), remedy });
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
        last.by_kernel = by_kernel;
    }
}

fn receiver_for(target: Target) -> (Option<Receiver>, Reception) {
    let Target::Udp { to, .. } = target else { return (None, Reception::Own) };
    if !to.ip().is_loopback() {
        return (None, Reception::Elsewhere);
    }
    match Receiver::start(to) {
        Ok(receiver) => (Some(receiver), Reception::Own),
        Err(NoReceiver::Taken) => (None, Reception::Taken(to)),
        Err(NoReceiver::Failed(error)) => (None, Reception::Failed(error.to_string())),
    }
}

fn open_way(way: &super::way::Way, target: Target, terms: &Terms) -> Opened {
    let gate = (way.open)(terms).map_err(|no| Failure::Impossible { why: no.why, remedy: no.remedy })?;
    let wire = match target {
        Target::TickOnly => None,
        Target::Udp { to, size } => Some(
            Wire::open(to, size, way.mode, terms.clock())
                .map_err(|error| Failure::Impossible { why: error.to_string(), remedy: remedy_for(&error) })?,
        ),
    };
    Ok((gate, wire))
}

/// What to do about a network that does not take a datagram.
fn remedy_for(error: &linux::Error) -> Option<String> {
    let unreachable =
        matches!(error.source.kind(), std::io::ErrorKind::NetworkUnreachable | std::io::ErrorKind::HostUnreachable);
    let too_long = error.errno() == rustix::io::Errno::MSGSIZE.raw_os_error();
    match (unreachable, too_long) {
        (true, _) => Some("no route leads there: look at `ip route get ADDRESS`".into()),
        (_, true) => Some("the path takes no datagram of that size: lower --size".into()),
        _ => None,
    }
}

impl Bench for PaceBench<'_> {
    fn doing(&self, cell: usize) -> String {
        let (way, variant) = self.plan.cells[cell];
        let label = &self.plan.wanted.variants[variant].label;
        let every = format_duration(Duration::from_nanos(self.rate.period_ns()));
        format!("{} every {every} ({label})", self.plan.wanted.ways[way].name)
    }

    fn variant(&self, cell: usize) -> usize {
        self.plan.cells[cell].1
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let (way, variant) = self.plan.cells[cell];
        let real_time = self.plan.wanted.variants[variant].is_real_time();
        let stretch = (self.rate.per_second_f64() * STRETCH.as_secs_f64()) as u64;
        let most = if real_time { stretch.clamp(1, MOST_EVENTS) } else { MOST_EVENTS };
        self.last = open(&self.beside)[cell].clone();
        let mut total = Sum::default();
        let mut to_go = operations;
        while to_go > 0 {
            let events = most.min(to_go);
            let (usage, counts, by_kernel) = self.trial(way, self.rate, events, into)?;
            if real_time {
                self.breather.after(Duration::from_nanos(usage.cpu_ns.unwrap_or(usage.elapsed_ns)));
            }
            self.note(&counts, usage, by_kernel);
            total.add(usage);
            to_go -= events;
        }
        Ok(total.usage())
    }

    fn keep(&mut self, cell: usize) {
        open(&self.beside)[cell] = std::mem::take(&mut self.last);
    }
}
