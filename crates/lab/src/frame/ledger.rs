//! The measurements so far, shared between the measuring thread and the thread that reports.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual::conditions::Conditions;
use punctual_record::{Causes, Notice, SeriesTally};

use super::error::Failure;
use super::left_out::{LeftOut, NotKept, Spoilt};
use super::session::Session;
use super::unavailable::Unavailable;
use super::usage::Sum;

/// The measurements so far. They can be reported even if the experiment must be left behind.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Per cell.
    pub(crate) tallies: Vec<SeriesTally>,
    /// Per cell: why it was given up, or why the run ended.
    pub(crate) failures: Vec<Option<Failure>>,
    /// Per variant: the conditions that held after it was applied.
    pub(crate) held: Vec<Option<Held>>,
    /// The notices.
    pub(crate) notices: Vec<Notice>,
    /// The usage of the measured thread itself.
    pub(crate) own: Sum,
    /// The batches that do not count.
    pub(crate) left_out: LeftOut,
    /// The condition whose loss ended the run, because the caller requires it.
    pub(crate) not_kept: Option<NotKept>,
    /// Number of CPUs, on a virtual machine only.
    pub(crate) guest_cpus: Option<u32>,
    /// When a participating process ended too early, on `CLOCK_MONOTONIC`.
    pub(crate) ended_ns: i64,
    /// Whether every round was run.
    pub(crate) complete: bool,
    /// Why the measuring thread woke up late, where it was watched.
    pub(crate) causes: Option<Causes>,
}

/// The result of applying a variant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    /// The conditions that hold, as read back from the kernel.
    pub(crate) applied: Conditions,
    /// The conditions that the kernel refused.
    pub(crate) refused: Vec<punctual::conditions::Refused>,
    /// The variant was left out: the refusal made it equal to another one.
    pub(crate) left_out: bool,
}

/// The ledger as the measuring thread and the reporting thread share it.
#[derive(Debug, Default)]
pub(crate) struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Default> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    /// Locks the ledger. A panic in another thread does not make the measurements unreadable.
    pub(crate) fn open(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the contents and leaves an empty ledger.
    pub(crate) fn take(&self) -> T {
        std::mem::take(&mut *self.open())
    }
}

impl Ledger {
    /// A new ledger for the cells and variants of a run.
    pub(crate) fn new(session: &Session<'_>, cells: usize, variants: usize) -> Shared<Self> {
        let host = session.host();
        Shared::new(Self { guest_cpus: host.hypervisor.as_ref().and(host.cpus_online), ..Self::of(cells, variants) })
    }

    /// Adds a notice, unless it is there already.
    pub(crate) fn notice(&mut self, notice: Notice) {
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }

    /// An empty ledger for these numbers of cells and variants.
    pub(crate) fn of(cells: usize, variants: usize) -> Self {
        Self {
            tallies: (0..cells).map(|_| SeriesTally::new()).collect(),
            failures: vec![None; cells],
            held: vec![None; variants],
            ..Self::default()
        }
    }

    /// Gives up each cell that was tried and has no batch that counts, with the reason. `label`: the variant of a
    /// cell.
    pub(crate) fn give_reasons<'l>(&mut self, label: impl Fn(usize) -> &'l str) {
        let Self { tallies, failures, left_out, not_kept, .. } = self;
        for (cell, tally) in tallies.iter().enumerate() {
            if tally.count() > 0 || failures[cell].is_some() {
                continue;
            }
            let ended = not_kept.as_ref().map(|lost| {
                Unavailable::but(format!("the run ended before: {} was lost", lost.condition), lost.remedy.clone())
            });
            let lost = || left_out.lost_of(label(cell)).map(NotKept::again_and_again);
            let broken = || left_out.last_break().map(|its| Spoilt::Broken(its).again_and_again());
            failures[cell] = ended.or_else(lost).or_else(broken).map(Failure::Impossible);
        }
    }
}
