//! [`Family`]: what a family of experiments gives the frame.

use punctual::conditions::Refused;
use punctual_record::Notice;

use super::error::{Error, Failure};
use super::ledger::{Ledger, Shared};
use super::place::Place;
use super::plan::PlanError;
use super::report::{Asked, Measured, Report};
use super::request::Request;
use super::rounds::Bench;
use super::schedule::Schedule;
use super::session::Session;
use super::stage::Stage;
use super::unavailable::Unavailable;

/// The environment in which a family opens its bench: the measuring thread.
pub(crate) struct Scene<'a> {
    /// Takes progress reports for the caller.
    pub(crate) stage: &'a Stage,
    /// The measurements so far.
    pub(crate) ledger: &'a Shared<Ledger>,
    /// The refused base conditions, once they are applied.
    pub(crate) refused: Vec<Refused>,
}

impl Scene<'_> {
    /// Adds a notice for readers of the figures.
    pub(crate) fn notice(&self, notice: Notice) {
        self.ledger.open().notice(notice);
    }
}

/// The request of a plan, and its cells.
pub(crate) struct Layout<'a> {
    request: &'a Request,
    /// By cell: index of its variant.
    variant_of: Vec<usize>,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(request: &'a Request, variants: impl IntoIterator<Item = usize>) -> Self {
        Self { request, variant_of: variants.into_iter().collect() }
    }
}

/// The names of some fields of a family's parameters.
macro_rules! names {
    ($of:ty: $($field:ident),+) => {{
        const _: fn(&$of) = |its| {
            $(let _ = &its.$field;)+
        };
        &[$(stringify!($field)),+]
    }};
}
pub(crate) use names;

/// A validated plan of one family. A *cell* is one subject under one set of parameters and conditions: it becomes one
/// series, or several.
pub(crate) trait Family: Send + Sync + 'static {
    /// The results of a cell beside its samples.
    type Extra: Default + Send + 'static;
    /// Processes and threads beside the measuring thread, under conditions of their own: competitors, senders,
    /// receivers.
    type Company;
    /// The parameters that belong to the reason for a missing cell.
    const PECULIAR: &'static [&'static str] = &[];
    /// So do its conditions.
    const PER_VARIANT: bool = false;

    /// The request and the cells.
    fn layout(&self) -> Layout<'_>;

    /// The part of the request that all families share.
    fn request(&self) -> &Request {
        self.layout().request
    }

    /// Number of cells.
    fn cells(&self) -> usize {
        self.layout().variant_of.len()
    }

    /// Index of the variant that the cell runs under.
    fn variant(&self, cell: usize) -> usize {
        self.layout().variant_of[cell]
    }

    /// Refuses a number of samples that would take too long.
    fn checked(self) -> Result<Self, PlanError>
    where
        Self: Sized,
    {
        self.request().check_time(&self.schedule(), self.cells())?;
        Ok(self)
    }

    /// The subject and the experiment of the cell.
    fn asked(&self, cell: usize) -> Asked;

    /// The number of operations of each cell in each round.
    fn schedule(&self) -> Schedule;

    /// Where it measures.
    fn place(&self) -> Place {
        Place::on(self.request().base.get_cpus().as_ref(), self.request().is_real_time())
    }

    /// Reads the machine facts that the plan needs, on the caller's thread.
    fn prepare(&mut self, _session: &mut Session<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Why this cell must not or cannot be run, if so.
    fn forbidden(&self, _cell: usize) -> Option<Unavailable> {
        None
    }

    /// Why a cell without a failure has no samples: its share of the time was too short.
    fn too_short(&self, _cell: usize) -> Unavailable {
        Unavailable::because("its time was over before its turn")
    }

    /// Starts the processes and threads beside the measuring thread. This precedes all conditions, so that none is
    /// inherited.
    fn gather(&self, scene: &Scene<'_>) -> Result<Self::Company, Failure>;

    /// Opens everything else on the measuring thread, under the base conditions.
    fn open<'a>(
        &'a self,
        company: Self::Company,
        scene: &Scene<'a>,
    ) -> Result<Box<dyn Bench<Extra = Self::Extra> + 'a>, Error>;

    /// The record of a cell with samples.
    fn report(&self, cell: usize, measured: &Measured<'_, Self::Extra>) -> Report;
}
