//! Each setting on a thread of the test, by the kernel.

use std::sync::mpsc::channel;

use punctual_linux::sched::current_thread_id;
use punctual_testing::Lack;

use std::io;

use super::super::setting::{Aim, words};
use super::super::thread::Thread;
use super::*;

/// Sets, reads and puts back on a thread of its own.
fn tried(setting: usize, aim: Aim) {
    let (tell, told) = channel();
    let (end, ended) = channel::<()>();
    let thread = std::thread::spawn(move || {
        tell.send(current_thread_id()).unwrap();
        let _ = ended.recv();
    });
    let process = std::process::id().cast_signed();
    let of_test = Thread::find(process, told.recv().unwrap()).unwrap();
    let its = SETTINGS[setting];
    let outcome = its.read(&of_test).and_then(|before| match its.goal(&before, aim) {
        Err(why) => {
            assert_eq!(setting, AFFINITY, "{why}");
            punctual_testing::lacks(Lack::Cpus(2));
            Ok(())
        }
        Ok(value) => {
            its.write(&of_test, &value)?;
            let set = its.read(&of_test)?;
            assert_ne!(set, before);
            assert!(its.goal(&set, aim).is_err(), "a second time");
            its.put_back(&of_test, &before)?;
            assert_eq!(its.read(&of_test)?, before);
            Ok(())
        }
    });
    match outcome.map_err(|error| (error.kind(), error)) {
        Ok(()) => {}
        Err((io::ErrorKind::PermissionDenied, error)) => {
            punctual_testing::skip(&format!("setting {setting}: {error}, {}", its.remedy(&error)));
        }
        Err((io::ErrorKind::Unsupported, _)) if setting == SLICE => punctual_testing::lacks(Lack::Linux(6, 12)),
        Err((_, error)) => panic!("setting {setting}: {error}"),
    }
    drop(end);
    thread.join().unwrap();
}

#[test]
fn each_is_set_and_put_back() {
    let cpu = punctual_linux::sched::affinity(0).unwrap()[0];
    let aim = Aim { cpu, share: Some(0.1) };
    for setting in [SLACK, SLICE, AFFINITY] {
        tried(setting, aim);
    }
    let _alone = punctual_testing::alone_on_this_machine();
    tried(FIFO, aim);
}

#[test]
fn a_busy_thread_and_one_of_unknown_share_get_no_real_time_policy() {
    let fair = words(&[0; 8]);
    let goal = |share| SETTINGS[FIFO].goal(&fair, Aim { cpu: 0, share });
    assert!(goal(Some(0.5)).is_ok());
    assert!(matches!(goal(Some(0.51)), Err(why) if why.contains("50 %")));
    assert!(goal(None).is_err());
    let real_time = words(&[1, 0, 0, 10]);
    assert!(SETTINGS[FIFO].goal(&real_time, Aim { cpu: 0, share: Some(0.0) }).is_err());
}

#[test]
fn a_new_thread_inherits_what_is_set_and_nothing_else() {
    let [before, set, other] = [50_000, 1, 7].map(|ns| words(&[ns]));
    let slack = SETTINGS[SLACK];
    assert_eq!(slack.inherited(&set, &before, &set), Some(before));
    assert_eq!(slack.inherited(&other, &before, &set), None, "its own");
    assert_eq!(slack.inherited(&set, &set, &set), None, "as before");
    // The policy is reset on fork; a slack of 0 is not.
    let [mut was, mut fifo, mut born] = [words(&[0]), words(&[1, 1, 0, 40]), words(&[0])];
    (was[7], fifo[7], born[7]) = (50_000, 0, 0);
    assert_eq!(SETTINGS[FIFO].inherited(&born, &was, &fifo), Some(was));
    born[7] = 50_000;
    assert_eq!(SETTINGS[FIFO].inherited(&born, &was, &fifo), None);
}
