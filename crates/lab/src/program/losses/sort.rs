//! A part of a thread's time as a loss: what it is of, where, and by whom.

use punctual_record::{Loss, LossKind, LossPlace, Spent, ThreadBudget, TimePart};

/// A loss of a thread.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) kind: LossKind,
    pub(super) ns: u64,
    pub(super) times: u64,
    pub(super) place: LossPlace,
    /// The thread may have had no work, or others of its kind did its work meanwhile.
    pub(super) may_be_idle: bool,
    /// The names that its parts have, with their time: the place is that of the most.
    pub(super) places: Vec<(LossPlace, u64)>,
}

/// What a part is a loss of.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sort {
    pub(super) kind: LossKind,
    pub(super) place: LossPlace,
    pub(super) may_be_idle: bool,
}

impl Sort {
    /// Against the will of the thread.
    pub(super) const fn kept(kind: LossKind, place: LossPlace) -> Self {
        Self { kind, place, may_be_idle: false }
    }

    /// The thread may have had no work.
    pub(super) const fn idle(kind: LossKind, place: LossPlace) -> Self {
        Self { kind, place, may_be_idle: true }
    }

    /// Against its will, by somebody.
    pub(super) fn by(kind: LossKind, culprit: Option<String>) -> Self {
        Self::kept(kind, LossPlace { culprit, ..LossPlace::default() })
    }
}

/// A time as a share of that of the thread.
pub(super) fn share(ns: u64, thread: &ThreadBudget) -> f64 {
    ns as f64 / thread.wall_ns.max(1) as f64
}

/// The time of the parts that are so.
pub(super) fn spent(thread: &ThreadBudget, is_so: impl Fn(&TimePart) -> bool) -> u64 {
    thread.parts.iter().filter(|part| is_so(part)).fold(0, |sum, part| sum.saturating_add(part.ns))
}

/// It computed, or was kept from that.
pub(super) const fn works(spent: Spent) -> bool {
    matches!(spent, Spent::Running | Spent::Ready | Spent::ThrottledByQuota | Spent::Disk)
}

impl Found {
    pub(super) fn loss(self, thread: &ThreadBudget) -> Loss {
        // These hold up the process, whose name is that of its main thread.
        let whole =
            matches!(self.kind, LossKind::Quota | LossKind::ThreadsOverQuota | LossKind::Stopped | LossKind::Frozen);
        let subject = if whole { &thread.process } else { &thread.thread };
        Loss {
            kind: self.kind,
            ns: self.ns,
            times: self.times,
            subject: subject.clone(),
            tid: thread.tid,
            place: self.place,
        }
    }
}

/// A finding that nothing is lost.
pub(super) fn healthy(kind: LossKind, ns: u64, times: u64, thread: &ThreadBudget) -> Loss {
    Loss { kind, ns, times, subject: thread.thread.clone(), tid: thread.tid, place: LossPlace::default() }
}
