//! Governor, energy-performance preference and frequency limits as conditions, on trees of files.

use std::fs;

use punctual::restore::StateDir;
use punctual::{Applied, Condition, Conditions};

use crate::fixture::Machine;

/// Applied on that machine. Its policies are of CPUs that the thread need not be on.
fn on(machine: &Machine, conditions: &Conditions) -> Applied {
    conditions.apply_below(machine.root(), StateDir::at(machine.state()))
}

#[test]
fn they_are_set_together_and_come_back_in_whatever_order_they_need() {
    let machine = Machine::dirty();
    let before = machine.everything();
    let asked = Conditions::new().governor("performance").max_frequency_khz(3_000_000).min_frequency_khz(2_600_000);
    let Applied { guard, refused } = on(&machine, &asked);
    assert_eq!(refused, []);
    for policy in [0, 2] {
        assert_eq!(machine.get(policy, "scaling_governor"), "performance");
        assert_eq!(machine.get(policy, "scaling_min_freq"), "2600000");
        assert_eq!(machine.get(policy, "scaling_max_freq"), "3000000");
    }
    assert_eq!(guard.restore(), []);
    assert_eq!(machine.everything(), before);
}

#[test]
fn a_preference_comes_back_with_its_governor() {
    let machine = Machine::autonomous();
    let before = machine.everything();
    let Applied { guard, refused } = on(&machine, &Conditions::new().epp("performance").governor("performance"));
    assert_eq!(refused, []);
    assert_eq!(machine.get(0, "energy_performance_preference"), "performance");
    drop(guard);
    assert_eq!(machine.everything(), before);
}

#[test]
fn they_are_set_on_the_policies_of_the_cpus_asked_for() {
    let machine = Machine::dirty();
    // Whether this thread may run on CPU 2 is another matter: only the policy counts.
    let Applied { guard, refused } =
        on(&machine, &Conditions::new().cpu(2).governor("powersave").min_frequency_at_max());
    let granted = [Condition::GOVERNOR, Condition::MIN_FREQUENCY].map(|condition| guard.grants(condition));
    assert_eq!(granted, [true, true], "{refused:?}");
    assert_eq!(machine.get(0, "scaling_governor"), "userspace");
    assert_eq!(machine.get(2, "scaling_governor"), "powersave");
    assert_eq!(machine.get(2, "scaling_min_freq"), "2200000");
}

#[test]
fn what_another_program_sets_is_lost_and_set_again() {
    let machine = Machine::dirty();
    let before = machine.everything();
    let mut guard = on(&machine, &Conditions::new().governor("performance").min_frequency_khz(1_800_000)).guard;
    assert_eq!(guard.lost(), []);
    fs::write(machine.folder_of(2).join("scaling_governor"), "powersave\n").unwrap();
    fs::write(machine.folder_of(0).join("scaling_min_freq"), "1000000\n").unwrap();
    let lost = guard.lost();
    let told: Vec<String> = lost.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "min-frequency was set to 1.8GHz, and is 1GHz (policy0) now",
            "governor was set to performance, and is powersave (policy2) now"
        ]
    );
    assert_eq!(guard.renew(&lost), []);
    assert_eq!(guard.lost(), []);
    assert_eq!(guard.restore(), []);
    assert_eq!(machine.everything(), before);
}

#[test]
fn each_refusal_names_what_would_do_and_touches_nothing() {
    let machine = Machine::dirty();
    let before = machine.everything();
    let asked = Conditions::new().governor("interactive").epp("power").min_frequency_khz(9_000_000);
    let Applied { guard, refused } = on(&machine, &asked);
    let conditions: Vec<Condition> = refused.iter().map(|no| no.condition).collect();
    assert_eq!(conditions, [Condition::GOVERNOR, Condition::EPP, Condition::MIN_FREQUENCY]);
    assert!(refused[0].why.contains("only userspace, conservative"), "{}", refused[0]);
    assert!(refused[2].why.contains("scaling_min_freq of policy0"), "{}", refused[2]);
    assert_eq!(guard.restore(), []);
    assert_eq!(machine.everything(), before);
    let bare = on(&Machine::bare(), &Conditions::new().governor("performance"));
    assert!(bare.refused[0].why.contains("holds no frequency policy"), "{}", bare.refused[0]);
}

#[test]
fn a_panic_puts_them_back_too() {
    let machine = Machine::dirty();
    let before = machine.everything();
    let caught = std::panic::catch_unwind(|| {
        let _guard = on(&machine, &Conditions::new().governor("performance")).guard;
        panic!("on purpose");
    });
    assert!(caught.is_err());
    assert_eq!(machine.everything(), before);
}
