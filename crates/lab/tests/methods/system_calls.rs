//! Each way of waiting makes the system call it names, and no other.

use punctual_lab::wait::methods;
use punctual_lab::wait::observed::{NotObserved, system_calls};
use punctual_linux::observe::ObserveError;
use punctual_testing::{alone, skip};

use crate::support::open;

#[test]
fn the_one_it_names_and_no_other() {
    let _alone = alone();
    for method in methods::all() {
        if open(method).is_none() {
            continue;
        }
        let calls = match system_calls(method, 300_000) {
            Err(NotObserved::Observe(ObserveError::Refused(why))) => return skip(&why.to_string()),
            other => other.unwrap_or_else(|e| panic!("{}: {e}", method.name)),
        };
        let names: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
        let named = names.iter().filter(|name| method.system_calls.contains(name)).count();
        assert_eq!(named == 0, method.system_calls.is_empty(), "{} makes {names:?}", method.name);
        for name in &names {
            assert!(
                method.system_calls.contains(name) || method.also.contains(name),
                "{} makes {name} among {names:?}",
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
