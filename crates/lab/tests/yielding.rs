//! Who really yields, on the real kernel: facts, not times.

use std::time::Duration;

use punctual::conditions::Conditions;
use punctual::{CpuSet, Policy};
use punctual_lab::crowd::{Crowd, Kind, Restraint};
use punctual_lab::schedule::Amount;
use punctual_lab::yielding::{self, Against, Plan, Wanted, methods, plan::one_cpu};
use punctual_lab::{Session, Silent, Stop, Variant};
use punctual_record::{Notice, Param, Quantity, Run, Series};
use punctual_testing::{Disturbed, alone_on_this_machine, eventually, skip, undisturbed, until};

fn wanted(names: &[&str]) -> Wanted {
    Wanted {
        methods: names.iter().map(|name| methods::find(name).unwrap()).collect(),
        competitors: vec![1],
        kinds: vec![Kind::Process],
        against: vec![Against::AsFound],
        competitor_nice: None,
        variants: vec![Variant::as_found()],
        base: Conditions::default(),
        amount: Amount::Time(Duration::from_millis(1500)),
        rounds: 3,
        warmup: 0,
        require: false,
    }
}

fn measure(wanted: Wanted) -> Run {
    let mut observer = Silent;
    let mut session = Session::open(vec!["punctual".into(), "yield".into()], Stop::default(), &mut observer);
    yielding::run(Plan::new(wanted).unwrap(), &mut session).unwrap();
    session.close()
}

/// Measures, and again for longer while other programs left nothing of the time for one of the cells.
fn measure_all(wanted: impl Fn() -> Wanted) -> Run {
    undisturbed(|longer| {
        let run = measure(Wanted { amount: Amount::Time(Duration::from_millis(1500) * longer), ..wanted() });
        if run.notices.contains(&Notice::Overdue) {
            return Err(Disturbed("its time was over before all had their turn".into()));
        }
        let starved = run.not_measured.iter().find(|n| n.why.contains("did not pay for one call"));
        starved.map_or(Ok(()), |n| Err(Disturbed(format!("{}: {}", n.subject, n.why)))).map(|()| run)
    })
}

fn calls(run: &Run) -> impl Iterator<Item = &Series> {
    run.series.iter().filter(|s| s.quantity == Quantity::CallCost)
}

fn outcome(series: &Series, name: &str) -> f64 {
    match series.outcome.get(name) {
        Some(Param::Real(value)) => *value,
        other => panic!("{}: {name} is {other:?}", series.subject),
    }
}

fn find<'a>(run: &'a Run, subject: &str) -> &'a Series {
    calls(run).find(|s| s.subject == subject).unwrap_or_else(|| panic!("{subject}: {:?}", run.not_measured))
}

#[test]
fn only_what_enters_the_scheduler_lets_a_competitor_run() {
    let _alone = alone_on_this_machine();
    for kind in [Kind::Process, Kind::Thread] {
        let never = ["nothing", "nop", "pause", "poll0", "select0", "futex_changed"];
        let names = [&never[..], &["sched_yield", "nanosleep0"]].concat();
        let run = measure_all(|| Wanted { kinds: vec![kind], ..wanted(&names) });
        for series in calls(&run) {
            let (yielded, count) = (outcome(series, "yielded_share"), series.summary.count);
            // A slice lasts at least 0.7 ms and these calls 1 µs at most: preempted in one call of a thousand is already a lot.
            let name = &series.subject;
            if never.contains(&name.as_str()) {
                assert!(yielded < 0.01, "{name} let the competitor run in {yielded} of {count} calls");
            } else {
                assert!(yielded > 0.05, "{name} let the competitor run in {yielded} of {count} calls only");
            }
            let away = run.series.iter().find(|s| s.quantity == Quantity::Away && s.subject == *name);
            let away = away.map_or(0, |s| s.summary.count);
            assert_eq!(
                away,
                (yielded * count as f64).round() as u64,
                "{name}: the calls that yielded have their own series"
            );
            let (theirs, own) = (outcome(series, "competitor_cpu_share"), outcome(series, "own_cpu_share"));
            assert!(theirs >= 0.0 && own > 0.0 && theirs + own <= 1.001, "{name}: {theirs} + {own}");
        }
        let left =
            |name: &str| outcome(find(&run, name), "competitor_cpu_share") / outcome(find(&run, name), "own_cpu_share");
        assert!(left("sched_yield") > left("pause"), "who yields has less of the CPU than who does not");
    }
}

#[test]
fn precedence_decides_under_fifo() {
    let _alone = alone_on_this_machine();
    let fifo = Policy::Fifo(40);
    let variants = Variant::product(&[fifo], &[]).unwrap();
    let against = [Policy::Other, Policy::Fifo(30), fifo, Policy::Fifo(50)].map(Against::Policy).to_vec();
    let run = measure_all(|| Wanted {
        variants: variants.clone(),
        against: against.clone(),
        ..wanted(&["sched_yield", "pause"])
    });
    // Without the right to it, the rows are those of another policy.
    if let Some(refused) = run.conditions.iter().flat_map(|set| &set.refused).next() {
        return skip(&format!("no SCHED_FIFO here: {}", refused.why));
    }
    let yielded = |subject: &str, rank: &str, policy: &str| {
        let is = |s: &&Series, name: &str, value: &str| s.parameters[name] == Param::Text(value.into());
        let series = calls(&run)
            .find(|s| s.subject == subject && is(s, "competitor_policy", policy) && is(s, "competitor_rank", rank));
        outcome(series.unwrap_or_else(|| panic!("{subject} against {policy}: {:?}", run.not_measured)), "yielded_share")
    };
    // Throttling gives the others 5 % of the time at most, in portions of tens of ms: a handful of calls.
    assert!(yielded("sched_yield", "lower", "other") < 0.001);
    assert!(yielded("sched_yield", "lower", "fifo:30") < 0.001);
    assert!(yielded("sched_yield", "same", "fifo:40") > 0.5);
    assert!(yielded("pause", "same", "fifo:40") < 0.001);
    assert!(yielded("pause", "higher", "fifo:50") > 0.0, "it preempts");
}

#[test]
fn members_work_and_rest_as_told_and_leave_nothing() {
    let _alone = alone_on_this_machine();
    let cpu = Conditions { cpus: Some(CpuSet::of([one_cpu(None).unwrap()])), ..Conditions::default() };
    for kind in [Kind::Process, Kind::Thread] {
        let mut crowd = Crowd::gather(kind, 3, &cpu, Restraint::None).unwrap();
        // Nobody works until told: sooner or later 30 ms pass in which all together use a third of that at most.
        until("a crowd at rest", || {
            let before = crowd.cpu_ns_of_all();
            std::thread::sleep(Duration::from_millis(30));
            crowd.cpu_ns_of_all() - before < 10_000_000
        });
        for working in [1, 3, 0, 2, 2] {
            crowd.set_working(working).unwrap();
            let before = crowd.cpu_ns().unwrap();
            if working > 0 {
                // Other programs may have the CPU for a while.
                until("work", || crowd.cpu_ns().unwrap() > before);
            } else {
                assert_eq!(before, 0, "of nobody");
            }
            crowd.all_alive().unwrap();
        }
        let pids = crowd.process_ids();
        assert_eq!(pids.len(), if kind == Kind::Process { 3 } else { 0 });
        drop(crowd);
        for pid in pids {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            assert!(rustix::process::test_kill_process(pid).is_err(), "{pid:?} is still there");
        }
    }
}

#[test]
fn a_dead_member_is_an_error_not_a_figure() {
    let _alone = alone_on_this_machine();
    let mut crowd = Crowd::gather(Kind::Process, 2, &Conditions::default(), Restraint::None).unwrap();
    crowd.set_working(2).unwrap();
    let victim = rustix::process::Pid::from_raw(crowd.process_ids()[0]).unwrap();
    rustix::process::kill_process(victim, rustix::process::Signal::KILL).unwrap();
    let failure = eventually("its death is noticed", || crowd.all_alive().err());
    assert!(format!("{failure:?}").contains("killed by signal 9"), "{failure:?}");
}

#[test]
fn a_refused_condition_of_a_competitor_comes_back_with_its_remedy() {
    let _alone = alone_on_this_machine();
    let nowhere = Conditions { cpus: Some(CpuSet::of([8000])), ..Conditions::default() };
    for kind in [Kind::Process, Kind::Thread] {
        let refused = Crowd::gather(kind, 1, &nowhere, Restraint::None).unwrap_err();
        let text = format!("{refused:?}");
        assert!(text.contains("8000") && text.contains("remedy: Some"), "{text}");
    }
}
