//! Conditions that another program takes away: noticed, and set again.

use std::time::Duration;

use punctual::conditions::Value;
use punctual::{Applied, Condition, Conditions, CpuSet};
use punctual_linux::sched::{self, Attributes};
use punctual_testing::alone_on_this_machine;

use super::{everything, everything_unprivileged};
use crate::common::{on_thread, privileged, state};

/// What another program takes away is noticed, and can be set again. The way back still leads to what was there at first.
#[test]
fn a_lost_condition_is_told_and_set_again() {
    on_thread(|| {
        let before = state();
        let conditions = everything_unprivileged().timer_slack(Duration::from_nanos(4321));
        let Applied { mut guard, refused } = conditions.apply();
        assert_eq!(refused, []);
        assert_eq!(guard.lost(), []);
        punctual_linux::sched::set_timer_slack_ns(77_000).unwrap();
        punctual_linux::sched::set_affinity(0, &before.2).unwrap();
        let lost = guard.lost();
        let told: Vec<_> = lost.iter().map(|one| (one.condition, one.set.clone(), one.found.clone())).collect();
        let mut expected =
            vec![(Condition::TIMER_SLACK, Value::TimerSlack(Duration::from_nanos(4321)), "77us".to_owned())];
        let all = CpuSet::from_iter(before.2.clone()).to_string();
        if before.2.len() > 1 {
            let first = Value::Cpu(CpuSet::from_iter([before.2[0]]));
            expected.insert(0, (Condition::CPU, first, all));
        }
        assert_eq!(told, expected);
        assert!(lost.iter().all(|one| guard.grants(one.condition)));
        assert_eq!(guard.renew(&lost), []);
        assert_eq!(guard.lost(), []);
        assert_eq!(guard.restore(), []);
        assert_eq!(state(), before);
    });
}

/// What is refused was never granted: it cannot be lost.
#[test]
fn what_was_refused_is_not_lost() {
    on_thread(|| {
        let Applied { guard, refused } = Conditions::new().cpu(60_000).apply();
        assert_eq!(refused.len(), 1);
        assert!(guard.lost().is_empty() && !guard.grants(Condition::CPU));
    });
}

/// Policy and nice value, which only root may always change.
#[test]
fn a_lost_policy_is_told_and_set_again() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    on_thread(|| {
        let before = state();
        let Applied { mut guard, refused } = everything().apply();
        assert_eq!(refused, []);
        sched::set_attributes(0, &Attributes { policy: sched::OTHER, ..Attributes::default() }).unwrap();
        sched::set_nice(0, 4).unwrap();
        let lost = guard.lost();
        let told: Vec<String> = lost.iter().map(ToString::to_string).collect();
        assert!(told.contains(&"policy was set to fifo:40, and is other now".to_owned()), "{told:?}");
        assert!(told.contains(&"nice was set to -3, and is 4 now".to_owned()), "{told:?}");
        assert_eq!(guard.renew(&lost), []);
        assert_eq!(guard.lost(), []);
        assert_eq!(guard.restore(), []);
        assert_eq!(state(), before);
    });
}

/// What must hold holds as a whole, or nothing is changed.
#[test]
fn a_refusal_of_what_is_required_leaves_nothing_behind() {
    on_thread(|| {
        let before = state();
        let slack = Conditions::new().timer_slack(Duration::from_nanos(4321));
        let refused = slack.clone().cpu(60_000).require().unwrap_err();
        assert_eq!(refused.iter().map(|no| no.condition).collect::<Vec<_>>(), [Condition::CPU]);
        assert_eq!(state(), before);
        let guard = slack.require().unwrap();
        assert!(guard.grants(Condition::TIMER_SLACK));
    });
}
