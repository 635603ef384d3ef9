//! The record of threads that another program shows in its own form: their series, and the causes of their late wake-ups.
//!
//! In go the threads, out comes a run. It is opened before the threads are, since opening the kernel's events disturbs all CPUs. Where the
//! kernel refuses its events, the run has the reason in their place.

use std::time::Duration;

use punctual::conditions::{Condition, Conditions, Scope};
use punctual_record::experiment::cyclic::Parameters;
use punctual_record::{Experiment, Notice, Recorder, Run, Usage};

use super::crew::{Crew, Member};
use super::lookout::Lookout;
use super::stretch::Stretches;
use super::turn::Unit;
use crate::frame::{Session, Silent, Stop, condition_set};

/// A run beside threads that are shown elsewhere.
pub struct Aside {
    session: Session<'static>,
    lookout: Lookout,
    unit: Unit,
}

impl std::fmt::Debug for Aside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aside").field("lookout", &self.lookout).finish_non_exhaustive()
    }
}

impl Aside {
    /// Opens the record and the kernel's events. `unit`: that of the threads, which keep their spread.
    #[must_use]
    pub fn open(command: Vec<String>, unit: Unit) -> Self {
        // It has no size, so nothing leaks.
        let silent = Box::leak(Box::new(Silent));
        let session = Session::open(command, Experiment::CYCLIC, Stop::default(), silent);
        Self { session, lookout: Lookout::open(None, false), unit }
    }

    /// Watches the threads from now on.
    pub fn begin(&mut self, crew: &Crew) {
        self.lookout.begin(crew);
    }

    /// Takes in events for this long.
    pub fn look(&mut self, lasts: Duration) {
        self.lookout.look(lasts, None);
    }

    /// The run, when the threads have ended. They used what `usage` says. `held`: conditions of the process and the machine.
    #[must_use]
    pub fn end(mut self, crew: &Crew, usage: &[Option<Usage>], held: &Conditions) -> Run {
        let (causes, unseen) = self.lookout.end(None);
        causes.into_iter().for_each(|causes| self.session.set_causes(causes));
        unseen.into_iter().for_each(|unseen| self.session.notice(Notice::Unseen(unseen)));
        let mut recorder = Recorder::new();
        for (number, (name, member)) in crew.members().iter().enumerate() {
            let used = usage.get(number).copied().flatten();
            used.into_iter().for_each(|used| self.session.add_usage(used));
            let mut stretches = Stretches::new(&crew.gauges()[number], self.unit);
            stretches.enter((0, 0), &mut recorder, used.unwrap_or_default());
            let set = conditions_of(member, held);
            let parameters = Parameters { interval_ns: member.interval_ns, load: None };
            let series = stretches.series(format!("cpu{name}"), parameters, &set.label);
            self.session.add_conditions(set);
            series.into_iter().for_each(|series| self.session.add_series(series));
        }
        self.session.close()
    }
}

/// The conditions of a thread beside its CPU, which is its name.
fn conditions_of(member: &Member, held: &Conditions) -> punctual_record::ConditionSet {
    let own = member.conditions.clone().without(Condition::CPU).only(&[Scope::Thread]);
    let all = own.over(held);
    condition_set(&all, &all, &[])
}

#[cfg(test)]
mod tests {
    use punctual_linux::clock::Clock;

    use super::super::bell::Bell;
    use super::super::crew::Orders;
    use super::super::gauge::Keep;
    use super::super::start::Start;
    use super::super::turn::{Limits, Waiting};
    use super::*;

    #[test]
    fn each_thread_has_a_series_in_nanoseconds() {
        let member = |interval_ns: i64| Member { conditions: Conditions::new().cpu(0), interval_ns, smis_of: None };
        let limits =
            Limits { unit: Unit::Microseconds, cycles: Some(20), lasts_ns: None, break_above: None, share: None };
        let mut aside = Aside::open(vec!["cyclictest".into(), "-t2".into()], limits.unit);
        let orders = Orders {
            members: vec![member(1_000_000), member(1_500_000)],
            clock: Clock::Monotonic,
            waiting: Waiting::Deadline,
            start: Start::Ready,
            limits,
            keep: Keep { spread: true, ..Keep::default() },
            bell: Bell::default(),
        };
        let mut crew = Crew::start(orders).unwrap();
        aside.begin(&crew);
        while crew.bell().ended() < 2 {
            aside.look(Duration::from_millis(1));
        }
        let usage = crew.end();
        let run = aside.end(&crew, &usage, &Conditions::new().lock_memory());
        let subjects: Vec<_> = run.series.iter().map(|series| series.subject.as_str()).collect();
        assert_eq!(subjects, ["cpu0", "cpu0.1"]);
        for (series, interval_ns) in run.series.iter().zip([1_000_000, 1_500_000]) {
            assert_eq!(series.experiment.cyclic().unwrap().parameters.interval_ns, interval_ns);
            // A value of 0 us is a lateness below 1 us.
            assert_eq!((series.summary.count, series.summary.max.unwrap() % 1000), (20, 0));
            assert!(series.conditions.contains("memory"), "{}", series.conditions);
        }
        let seen = run.causes.is_some() || run.notices.iter().any(|notice| matches!(notice, Notice::Unseen(_)));
        assert!(seen && run.complete, "{:?}", run.notices);
    }
}
