//! Causes made by hand.

use punctual_record::{
    Activity, CallCauses, Cause, CauseSource, CauseTime, Causes, ChainLink, LatePart, LateWake, Program, Run, Spread,
    Stretch, Unseen, Unsplit, WakePart, Waker, WatchEffect,
};

use super::{Made, run, set};

pub fn spread(count: u64, each_ns: u64) -> Spread {
    Spread {
        count,
        total_ns: count * each_ns,
        p50_ns: each_ns,
        p99_ns: (count >= 100).then_some(each_ns * 2),
        max_ns: each_ns * 4,
    }
}

/// A cause that takes this long in each of 1000 wake-ups, a little more and less from stretch to stretch.
pub fn cause(part: LatePart, cause: Cause, culprit: Option<&str>, each_ns: u64) -> CauseTime {
    let stretches_ns = [0.98, 1.01, 1.0, 1.02, 0.99, 1.0].map(|by| by * each_ns as f64).to_vec();
    CauseTime { part, cause, culprit: culprit.map(str::to_owned), time: spread(1000, each_ns), stretches_ns }
}

/// A call of 1000 wake-ups that these causes make late.
pub fn call(thread: &str, call: &str, causes: Vec<CauseTime>) -> CallCauses {
    let each: u64 = causes.iter().map(|cause| cause.time.total_ns / 1000).sum();
    CallCauses {
        thread: thread.into(),
        call: call.into(),
        calls: 1000,
        blocked: 1000,
        late: spread(1000, each),
        causes,
        ..CallCauses::default()
    }
}

/// A sleep whose lateness is mostly timer slack.
pub fn sleep(nominal_ns: u64) -> CallCauses {
    let causes = vec![
        cause(LatePart::TimerSet, Cause::TimerSlack, None, 50_000),
        cause(LatePart::TimerInterrupt, Cause::IdleState, Some("C1"), 12_000),
        cause(LatePart::TimerFunction, Cause::TimerPath, None, 2_000),
        cause(LatePart::RunQueue, Cause::ContextSwitch, None, 6_000),
        cause(LatePart::RunQueue, Cause::OtherThread, Some("kworker/1:2"), 3_000),
        cause(LatePart::Return, Cause::ReturnPath, None, 1_000),
    ];
    CallCauses {
        nominal_ns: Some(nominal_ns),
        asked: Some(spread(1000, nominal_ns)),
        ..call("punctual", "clock_nanosleep", causes)
    }
}

/// All of 1000 wake-ups for each call.
pub fn causes(calls: Vec<CallCauses>) -> Causes {
    let wake_ups = 1000 * calls.len() as u64;
    Causes {
        source: CauseSource::Tracepoints,
        watched_ns: 10_000_000_000,
        wake_ups,
        split: wake_ups,
        effect: Some(WatchEffect { p50_ns: 1_800.0, low_ns: 1_200.0, high_ns: 2_300.0, pairs: 40 }),
        calls,
        ..Causes::default()
    }
}

/// `punctual why`.
pub fn own_run() -> Run {
    let other = "SCHED_OTHER";
    let made =
        [Made::sleep("clock_nanosleep", other, 73_000), Made::sleep("clock_nanosleep", other, 74_000).asked(1_000_000)];
    let mut run = run(&["punctual", "why"], vec![set(other, "other", None, 50_000)], &made);
    run.causes = Some(causes(vec![sleep(1_000_000), sleep(100_000)]));
    run
}

pub fn redis() -> Program {
    Program {
        name: "redis-server".into(),
        pid: 4711,
        threads: 1,
        cpu_ns: Some(1_200_000_000),
        run_delay_ns: Some(40_000_000),
        status: None,
    }
}

/// `punctual why --pid`, with everything that a record can hold.
pub fn program_run() -> Run {
    let mut run = run(&["punctual", "why", "--pid", "4711"], Vec::new(), &[]);
    let late = vec![
        cause(LatePart::RunQueue, Cause::OtherThread, Some("kworker/1:2"), 18_000),
        cause(LatePart::RunQueue, Cause::OtherThread, Some("cc1"), 4_000),
        cause(LatePart::TimerInterrupt, Cause::InterruptsOff, Some("cc1"), 6_000),
        cause(LatePart::Return, Cause::ReturnPath, None, 3_000),
    ];
    let mut epoll = CallCauses { at_once: 40, calls: 1040, ..call("redis-server", "epoll_wait", late) };
    epoll.wakers = vec![
        Waker {
            name: "redis-benchmark".into(),
            tid: Some(4720),
            call: Some("write".into()),
            count: 900,
            own_delay: Some(spread(900, 9_000)),
            worked: Some(spread(900, 30_000)),
            ..Waker::default()
        },
        Waker { name: "(virtio0)".into(), count: 100, ..Waker::default() },
    ];
    let futex = call("bio_lazy_free", "futex", vec![cause(LatePart::RunQueue, Cause::ContextSwitch, None, 5_000)]);
    let mut causes = causes(vec![futex, epoll]);
    causes.program = Some(Program { threads: 4, ..redis() });
    causes.split = 1998;
    causes.lost_events = 12;
    causes.unsplit = vec![Unsplit { why: "events were lost".into(), count: 2 }];
    causes.missing = vec![Unseen {
        what: "page faults: the kernel has no such event".into(),
        remedy: Some("a kernel with CONFIG_TRACING".into()),
        ..Unseen::default()
    }];
    causes.worst = vec![worst()];
    run.causes = Some(causes);
    run
}

fn worst() -> LateWake {
    let part =
        |part, cause, culprit: Option<&str>, ns| WakePart { part, cause, culprit: culprit.map(str::to_owned), ns };
    let stretch = |cpu, from_ns, ns, activity, name: &str| Stretch { cpu, from_ns, ns, activity, name: name.into() };
    LateWake {
        thread: "redis-server".into(),
        tid: 4711,
        call: "epoll_wait".into(),
        at_ns: 1_230_000_000,
        cpu: 1,
        late_ns: 812_000,
        parts: vec![
            part(LatePart::TimerInterrupt, Cause::InterruptsOff, Some("cc1"), 12_000),
            part(LatePart::RunQueue, Cause::OtherThread, Some("kworker/1:2"), 790_000),
            part(LatePart::Return, Cause::ReturnPath, None, 10_000),
        ],
        chain: vec![
            ChainLink {
                name: "redis-benchmark".into(),
                tid: 4720,
                delay_ns: 3_000,
                worked_ns: 40_000,
                inherited: None,
            },
            ChainLink { name: "(virtio0)".into(), tid: 0, delay_ns: 0, worked_ns: 2_000, inherited: None },
        ],
        timeline: vec![
            stretch(1, -20_000, 32_000, Activity::Thread, "cc1"),
            stretch(1, 12_000, 790_000, Activity::Thread, "kworker/1:2"),
            stretch(1, 802_000, 10_000, Activity::Itself, "redis-server"),
            stretch(0, -20_000, 400_000, Activity::Idle, "C1"),
            stretch(0, 380_000, 4_000, Activity::Interrupt, "virtio0"),
            stretch(0, 384_000, 9_000, Activity::Softirq, "NET_RX"),
        ],
    }
}
