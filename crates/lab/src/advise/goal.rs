//! Whether a thread gets the value of a remedy.

use std::time::Duration;

use punctual::conditions::{ThreadState, Value};

/// A thread that uses more of a CPU would keep others from it under a real-time policy.
const BUSY: f64 = 0.5;

/// `Err`: the thread has the value already, or must not get it. `share` is the part of a CPU that it uses, where that is known.
pub(super) fn check(now: &ThreadState, value: &Value, share: Option<f64>) -> Result<(), &'static str> {
    match (value, now.value()) {
        (Value::TimerSlack(_), Some(Value::TimerSlack(Duration::ZERO))) => {
            Err("threads under a real-time policy have no slack")
        }
        (Value::TimerSlack(_), Some(now)) if now == *value => Err("the slack is 1 ns already"),
        (Value::Slice(_), None) => Err("threads under a real-time policy have no time slice"),
        (Value::Slice(_), Some(now)) if now == *value => Err("the time slice is 100 us already"),
        (Value::Policy(_), Some(Value::Policy(now))) if !now.is_real_time() => match share {
            Some(share) if share <= BUSY => Ok(()),
            Some(_) => Err("threads that use over 50 % of a CPU would keep all others from it"),
            None => Err("the CPU share of a new thread is not known yet"),
        },
        (Value::Policy(_), _) => Err("threads that have a real-time policy keep it"),
        (Value::Cpu(_), Some(Value::Cpu(now))) if now.len() < 2 => Err("the thread is bound to one CPU already"),
        (Value::Cpu(cpus), Some(Value::Cpu(now))) if !cpus.without(&now).is_empty() => {
            Err("the thread may not run on that CPU")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use punctual::conditions::Condition;
    use punctual::{Applied, Conditions, CpuSet, Policy};

    use super::*;

    /// Checks the value on a thread of its own, before and after it is applied.
    fn checked(value: Value, share: Option<f64>) -> [Result<(), &'static str>; 2] {
        let tried = move || {
            let state = || ThreadState::read(value.condition(), 0).unwrap();
            let before = check(&state(), &value, share);
            let Applied { guard: _guard, refused } = Conditions::new().with(value.clone()).allow_irreversible().apply();
            if let Some(refused) = refused.first() {
                punctual_testing::skip(&refused.to_string());
            }
            [before, if refused.is_empty() { check(&state(), &value, share) } else { Err("refused") }]
        };
        std::thread::spawn(tried).join().unwrap()
    }

    #[test]
    fn what_a_thread_has_already_it_does_not_get() {
        let _alone = punctual_testing::alone_on_this_machine();
        let cpus = Conditions::inspect().get_cpus().unwrap();
        for value in [
            Value::TimerSlack(Duration::from_nanos(1)),
            Value::Slice(Duration::from_micros(100)),
            Value::Policy(Policy::Fifo(1)),
            Value::Cpu(CpuSet::from_iter(cpus.iter().take(1))),
        ] {
            if value.condition() == Condition::CPU && cpus.len() < 2 {
                punctual_testing::lacks(punctual_testing::Lack::Cpus(2));
                continue;
            }
            let [before, after] = checked(value.clone(), Some(0.1));
            assert!(before.is_ok() && after.is_err(), "{value}: {before:?}, {after:?}");
        }
    }

    #[test]
    fn a_busy_thread_and_one_of_unknown_share_get_no_real_time_policy() {
        let now = ThreadState::read(Condition::POLICY, 0).unwrap();
        let with = |share| check(&now, &Value::Policy(Policy::Fifo(40)), share);
        assert_eq!(with(Some(0.5)), Ok(()));
        assert!(with(Some(0.51)).is_err_and(|why| why.contains("50 %")));
        assert!(with(None).is_err());
    }

    #[test]
    fn a_cpu_on_which_it_may_not_run_is_none_for_it() {
        let now = ThreadState::read(Condition::CPU, 0).unwrap();
        assert!(check(&now, &Value::Cpu(CpuSet::from_iter([8000])), None).is_err());
    }
}
