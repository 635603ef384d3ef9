//! What a family of experiments gives the frame: a validated plan with its cells ([`Family`]), the batches of a cell
//! ([`Bench`]), and the record that it makes ([`Report`]) of what was measured ([`Measured`]).
//!
//! The order of calls: `prepare`, `forbidden` of each cell, `gather`, and what it returns under the base conditions; on the bench `begin` after a first
//! trial batch of each cell, `batch` and `keep` in rounds, `end`; then `report` of each cell with samples. An [`Error`] ends the run, a
//! [`Failure`] the batch; [`Unavailable`] is the reason why a cell has no samples.

use punctual::conditions::Refused;
use punctual_record::{About, Experiment, Notice, Quantity, Recorder, Series, SeriesId, SeriesTally, Usage};

use super::error::{Error, Failure, Unavailable};
use super::ledger::Ledger;
use super::places::Place;
use super::plan::{PlanError, Request};
use super::schedule::Schedule;
use super::session::Session;
use super::stage::{Shared, Stage};

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

/// The request of a plan, and its cells. A variant is one of the request's sets of conditions.
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

/// The names of some fields of a family's parameters. A field that they lack does not compile.
macro_rules! names {
    ($of:ty: $($field:ident),+) => {{
        const _: fn(&$of) = |parameters| {
            $(let _ = &parameters.$field;)+
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
    /// The parameters that are recorded with the reason for a missing cell, because it depends on them.
    const REASON_NAMES: &'static [&'static str] = &[];
    /// Whether it depends on the conditions too.
    const REASON_NAMES_CONDITIONS: bool = false;

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

    /// What the cell measures.
    fn identity(&self, cell: usize) -> CellId;

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

    /// Starts the processes and threads beside the measuring thread, under conditions of their own: competitors, senders,
    /// receivers. This precedes all conditions, so that none is inherited.
    fn gather<'a>(&'a self, scene: &Scene<'a>) -> Gathered<'a, Self::Extra>;

    /// The record of a cell with samples.
    fn report(&self, cell: usize, measured: &Measured<'_, Self::Extra>) -> Report;
}

/// What a cell measures: a [`SeriesId`] without conditions and quantity.
pub(crate) struct CellId {
    /// The subject, for instance `nanosleep`.
    pub(crate) subject: String,
    /// Details of the subject.
    pub(crate) about: About,
    /// The experiment with its parameters and no metrics yet.
    pub(crate) experiment: Experiment,
}

impl CellId {
    /// The cell of a subject that is a call of a program.
    pub(crate) fn of_call(name: &str, call: &str, experiment: Experiment) -> Self {
        let about = About { call: Some(call.into()), ..About::default() };
        Self { subject: name.into(), about, experiment }
    }
}

/// The measurements of a cell.
pub(crate) struct Measured<'a, X> {
    /// Its samples.
    pub(crate) tally: &'a SeriesTally,
    /// Its results beside them.
    pub(crate) extra: &'a X,
    /// Those of all cells, to compare with.
    pub(crate) extras: &'a [X],
    /// The conditions that the kernel refused.
    pub(crate) refused: &'a [Refused],
    pub(super) identity: CellId,
    /// Label of its condition set.
    pub(super) conditions: &'a str,
}

impl<X> Measured<'_, X> {
    /// The subject of this cell.
    pub(crate) fn subject(&self) -> String {
        self.identity.subject.clone()
    }

    /// A series of this cell.
    pub(crate) fn series(&self, tally: &SeriesTally, quantity: Quantity, experiment: Experiment) -> Series {
        tally.to_series(SeriesId {
            experiment,
            subject: self.identity.subject.clone(),
            about: self.identity.about.clone(),
            conditions: self.conditions.to_owned(),
            quantity,
        })
    }
}

/// The record of a cell.
#[derive(Default)]
pub(crate) struct Report {
    /// Its series. The first is judged for its steadiness.
    pub(crate) series: Vec<Series>,
    /// Its subjects without a series, and why.
    pub(crate) missing: Vec<(String, Unavailable)>,
    /// Notices for the reader.
    pub(crate) notices: Vec<Notice>,
    /// Errors of a cell that has figures, in words.
    pub(crate) wrong: Option<String>,
}

impl Report {
    /// Only these series.
    pub(crate) fn with_series(series: Vec<Series>) -> Self {
        Self { series, ..Self::default() }
    }
}

/// What opens everything else on the measuring thread, under the base conditions; or why it could not be started.
pub(crate) type Gathered<'a, X> = Result<Box<dyn FnOnce(&Scene<'a>) -> OpenBench<'a, X> + 'a>, Failure>;

/// The bench of a family, opened on the measuring thread, or why it could not be.
pub(crate) type OpenBench<'a, X> = Result<Box<dyn Bench<Extra = X> + 'a>, Error>;

/// A family's part of the runner.
pub(crate) trait Bench {
    /// The results of a cell beside its samples.
    type Extra;

    /// The cell in words, for the progress display.
    fn doing(&self, cell: usize) -> String;

    /// A part of it, or what it has shown so far, in words.
    fn detail(&self, _cell: usize) -> Option<String> {
        None
    }

    /// Called after the pilot, the trial batches that count for nothing.
    fn begin(&mut self) {}

    /// The planned wait of the cell, if it waits: causes of late wake-ups are counted by it.
    fn nominal_ns(&self, _cell: usize) -> Option<u64> {
        None
    }

    /// The number of operations of the cell now, if the schedule says `scheduled`. 0 means none.
    fn operations(&self, _cell: usize, scheduled: u64) -> u64 {
        scheduled
    }

    /// Performs `operations` of the cell, records each, and returns their total cost.
    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure>;

    /// Enters in `extra` what the last batch measured beside its samples. Called only for a batch that counts, never in the pilot. `round` is
    /// its number, and the ns from the start of the run to the batch.
    fn keep(&mut self, _cell: usize, _round: (u32, u64), _extra: &mut Self::Extra) {}

    /// Called after the last batch: restores what the bench changed of the machine.
    fn end(&mut self) {}
}

/// A family's bench as the runner sees it: its extras are stored here, and their type is hidden. So the runner is compiled once for all
/// families.
pub(crate) struct WithExtras<'a, X> {
    /// The family's part.
    pub(crate) bench: &'a mut dyn Bench<Extra = X>,
    /// The results of cells beside their samples.
    pub(crate) extras: Shared<Vec<X>>,
}

impl<X> Bench for WithExtras<'_, X> {
    type Extra = ();

    fn doing(&self, cell: usize) -> String {
        self.bench.doing(cell)
    }

    fn detail(&self, cell: usize) -> Option<String> {
        self.bench.detail(cell)
    }

    fn begin(&mut self) {
        self.bench.begin();
    }

    fn nominal_ns(&self, cell: usize) -> Option<u64> {
        self.bench.nominal_ns(cell)
    }

    fn operations(&self, cell: usize, scheduled: u64) -> u64 {
        self.bench.operations(cell, scheduled)
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        self.bench.batch(cell, operations, into)
    }

    fn keep(&mut self, cell: usize, round: (u32, u64), (): &mut ()) {
        self.bench.keep(cell, round, &mut self.extras.open()[cell]);
    }

    fn end(&mut self) {
        self.bench.end();
    }
}
