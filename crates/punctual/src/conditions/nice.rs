//! The nice value of a thread.

use std::cell::LazyCell;

use punctual_linux::{Error, sched};
use rustix::io::Errno;

use super::set::{Conditions, irreversible, is, of_another_thread};
use super::surroundings::{Reason, Surroundings};
use super::{
    Applying, Condition, Definition, Facts, Held, InvalidValue, Probe, Scope, Target, Thread, Value, not_restored,
};
use crate::need::{Need, Withheld};
use crate::restore::NotRestored;

struct Nice;

impl Condition {
    /// `nice`.
    pub const NICE: Self = Self(&Facts { name: "nice", scope: Scope::Thread, definition: &Nice });
}

impl Conditions {
    /// Requests a nice value of the calling thread, −20 (most favoured) to 19 (least favoured).
    pub fn nice(self, nice: i32) -> Self {
        self.with(Value::Nice(nice))
    }

    /// The nice value. It has no effect under real-time policies.
    #[must_use]
    pub fn get_nice(&self) -> Option<i32> {
        let Value::Nice(nice) = self.value(Condition::NICE)? else { return None };
        Some(*nice)
    }
}

impl Definition for Nice {
    fn parse(&self, typed: &str) -> Result<Value, InvalidValue> {
        let nice = typed.trim().parse::<i32>().ok().filter(|nice| (-20..=19).contains(nice));
        nice.map(Value::Nice).ok_or(InvalidValue::Expected("an integer from -20 to 19 (example: -5)"))
    }

    fn read(&self, target: &Target) -> Option<Value> {
        sched::nice(target.thread.id()).ok().map(Value::Nice)
    }

    fn probe(&self, _: &Target) -> Probe {
        Probe::Try(Value::Nice(-1))
    }

    fn apply(&self, applying: &mut Applying<'_>) -> Result<(), Reason> {
        let Value::Nice(nice) = *applying.value else { return Err(Applying::read_only()) };
        if !(-20..=19).contains(&nice) {
            // The kernel would clamp it silently.
            let why = format!("nice values go from -20 (most favoured) to 19 (least), and {nice} is outside");
            return Err(Reason::new(why, Need::WithinBounds));
        }
        let (thread, here) = (applying.thread(), applying.here);
        let failed = |error: Error| explain(nice, &error, thread, here).errno(error.errno());
        let before = sched::nice(thread.id()).map_err(failed)?;
        if nice > before && !applying.allow_irreversible && !here.may_have_nice(before) {
            return Err(irreversible(&format!("nice {nice} could be set, but {before} not put back"), here));
        }
        sched::set_nice(thread.id(), nice).map_err(failed)?;
        applying.hold(NiceValue { thread, nice, before });
        verify(nice, sched::nice(thread.id()).map_err(failed)?)
    }
}

#[derive(Debug)]
struct NiceValue {
    thread: Thread,
    nice: i32,
    before: i32,
}

impl Held for NiceValue {
    fn lost(&self) -> Option<String> {
        sched::nice(self.thread.id()).ok().filter(|now| *now != self.nice).map(|now| now.to_string())
    }

    fn renew(&mut self, here: &LazyCell<Surroundings>) -> Result<(), Reason> {
        let failed = |error: Error| explain(self.nice, &error, self.thread, here).errno(error.errno());
        sched::set_nice(self.thread.id(), self.nice).map_err(failed)?;
        verify(self.nice, sched::nice(self.thread.id()).map_err(failed)?)
    }

    fn undo(self: Box<Self>) -> Vec<NotRestored> {
        put_back(self.thread, self.before)
    }
}

/// Puts the nice value back.
pub(super) fn put_back(thread: Thread, before: i32) -> Vec<NotRestored> {
    let outcome = sched::set_nice(thread.id(), before).and_then(|()| sched::nice(thread.id()));
    let why = match outcome {
        Ok(now) if now == before => return Vec::new(),
        Ok(now) => format!("it is {now} now"),
        Err(error) => error.to_string(),
    };
    vec![not_restored("nice", before, why)]
}

fn verify(nice: i32, now: i32) -> Result<(), Reason> {
    if now == nice {
        return Ok(());
    }
    Err(Reason::new(format!("the kernel accepted it, but the nice value is {now} now"), Need::NoOtherSetter))
}

/// Why a nice value was refused.
pub(super) fn explain(nice: i32, error: &Error, thread: Thread, here: &Surroundings) -> Reason {
    if let Some(reason) = of_another_thread(error, thread, here) {
        return reason;
    }
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
