//! [`Remedy`]: a condition as a remedy, in words. What it acts on, the code that sets it, its price, and its flag.
//!
//! Input: a [`Value`] of the library, or a [`Setting`] of a record. This is the only place with these words; a method's own
//! code is in its series. Text in a record that is no value of its condition has no remedy.

mod code;
mod need;

use std::time::Duration;

pub use punctual::Policy;
use punctual::conditions::{Condition, Conditions};
pub use punctual::conditions::{Frequency, Value};
use punctual::format_duration;

pub use code::Flag;
use code::NO_LIMIT;
pub use need::{if_lost, of_need, of_refused};

use crate::experiment::Param;
use crate::model::{Cause, Code, DMA_LATENCY, NICE, POLICY, Price, Setting, TIMER_SLACK};

/// A condition as a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// Its stable name, that of the condition: `timer-slack`.
    pub id: &'static str,
    /// Its name for people: `slack 1 ns`.
    pub name: String,
    /// The causes that it acts on; empty: it may change anything.
    pub acts_on: &'static [Cause],
    /// What to write.
    pub code: Code,
    /// A line for the shell that changes a running thread, `TID`.
    pub running: Option<String>,
    /// What it costs.
    pub price: Price,
    /// The flag that sets it.
    pub flag: Flag,
}

impl Remedy {
    /// The remedy that this value is.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        let id = value.condition().name();
        Self {
            id,
            name: phrase(value),
            acts_on: acts_on(id),
            code: code::code(value),
            running: code::running(value),
            price: price(value),
            flag: code::flag(value),
        }
    }

    /// The remedy that a setting of a record is, with the value that held, or that was asked where that could not be read.
    #[must_use]
    pub fn of_setting(setting: &Setting) -> Option<Self> {
        let condition = Condition::named(&setting.condition)?;
        let shown = setting.applied.as_ref().or(setting.asked.as_ref())?;
        Some(Self::of(&value(condition, shown)?))
    }
}

/// The value of a condition in a record; `None` for what is no value of it.
fn value(condition: Condition, recorded: &Param) -> Option<Value> {
    let ns = |ns: i64| u64::try_from(ns).ok().map(Duration::from_nanos);
    let khz = |khz: i64| u64::try_from(khz).ok().map(Frequency::Khz);
    match (condition.name(), recorded) {
        (TIMER_SLACK, Param::Int(slack)) => ns(*slack).map(Value::TimerSlack),
        ("slice", Param::Int(slice)) => ns(*slice).map(Value::Slice),
        (DMA_LATENCY, Param::Int(latency)) => ns(*latency).map(Value::DmaLatency),
        ("min-frequency", Param::Int(limit)) => khz(*limit).map(Value::MinFrequency),
        ("max-frequency", Param::Int(limit)) => khz(*limit).map(Value::MaxFrequency),
        (NICE, Param::Int(nice)) => i32::try_from(*nice).ok().map(Value::Nice),
        ("lock-memory", Param::Flag(locked)) => Some(Value::LockMemory(*locked)),
        ("irqs-away", Param::Flag(away)) => Some(Value::IrqsAway(*away)),
        (_, Param::Text(text)) => condition.parse(text).ok(),
        _ => None,
    }
}

/// A value as it is in a record: ns for a duration, kHz for a frequency.
#[must_use]
pub fn param(value: &Value) -> Param {
    let ns = |duration: &Duration| i64::try_from(duration.as_nanos()).ok().map(Param::Int);
    match value {
        Value::Nice(nice) => Some(Param::Int((*nice).into())),
        Value::TimerSlack(duration) | Value::Slice(duration) | Value::DmaLatency(duration) => ns(duration),
        Value::MinFrequency(Frequency::Khz(khz)) | Value::MaxFrequency(Frequency::Khz(khz)) => {
            i64::try_from(*khz).ok().map(Param::Int)
        }
        Value::LockMemory(held) | Value::IrqsAway(held) => Some(Param::Flag(*held)),
        _ => None,
    }
    .unwrap_or_else(|| Param::Text(value.to_string()))
}

/// A value for people: `SCHED_FIFO 40`, `slack 1 ns`, `memory locked`.
#[must_use]
pub fn phrase(value: &Value) -> String {
    match value {
        Value::Policy(policy) => match policy {
            Policy::RoundRobin(priority) | Policy::Fifo(priority) => format!("{} {priority}", policy.kernel_name()),
            Policy::Deadline { runtime, deadline, period } => {
                let times = [runtime, deadline, period].map(|time| duration(*time));
                format!("{} {}", policy.kernel_name(), times.join(" / "))
            }
            _ => policy.kernel_name().to_owned(),
        },
        Value::Nice(nice) => format!("nice {nice}"),
        Value::Cpu(cpus) if cpus.len() == 1 => format!("CPU {cpus}"),
        Value::Cpu(cpus) => format!("CPUs {cpus}"),
        Value::TimerSlack(Duration::ZERO) => "no slack".into(),
        Value::TimerSlack(slack) => format!("slack {}", duration(*slack)),
        Value::Slice(slice) => format!("slice {}", duration(*slice)),
        Value::LockMemory(true) => "memory locked".into(),
        Value::LockMemory(false) => "memory not locked".into(),
        Value::DmaLatency(Duration::ZERO) => "C-states off".into(),
        Value::DmaLatency(latency) if *latency >= NO_LIMIT => "C-states as found".into(),
        Value::DmaLatency(latency) => format!("C-states within {}", duration(*latency)),
        Value::MinFrequency(Frequency::Highest) => "minimum frequency at the maximum".into(),
        Value::MinFrequency(limit) => format!("minimum frequency {}", spaced(&limit.to_string())),
        Value::MaxFrequency(limit) => format!("maximum frequency {}", spaced(&limit.to_string())),
        Value::Epp(preference) => format!("EPP {preference}"),
        Value::Governor(name) => format!("governor {name}"),
        Value::IrqsAway(_) => "interrupts away".into(),
    }
}

/// Conditions for people: `SCHED_FIFO 40, slack 1 ns`; empty without any.
#[must_use]
pub fn phrase_of(conditions: &Conditions) -> String {
    conditions.iter().map(phrase).collect::<Vec<_>>().join(", ")
}

/// `100us` with a space: `100 us`.
fn duration(duration: Duration) -> String {
    spaced(&format_duration(duration))
}

fn spaced(number: &str) -> String {
    let digits = number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    format!("{digits} {}", &number[digits.len()..])
}

/// The causes that the condition of this name acts on; empty: it may change anything.
#[must_use]
pub fn acts_on(condition: &str) -> &'static [Cause] {
    match condition {
        TIMER_SLACK => &[Cause::TimerSlack],
        "slice" => &[Cause::OtherThread, Cause::Preempted],
        // A real-time thread has no slack either.
        POLICY => &[Cause::TimerSlack, Cause::OtherThread, Cause::Preempted, Cause::NotPreempted],
        DMA_LATENCY => &[Cause::IdleState],
        _ => &[],
    }
}

fn price(value: &Value) -> Price {
    let needs = |privilege: &str| Price { privilege: Some(privilege.to_owned()), ..Price::default() };
    let takes = |others: &str| Some(others.to_owned());
    match value {
        Value::Policy(Policy::Fifo(_) | Policy::RoundRobin(_)) => {
            Price { others: takes("starves others if it never sleeps"), ..needs("CAP_SYS_NICE") }
        }
        Value::Policy(Policy::Deadline { .. }) => needs("CAP_SYS_NICE"),
        Value::Nice(nice) if *nice < 0 => {
            Price { others: takes("others get less of this CPU"), ..needs("CAP_SYS_NICE") }
        }
        Value::Cpu(cpus) => {
            let busy =
                if cpus.len() == 1 { "not moved when that CPU is busy" } else { "not moved when those CPUs are busy" };
            Price { others: takes(busy), ..Price::default() }
        }
        Value::LockMemory(true) => needs("CAP_IPC_LOCK"),
        Value::DmaLatency(latency) if *latency < NO_LIMIT => {
            Price { energy: Some("idle CPUs stay awake".to_owned()), ..needs("root") }
        }
        Value::MinFrequency(_) | Value::Governor(_) | Value::Epp(_) => {
            Price { energy: Some("costs energy and heat".to_owned()), ..needs("root") }
        }
        Value::MaxFrequency(_) | Value::IrqsAway(true) => needs("root"),
        _ => Price::default(),
    }
}

#[cfg(test)]
mod tests;
