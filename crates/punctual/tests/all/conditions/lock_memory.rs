//! Locked memory of the process, shared by all guards.

use std::panic::{AssertUnwindSafe, catch_unwind};

use punctual::{Applied, Conditions};
use punctual_testing::alone_on_this_machine;

use crate::common::privileged;

fn locked_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmLck:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn memory_stays_locked_until_the_last_guard_goes() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    let lock = Conditions::new().lock_memory();
    assert_eq!(locked_kib(), 0);
    let Applied { guard: outer, refused } = lock.apply();
    assert_eq!(refused, []);
    assert_eq!(outer.applied().get_lock_memory(), Some(true));
    let inner = lock.apply().guard;
    assert_eq!(inner.restore(), []);
    assert!(locked_kib() > 0);
    assert_eq!(outer.restore(), []);
    assert_eq!(locked_kib(), 0);

    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.apply().guard;
        assert!(locked_kib() > 0);
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(locked_kib(), 0);
}

#[test]
fn memory_that_was_locked_before_stays_locked() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    punctual_linux::memory::lock_all().unwrap();
    let Applied { guard, refused } = Conditions::new().lock_memory().apply();
    assert_eq!(refused, []);
    let left = guard.restore();
    assert!(locked_kib() > 0);
    punctual_linux::memory::unlock_all().unwrap();
    assert_eq!(left, [], "all was locked before, and all is");
}

#[test]
fn memory_that_something_unlocks_is_lost_and_locked_again() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    let Applied { mut guard, refused } = Conditions::new().lock_memory().apply();
    assert_eq!((refused, guard.lost()), (Vec::new(), Vec::new()));
    punctual_linux::memory::unlock_all().unwrap();
    let lost = guard.lost();
    assert_eq!(lost[0].to_string(), "lock-memory was set to yes, and is no now");
    assert_eq!(guard.renew(&lost), []);
    assert!(locked_kib() > 0);
    assert_eq!(guard.restore(), []);
    assert_eq!(locked_kib(), 0);
}
