//! Boosts on trees of files: raised before each activation, let go after it.

use std::time::{Duration, Instant};

use punctual::cpufreq::{Boost, Error, Lever};
use punctual::{Applied, Conditions, Guard};

use super::PATIENT;
use crate::fixture::Machine;

/// The calling thread on CPU 0; `None` where it may not run there, which is said.
fn on_cpu_0() -> Option<Guard> {
    let Applied { guard: bound, refused } = Conditions::new().cpu(0).apply();
    if !refused.is_empty() {
        punctual_testing::lacks(punctual_testing::Lack::Cpu(0));
        return None;
    }
    Some(bound)
}

#[test]
fn it_raises_before_each_activation_and_lets_go_after_it() {
    let Some(_bound) = on_cpu_0() else { return };
    let machine = Machine::dirty();
    let before = machine.everything();
    let mut boost = Boost::new(&machine.cpufreq(), 2, None, PATIENT).unwrap();
    assert_eq!(boost.lever(), Lever::MinFrequency);
    assert_eq!(machine.everything(), before);
    for _ in 0..5 {
        let at = Instant::now() + Duration::from_millis(5);
        let activation = boost.wait_until(at).unwrap();
        assert!(Instant::now() >= at);
        assert_eq!(machine.get(2, "scaling_min_freq"), "2200000");
        boost.done(activation, at + Duration::from_secs(60)).unwrap();
        assert_eq!(machine.everything(), before);
    }
    let missed = boost.wait_until(Instant::now()).unwrap();
    let past = Instant::now().checked_sub(Duration::from_millis(1)).unwrap();
    boost.done(missed, past).unwrap();
    let cost = boost.finish();
    assert_eq!((cost.switches, cost.met, cost.missed), (6, 5, 1));
    // The thread is not on that CPU, so nothing is learned from its loops. The lead is the time of raising and the driver's 10 µs.
    assert_eq!((cost.learned, cost.not_at_full_speed, cost.learning), (0, 0, Duration::ZERO));
    assert!(cost.lead >= Duration::from_micros(10));
    assert!(cost.raised <= cost.elapsed && cost.energy_uj.is_none());
    assert_eq!(cost.full_khz, Some(1_000_000));
    assert_eq!(machine.everything(), before);
}

#[test]
fn on_its_cpu_it_learns_the_lead_from_loops() {
    let machine = Machine::autonomous();
    let Some(_bound) = on_cpu_0() else { return };
    let mut boost = Boost::new(&machine.cpufreq(), 0, None, PATIENT).unwrap();
    let mut looked_at = 0;
    for _ in 0..17 {
        let at = Instant::now() + boost.lead() + Duration::from_millis(3);
        let activation = boost.wait_until(at).unwrap();
        assert!(Instant::now() >= at);
        looked_at += u64::from(activation.at_full_speed.is_some());
        boost.done(activation, at + Duration::from_secs(60)).unwrap();
    }
    let cost = boost.finish();
    // One activation of eight is looked at, unless the thread came too late for it.
    assert!(cost.learned <= 3 && cost.learned == looked_at, "{cost:?}");
    assert!(cost.lead > Duration::ZERO, "{cost:?}");
    assert!(cost.learned == 0 || cost.learning > Duration::ZERO, "{cost:?}");
}

#[test]
fn every_lever_goes_back_to_what_was_found() {
    let autonomous = Machine::autonomous();
    for lever in [Lever::MinFrequency, Lever::Preference, Lever::Governor] {
        let before = autonomous.everything();
        let mut boost = Boost::new(&autonomous.cpufreq(), 0, Some(lever), PATIENT).unwrap();
        let activation = boost.wait_until(Instant::now()).unwrap();
        assert_ne!(autonomous.everything(), before, "{lever}");
        drop(activation);
        assert_eq!(boost.restore(), []);
        assert_eq!(autonomous.everything(), before, "{lever}");
    }
}

#[test]
fn without_a_lever_it_says_what_was_looked_for() {
    let machine = Machine::dirty();
    // Under userspace no limit matters, and a clamp is not looked at.
    for lever in [Lever::Clamp, Lever::MinFrequency, Lever::Preference] {
        let error = Boost::new(&machine.cpufreq(), 0, Some(lever), PATIENT).unwrap_err();
        assert!(matches!(error, Error::NoLever { .. }), "{error}");
    }
    let bare = Machine::bare();
    assert!(matches!(Boost::new(&bare.cpufreq(), 0, None, PATIENT), Err(Error::NotExposed { .. })));
}
