//! Timer slack, also beside a real-time policy, which hides it.

use std::time::Duration;

use punctual::{Applied, Conditions};

use super::policy;
use crate::common::{on_thread, privileged, state};

#[test]
fn slack_survives_a_real_time_policy() {
    if !privileged() {
        return;
    }
    on_thread(|| {
        punctual_linux::sched::set_timer_slack_ns(1234).unwrap();
        // Only the policy is asked: the kernel would leave the default behind.
        drop(policy("fifo:40").apply().guard);
        assert_eq!(punctual_linux::sched::timer_slack_ns().unwrap(), 1234);

        let slack = Duration::from_micros(70);
        let Applied { guard, refused } = policy("fifo:40").timer_slack(slack).apply();
        assert_eq!(refused, []);
        // Zero since Linux 6.13, as asked before: both are at most what was asked.
        assert!(guard.applied().get_timer_slack() <= Some(slack));
        drop(guard);
        assert_eq!(punctual_linux::sched::timer_slack_ns().unwrap(), 1234);
    });
    // From a real-time policy to a fair one with a slack of its own.
    on_thread(|| {
        policy("fifo:40").apply().guard.leave_in_force();
        let before = state();
        let Applied { guard, refused } = policy("other").timer_slack(Duration::from_nanos(777)).apply();
        assert_eq!(refused, []);
        assert_eq!(guard.applied().get_timer_slack(), Some(Duration::from_nanos(777)));
        assert_eq!(guard.restore(), []);
        assert_eq!(state(), before);
    });
}

#[test]
fn no_slack_means_the_least() {
    on_thread(|| {
        let Applied { guard, refused } = Conditions::new().timer_slack(Duration::ZERO).apply();
        assert_eq!(refused, []);
        assert_eq!(guard.applied().get_timer_slack(), Some(Duration::from_nanos(1)));
    });
}
