//! Energy counters on trees of files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use crate::fixture::Machine;

/// A zone as powercap shows it.
fn zone(machine: &Machine, folder: &str, name: &str, energy_uj: &str, range_uj: Option<&str>) -> PathBuf {
    let zone = machine.root().join("sys/class/powercap").join(folder);
    fs::create_dir_all(&zone).unwrap();
    fs::write(zone.join("name"), format!("{name}\n")).unwrap();
    fs::write(zone.join("energy_uj"), format!("{energy_uj}\n")).unwrap();
    if let Some(range) = range_uj {
        fs::write(zone.join("max_energy_range_uj"), format!("{range}\n")).unwrap();
    }
    zone
}

#[test]
fn packages_are_added_up_and_their_parts_left_out() {
    let machine = Machine::bare();
    let first = zone(&machine, "intel-rapl:0", "package-0", "1000", Some("262143328850"));
    let core = zone(&machine, "intel-rapl:0:0", "core", "700", Some("262143328850"));
    let second = zone(&machine, "intel-rapl:1", "package-1", "5000", Some("262143328850"));
    // The driver's own folder has no energy, and psys (the whole platform) contains the packages.
    zone(&machine, "intel-rapl:2", "psys", "9", Some("100"));
    fs::create_dir_all(machine.root().join("sys/class/powercap/intel-rapl")).unwrap();
    let names: Vec<String> = machine.cpufreq().energy_zones().into_iter().map(|zone| zone.name).collect();
    assert_eq!(names, ["package-0", "core", "package-1", "psys"]);
    let energy = machine.cpufreq().energy().unwrap();
    assert_eq!(energy.since_uj(), Some(0));
    fs::write(first.join("energy_uj"), "1600\n").unwrap();
    fs::write(core.join("energy_uj"), "1299\n").unwrap();
    fs::write(second.join("energy_uj"), "5050\n").unwrap();
    assert_eq!(energy.since_uj(), Some(650));
}

#[test]
fn a_counter_that_went_round_is_counted_on() {
    let machine = Machine::bare();
    let package = zone(&machine, "intel-rapl:0", "package-0", "65532000000", Some("65532610987"));
    let energy = machine.cpufreq().energy().unwrap();
    fs::write(package.join("energy_uj"), "4012\n").unwrap();
    // Up to its range, and on from 0: 610987 + 4012. The one step in between (some 60 µJ, which the kernel does not tell) is left out.
    assert_eq!(energy.since_uj(), Some(614_999));
}

#[test]
fn a_counter_that_went_back_without_a_range_tells_nothing() {
    let machine = Machine::bare();
    let package = zone(&machine, "intel-rapl:0", "package-0", "5000", None);
    let energy = machine.cpufreq().energy().unwrap();
    fs::write(package.join("energy_uj"), "10\n").unwrap();
    assert_eq!(energy.since_uj(), None);
    // Nor does one that began beyond its own range.
    let odd = zone(&machine, "intel-rapl:0", "package-0", "5000", Some("4000"));
    let energy = machine.cpufreq().energy().unwrap();
    fs::write(odd.join("energy_uj"), "10\n").unwrap();
    assert_eq!(energy.since_uj(), None);
}

#[test]
fn unreadable_vanished_or_missing_is_absent() {
    let machine = Machine::bare();
    assert_eq!(machine.cpufreq().energy(), None);
    assert_eq!(machine.cpufreq().energy_zones(), []);
    // Not a number, as a file that the kernel refuses to read: the zone is there, its energy is not.
    let package = zone(&machine, "intel-rapl:0", "package-0", "", Some("262143328850"));
    assert_eq!(machine.cpufreq().energy_zones()[0].read_uj(), None);
    assert_eq!(machine.cpufreq().energy(), None);
    fs::write(package.join("energy_uj"), "5\n").unwrap();
    let energy = machine.cpufreq().energy().unwrap();
    fs::remove_file(package.join("energy_uj")).unwrap();
    assert_eq!(energy.since_uj(), None);
}

#[test]
fn mode_0400_is_for_its_owner_alone() {
    let machine = Machine::bare();
    let package = zone(&machine, "intel-rapl:0", "package-0", "5", Some("262143328850"));
    let file = package.join("energy_uj");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    let readable = fs::read(&file).is_ok();
    // Root reads it nevertheless; other users get a notice that it is not counted, and no error.
    assert_eq!(machine.cpufreq().energy_zones()[0].read_uj(), readable.then_some(5));
    assert_eq!(machine.cpufreq().energy().is_some(), readable);
}
