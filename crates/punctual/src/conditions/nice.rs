//! The nice value of the calling thread.

use punctual_linux::{Error, sched};
use rustix::io::Errno;

use super::condition::{Applying, Condition, Definition, Held, Machine, Probe, not_restored};
use super::privilege::{irreversible, is};
use super::reason::Reason;
use super::set::Conditions;
use super::surroundings::Surroundings;
use super::value::Value;
use crate::need::{Need, Withheld};
use crate::restore::NotRestored;

#[derive(Debug)]
struct Nice;

impl Condition {
    /// `nice`.
    pub const NICE: Self = Self::of(&Nice);
}

impl Conditions {
    /// Requests a nice value of the calling thread, −20 (most favoured) to 19 (least favoured).
    #[must_use]
    pub fn nice(self, nice: i32) -> Self {
        self.with(Value::Nice(nice))
    }

    /// The nice value. It has no effect under real-time policies.
    #[must_use]
    pub fn get_nice(&self) -> Option<i32> {
        match self.value(Condition::NICE)? {
            Value::Nice(nice) => Some(*nice),
            _ => None,
        }
    }
}

impl Definition for Nice {
    fn name(&self) -> &'static str {
        "nice"
    }

    fn parse(&self, typed: &str) -> Result<Value, String> {
        let nice = typed.trim().parse::<i32>().ok().filter(|nice| (-20..=19).contains(nice));
        let wanted = || "expected an integer from -20 to 19 (example: -5)".to_owned();
        nice.map(Value::Nice).ok_or_else(wanted)
    }

    fn read(&self, _: &Machine) -> Option<Value> {
        sched::nice(0).ok().map(Value::Nice)
    }

    fn probe(&self, _: &Machine) -> Probe {
        Probe::Try(Value::Nice(-1))
    }
}

/// Sets the value and reads it back.
pub(super) fn apply(nice: i32, applying: &mut Applying<'_>) -> Result<(), Reason> {
    if !(-20..=19).contains(&nice) {
        // The kernel would clamp it silently.
        let why = format!("nice values go from -20 (most favoured) to 19 (least), and {nice} is outside");
        return Err(Reason::new(why, Need::WithinBounds));
    }
    let here = applying.here;
    let failed = |error: Error| explain(nice, &error, here).errno(error.errno());
    let before = sched::nice(0).map_err(failed)?;
    if nice > before && !applying.allow_irreversible && !here.may_have_nice(before) {
        return Err(irreversible(&format!("nice {nice} could be set, but {before} not put back"), here));
    }
    sched::set_nice(0, nice).map_err(failed)?;
    applying.hold(NiceValue { nice, before });
    verify(nice, sched::nice(0).map_err(failed)?)
}

#[derive(Debug)]
struct NiceValue {
    nice: i32,
    before: i32,
}

impl Held for NiceValue {
    fn lost(&self) -> Option<String> {
        sched::nice(0).ok().filter(|now| *now != self.nice).map(|now| now.to_string())
    }

    fn renew(&mut self, here: &Surroundings) -> Result<(), Reason> {
        let failed = |error: Error| explain(self.nice, &error, here).errno(error.errno());
        sched::set_nice(0, self.nice).map_err(failed)?;
        verify(self.nice, sched::nice(0).map_err(failed)?)
    }

    fn undo(self: Box<Self>) -> Vec<NotRestored> {
        let outcome = sched::set_nice(0, self.before).and_then(|()| sched::nice(0));
        let why = match outcome {
            Ok(now) if now == self.before => return Vec::new(),
            Ok(now) => format!("it is {now} now"),
            Err(error) => error.to_string(),
        };
        vec![not_restored("nice", self.before, why)]
    }
}

fn verify(nice: i32, now: i32) -> Result<(), Reason> {
    if now == nice {
        return Ok(());
    }
    Err(Reason::new(format!("the kernel accepted it, but the nice value is {now} now"), Need::NoOtherSetter))
}

/// Why a nice value was refused.
pub(super) fn explain(nice: i32, error: &Error, here: &Surroundings) -> Reason {
    if is(error, Errno::ACCESS) || is(error, Errno::PERM) {
        let needed = 20 - nice;
        let limit = here.nice_limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
        let withheld = match &here.container {
            Some(container) => Withheld::ByContainer(container.clone()),
            None if here.root => Withheld::FromRoot,
            None => Withheld::FromUser,
        };
        return Reason::new(
            format!(
                "{error}: a nice value of {nice} needs CAP_SYS_NICE or a nice limit (RLIMIT_NICE) of {needed} or more, and it is {limit}"
            ),
            Need::NiceLimit(nice, withheld),
        );
    }
    Reason::new(error, Need::Unknown)
}
