//! Each way of waiting makes the system call it names, and no other.

use punctual_lab::wait::methods::{self, NotObserved, system_calls};
use punctual_linux::observe::{ObserveError, SystemCall};
use punctual_testing::{Disturbed, alone, skip, undisturbed};

use crate::support::open;

#[test]
fn the_one_it_names_and_no_other() {
    let _alone = alone();
    for method in methods::all() {
        if open(method).is_none() {
            continue;
        }
        let is_named = |call: &SystemCall| method.system_calls.contains(&call.name.as_str());
        let calls = undisturbed(|longer| match system_calls(method, 300_000 * i64::from(longer)) {
            // A way that looks at the clock first does not sleep if its wait ended before it had a CPU.
            Ok(calls) if !method.system_calls.is_empty() && !calls.iter().any(is_named) => {
                Err(Disturbed(format!("{} makes {calls:?}", method.name)))
            }
            other => Ok(other),
        });
        let calls = match calls {
            Err(NotObserved::Observe(ObserveError::Refused(why))) => return skip(&why.to_string()),
            other => other.unwrap_or_else(|e| panic!("{}: {e}", method.name)),
        };
        for name in calls.iter().map(|call| call.name.as_str()) {
            assert!(
                method.system_calls.contains(&name) || method.also.contains(&name),
                "{} makes {name} among {calls:?}",
                method.name
            );
        }
    }
}

#[test]
fn without_clock_reads_through_the_kernel_there_is_one_call_per_wait() {
    let _alone = alone();
    for name in ["nanosleep", "clock_nanosleep_abs", "ppoll", "futex_abs", "sem_timedwait", "epoll_pwait2"] {
        match system_calls(methods::find(name).unwrap(), 300_000) {
            Ok(calls) => assert_eq!(calls.len(), 1, "{name}: {calls:?}"),
            Err(NotObserved::Observe(ObserveError::Refused(why))) => return skip(&why.to_string()),
            Err(NotObserved::Unavailable(why)) => skip(&format!("{name}: {why}")),
            Err(other) => panic!("{name}: {other}"),
        }
    }
}
