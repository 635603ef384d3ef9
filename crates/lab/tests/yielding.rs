//! Who really yields, on the real kernel: tests of facts, not of times.

use std::time::Duration;

use punctual::Policy;
use punctual::conditions::Conditions;
use punctual_lab as frame;
use punctual_lab::crowd::{Crowd, Restraint};
use punctual_lab::yielding::{self, CompetitorPolicy, Plan, Request, methods};
use punctual_lab::{Amount, Session, Silent, Stop, Variant, one_cpu};
use punctual_record::experiment::yielding::{CompetitorKind, Metrics, Rank};
use punctual_record::{Notice, Quantity, RoundFigures, Run, Series};
use punctual_testing::{Disturbed, alone_on_this_machine, eventually, skip, undisturbed, until};

fn request(names: &[&str]) -> Request {
    Request {
        methods: names.iter().map(|name| methods::find(name).unwrap()).collect(),
        competitors: vec![1],
        kinds: vec![CompetitorKind::Process],
        competitor_policies: vec![CompetitorPolicy::AsFound],
        competitor_nice: None,
        frame: frame::Request { warmup: 0, ..frame::Request::as_found(Amount::Time(Duration::from_millis(1500)), 3) },
    }
}

fn measure(request: Request) -> Run {
    let mut observer = Silent;
    let mut session = Session::open(vec!["punctual".into(), "yield".into()], "yield", Stop::default(), &mut observer);
    yielding::run(Plan::new(request).unwrap(), &mut session).unwrap();
    session.close()
}

/// Measures. It repeats for longer while other programs left no time for one of the cells, or too little to judge.
fn measure_all(is_vague: impl Fn(&Series) -> bool, request: impl Fn() -> Request) -> Run {
    undisturbed(|longer| {
        let Request { frame, .. } = request();
        let frame = frame::Request { amount: Amount::Time(Duration::from_millis(1500) * longer), ..frame };
        let run = measure(Request { frame, ..request() });
        if run.notices.contains(&Notice::Overdue) {
            return Err(Disturbed("its time was over before all had their turn".into()));
        }
        let starved = run.not_measured.iter().find(|n| n.why.contains("did not pay for one call"));
        let is_refused = run.conditions.iter().any(|set| !set.refused.is_empty());
        let vague = calls(&run).find(|series| !is_refused && is_vague(series));
        let starved = starved.map(|n| format!("{}: {}", n.subject, n.why));
        match starved.or(vague.map(|s| format!("{}: {:?}", s.subject, s.experiment.metrics()))) {
            Some(starved) => Err(Disturbed(starved)),
            None => Ok(run),
        }
    })
}

fn calls(run: &Run) -> impl Iterator<Item = &Series> {
    run.series.iter().filter(|s| s.quantity == Quantity::CallCost)
}

/// A share that must be present.
fn share(series: &Series, of: fn(&Metrics) -> Option<f64>) -> f64 {
    let metrics = &series.experiment.yields().expect("an experiment of yield").metrics;
    of(metrics).unwrap_or_else(|| panic!("{}: {metrics:?}", series.subject))
}

fn yielded_share(series: &Series) -> f64 {
    share(series, |metrics| metrics.yielded_share)
}

fn left_share(series: &Series) -> (f64, f64) {
    (share(series, |metrics| metrics.competitor_cpu_share), share(series, |metrics| metrics.own_cpu_share))
}

fn find<'a>(run: &'a Run, subject: &str) -> &'a Series {
    calls(run).find(|s| s.subject == subject).unwrap_or_else(|| panic!("{subject}: {:?}", run.not_measured))
}

#[test]
fn only_what_enters_the_scheduler_lets_a_competitor_run() {
    let _alone = alone_on_this_machine();
    for kind in [CompetitorKind::Process, CompetitorKind::Thread] {
        let never = ["nothing", "nop", "pause", "poll0", "select0", "futex_changed"];
        let names = [&never[..], &["sched_yield", "nanosleep0"]].concat();
        // A slice lasts at least 0.7 ms and a call that never yields 1 µs. One preemption in a thousand calls is already a lot. While
        // another one waits, other programs may run instead of the competitor, for a slice and many calls.
        let is_vague = |series: &Series| match never.contains(&series.subject.as_str()) {
            true => series.summary.count < 1_000,
            false => yielded_share(series) <= 0.05,
        };
        let run = measure_all(is_vague, || Request { kinds: vec![kind], ..request(&names) });
        for series in calls(&run) {
            let (yielded, count) = (yielded_share(series), series.summary.count);
            let name = &series.subject;
            if never.contains(&name.as_str()) {
                assert!(yielded < 0.01, "{name} let the competitor run in {yielded} of {count} calls");
            }
            let away = run.series.iter().find(|s| s.quantity == Quantity::Away && s.subject == *name);
            let away = away.map_or(0, |s| s.summary.count);
            assert_eq!(
                away,
                (yielded * count as f64).round() as u64,
                "{name}: the calls that yielded have their own series"
            );
            let shares: Vec<f64> = series.rounds.iter().filter_map(|round| round.competitor_cpu_share).collect();
            assert!(shares.len() == series.rounds.len(), "{name}: {shares:?}");
            let (theirs, own) = left_share(series);
            let (least, most) =
                (shares.iter().copied().fold(1.0, f64::min), shares.iter().copied().fold(0.0, f64::max));
            assert!(least <= theirs + 1e-9 && theirs <= most + 1e-9, "{name}: {theirs} of {shares:?}");
            assert!(theirs >= 0.0 && own > 0.0 && theirs + own <= 1.001, "{name}: {theirs} + {own}");
        }
        let left = |name: &str| {
            let (theirs, own) = left_share(find(&run, name));
            theirs / own
        };
        assert!(left("sched_yield") > left("pause"), "who yields has less of the CPU than who does not");
    }
}

/// Ten calls of some nanoseconds are shorter than any slice. The shares of their rounds are those of several.
#[test]
fn few_calls_still_show_who_had_the_cpu() {
    let _alone = alone_on_this_machine();
    let frame = frame::Request::as_found(Amount::Samples(50), 5);
    let run = measure(Request { frame, ..request(&["pause", "sched_yield"]) });
    for series in calls(&run) {
        assert_eq!(series.summary.count, 50, "{}: no call more than asked for is a sample", series.subject);
        let shares = |round: &RoundFigures| round.own_cpu_share.zip(round.competitor_cpu_share);
        let shares: Vec<(f64, f64)> = series.rounds.iter().filter_map(shares).collect();
        assert_eq!(shares.len(), series.rounds.len(), "{}: {:?}", series.subject, series.rounds);
        assert!(shares.iter().all(|(own, theirs)| *own > 0.0 && own + theirs <= 1.001), "{shares:?}");
    }
}

/// Each figure has its own sum: the CPU clock's. Where the kernel's ticks sufficed, the parts add up to it.
#[test]
fn user_and_system_time_add_up() {
    let _alone = alone_on_this_machine();
    let run = measure_all(|_| false, || Request { competitors: vec![0], ..request(&["pause", "poll0", "nanosleep0"]) });
    for series in calls(&run) {
        let metrics = &series.experiment.yields().unwrap().metrics;
        let (name, cpu) = (&series.subject, metrics.bare_cpu_ns.expect("the CPU clock of a thread"));
        assert!(cpu > 0.0, "{name}");
        let Some((user, system)) = metrics.user_ns_per_op.zip(metrics.system_ns_per_op) else { continue };
        assert!((user + system - cpu).abs() <= 1e-6 * cpu && user >= 0.0 && system >= 0.0, "{name}: {metrics:?}");
        if name == "pause" {
            assert!(user > system, "{name} makes no system call: {metrics:?}");
        }
    }
}

#[test]
fn precedence_decides_under_fifo() {
    let _alone = alone_on_this_machine();
    let fifo = Policy::Fifo(40);
    let variants = vec![Variant::new(Conditions::new().policy(fifo))];
    let policies = [Policy::Other, Policy::Fifo(30), fifo, Policy::Fifo(50)].map(CompetitorPolicy::Policy).to_vec();
    // A share of less than a thousandth needs ten times as many calls.
    let is_vague = |series: &Series| {
        let rank = series.experiment.yields().unwrap().parameters.competitor_rank;
        let never =
            matches!((series.subject.as_str(), rank), ("sched_yield", Some(Rank::Lower)) | ("pause", Some(Rank::Same)));
        never && series.summary.count < 10_000
    };
    let asked = || Request {
        frame: frame::Request { variants: variants.clone(), ..request(&[]).frame },
        competitor_policies: policies.clone(),
        ..request(&["sched_yield", "pause"])
    };
    let run = measure_all(is_vague, asked);
    // Without the privilege, the rows are those of another policy.
    if let Some(refused) = run.conditions.iter().flat_map(|set| &set.refused).next() {
        return skip(&format!("no SCHED_FIFO here: {}", refused.why));
    }
    let yielded = |subject: &str, rank: Rank, policy: &str| {
        let is = |s: &&Series| {
            let asked = &s.experiment.yields().unwrap().parameters;
            asked.competitor_policy.as_deref() == Some(policy) && asked.competitor_rank == Some(rank)
        };
        let series = calls(&run).find(|s| s.subject == subject && is(s));
        yielded_share(series.unwrap_or_else(|| panic!("{subject} against {policy}: {:?}", run.not_measured)))
    };
    // Throttling gives the others at most 5 % of the time, in portions of tens of ms: a handful of calls.
    assert!(yielded("sched_yield", Rank::Lower, "other") < 0.001);
    assert!(yielded("sched_yield", Rank::Lower, "fifo:30") < 0.001);
    assert!(yielded("sched_yield", Rank::Same, "fifo:40") > 0.5);
    assert!(yielded("pause", Rank::Same, "fifo:40") < 0.001);
    assert!(yielded("pause", Rank::Higher, "fifo:50") > 0.0, "it preempts");
}

#[test]
fn members_work_and_rest_as_told_and_leave_nothing() {
    let _alone = alone_on_this_machine();
    let cpu = Conditions::new().cpu(one_cpu(None).unwrap());
    for kind in [CompetitorKind::Process, CompetitorKind::Thread] {
        let mut crowd = Crowd::gather(kind, 3, &cpu, Restraint::None).unwrap();
        // All members rest at first: eventually there are 30 ms in which all together use at most a third.
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
        assert_eq!(pids.len(), if kind == CompetitorKind::Process { 3 } else { 0 });
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
    let mut crowd = Crowd::gather(CompetitorKind::Process, 2, &Conditions::new(), Restraint::None).unwrap();
    crowd.set_working(2).unwrap();
    let victim = rustix::process::Pid::from_raw(crowd.process_ids()[0]).unwrap();
    rustix::process::kill_process(victim, rustix::process::Signal::KILL).unwrap();
    let failure = eventually("its death is noticed", || crowd.all_alive().err());
    assert!(format!("{failure:?}").contains("killed by signal 9"), "{failure:?}");
}

#[test]
fn a_refused_condition_of_a_competitor_comes_back_with_its_remedy() {
    let _alone = alone_on_this_machine();
    let nowhere = Conditions::new().cpu(8000);
    for kind in [CompetitorKind::Process, CompetitorKind::Thread] {
        let refused = Crowd::gather(kind, 1, &nowhere, Restraint::None).unwrap_err();
        let text = format!("{refused:?}");
        assert!(text.contains("8000") && text.contains("remedy: Some"), "{text}");
    }
}
