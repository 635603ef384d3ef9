//! Tests of the frame with a made-up family. They see what it enters in the run, and how it explains what is missing.
//! The families test their records with made-up results ([`made_up_report`]).

mod rounds;

use std::time::Duration;

use punctual::conditions::Conditions;
use punctual_record::experiment::wait;
use punctual_record::{About, Experiment, Quantity, Recorder, Run, Typed, Usage};
use punctual_testing::in_a_process_of_its_own;

use super::error::more_time;
use super::schedule::Schedule;
use super::*;

/// The fate of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Measured,
    Forbidden,
    /// It has no samples and no reason.
    Unaffordable,
    Fails,
    /// It fails in its second round.
    FailsLater,
    /// Another process ends in its second round.
    LosesItsPeer,
    /// It has figures and an error.
    Wrong,
}

/// A family with a cell for each fate.
struct Made {
    request: Request,
    fates: Vec<Fate>,
    gathers: bool,
}

impl Made {
    fn with(fates: &[Fate]) -> Self {
        let request = Request::as_found(Amount::Samples(30), 3);
        Self { request, fates: fates.to_vec(), gathers: true }
    }

    fn experiment(&self, cell: usize, effective_ns: Option<i64>) -> Experiment {
        let parameters = wait::Parameters::asking(cell as i64);
        Experiment::Wait(Typed { parameters, metrics: wait::Metrics { effective_ns, ..wait::Metrics::default() } })
    }
}

impl Family for Made {
    /// Batches that count.
    type Extra = i64;
    const REASON_NAMES: &'static [&'static str] = crate::frame::names!(wait::Parameters: asked_ns);

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.request, vec![0; self.fates.len()])
    }

    fn identity(&self, cell: usize) -> CellId {
        let about = About { call: Some("pretend()".into()), ..About::default() };
        CellId { subject: format!("{:?}", self.fates[cell]), about, experiment: self.experiment(cell, None) }
    }

    fn schedule(&self) -> Schedule {
        Schedule::fixed(3, 10, Duration::from_micros(1), self.cells(), Duration::from_secs(10))
    }

    fn forbidden(&self, cell: usize) -> Option<Unavailable> {
        (self.fates[cell] == Fate::Forbidden).then(|| Unavailable::but("it must not", "ask for less"))
    }

    fn too_short(&self, _: usize) -> Unavailable {
        Unavailable::but("too short", more_time())
    }

    fn gather<'a>(&'a self, _: &Scene<'a>) -> Gathered<'a, i64> {
        if !self.gathers {
            return Err(Unavailable::because("nobody came").into());
        }
        Ok(Box::new(move |scene| {
            scene.notice(Notice::Other { text: "opened".into() });
            Ok(Box::new(MadeBench { made: self, batches: vec![0; self.fates.len()], ledger: scene.ledger.clone() }))
        }))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, i64>) -> Report {
        let all: i64 = measured.extras.iter().sum();
        let series = measured.series(measured.tally, Quantity::Overshoot, self.experiment(cell, Some(all)));
        let wrong = (self.fates[cell] == Fate::Wrong).then(|| "something is wrong".to_owned());
        let missing = wrong.iter().map(|_| ("half of it".to_owned(), Unavailable::because("it is not there")));
        Report { missing: missing.collect(), wrong, ..Report::with_series(vec![series]) }
    }
}

struct MadeBench<'a> {
    made: &'a Made,
    batches: Vec<u32>,
    ledger: Shared<Ledger>,
}

impl Bench for MadeBench<'_> {
    type Extra = i64;

    fn doing(&self, cell: usize) -> String {
        format!("cell {cell}")
    }

    fn operations(&self, cell: usize, scheduled: u64) -> u64 {
        if self.made.fates[cell] == Fate::Unaffordable { 0 } else { scheduled }
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        self.batches[cell] += 1;
        match self.made.fates[cell] {
            Fate::Fails => return Err(Unavailable::because("it failed").into()),
            Fate::FailsLater if self.batches[cell] > 1 => return Err(Unavailable::because("it failed later").into()),
            Fate::LosesItsPeer if self.batches[cell] > 1 => {
                return Err(Failure::PeerEnded { subject: "a trip".into(), how: "was killed by signal 9".into() });
            }
            _ => {}
        }
        (0..operations).for_each(|_| into.record(cell as i64));
        Ok(Usage { elapsed_ns: 1_000, involuntary: Some(2), ..Usage::default() })
    }

    fn keep(&mut self, _: usize, _: (u32, u64), extra: &mut i64) {
        *extra += 1;
    }

    fn end(&mut self) {
        self.ledger.open().notice(Notice::Other { text: "ended".into() });
    }
}

fn run_of(made: Made) -> (Run, Result<Done<i64>, Error>) {
    let mut observer = Silent;
    let mut session =
        Session::open(vec!["punctual".into(), "pretend".into()], "pretend", Stop::default(), &mut observer);
    let done = run(made, &mut session);
    (session.close(), done)
}

fn says(run: &Run, text: &str) -> bool {
    run.notices.contains(&Notice::Other { text: text.into() })
}

#[test]
fn a_measured_cell_is_a_series_with_what_was_asked_and_what_came_out() {
    let (run, done) = run_of(Made::with(&[Fate::Measured, Fate::Measured]));
    assert_eq!(done.unwrap().extras, [3, 3]);
    assert_eq!((run.subcommand.as_str(), run.series.len(), run.not_measured.len()), ("pretend", 2, 0));
    let series = &run.series[1];
    let typed = series.experiment.wait().unwrap();
    assert_eq!((typed.parameters.asked_ns, typed.metrics.effective_ns), (1, Some(6)));
    assert_eq!((series.subject.as_str(), series.about.call.as_deref()), ("Measured", Some("pretend()")));
    assert_eq!((series.summary.count, series.rounds.len(), series.conditions.as_str()), (30, 3, "as found"));
    assert_eq!(run.conditions.len(), 1);
    assert!(says(&run, "opened") && says(&run, "ended"));
    assert_eq!(run.disturbance.involuntary_switches, Some(12));
}

#[test]
fn what_is_missing_says_why() {
    let (run, done) = run_of(Made::with(&[Fate::Forbidden, Fate::Unaffordable, Fate::Fails, Fate::Measured]));
    assert_eq!(done.unwrap().extras, [0, 0, 0, 3]);
    let why: Vec<_> =
        run.not_measured.iter().map(|no| (no.subject.as_str(), no.why.as_str(), no.remedy.clone())).collect();
    assert_eq!(
        why,
        [
            ("Forbidden", "it must not", Some("ask for less".into())),
            ("Unaffordable", "too short", Some(more_time())),
            ("Fails", "it failed", None),
        ]
    );
    let first = &run.not_measured[0];
    assert_eq!((first.experiment.as_str(), first.conditions.as_deref()), ("wait", None));
    assert!(first.parameters.contains_key("asked_ns"), "the reason is peculiar to it");
}

#[test]
fn what_fails_later_has_figures_and_a_reason() {
    let (run, done) = run_of(Made::with(&[Fate::FailsLater, Fate::Measured]));
    assert_eq!(done.unwrap().extras, [1, 3]);
    assert_eq!(run.series.iter().map(|series| series.summary.count).collect::<Vec<_>>(), [10, 30]);
    assert_eq!(run.not_measured.iter().map(|no| no.why.as_str()).collect::<Vec<_>>(), ["it failed later"]);
}

#[test]
fn a_run_whose_company_does_not_come_measures_nothing() {
    let (run, _) = run_of(Made { gathers: false, ..Made::with(&[Fate::Measured]) });
    assert!(run.series.is_empty() && run.not_measured[0].why == "nobody came");
}

#[test]
fn a_process_that_ended_ends_the_run_and_what_counted_stays() {
    let (run, done) = run_of(Made::with(&[Fate::LosesItsPeer, Fate::Measured]));
    let done = done.unwrap();
    assert_eq!(done.wrong, ["a trip: the other process was killed by signal 9 in the middle"]);
    assert_eq!(
        run.series.iter().map(|series| series.summary.count).collect::<Vec<_>>(),
        [10, 20],
        "the turns before it"
    );
    assert!(!run.complete && run.notices.iter().any(|notice| matches!(notice, Notice::PeerEnded { .. })));
    assert_eq!(run.not_measured.len(), 1);
}

#[test]
fn what_is_wrong_beside_the_figures_is_told() {
    let (run, done) = run_of(Made::with(&[Fate::Wrong]));
    assert_eq!((done.unwrap().wrong, run.series.len()), (vec!["something is wrong".to_owned()], 1));
    assert_eq!(
        (run.not_measured[0].subject.as_str(), run.not_measured[0].why.as_str()),
        ("half of it", "it is not there")
    );
}

/// No machine has this CPU.
fn nowhere() -> Conditions {
    Conditions::new().cpu(8000)
}

#[test]
fn a_refused_condition_is_a_notice_or_an_error() {
    let with = |require| {
        let made = Made::with(&[Fate::Measured]);
        run_of(Made { request: Request { base: nowhere(), require, ..made.request.clone() }, ..made })
    };
    let (run, done) = with(false);
    assert!(done.is_ok() && run.series.len() == 1);
    assert!(
        run.notices
            .iter()
            .any(|notice| matches!(notice, Notice::ConditionRefused { refusal, .. } if refusal.condition == "cpu"))
    );
    let (run, done) = with(true);
    assert!(run.series.is_empty() && matches!(done, Err(Error::Refused(_))));
}

#[test]
fn a_variant_that_would_repeat_another_is_skipped() {
    let made = Made::with(&[Fate::Measured]);
    // The only cell is of the first variant, which is refused.
    let variants = vec![Variant::new(nowhere()), Variant::as_found()];
    let (run, done) = run_of(Made { request: Request { variants, ..made.request.clone() }, ..made });
    assert!(done.is_ok() && run.series.is_empty() && run.not_measured.is_empty());
    assert!(run.notices.iter().any(|notice| matches!(notice, Notice::ConditionsSkipped { .. })));
}

/// A request to stop applies to the whole process, so this test runs in one of its own.
#[test]
fn a_run_that_is_stopped_reports_no_reasons() {
    if !in_a_process_of_its_own("frame::tests::a_run_that_is_stopped_reports_no_reasons") {
        return;
    }
    let (stop, mut observer) = (Stop::default(), Silent);
    stop.request("SIGINT");
    let mut session = Session::open(vec!["punctual".into()], "pretend", stop, &mut observer);
    run(Made::with(&[Fate::Measured]), &mut session).unwrap();
    let run = session.close();
    assert!(run.series.is_empty() && run.not_measured.is_empty() && !run.complete);
}

#[test]
fn requests_of_nothing_and_of_too_much_are_refused() {
    let refused = |request: &Request| request.check().unwrap_err().to_string();
    let usual = Request::as_found(Amount::Samples(10), 1);
    assert_eq!(refused(&Request { rounds: 0, ..usual.clone() }), "invalid number of rounds: must be at least 1");
    let none = Request { amount: Amount::Samples(0), ..usual.clone() };
    assert_eq!(refused(&none), "invalid number of samples: must be at least 1");
    let schedule = |samples| Schedule::fixed(1, samples, Duration::from_secs(1), 2, Duration::MAX);
    assert!(usual.check_time(&schedule(10), 2).is_ok());
    let long = usual.check_time(&schedule(1_000), 2).unwrap_err();
    assert!(
        long.input == Input::Samples && long.why.contains("33 min") && long.why.contains("longest 10 min"),
        "{long}"
    );
}

/// A tally of one round with these samples.
pub(crate) fn made_up_tally(samples: &[i64]) -> SeriesTally {
    let mut recorder = Recorder::new();
    samples.iter().for_each(|&sample| recorder.record(sample));
    let mut tally = SeriesTally::new();
    tally.add_round(0, 0, &recorder, Usage { elapsed_ns: 1_000, ..Usage::default() });
    tally
}

/// A family's record of a cell with these samples, with the same results beside them for all cells.
pub(crate) fn made_up_report<F: Family>(family: &F, cell: usize, samples: &[i64], extras: &[F::Extra]) -> Report {
    family.report(cell, &measured(family, cell, &made_up_tally(samples), (extras, &[])))
}
