//! The way of a call through the real kernel.

use std::time::Duration;

use punctual_record::PathSource;
use punctual_trace::{Error, PathRecorder};

fn recorder() -> Option<PathRecorder> {
    match PathRecorder::open() {
        Ok(recorder) => Some(recorder),
        Err(e @ (Error::Refused(_) | Error::Tracefs(_) | Error::NoEvent(_))) => {
            println!("{e}");
            punctual_testing::lacks(punctual_testing::Lack::Events);
            None
        }
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn a_sleep_gives_up_the_cpu_and_getppid_does_not() {
    let Some(mut recorder) = recorder() else { return };
    let sleep = &mut || std::thread::sleep(Duration::from_micros(200));
    let path = recorder.record(("std_sleep", "sleep()"), &["clock_nanosleep", "nanosleep"], sleep).unwrap().unwrap();
    assert!(path.took_ns >= 200_000 && path.recorded > 0, "{path:?}");
    assert!(path.steps[0].name.contains("nanosleep"), "{path:?}");
    if path.source == PathSource::Events {
        assert!(recorder.without().is_some());
        assert!(path.steps.iter().any(|step| step.name.starts_with("sets a timer")), "{path:?}");
        assert!(path.steps.iter().any(|step| step.name == "gives up the CPU, asleep"), "{path:?}");
    }
    let yields = &mut || std::thread::yield_now();
    let path = recorder.record(("sched_yield", "sched_yield()"), &["sched_yield"], yields).unwrap().unwrap();
    assert!(path.steps.iter().all(|step| !step.name.contains("timer in") && !step.name.contains("asleep")), "{path:?}");
    // What makes no system call has no way through the kernel.
    assert_eq!(recorder.record(("nothing", ";"), &["sched_yield"], &mut || ()).unwrap(), None);
}
