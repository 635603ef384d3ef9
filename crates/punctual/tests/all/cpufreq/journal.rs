//! The journal of frequency settings: followed at the next start, unless another user wrote it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use proptest::prelude::*;
use punctual::cpufreq::Error;
use punctual::restore::{self, LockWait};

use super::PATIENT;
use crate::fixture::Machine;

#[test]
fn a_journal_left_behind_is_followed_at_the_next_start() {
    let machine = Machine::dirty();
    machine.cpufreq().guard(&[], PATIENT).map(drop).unwrap();
    leave(&machine, "policy2 scaling_governor conservative\n");
    let guard = machine.cpufreq().guard(&[], PATIENT).unwrap();
    assert_eq!(machine.get(2, "scaling_governor"), "conservative");
    assert_eq!(guard.replayed().len(), 1);
}

/// A journal of this boot with these lines.
fn leave(machine: &Machine, lines: &str) {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    fs::write(machine.state().join("journal"), format!("punctual-cpufreq-1 {}\n{lines}", boot.trim())).unwrap();
}

#[test]
fn a_journal_of_another_boot_is_not_followed() {
    let machine = Machine::dirty();
    let before = machine.everything();
    machine.cpufreq().guard(&[], PATIENT).map(drop).unwrap();
    fs::write(machine.state().join("journal"), "punctual-cpufreq-1 another\npolicy2 scaling_governor powersave\n")
        .unwrap();
    machine.cpufreq().guard(&[], PATIENT).map(drop).unwrap();
    assert_eq!(machine.everything(), before);
}

#[test]
fn a_hostile_journal_is_put_aside_whole() {
    for hostile in [
        "policy2/../../../../../etc shadow x\n",
        "policy2 ../../../../../../etc/passwd root\n",
        "policy2 scaling_governor ../../x\n",
        "policy2 scaling_max_freq 1000000; reboot\n",
        "policy2 scaling_governor powersave extra\n",
        "policy99999 scaling_governor powersave\n",
        "policy scaling_governor powersave\n",
        "policy2 boost 1\n",
        "policy2 scaling_min_freq -1\n",
        "policy2  scaling_governor powersave\n",
        "\n",
    ] {
        let machine = Machine::dirty();
        let before = machine.everything();
        machine.cpufreq().guard(&[], PATIENT).map(drop).unwrap();
        // The good line before the bad one must not be followed either.
        leave(&machine, &format!("policy0 scaling_governor powersave\n{hostile}"));
        let guard = machine.cpufreq().guard(&[], PATIENT).unwrap();
        assert!(guard.replayed()[0].contains("was not followed"), "{hostile:?}: {:?}", guard.replayed());
        assert!(machine.state().join("journal.refused").is_file());
        drop(guard);
        assert_eq!(machine.everything(), before, "{hostile:?}");
    }
}

#[test]
fn a_place_that_others_could_write_to_is_refused() {
    let open = Machine::dirty();
    fs::create_dir(open.state()).unwrap();
    fs::set_permissions(open.state(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(open.cpufreq().guard(&[], PATIENT), Err(Error::Setting(restore::Error::UnsafePlace { .. }))));

    let linked = Machine::dirty();
    fs::create_dir(linked.root().join("elsewhere")).unwrap();
    symlink(linked.root().join("elsewhere"), linked.state()).unwrap();
    assert!(matches!(linked.cpufreq().guard(&[], PATIENT), Err(Error::Setting(restore::Error::UnsafePlace { .. }))));

    let journal = Machine::dirty();
    journal.cpufreq().guard(&[], PATIENT).map(drop).unwrap();
    fs::remove_file(journal.state().join("journal")).unwrap();
    fs::write(journal.root().join("victim"), "precious").unwrap();
    symlink(journal.root().join("victim"), journal.state().join("journal")).unwrap();
    assert!(matches!(journal.cpufreq().guard(&[], PATIENT), Err(Error::Setting(restore::Error::UnsafePlace { .. }))));
    assert_eq!(fs::read_to_string(journal.root().join("victim")).unwrap(), "precious");
}

/// Lines of a journal, right and wrong, with bytes that mean nothing now and then.
fn any_journal() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        6 => prop::sample::select(vec![
            "policy0 scaling_governor ondemand",
            "policy0 scaling_min_freq 1000000",
            "policy0 scaling_max_freq 3000000",
            "policy0 energy_performance_preference power",
            "policy0 scaling_governor ../../../outside",
            "policy../../.. scaling_governor x",
            "policy18446744073709551615 scaling_governor x",
            "policy0 scaling_min_freq 99999999999999999999",
            "",
        ])
        .prop_map(|line| line.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..60),
        1 => "policy[0-9]{1,3} [a-z_/.]{1,30} [0-9a-z/.]{1,20}".prop_map(String::into_bytes),
    ];
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let first = format!("punctual-cpufreq-1 {}", boot.trim()).into_bytes();
    let head = prop_oneof![8 => Just(first), 1 => prop::collection::vec(any::<u8>(), 0..60)];
    (head, prop::collection::vec(line, 0..6))
        .prop_map(|(head, lines)| [vec![head], lines, vec![Vec::new()]].concat().join(&b'\n'))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(punctual_testing::inputs(64)) })]

    /// Whatever it says, only settings of policies change, and no other file appears.
    #[test]
    fn any_journal_changes_nothing_but_settings(journal in any_journal(), before_set in any_journal()) {
        let machine = Machine::dirty();
        let _ = machine.cpufreq().restore(LockWait::No);
        let outside = machine.root().join("outside");
        fs::write(&outside, "outside").unwrap();
        let files = || fs::read_dir(machine.folder_of(0)).unwrap().count();
        let before = files();
        fs::write(machine.state().join("journal"), journal).unwrap();
        fs::write(machine.state().join("before-set"), before_set).unwrap();
        let _ = machine.cpufreq().restore(LockWait::No);
        prop_assert_eq!(files(), before);
        prop_assert_eq!(fs::read_to_string(outside).unwrap(), "outside");
    }
}
