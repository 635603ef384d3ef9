//! Who really yields, on the real kernel: facts, not times.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::conditions::Conditions;
use punctual::{CpuSet, Policy};
use punctual_lab::crowd::{Crowd, Kind, Restraint};
use punctual_lab::schedule::Amount;
use punctual_lab::yielding::{self, Against, Plan, Wanted, methods, plan::one_cpu};
use punctual_lab::{Session, Silent, Stop, Variant};
use punctual_record::{Param, Quantity, Run, Series};

/// Two crowds on one CPU would be each other's competitors.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn skip(why: &str) {
    assert!(std::env::var_os("PUNCTUAL_NO_SKIP").is_none(), "must not be skipped: {why}");
    eprintln!("skipped: {why}");
}

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
    let _alone = alone();
    for kind in [Kind::Process, Kind::Thread] {
        let never = ["nothing", "nop", "pause", "poll0", "select0", "futex_changed"];
        let names = [&never[..], &["sched_yield", "nanosleep0"]].concat();
        let run = measure(Wanted { kinds: vec![kind], ..wanted(&names) });
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
    let _alone = alone();
    let fifo = Policy::Fifo(40);
    let variants = Variant::product(&[fifo], &[]).unwrap();
    let against = [Policy::Other, Policy::Fifo(30), fifo, Policy::Fifo(50)].map(Against::Policy).to_vec();
    let run = measure(Wanted { variants, against, ..wanted(&["sched_yield", "pause"]) });
    if calls(&run).next().is_none() {
        return skip(&format!("no SCHED_FIFO here: {:?}", run.notices));
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
    let _alone = alone();
    let cpu = Conditions { cpus: Some(CpuSet::of([one_cpu(None).unwrap()])), ..Conditions::default() };
    for kind in [Kind::Process, Kind::Thread] {
        let mut crowd = Crowd::gather(kind, 3, &cpu, Restraint::None).unwrap();
        let before = crowd.cpu_ns_of_all();
        std::thread::sleep(Duration::from_millis(30));
        // Resting costs next to nothing: nobody works until told.
        assert!(crowd.cpu_ns_of_all() - before < 10_000_000);
        for working in [1, 3, 0, 2, 2] {
            crowd.set_working(working).unwrap();
            let before = crowd.cpu_ns().unwrap();
            std::thread::sleep(Duration::from_millis(30));
            assert_eq!(crowd.cpu_ns().unwrap() > before, working > 0);
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
    let _alone = alone();
    let mut crowd = Crowd::gather(Kind::Process, 2, &Conditions::default(), Restraint::None).unwrap();
    crowd.set_working(2).unwrap();
    let victim = rustix::process::Pid::from_raw(crowd.process_ids()[0]).unwrap();
    rustix::process::kill_process(victim, rustix::process::Signal::KILL).unwrap();
    let begin = std::time::Instant::now();
    let failure = loop {
        match crowd.all_alive() {
            Err(failure) => break failure,
            Ok(()) => assert!(begin.elapsed() < Duration::from_secs(60), "nobody noticed"),
        }
    };
    assert!(format!("{failure:?}").contains("killed by signal 9"), "{failure:?}");
}

#[test]
fn a_refused_condition_of_a_competitor_comes_back_with_its_remedy() {
    let _alone = alone();
    let nowhere = Conditions { cpus: Some(CpuSet::of([8000])), ..Conditions::default() };
    for kind in [Kind::Process, Kind::Thread] {
        let refused = Crowd::gather(kind, 1, &nowhere, Restraint::None).unwrap_err();
        let text = format!("{refused:?}");
        assert!(text.contains("8000") && text.contains("remedy: Some"), "{text}");
    }
}
