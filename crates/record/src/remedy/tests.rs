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
