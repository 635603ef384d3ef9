//! The plan of `ipc`, validated before anything is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::Duration;

use punctual::conditions::{Condition, Conditions};
use punctual::{CpuSet, Policy, format_duration};
use punctual_record::experiment::ipc;
use punctual_record::experiment::ipc::Placement;
use punctual_record::remedy::phrase_of;

use crate::families::ipc::mechanism::{Mechanism, Receive};
use crate::families::ipc::message::SHORTEST;
use crate::frame;
use crate::frame::{Family as _, Input, PlanError, Variant, at_least_one};

/// Up to this size each message's whole contents are checked by default: a page, which takes less than a wake-up.
const VERIFIED_UP_TO: usize = 4096;
/// Default size: a cache line.
const USUAL_SIZE: usize = 64;
/// Warm-up messages if they come quickly: enough for the caches and pages of a process just started.
const QUICK_WARMUP: u64 = 50;
/// Warm-up messages if each takes its interval.
const SLOW_WARMUP: u64 = 3;
/// Longest interval of the messages of a series.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);

/// One mechanism, size, mode, place, method of receiving and variant: it becomes a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Index into [`Request::mechanisms`].
    pub mechanism: usize,
    /// Bytes of each message.
    pub size: usize,
    /// The kind of traffic.
    pub mode: Mode,
    /// The CPUs of sender and receiver.
    pub place: Place,
    /// How the receiver waits.
    pub receive: Receive,
    /// Index into the variants of the request.
    pub variant: usize,
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The request. The run's conditions apply to both processes, those of a variant to the measuring one.
    pub(super) asked: Request,
    /// The cells, in the order of the first round.
    pub cells: Vec<Cell>,
    /// For each variant, the policy of the other process.
    pub(super) peers: Vec<Option<Policy>>,
}

/// The request for a plan.
#[derive(Debug, Clone)]
pub struct Request {
    /// The mechanisms.
    pub mechanisms: Vec<&'static Mechanism>,
    /// Sizes. None: 64 bytes, or 8 if no more fit.
    pub sizes: Vec<usize>,
    /// The kinds of traffic.
    pub modes: Vec<Mode>,
    /// The CPUs of sender and receiver.
    pub places: Places,
    /// CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// Which of them belong to one core.
    pub topology: Topology,
    /// Methods of receiving. None: in the kernel, or polling if the mechanism cannot block.
    pub receive: Vec<Receive>,
    /// Conditions of both processes, and amounts.
    pub frame: frame::Request,
    /// Policies of the sender, if different from the variant's.
    pub sender_policies: Vec<Policy>,
    /// Policies of the receiver, if different from the variant's.
    pub receiver_policies: Vec<Policy>,
    /// Messages that may be in flight.
    pub depth: Option<usize>,
    /// Whole contents are checked.
    pub verify: Option<bool>,
    /// Messages per block.
    pub blocks: Option<u64>,
}

impl Plan {
    /// Checks the request and lays out the cells.
    pub fn new(request: Request) -> Result<Self, PlanError> {
        check(&request)?;
        let plan = Self::lay_out(request)?;
        Input::Methods.check(!plan.cells.is_empty(), || "must name at least one mechanism".to_owned())?;
        plan.checked()
    }

    fn lay_out(request: Request) -> Result<Self, PlanError> {
        let places = request.places.on(&request.cpus, &request.topology)?;
        let sides = sides(&request);
        let mut cells = Vec::new();
        for (variant, side) in sides.iter().enumerate() {
            let fits = |mode: &Mode| side.ping.is_none_or(|ping| ping == (*mode == Mode::PingPong));
            for &mode in request.modes.iter().filter(|mode| fits(mode)) {
                for &place in &places {
                    for (index, mechanism) in request.mechanisms.iter().enumerate() {
                        let usual = if mechanism.only_polls { Receive::Poll } else { Receive::Block };
                        for size in or_usual(request.sizes.iter().copied(), usual_size(mechanism)) {
                            for receive in or_usual(request.receive.iter().copied(), usual) {
                                cells.push(Cell { mechanism: index, size, mode, place, receive, variant });
                            }
                        }
                    }
                }
            }
        }
        let (variants, peers) = sides.into_iter().map(|side| (side.variant, side.peer)).unzip();
        let frame = frame::Request { variants, ..request.frame };
        Ok(Self { asked: Request { frame, ..request }, cells, peers })
    }

    /// Whether the whole contents of this cell's messages are checked.
    pub(crate) fn verifies(&self, cell: &Cell) -> bool {
        self.asked.verify.unwrap_or(cell.size <= VERIFIED_UP_TO)
    }

    /// Warm-up messages at the beginning of a batch.
    pub(crate) fn warmup_of(&self, cell: &Cell) -> u64 {
        let interval = cell.mode.interval().unwrap_or_default();
        let least = if interval < Duration::from_millis(1) { QUICK_WARMUP } else { SLOW_WARMUP };
        u64::from(self.asked.frame.warmup).max(least)
    }

    /// Whether a process of this cell can monopolise a CPU.
    #[must_use]
    pub fn is_real_time(&self, cell: &Cell) -> bool {
        self.asked.frame.variants[cell.variant].is_real_time()
            || self.peers[cell.variant].is_some_and(|p| p.is_real_time())
    }

    /// The pairs of different CPUs with this relation that messages pass between, each once.
    #[must_use]
    pub fn pairs(&self, relation: Relation) -> Vec<(usize, usize)> {
        let ends = |Place { sender: a, receiver: b }: Place| (a.min(b), a.max(b));
        let apart = self.cells.iter().map(|cell| cell.place).filter(|place| !place.is_same());
        let pairs: BTreeSet<_> = apart.map(ends).collect();
        pairs.into_iter().filter(|(a, b)| self.asked.topology.relation(*a, *b) == relation).collect()
    }
}

fn check(request: &Request) -> Result<(), PlanError> {
    if let Some(short) = request.sizes.iter().find(|size| **size < SHORTEST) {
        let why = format!("must be at least {SHORTEST} bytes, not {short}: a message carries its time of sending");
        return Err(PlanError::new(Input::Size, why));
    }
    at_least_one(Input::Depth, request.depth.map_or(1, |depth| u32::from(depth > 0)))?;
    request.frame.check()?;
    let intervals = request.modes.iter().filter_map(|mode| mode.interval());
    if let Some(bad) = intervals.into_iter().find(|i| *i < Duration::from_micros(1) || *i > LONGEST_INTERVAL) {
        let why = format!("must be 1us to 1h, not {}", format_duration(bad));
        return Err(PlanError::new(Input::Interval, why));
    }
    too_large(request)
}

/// Refuses a size that none of the mechanisms carries.
fn too_large(request: &Request) -> Result<(), PlanError> {
    for &size in &request.sizes {
        let mut limits = request.mechanisms.iter().map(|m| (m, (m.largest)()));
        let Some(largest) = limits.clone().max_by_key(|(_, l)| l.bytes.unwrap_or(u64::MAX)) else { continue };
        let carried = limits.any(|(_, limit)| limit.bytes.is_none_or(|bytes| size as u64 <= bytes));
        if let (false, (mechanism, limit)) = (carried, largest) {
            let (name, bytes, from) = (&mechanism.name, limit.bytes.unwrap_or(0), limit.from);
            let remedy = limit.remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
            let why = format!("must be at most {bytes} bytes with {name}, not {size}: that is {from}{remedy}");
            return Err(PlanError::new(Input::Size, why));
        }
    }
    Ok(())
}

fn usual_size(mechanism: &Mechanism) -> usize {
    let largest = (mechanism.largest)().bytes.unwrap_or(u64::MAX);
    if (USUAL_SIZE as u64) <= largest { USUAL_SIZE } else { SHORTEST }
}

/// What is asked for, or else the usual one.
fn or_usual<T>(asked: impl IntoIterator<Item = T>, usual: T) -> Vec<T> {
    let asked: Vec<T> = asked.into_iter().collect();
    if asked.is_empty() { vec![usual] } else { asked }
}

/// A variant, with the policy of the other process. The measuring process is the receiver, but the sender in ping-pong.
struct Side {
    variant: Variant,
    peer: Option<Policy>,
    /// Whether it is for ping-pong alone, or for all other traffic. None: for both.
    ping: Option<bool>,
}

fn sides(request: &Request) -> Vec<Side> {
    let or = |asked: &[Policy], base| or_usual(asked.iter().copied().map(Some), base);
    let mut all = Vec::new();
    for base in &request.frame.variants {
        let own = base.conditions.get_policy();
        let others = base.conditions.clone().without(Condition::POLICY);
        let mut add = |label: &str, here, peer, ping| {
            let conditions = others.clone().maybe(here, Conditions::policy);
            all.push(Side { variant: Variant { label: label.to_owned(), conditions }, peer, ping });
        };
        for sender in or(&request.sender_policies, own) {
            for receiver in or(&request.receiver_policies, own) {
                if sender == receiver {
                    let label = Variant::new(base.conditions.clone().maybe(sender, Conditions::policy)).label;
                    add(&label, receiver, sender, None);
                    continue;
                }
                let name =
                    |policy: Option<Policy>| Variant::new(Conditions::new().maybe(policy, Conditions::policy)).label;
                let mut label = format!("sender {}, receiver {}", name(sender), name(receiver));
                if !others.is_empty() {
                    label.push_str(&format!(", {}", phrase_of(&others)));
                }
                add(&label, receiver, sender, Some(false));
                add(&label, sender, receiver, Some(true));
            }
        }
    }
    all
}

/// The traffic of messages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// One at a time at a fixed interval, on an absolute clock.
    Sporadic {
        /// Interval of the messages.
        every: Duration,
    },
    /// As fast as the receiver takes them.
    Saturated,
    /// Ping-pong: back and forth, one at a time.
    PingPong,
    /// At a fixed rate, whether the last message was received or not.
    Rate {
        /// Messages per second.
        per_second: f64,
    },
}

impl Mode {
    /// The name of its kind in the record.
    #[must_use]
    pub const fn kind(self) -> ipc::Mode {
        match self {
            Self::Sporadic { .. } => ipc::Mode::Sporadic,
            Self::Saturated => ipc::Mode::Saturated,
            Self::PingPong => ipc::Mode::PingPong,
            Self::Rate { .. } => ipc::Mode::Rate,
        }
    }

    /// The interval of the messages, if it is fixed.
    #[must_use]
    pub fn interval(self) -> Option<Duration> {
        match self {
            Self::Sporadic { every } => Some(every),
            Self::Rate { per_second } => Some(Duration::from_secs_f64(1.0 / per_second)),
            Self::Saturated | Self::PingPong => None,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sporadic { every } => write!(f, "one every {}", format_duration(*every)),
            Self::Rate { per_second } => write!(f, "{per_second} a second"),
            other => f.write_str(other.kind().name()),
        }
    }
}

/// First estimate of a message's duration. A wake-up takes 5 µs on the same CPU and 30 µs on another one. A spinning
/// receiver takes 0.1 µs. Memory is copied twice at about 5 GB/s.
pub(super) fn cost_ns(cell: &Cell) -> f64 {
    if let Some(interval) = cell.mode.interval() {
        return interval.as_nanos() as f64;
    }
    let copies = cell.size as f64 * 0.4;
    let wake = match (cell.receive, cell.place.is_same()) {
        // Each waits for the end of the other's time slice.
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

// The CPUs of sender and receiver, and which CPUs are hardware threads of one core, as the kernel reports it
// (`Documentation/ABI/stable/sysfs-devices-system-cpu`, `topology/thread_siblings_list`). Those share its caches and its
// execution units, so messages between them are not comparable with messages between two cores.

/// The CPUs of the two processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The CPU of the sender; in ping-pong, of the one that begins.
    pub sender: usize,
    /// The CPU of the receiver; in ping-pong, of the one that answers.
    pub receiver: usize,
}

impl Place {
    /// On these two CPUs.
    #[must_use]
    pub const fn on(sender: usize, receiver: usize) -> Self {
        Self { sender, receiver }
    }

    /// Both on one CPU.
    pub(crate) fn is_same(self) -> bool {
        self.sender == self.receiver
    }

    /// The name of its kind in the record.
    #[must_use]
    pub fn kind(self) -> Placement {
        if self.is_same() { Placement::SameCpu } else { Placement::TwoCpus }
    }
}

/// The requested places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places {
    /// One place with both on one CPU, and one with each on its own.
    Both,
    /// Both on one CPU.
    Same,
    /// Each on its own.
    Different,
    /// The sender on the first CPU, the receiver on the second one.
    On(usize, usize),
    /// Every pair of CPUs.
    Matrix,
}

impl Places {
    /// The places, on the usable CPUs. Two different CPUs belong to two cores, if there are two. With one CPU
    /// [`Places::Both`] is that one.
    pub fn on(&self, allowed: &[usize], topology: &Topology) -> Result<Vec<Place>, PlanError> {
        let list = || allowed.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let one = || format!("two CPUs are asked for, and this process may use one ({})", list());
        let first = allowed.first().copied().unwrap_or(0);
        let second = topology.partner(first, allowed);
        let same = Place::on(first, first);
        let different = second.map(|second| Place::on(first, second));
        match *self {
            Self::Same => Ok(vec![same]),
            Self::Different => Ok(vec![different.ok_or_else(|| PlanError::new(Input::Places, one()))?]),
            Self::Both => Ok([Some(same), different].into_iter().flatten().collect()),
            Self::On(sender, receiver) => match [sender, receiver].into_iter().find(|cpu| !allowed.contains(cpu)) {
                Some(cpu) => {
                    let why = format!("CPU {cpu} is not among those this process may use ({})", list());
                    Err(PlanError::new(Input::Places, why))
                }
                None => Ok(vec![Place::on(sender, receiver)]),
            },
            Self::Matrix if second.is_none() => {
                Err(PlanError::new(Input::Matrix, format!("must have two CPUs or more, not one ({})", list())))
            }
            Self::Matrix => Ok(allowed.iter().flat_map(|&a| allowed.iter().map(move |&b| Place::on(a, b))).collect()),
        }
    }
}

/// The cores of some CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// All threads of each CPU's core. A CPU is missing if the kernel does not report its core.
    siblings: BTreeMap<usize, CpuSet>,
}

/// The relation of two CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// Two threads of one core.
    Siblings,
    /// Threads of two cores.
    Apart,
    /// Unknown: the kernel does not report it.
    Unknown,
}

impl Topology {
    /// Reads the topology of these CPUs. `root` is `/`, or a tree like it.
    #[must_use]
    pub fn read(root: &Path, cpus: &[usize]) -> Self {
        let siblings = |cpu: usize| {
            let file = root.join(format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
            let set: CpuSet = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
            // A list without the CPU itself is invalid.
            set.contains(cpu).then_some((cpu, set))
        };
        Self { siblings: cpus.iter().filter_map(|cpu| siblings(*cpu)).collect() }
    }

    /// The relation of two CPUs.
    pub(crate) fn relation(&self, one: usize, other: usize) -> Relation {
        match (self.siblings.get(&one), self.siblings.get(&other)) {
            (Some(of_one), _) if of_one.contains(other) => Relation::Siblings,
            (_, Some(of_other)) if of_other.contains(one) => Relation::Siblings,
            (Some(_), Some(_)) => Relation::Apart,
            _ => Relation::Unknown,
        }
    }

    /// The CPU among `cpus` to pair with `first`. It is the first of another core, else of an unknown core,
    /// else any other.
    pub(crate) fn partner(&self, first: usize, cpus: &[usize]) -> Option<usize> {
        let others = || cpus.iter().copied().filter(|cpu| *cpu != first);
        let that_is = |wanted: Relation| others().find(|cpu| self.relation(first, *cpu) == wanted);
        that_is(Relation::Apart).or_else(|| that_is(Relation::Unknown)).or_else(|| others().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_made_of_allowed_cpus() {
        let allowed = [2, 5, 7];
        let no = |why: &str| PlanError::new(Input::Places, why);
        let on = |places: Places, allowed: &[usize]| places.on(allowed, &Topology::default());
        assert_eq!(on(Places::Both, &allowed).unwrap(), [Place::on(2, 2), Place::on(2, 5)]);
        assert_eq!(on(Places::Matrix, &allowed).unwrap().len(), 9);
        let one = PlanError::new(Input::Matrix, "must have two CPUs or more, not one (4)");
        assert_eq!(on(Places::Matrix, &[4]), Err(one));
        assert_eq!(on(Places::On(7, 2), &allowed).unwrap(), [Place::on(7, 2)]);
        assert_eq!(on(Places::On(7, 3), &allowed), Err(no("CPU 3 is not among those this process may use (2,5,7)")));
        assert_eq!(on(Places::Both, &[4]).unwrap(), [Place::on(4, 4)]);
        assert_eq!(on(Places::Different, &[4]), Err(no("two CPUs are asked for, and this process may use one (4)")));
        assert_eq!((Place::on(1, 1).kind(), Place::on(1, 2).kind()), (Placement::SameCpu, Placement::TwoCpus));
    }

    /// A tree with these lists.
    fn tree(lists: &[(usize, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (cpu, list) in lists {
            let folder = root.path().join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("thread_siblings_list"), list).unwrap();
        }
        root
    }

    fn read(lists: &[(usize, &str)], cpus: &[usize]) -> Topology {
        Topology::read(tree(lists).path(), cpus)
    }

    #[test]
    fn neighbours_that_are_threads_of_one_core_are_passed_over() {
        let topology = read(&[(0, "0-1\n"), (1, "0-1\n"), (2, "2-3\n"), (3, "2-3\n")], &[0, 1, 2, 3]);
        assert_eq!(topology.partner(0, &[0, 1, 2, 3]), Some(2));
        assert_eq!(topology.partner(2, &[2, 3]), Some(3), "there is no other core");
        assert_eq!((topology.relation(0, 1), topology.relation(1, 2)), (Relation::Siblings, Relation::Apart));
    }

    #[test]
    fn siblings_are_found_however_they_are_numbered() {
        let topology = read(&[(0, "0,4\n"), (1, "1,5\n"), (4, "0,4\n"), (5, "1,5\n")], &[0, 1, 4, 5]);
        assert_eq!(topology.partner(0, &[0, 1, 4, 5]), Some(1));
        assert_eq!(topology.partner(0, &[0, 4, 5]), Some(5));
        let without = read(&[(0, "0\n"), (1, "1\n")], &[0, 1]);
        assert_eq!(without.relation(0, 1), Relation::Apart);
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_unknown() {
        let silent = read(&[], &[0, 1]);
        assert_eq!((silent.relation(0, 1), silent.partner(0, &[0, 1])), (Relation::Unknown, Some(1)));
        // With lists of only some CPUs: either list shows a sibling, and a CPU in neither is unknown.
        let half = read(&[(0, "0-1\n"), (2, "nonsense\n"), (3, "5\n")], &[0, 1, 2, 3]);
        assert_eq!((half.relation(1, 0), half.relation(0, 2)), (Relation::Siblings, Relation::Unknown));
        assert_eq!(half.relation(0, 3), Relation::Unknown);
        assert_eq!(half.partner(0, &[0, 1, 2, 3]), Some(2), "rather unknown than a sibling");
        assert_eq!(half.partner(0, &[0]), None);
    }
}
