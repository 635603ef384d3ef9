//! A session: one run under construction.
//!
//! It begins with the facts of the machine, collects the measurements, and ends with the disturbance. The cost of
//! reading the clock is one of the facts: it is measured and shown, never subtracted.

use std::path::Path;
use std::time::Duration;

use punctual_linux::clock::{self, Clock, now_ns, resolution_ns};
use punctual_record as record;
use punctual_record::{
    CallPath, Causes, ConditionSet, DisturbanceProbe, Host, Identity, NotMeasured, Notice, OwnUsage, Run, SCHEMA,
    Series, Tool, Unseen, Usage, merge,
};

use super::places::{Aside, Place, Warden};

use super::stage::{Observer, OfRun, Portion, Stage, Stop, perform};
use super::watch::Tracer;

/// Steal time above this share affects the tail of the figures: 1 %.
const STEAL_WORTH_SAYING: f64 = 0.01;
/// CPU time of other programs above this share gets a notice: 5 %, more than an idle desktop uses.
const OTHERS_WORTH_SAYING: f64 = 0.05;

/// One run under construction.
pub struct Session<'a> {
    run: Run,
    account: Account,
    observer: &'a mut dyn Observer,
    stop: Stop,
    /// Time beyond the announced one that all remaining experiments together may take.
    grace: Duration,
    /// The part of the run that the next experiment is.
    portion: Portion,
    warden: Option<Warden>,
    tracer: Option<Box<dyn Tracer>>,
}

/// Time beyond the announced one after which a run is ended. Ending it takes up to 0.6 s, and the report some tenths
/// of a second.
const GRACE: Duration = Duration::from_millis(600);
/// The part of it left for a later experiment after an earlier one has used it up.
const LEAST_GRACE: Duration = Duration::from_millis(100);

impl<'a> Session<'a> {
    /// Opens a session on this machine. `command` is the command line for the record, `subcommand` the measuring one:
    /// `wait`, `governor ramp`.
    #[must_use]
    pub fn open(command: Vec<String>, subcommand: &str, stop: Stop, observer: &'a mut dyn Observer) -> Self {
        if !stop.requested() {
            // An earlier run of this process may have been ended.
            punctual_linux::stop::clear();
        }
        let root = Path::new("/");
        let host = Host::read(root);
        let clock = clock_cost();
        let tool = Tool { name: "punctual".into(), version: env!("CARGO_PKG_VERSION").into() };
        let run = Run {
            schema: SCHEMA.into(),
            tool,
            started: jiff::Timestamp::now(),
            complete: true,
            command,
            subcommand: subcommand.to_owned(),
            host,
            clock,
            ..Run::default()
        };
        Self {
            run,
            account: Account::open(root),
            observer,
            stop,
            grace: GRACE,
            portion: Portion::default(),
            warden: None,
            tracer: None,
        }
    }

    /// Runs an experiment on the stage. Its supervisor stays off the CPUs of `place`. `None`: it did not return after
    /// a request to stop, or after its time was over.
    pub(crate) fn perform<R: Send + 'static>(
        &mut self,
        place: Place,
        experiment: impl FnOnce(&Stage) -> R + Send + 'static,
    ) -> std::io::Result<Option<R>> {
        self.perform_shown(place, &|_| {}, experiment)
    }

    /// The same. `enter` enters the figures so far in the run, for an observer that takes it.
    pub(crate) fn perform_shown<R: Send + 'static>(
        &mut self,
        place: Place,
        enter: &dyn Fn(&mut Run),
        experiment: impl FnOnce(&Stage) -> R + Send + 'static,
    ) -> std::io::Result<Option<R>> {
        self.supervise(&place);
        let before = self.observer.takes_runs().then(|| self.run.clone());
        let account = &self.account;
        let so_far = before.map(|before| {
            move || {
                let mut run = before.clone();
                enter(&mut run);
                account.enter(&mut run);
                run
            }
        });
        let so_far = so_far.as_ref().map(|so_far| so_far as &dyn Fn() -> Run);
        let mut observer = OfRun { observer: self.observer, portion: self.portion, so_far };
        let (result, overran) = perform(&self.stop, &mut observer, (&place, self.grace), experiment)?;
        self.grace = self.grace.saturating_sub(overran).max(LEAST_GRACE);
        if result.is_none() {
            // This process cannot end the experiment's children. The warden does so after this process has ended.
            self.warden.take().into_iter().for_each(Warden::outlive);
        }
        Ok(result)
    }

    /// The next experiment is this part of the run: its progress is shown as that of the run.
    pub(crate) fn begin(&mut self, portion: Portion) {
        self.portion = portion;
    }

    /// Lets all remaining experiments together take this much longer than announced.
    pub fn grant(&mut self, more: Duration) {
        self.grace = self.grace.saturating_add(more);
    }

    /// Starts a warden if needed, and adds a notice if nothing could end the run in time.
    fn supervise(&mut self, place: &Place) {
        let aside = Aside::step(place, &[]);
        let mut unsupervised = |why: String, remedy: &str| {
            let line = format!("nothing may be able to end this run in time: {why}; {remedy}");
            let notice = Notice::Unsupervised { why, remedy: remedy.to_owned() };
            if place.real_time && !self.run.notices.contains(&notice) {
                self.observer.warn(&line);
                self.run.notices.push(notice);
            }
        };
        if aside.shares_the_only_cpu(place) {
            let why = "this process may use no other CPU than the measured one";
            unsupervised(
                why.into(),
                "let it use another CPU (taskset, cpuset), or measure where no other real-time program runs",
            );
        }
        if self.warden.is_none() {
            match Warden::start() {
                Ok(warden) => self.warden = Some(warden),
                Err(error) => unsupervised(
                    format!("no process could be started that would end the run after kill -9: {error}"),
                    "raise ulimit -u or the cgroup's pids.max",
                ),
            }
        }
        if let (Some(warden), [_, ..]) = (&self.warden, aside.others()) {
            warden.stay_on(aside.others());
        }
    }

    /// The kernel's events of the next experiment that is watched go to this tracer too.
    pub fn trace_by(&mut self, tracer: Box<dyn Tracer>) {
        self.tracer = Some(tracer);
    }

    pub(crate) fn take_tracer(&mut self) -> Option<Box<dyn Tracer>> {
        self.tracer.take()
    }

    /// The facts of the machine.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.run.host
    }

    /// Whether the run was asked to end.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.requested()
    }

    /// Adds a series.
    pub fn add_series(&mut self, series: Series) {
        if series.summary.overflow > 0 {
            let (subject, count) = (series.subject.clone(), series.summary.overflow);
            self.notice(Notice::Overflow { subject, count });
        }
        self.run.series.push(series);
    }

    /// Joins the series of an experiment that was run several times: the rounds of later stretches continue those of the first.
    ///
    /// # Errors
    /// If the samples are too many to count.
    pub fn join_stretches(&mut self) -> Result<(), merge::Error> {
        let identities = record::identities(&self.run);
        let mut joined: Vec<(Identity, Series)> = Vec::new();
        for (identity, series) in identities.into_iter().zip(std::mem::take(&mut self.run.series)) {
            match joined.iter_mut().find(|(known, _)| *known == identity) {
                Some((_, first)) => *first = merge::continued(first.clone(), series)?,
                None => joined.push((identity, series)),
            }
        }
        self.run.series = joined.into_iter().map(|(_, series)| series).collect();
        Ok(())
    }

    /// The run so far.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Shows a line of output.
    pub fn line(&mut self, text: &str) {
        self.observer.line(text);
    }

    /// Adds a subject that could not be measured.
    pub fn add_not_measured(&mut self, what: NotMeasured) {
        if !self.run.not_measured.contains(&what) {
            self.run.not_measured.push(what);
        }
    }

    /// Adds a notice, unless it is there already.
    pub fn notice(&mut self, notice: Notice) {
        if !self.run.notices.contains(&notice) {
            self.run.notices.push(notice);
        }
    }

    /// The run ends early for this reason: it does not contain all that was requested.
    pub(crate) fn cut_short(&mut self, why: Notice) {
        self.run.complete = false;
        self.notice(why);
    }

    /// The run ends early, with an error for the reason.
    pub(crate) fn incomplete(&mut self) {
        self.run.complete = false;
    }

    /// Time from the beginning of the run to a moment on `CLOCK_MONOTONIC`, ns.
    pub(crate) fn time_of(&self, at_ns: i64) -> u64 {
        (at_ns - self.account.begin_ns).max(0).unsigned_abs()
    }

    /// Adds a condition set, unless one with that label is there.
    pub fn add_conditions(&mut self, set: ConditionSet) {
        if !self.run.conditions.iter().any(|c| c.label == set.label) {
            self.run.conditions.push(set);
        }
    }

    /// Adds to the usage of the measuring threads.
    pub(crate) fn add_usage(&mut self, used: Usage) {
        let so_far = &mut self.account.own.involuntary_switches;
        *so_far = used.involuntary.map(|more| so_far.unwrap_or(0) + more).or(*so_far);
    }

    /// Enters why threads woke up late.
    pub fn set_causes(&mut self, causes: Causes) {
        let other = causes.program.as_ref().filter(|program| program.status.is_none());
        self.account.watched_cpu_ns = other.and_then(|program| program.cpu_ns).unwrap_or(0).cast_signed();
        self.run.causes = Some(causes);
    }

    /// Adds what could not be seen of the causes.
    pub fn add_unseen(&mut self, unseen: Unseen) {
        self.run.causes.iter_mut().for_each(|causes| causes.missing.push(unseen.clone()));
    }

    /// Adds the way of a call through the kernel.
    pub(crate) fn add_path(&mut self, path: CallPath) {
        self.run.paths.push(path);
    }

    /// Closes the session.
    #[must_use]
    pub fn close(mut self) -> Run {
        if self.stop.overdue() {
            self.run.complete = false;
            self.run.notices.push(Notice::Overdue);
        }
        if let Some(signal) = self.stop.reason() {
            self.run.complete = false;
            self.run.notices.push(Notice::Interrupted { signal });
        }
        self.account.enter(&mut self.run);
        self.run
    }
}

/// What a run took of the machine, and what others took meanwhile.
struct Account {
    begin_ns: i64,
    process_cpu_ns: i64,
    children_cpu_ns: i64,
    /// CPU time of a program that was watched and is no child.
    watched_cpu_ns: i64,
    probe: DisturbanceProbe,
    own: OwnUsage,
}

impl Account {
    fn open(root: &Path) -> Self {
        Self {
            begin_ns: now_ns(Clock::Monotonic),
            process_cpu_ns: now_ns(Clock::ProcessCpu),
            children_cpu_ns: children_cpu_ns(),
            watched_cpu_ns: 0,
            probe: DisturbanceProbe::start(root),
            own: OwnUsage::default(),
        }
    }

    /// Enters the time since the beginning and the disturbance.
    fn enter(&self, run: &mut Run) {
        run.elapsed_ns = (now_ns(Clock::Monotonic) - self.begin_ns).unsigned_abs();
        let major_faults = clock::process_usage().ok().map(|u| u.major_faults.unsigned_abs());
        // Competitors and peers were all waited for: their CPU time belongs to the run, not to other programs.
        let children_ns = children_cpu_ns() - self.children_cpu_ns;
        let own_ns = now_ns(Clock::ProcessCpu) - self.process_cpu_ns + children_ns + self.watched_cpu_ns;
        run.disturbance = self.probe.finish(OwnUsage { major_faults, ..self.own });
        let cpus = f64::from(run.host.cpus_online.unwrap_or(1).max(1));
        let own_share = own_ns as f64 / (run.elapsed_ns.max(1) as f64 * cpus);
        let disturbance = &run.disturbance;
        if let Some(share) = disturbance.steal_share.filter(|s| *s >= STEAL_WORTH_SAYING) {
            run.notices.push(Notice::Steal { share });
        }
        let others = disturbance.busy_share.map(|b| b - own_share - disturbance.steal_share.unwrap_or(0.0));
        if let Some(share) = others.filter(|s| *s >= OTHERS_WORTH_SAYING) {
            run.notices.push(Notice::BusyMachine { share });
        }
    }
}

/// CPU time of this process's children that were waited for.
fn children_cpu_ns() -> i64 {
    clock::children_usage().map_or(0, |used| used.user_ns + used.system_ns)
}

/// Readings per batch. With this many, the two outer readings do not matter (a reading takes 20 to 1000 ns).
const READINGS: u32 = 500;
/// Number of batches: odd, so that the median is one of them.
const BATCHES: usize = 41;

/// Measures CLOCK_MONOTONIC: the median cost of a reading, and the smallest non-zero step. Takes about 1 ms.
pub(crate) fn clock_cost() -> record::Clock {
    let mut costs = Vec::with_capacity(BATCHES);
    let mut granularity = i64::MAX;
    for _ in 0..BATCHES {
        let begin = now_ns(Clock::Monotonic);
        let mut last = begin;
        for _ in 0..READINGS {
            let now = now_ns(Clock::Monotonic);
            if now > last {
                granularity = granularity.min(now - last);
            }
            last = now;
        }
        costs.push((last - begin) as f64 / f64::from(READINGS));
    }
    costs.sort_by(f64::total_cmp);
    record::Clock {
        source: Clock::Monotonic.name().to_owned(),
        read_ns: costs[BATCHES / 2],
        resolution_ns: resolution_ns(Clock::Monotonic).map_or(0, i64::unsigned_abs),
        granularity_ns: granularity.unsigned_abs(),
    }
}

#[cfg(test)]
mod tests {

    #[test]
    fn a_reading_costs_something_and_the_clock_moves() {
        let clock = super::clock_cost();
        assert!(clock.read_ns > 0.0);
        assert!(clock.granularity_ns >= 1);
        assert!(clock.granularity_ns < 1_000_000_000);
    }
}
