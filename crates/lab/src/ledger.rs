//! What has been measured so far, shared between the measuring thread and whoever reports.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual::conditions::Applied;
use punctual_record::{Notice, SeriesTally};

use crate::Session;
use crate::failure::Failure;
use crate::governor::SetGovernor;
use crate::left_out::{LeftOut, NotKept, Spoilt};
use crate::usage::Sum;

/// What has been measured so far; shared with whoever reports if the experiment must be left behind.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Per cell.
    pub tallies: Vec<SeriesTally>,
    /// Per cell: why it was given up.
    pub failures: Vec<Option<Failure>>,
    /// Per variant: what held, once it was applied.
    pub held: Vec<Option<Held>>,
    /// What was noticed.
    pub notices: Vec<Notice>,
    /// The measured thread's own use of the machine.
    pub own: Sum,
    /// What was measured and does not count.
    pub left_out: LeftOut,
    /// The condition whose loss ended the run, because the caller insists on it.
    pub not_kept: Option<NotKept>,
    /// The governor that was set for the run.
    pub governor: Option<Arc<SetGovernor>>,
    /// CPUs of the machine, where it is a virtual one.
    pub guest_cpus: Option<u32>,
    /// Whether every round was run.
    pub complete: bool,
}

/// What came of applying a variant.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// What the kernel said holds.
    pub applied: Applied,
    /// What it refused.
    pub refused: Vec<punctual::conditions::Refused>,
    /// It was left out: the refusal made it the same as another variant.
    pub left_out: bool,
}

/// A ledger that two threads see.
pub type SharedLedger = Arc<Mutex<Ledger>>;

/// The ledger's lock; a panic elsewhere does not make what was measured unreadable.
pub fn open(ledger: &SharedLedger) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new ledger for the cells and variants of a run.
#[must_use]
pub fn ledger(session: &Session<'_>, cells: usize, variants: usize) -> SharedLedger {
    let host = session.host();
    Arc::new(Mutex::new(Ledger {
        governor: session.set_governor(),
        guest_cpus: host.hypervisor.as_ref().and(host.cpus_online),
        ..Ledger::of(cells, variants)
    }))
}

impl Ledger {
    /// An empty one for these numbers of cells and variants.
    #[must_use]
    pub fn of(cells: usize, variants: usize) -> Self {
        Self {
            tallies: (0..cells).map(|_| SeriesTally::new()).collect(),
            failures: vec![None; cells],
            held: vec![None; variants],
            ..Self::default()
        }
    }
    /// Gives up each cell of which nothing counts although it was tried, and says why. `label`: of a cell's variant.
    pub(crate) fn give_reasons<'l>(&mut self, label: impl Fn(usize) -> &'l str) {
        let Self { tallies, failures, left_out, not_kept, .. } = self;
        for (cell, tally) in tallies.iter().enumerate() {
            if tally.count() > 0 || failures[cell].is_some() {
                continue;
            }
            let ended = not_kept
                .as_ref()
                .map(|lost| (format!("the run ended before: {} was lost", lost.condition), lost.remedy.clone()));
            let lost = || left_out.lost_of(label(cell)).map(NotKept::again_and_again);
            let broken = || left_out.last_break().map(|broken| Failure::again_and_again(&Spoilt::Broken(broken)));
            let impossible = |(why, remedy)| Failure::Impossible { why, remedy: Some(remedy) };
            failures[cell] = ended.or_else(lost).map(impossible).or_else(broken);
        }
    }
}
