use std::time::Duration;

use super::condition::NO_LIMIT;
use super::*;
use crate::experiment::Param;
use crate::model::Setting;

fn typed(condition: Condition, text: &str) -> Value {
    condition.parse(text).unwrap()
}

#[test]
fn what_people_read_of_each_condition() {
    let values = [
        (Condition::POLICY, "fifo:40"),
        (Condition::POLICY, "other"),
        (Condition::POLICY, "batch"),
        (Condition::POLICY, "deadline:1ms/10ms/10ms"),
        (Condition::NICE, "5"),
        (Condition::NICE, "-5"),
        (Condition::CPU, "1"),
        (Condition::CPU, "0-3,8"),
        (Condition::TIMER_SLACK, "1ns"),
        (Condition::SLICE, "100us"),
        (Condition::LOCK_MEMORY, "yes"),
        (Condition::DMA_LATENCY, "0us"),
        (Condition::DMA_LATENCY, "100us"),
        (Condition::MIN_FREQUENCY, "max"),
        (Condition::MAX_FREQUENCY, "2.2GHz"),
        (Condition::EPP, "balance_power"),
        (Condition::GOVERNOR, "performance"),
        (Condition::IRQS_AWAY, "yes"),
    ];
    let said = values.map(|(condition, text)| {
        let Remedy { id, name, acts_on, code, running, price, flag } = Remedy::for_value(&typed(condition, text));
        let Price { privilege, energy, others, .. } = price;
        let price: Vec<String> = [privilege, energy, others].into_iter().flatten().collect();
        let code: Vec<String> = code
            .languages()
            .chain(running.as_deref().map(|line| ("running", line)))
            .map(|(language, text)| format!("  {language}: {}\n", text.replace('\n', "\n    ")))
            .collect();
        let price = if price.is_empty() { "free".to_owned() } else { price.join("; ") };
        format!("{id} {text}: {name}, {price}; acts on {acts_on:?}\n{}  {}\n", code.concat(), flag.command())
    });
    insta::assert_snapshot!(said.concat());
}

#[test]
fn a_value_of_the_kernel_alone_has_a_name_and_no_code() {
    let none = |value: &Value, name: &str| {
        assert_eq!(phrase(value), name);
        assert_eq!(Remedy::for_value(value).code, Code::default(), "{name}");
    };
    none(&Value::TimerSlack(Duration::ZERO), "no slack");
    none(&Value::LockMemory(false), "memory not locked");
    none(&Value::DmaLatency(NO_LIMIT), "C-states as found");
    none(&Value::MinFrequency(Frequency::Mixed(vec![800_000, 2_200_000])), "minimum frequency 800MHz/2.2 GHz");
}

#[test]
fn a_record_s_setting_is_the_remedy_of_its_value() {
    let setting = |condition: &str, value: Param| Setting {
        condition: condition.into(),
        asked: Some(value),
        ..Setting::default()
    };
    let values = [
        Value::Policy(Policy::Fifo(40)),
        Value::Nice(-5),
        Value::Cpu("0-3,8".parse().unwrap()),
        Value::TimerSlack(Duration::from_nanos(1)),
        Value::Slice(Duration::from_micros(100)),
        Value::LockMemory(true),
        Value::DmaLatency(Duration::ZERO),
        Value::MinFrequency(Frequency::Highest),
        Value::MaxFrequency(Frequency::Khz(2_200_000)),
        Value::Epp("128".into()),
        Value::Governor("performance".into()),
        Value::IrqsAway(true),
    ];
    for value in values {
        let stored = setting(value.condition().name(), param(&value));
        assert_eq!(Remedy::of_setting(&stored), Some(Remedy::for_value(&value)));
    }
    let hostile = [
        ("governor", Param::Text("x; reboot".into())),
        ("epp", Param::Text("\u{1b}[2J".into())),
        ("policy", Param::Text("fifo:40\nrm".into())),
        ("cpu", Param::Text("$(x)".into())),
        ("timer-slack", Param::Int(-1)),
        ("nice", Param::Int(i64::MAX)),
        ("unknown", Param::Flag(true)),
    ];
    for (condition, value) in hostile {
        assert_eq!(Remedy::of_setting(&setting(condition, value)), None, "{condition}");
    }
}

fn remedy(kind: LossKind, policy: ThreadPolicy, culprit: Option<(u32, ThreadPolicy)>) -> Option<LossRemedy> {
    let loss = Loss { kind, ns: 1, times: 1, subject: "server".into(), tid: 0, place: LossPlace::default() };
    of_loss(&loss, &LossThreads { tid: 7, policy, culprit, ..LossThreads::default() })
}

#[test]
fn a_remedy_fits_the_settings_of_both_threads() {
    let fair = ThreadPolicy::Fair(0);
    let fifo = ThreadPolicy::RealTime(20);
    let said = |kind, policy, culprit| remedy(kind, policy, Some((9, culprit))).unwrap();
    let command = |kind, policy, culprit| said(kind, policy, culprit).command.unwrap();
    assert_eq!(command(LossKind::Nice, ThreadPolicy::Fair(19), fair), "renice -n 0 -p 7");
    assert_eq!(command(LossKind::IdlePolicy, ThreadPolicy::Idle, fair), "chrt --other --pid 0 7");
    assert_eq!(command(LossKind::HogProcess, fair, fair), "renice -n 19 -p 9");
    assert_eq!(command(LossKind::HogFifo, fair, fifo), "taskset -cp CPU 7", "no nice value helps");
    assert_eq!(command(LossKind::HogFifo, ThreadPolicy::Idle, fifo), "taskset -cp CPU 7", "nor another fair policy");
    assert_eq!(command(LossKind::HogFifo, fifo, fifo), "chrt --fifo --pid 21 7");
    assert_eq!(
        said(LossKind::HogFifo, ThreadPolicy::RealTime(99), ThreadPolicy::RealTime(99)).text,
        "give one of the two another CPU"
    );
    assert_eq!(
        command(LossKind::HogFifo, ThreadPolicy::RealTime(50), fifo),
        "taskset -cp CPU 7",
        "it is above already"
    );
    let nicest = said(LossKind::HogProcess, fair, ThreadPolicy::Fair(19));
    assert_eq!(nicest.text, "give one of the two another CPU", "its nice value is 19 already");
    let several = remedy(LossKind::HogProcess, fair, None).unwrap();
    assert_eq!(several.text, "move it to a CPU with less load", "there are no two");
    assert_eq!(command(LossKind::TimerSlack, fair, fair), "echo 1 > /proc/7/timerslack_ns");
}

#[test]
fn a_nice_value_is_no_remedy_against_a_thread_of_another_group() {
    let said = |policy, culprit, in_another_group| {
        let loss = Loss {
            kind: LossKind::HogProcess,
            ns: 1,
            times: 1,
            subject: "server".into(),
            tid: 7,
            place: LossPlace::default(),
        };
        of_loss(
            &loss,
            &LossThreads { tid: 7, policy, culprit: Some((9, culprit)), in_another_group, barred_idle: None },
        )
        .unwrap()
    };
    let fair = ThreadPolicy::Fair(0);
    let weight = said(fair, fair, true);
    assert!(weight.text.contains("cpu.weight") && weight.command.is_none(), "{weight:?}");
    assert_eq!(said(ThreadPolicy::Fair(19), fair, true), weight, "its own nice value counts within its group");
    assert_eq!(said(fair, fair, false).command.as_deref(), Some("renice -n 19 -p 9"));
    let fifo = said(fair, ThreadPolicy::RealTime(20), true);
    assert!(!fifo.text.contains("weight"), "no weight helps against a real-time thread: {fifo:?}");
}

#[test]
fn an_idle_cpu_is_named_where_the_thread_may_not_use_it_and_nowhere_else() {
    let said = |kind, barred_idle| {
        let loss = Loss { kind, ns: 1, times: 1, subject: "server".into(), tid: 7, place: LossPlace::default() };
        let (policy, culprit) = (ThreadPolicy::Fair(19), Some((9, ThreadPolicy::Fair(0))));
        of_loss(&loss, &LossThreads { tid: 7, policy, culprit, barred_idle, ..LossThreads::default() }).unwrap()
    };
    for kind in [LossKind::HogThread, LossKind::HogProcess, LossKind::Nice, LossKind::Polling] {
        let (there, none) = (said(kind, Some(3)), said(kind, None));
        assert_eq!(there.command.as_deref(), Some("taskset -cp 3 7"), "{kind:?}");
        assert!(!none.text.contains("idle"), "{none:?}");
    }
    assert_eq!(said(LossKind::HogThread, None).command, None, "all CPUs are taken");
    assert!(!said(LossKind::Quota, Some(3)).text.contains("idle"), "no CPU helps against a quota");
}

#[test]
fn no_remedy_is_named_for_what_is_well_or_wanted() {
    for kind in [LossKind::OnTime, LossKind::Computes, LossKind::Input, LossKind::Stopped, LossKind::Pipe] {
        assert_eq!(remedy(kind, ThreadPolicy::Fair(0), None), None, "{kind:?}");
    }
}

#[test]
fn a_collector_that_runs_beside_the_program_is_no_remedy_for_one_that_does() {
    let said = |function: Option<&str>| {
        let place = LossPlace { function: function.map(str::to_owned), ..LossPlace::default() };
        let loss = Loss { kind: LossKind::Collector, ns: 1, times: 1, subject: "server".into(), tid: 7, place };
        of_loss(&loss, &LossThreads::default()).unwrap().text
    };
    assert_eq!(said(Some("runtime.scanObjectsSmall")), "less garbage, or more memory for it (GOGC=400)");
    assert_eq!(said(None), "less garbage, or a collector that runs beside the program");
}

#[test]
fn only_calls_for_data_can_be_fewer() {
    for (call, said) in [
        (Some("io_uring_enter"), "more requests in flight, so that one wait is for many"),
        (Some("fdatasync"), "fewer calls of fdatasync, each for more, or in a thread of their own"),
        (Some("getdents64"), "getdents64 in a thread of its own"),
        (None, "what waits for the disk in a thread of its own"),
    ] {
        let place = LossPlace { call: call.map(str::to_owned), ..LossPlace::default() };
        let loss = Loss { kind: LossKind::Disk, ns: 1, times: 1, subject: String::new(), tid: 7, place };
        assert_eq!(of_loss(&loss, &LossThreads::default()).unwrap().text, said);
    }
}

#[test]
fn a_thread_of_no_known_number_has_no_command() {
    let loss = Loss {
        kind: LossKind::TimerSlack,
        ns: 1,
        times: 1,
        subject: String::new(),
        tid: 0,
        place: LossPlace::default(),
    };
    let remedy = of_loss(&loss, &LossThreads::default()).unwrap();
    assert_eq!((remedy.text.as_str(), remedy.command), ("slack 1 ns", None));
}
