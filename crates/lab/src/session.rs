//! A session: one run under construction.
//!
//! It opens with the facts of the machine, takes in what the experiments measured, and closes with how disturbed it all was.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use punctual::conditions::{Applied as Held, Conditions, NotRestored, Refused};
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::usage;
use punctual_record::{
    Applied, Asked, ConditionSet, DisturbanceProbe, Host, NotMeasured, Notice, OwnUsage, Refusal, Run, SCHEMA, Series,
    Tool, Usage,
};

use crate::clock_cost;
use crate::governor::SetGovernor;
use crate::place::{Aside, Place};
use crate::stage::{Observer, Outcome, Stage, Stop, Supervision, perform};
use crate::warden::Warden;

/// From this share of CPU time taken by the hypervisor on, figures in the tail are its doing: 1 %.
const STEAL_WORTH_SAYING: f64 = 0.01;
/// From this share of CPU time used by others on, they are worth a word: 5 %, above what an idle desktop uses.
const OTHERS_WORTH_SAYING: f64 = 0.05;

/// One run under construction.
pub struct Session<'a> {
    run: Run,
    begin_ns: i64,
    process_cpu_ns: i64,
    probe: DisturbanceProbe,
    own: OwnUsage,
    children_cpu_ns: i64,
    observer: &'a mut dyn Observer,
    stop: Stop,
    governor: Option<(String, Option<Arc<SetGovernor>>)>,
    /// How much longer than announced what is still to come may take, together.
    grace: Duration,
    warden: Option<Warden>,
}

/// How much longer than announced a run may take before it is ended. Ending it takes up to 0.6 s, and the report some tenths.
const GRACE: Duration = Duration::from_millis(600);
/// What remains of it for a later experiment after an earlier one has used it up.
const LEAST_GRACE: Duration = Duration::from_millis(100);

impl<'a> Session<'a> {
    /// Opens a session on this machine. `command` is the command line as it is to stand in the record.
    #[must_use]
    pub fn open(command: Vec<String>, stop: Stop, observer: &'a mut dyn Observer) -> Self {
        if !stop.requested() {
            // An earlier run of this process may have been ended.
            punctual_linux::stop::clear();
        }
        let root = Path::new("/");
        let host = Host::read(root);
        let clock = clock_cost::measure();
        let tool = Tool { name: "punctual".into(), version: env!("CARGO_PKG_VERSION").into() };
        let run = Run {
            schema: SCHEMA.into(),
            tool,
            started: jiff::Timestamp::now(),
            elapsed_ns: 0,
            complete: true,
            command,
            host,
            conditions: Vec::new(),
            clock,
            series: Vec::new(),
            not_measured: Vec::new(),
            notices: Vec::new(),
            disturbance: punctual_record::Disturbance::default(),
            merged_from: Vec::new(),
        };
        Self {
            run,
            begin_ns: now_ns(Clock::Monotonic),
            process_cpu_ns: now_ns(Clock::ProcessCpu),
            probe: DisturbanceProbe::start(root),
            own: OwnUsage::default(),
            children_cpu_ns: children_cpu_ns(),
            observer,
            stop,
            governor: None,
            grace: GRACE,
            warden: None,
        }
    }

    /// Runs an experiment on the stage, under supervision from other CPUs than those of `place`. `None`: it did not come back after a
    /// request to stop, or when its time was over.
    pub fn perform<R: Send + 'static>(
        &mut self,
        place: Place,
        experiment: impl FnOnce(&Stage) -> R + Send + 'static,
    ) -> std::io::Result<Option<R>> {
        self.supervise(&place);
        let supervision = Supervision { place, grace: self.grace };
        let performance = perform(&self.stop, self.observer, &supervision, experiment)?;
        self.grace = self.grace.saturating_sub(performance.overran).max(LEAST_GRACE);
        Ok(match performance.outcome {
            Outcome::Done(result) => Some(result),
            Outcome::LeftBehind => {
                // This process cannot end what the experiment started. The warden does, once this process has ended.
                self.warden.take().into_iter().for_each(Warden::outlive);
                None
            }
        })
    }

    /// Lets what is still to come take so much longer than announced, together.
    pub fn grant(&mut self, more: Duration) {
        self.grace = self.grace.saturating_add(more);
    }

    /// Has a warden ready, and says so where nobody could end the run in time.
    fn supervise(&mut self, place: &Place) {
        let aside = Aside::step(place, &[]);
        let mut unsupervised = |why: String, remedy: &str| {
            let line = format!("nothing may be able to end this run in time: {why}; {remedy}");
            let notice = Notice::Unsupervised { why, remedy: remedy.to_owned() };
            if place.real_time && !self.run.notices.contains(&notice) {
                self.observer.line(&line);
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

    /// Takes in a series.
    pub fn add_series(&mut self, series: Series) {
        if series.summary.overflow > 0 {
            let (subject, count) = (series.subject.clone(), series.summary.overflow);
            self.notice(Notice::Overflow { subject, count });
        }
        self.run.series.push(series);
    }

    /// Takes in something that could not be measured.
    pub fn add_not_measured(&mut self, what: NotMeasured) {
        if !self.run.not_measured.contains(&what) {
            self.run.not_measured.push(what);
        }
    }

    /// Takes in a notice; one that is there already is not repeated.
    pub fn notice(&mut self, notice: Notice) {
        if !self.run.notices.contains(&notice) {
            self.run.notices.push(notice);
        }
    }

    /// The run ends before its time, and this is why: what is in it is not all that was asked for.
    pub fn cut_short(&mut self, why: Notice) {
        self.run.complete = false;
        self.notice(why);
    }

    /// The run ends before its time, and an error says why.
    pub fn incomplete(&mut self) {
        self.run.complete = false;
    }

    /// Time from the beginning of the run to a moment on `CLOCK_MONOTONIC`, ns.
    #[must_use]
    pub fn time_of(&self, at_ns: i64) -> u64 {
        (at_ns - self.begin_ns).max(0).unsigned_abs()
    }

    /// Takes in a set of conditions, unless one of that label is there.
    pub fn add_conditions(&mut self, mut set: ConditionSet) {
        if let Some((asked, applied)) = &self.governor {
            set.asked.governor = Some(asked.clone());
            set.applied.governor = applied.as_ref().map(|set| set.name.clone());
        }
        if !self.run.conditions.iter().any(|c| c.label == set.label) {
            self.run.conditions.push(set);
        }
    }

    /// From now on the conditions say that this governor was asked for, and which was set.
    pub(crate) fn under_governor(&mut self, asked: &str, applied: Option<Arc<SetGovernor>>) {
        self.governor = Some((asked.to_owned(), applied));
    }

    /// The governor that was set for what is measured now.
    pub(crate) fn set_governor(&self) -> Option<Arc<SetGovernor>> {
        self.governor.as_ref().and_then(|(_, set)| set.clone())
    }

    /// The governor is to be put back: nobody looks after it any more.
    pub(crate) fn leave_governor(&mut self) {
        self.governor = None;
    }

    /// Adds to what the measuring threads used.
    pub fn add_usage(&mut self, used: Usage) {
        let so_far = &mut self.own.involuntary_switches;
        *so_far = used.involuntary.map(|more| so_far.unwrap_or(0) + more).or(*so_far);
    }

    /// Closes the session.
    #[must_use]
    pub fn close(mut self) -> Run {
        self.run.elapsed_ns = (now_ns(Clock::Monotonic) - self.begin_ns).unsigned_abs();
        self.own.major_faults = usage::process_usage().ok().map(|u| u.major_faults.unsigned_abs());
        if self.stop.overdue() {
            self.run.complete = false;
            self.run.notices.push(Notice::Overdue);
        }
        if let Some(signal) = self.stop.reason() {
            self.run.complete = false;
            self.run.notices.push(Notice::Interrupted { signal });
        }
        // The processes that worked for the run, competitors and peers, were all waited for: they are not somebody else.
        let own_ns = now_ns(Clock::ProcessCpu) - self.process_cpu_ns + children_cpu_ns() - self.children_cpu_ns;
        self.run.disturbance = self.probe.finish(self.own);
        let cpus = f64::from(self.run.host.cpus_online.unwrap_or(1).max(1));
        let own_share = own_ns as f64 / (self.run.elapsed_ns.max(1) as f64 * cpus);
        let disturbance = &self.run.disturbance;
        if let Some(share) = disturbance.steal_share.filter(|s| *s >= STEAL_WORTH_SAYING) {
            self.run.notices.push(Notice::Steal { share });
        }
        let others = disturbance.busy_share.map(|b| b - own_share - disturbance.steal_share.unwrap_or(0.0));
        if let Some(share) = others.filter(|s| *s >= OTHERS_WORTH_SAYING) {
            self.run.notices.push(Notice::BusyMachine { share });
        }
        self.run
    }
}

/// The record's view of conditions that were asked for.
#[must_use]
pub fn asked(conditions: &Conditions) -> Asked {
    Asked {
        policy: conditions.policy.as_ref().map(ToString::to_string),
        nice: conditions.nice,
        cpus: conditions.cpus.as_ref().map(ToString::to_string),
        lock_memory: conditions.lock_memory.then_some(true),
        timer_slack_ns: conditions.timer_slack.map(|d| d.as_nanos() as u64),
        dma_latency_us: conditions.dma_latency.map(|d| d.as_micros() as u32),
        governor: None,
    }
}

/// The record's view of conditions that hold.
#[must_use]
pub fn applied(held: &Held) -> Applied {
    Applied {
        policy: held.policy.as_ref().map(ToString::to_string),
        nice: held.nice,
        cpus: held.cpus.as_ref().map(ToString::to_string),
        lock_memory: held.lock_memory,
        timer_slack_ns: held.timer_slack.map(|d| d.as_nanos() as u64),
        dma_latency_us: held.dma_latency.map(|d| d.as_micros() as u32),
        governor: None,
    }
}

/// The record's view of a refusal.
#[must_use]
pub fn refusal(refused: &Refused) -> Refusal {
    Refusal {
        condition: refused.condition.to_string(),
        asked: refused.asked.clone(),
        why: refused.why.clone(),
        remedy: refused.remedy.clone(),
    }
}

/// The record's view of a condition that could not be put back.
#[must_use]
pub fn not_restored(left: &NotRestored) -> Notice {
    Notice::NotRestored {
        what: format!("{} (it was {})", left.condition, left.was),
        why: left.why.clone(),
        remedy: "it ends with this process; a program started later is not affected".into(),
    }
}

/// CPU time of the processes that this one started and waited for.
fn children_cpu_ns() -> i64 {
    usage::children_usage().map_or(0, |used| used.user_ns + used.system_ns)
}
