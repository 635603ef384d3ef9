//! The journal of frequency settings: followed at the next start, unless another user wrote it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use punctual::cpufreq::Error;
use punctual::restore;

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
