//! Frequency settings on trees of files: read, set, put back, refused.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use crate::fixture::Machine;
use punctual::cpufreq::{Error, Wait};

/// A child that another test forks holds this process's locks too, until it ends.
pub(crate) const PATIENT: Wait = Wait::AtMost(Duration::from_secs(60));

#[test]
fn a_policy_tells_what_its_files_say_and_nothing_else() {
    let machine = Machine::dirty();
    let policies = machine.cpufreq().policies().unwrap();
    assert_eq!(policies.iter().map(|p| p.number).collect::<Vec<_>>(), [0, 2]);
    let (first, second) = (&policies[0], &policies[1]);
    assert_eq!((first.cpus.as_slice(), first.set_speed_khz), (&[0, 1][..], Some(1_800_000)));
    assert_eq!((second.cpus.as_slice(), second.related_cpus.as_slice()), (&[2][..], &[2, 3][..]));
    assert_eq!((second.set_speed_khz, second.preference.clone(), second.boost), (None, None, None));
    assert_eq!(second.transition_latency_ns, Some(10_000));
    assert_eq!(second.time_in_state, [(3_000_000, Duration::from_millis(120)), (1_000_000, Duration::from_secs(34))]);
    assert_eq!(second.transitions, Some(17));
    assert_eq!(first.frequencies_khz.first(), Some(&1_000_000));
}

#[test]
fn without_policies_the_answer_says_so_and_why() {
    let machine = Machine::bare();
    let error = machine.cpufreq().policies().unwrap_err();
    assert!(matches!(error, Error::NotExposed { .. }), "{error}");
    fs::create_dir_all(machine.root().join("proc")).unwrap();
    fs::write(machine.root().join("proc/cpuinfo"), "processor : 0\nflags : fpu hypervisor tsc\n").unwrap();
    let error = machine.cpufreq().policies().unwrap_err();
    assert!(error.to_string().contains("the hypervisor decides; nothing here can be changed"), "{error}");
    assert_eq!(error.remedy(), "set it on the host");
    assert!(matches!(machine.cpufreq().guard(&[], PATIENT), Err(Error::NotExposed { .. })));
}

#[test]
fn whatever_was_changed_is_put_back_exactly() {
    let machine = Machine::dirty();
    let before = machine.everything();
    let mut guard = machine.cpufreq().guard(&[], PATIENT).unwrap();
    guard.set_governor("performance").unwrap();
    guard.set_max_khz(3_000_000).unwrap();
    guard.set_min_khz(2_600_000).unwrap();
    assert_eq!(machine.get(0, "scaling_governor"), "performance");
    assert_eq!(machine.get(2, "scaling_min_freq"), "2600000");
    assert_eq!(guard.restore(), []);
    assert_eq!(machine.everything(), before);
    assert_eq!(fs::read_to_string(machine.state().join("journal")).unwrap(), "");
}

#[test]
fn what_was_not_touched_is_left_to_whoever_changes_it() {
    let machine = Machine::dirty();
    let mut guard = machine.cpufreq().guard(&[2], PATIENT).unwrap();
    guard.set_governor("performance").unwrap();
    fs::write(machine.folder_of(2).join("scaling_max_freq"), "1800000\n").unwrap();
    fs::write(machine.folder_of(0).join("scaling_governor"), "schedutil\n").unwrap();
    assert_eq!(guard.restore(), []);
    assert_eq!(machine.get(2, "scaling_max_freq"), "1800000");
    assert_eq!(machine.get(0, "scaling_governor"), "schedutil");
    assert_eq!(machine.get(2, "scaling_governor"), "ondemand");
}

#[test]
fn a_governor_that_others_change_is_told_and_set_again() {
    let machine = Machine::dirty();
    let before = machine.everything();
    let mut guard = machine.cpufreq().guard(&[], PATIENT).unwrap();
    guard.set_governor("performance").unwrap();
    assert_eq!(guard.other_governor("performance"), None);
    fs::write(machine.folder_of(2).join("scaling_governor"), "powersave\n").unwrap();
    assert_eq!(guard.other_governor("performance"), Some((2, "powersave".to_owned())));
    guard.rewrite_governor("performance").unwrap();
    assert_eq!(guard.other_governor("performance"), None);
    assert_eq!(guard.restore(), []);
    assert_eq!(machine.everything(), before);
}

#[test]
fn dropped_by_return_error_or_panic_it_puts_back() {
    let machine = Machine::dirty();
    let before = machine.everything();
    let caught = std::panic::catch_unwind(|| {
        let mut guard = machine.cpufreq().guard(&[], PATIENT).unwrap();
        guard.set_governor("powersave").unwrap();
        panic!("in the middle");
    });
    assert!(caught.is_err());
    assert_eq!(machine.everything(), before);
}

#[test]
fn a_preference_comes_back_after_its_governor() {
    let machine = Machine::autonomous();
    let mut guard = machine.cpufreq().guard(&[], PATIENT).unwrap();
    guard.set_preference("performance").unwrap();
    guard.set_governor("performance").unwrap();
    assert_eq!(guard.restore(), []);
    assert_eq!(machine.get(0, "energy_performance_preference"), "balance_power");
    assert_eq!(machine.get(0, "scaling_governor"), "powersave");
}

#[test]
fn refusals_touch_nothing_and_name_what_would_do() {
    let machine = Machine::dirty();
    let before = machine.everything();
    let mut guard = machine.cpufreq().guard(&[], PATIENT).unwrap();
    let error = guard.set_governor("interactive").unwrap_err();
    assert!(error.to_string().contains("only userspace, conservative, ondemand"), "{error}");
    assert!(matches!(guard.set_speed_khz(1_800_000), Err(Error::NotUserspace { policy: 2, .. })));
    assert!(matches!(guard.set_min_khz(5_000_000), Err(Error::OutOfRange { max_khz: 3_000_000, .. })));
    assert!(matches!(guard.set_preference("power"), Err(Error::NoAttribute { .. })));
    assert!(matches!(machine.cpufreq().policies_of(&[7]), Err(Error::NoSuchCpu { cpu: 7 })));
    drop(guard);
    assert_eq!(machine.everything(), before);

    let autonomous = Machine::autonomous();
    let error = autonomous.cpufreq().guard(&[], PATIENT).unwrap().set_governor("ondemand").unwrap_err();
    assert!(error.remedy().contains("modprobe cpufreq_ondemand"), "{}", error.remedy());
}

#[test]
fn a_setting_that_another_takes_back_is_told() {
    let machine = Machine::dirty();
    // As a read-only file of /sys does: it takes no value. Root may write to any file, so a folder stands in its place.
    let file = machine.folder_of(2).join("scaling_governor");
    let mut guard = machine.cpufreq().guard(&[2], PATIENT).unwrap();
    guard.set_governor("performance").unwrap();
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let left = guard.restore();
    assert_eq!(left.len(), 1);
    assert!(left[0].to_string().contains("scaling_governor was ondemand"), "{}", left[0]);
}

#[test]
fn a_cpu_that_went_offline_is_told_and_its_setting_waits_in_the_journal() {
    let machine = Machine::dirty();
    let mut guard = machine.cpufreq().guard(&[], PATIENT).unwrap();
    guard.set_governor("performance").unwrap();
    let away = machine.root().join("away");
    fs::rename(machine.folder_of(2), &away).unwrap();
    let left = guard.restore();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!((left[0].setting.policy, left[0].setting.value.as_str()), (2, "ondemand"));
    assert_eq!(machine.get(0, "scaling_governor"), "userspace");
    fs::rename(&away, machine.folder_of(2)).unwrap();
    assert_eq!(machine.get(2, "scaling_governor"), "performance");
    let restored = machine.cpufreq().restore(PATIENT).unwrap();
    assert_eq!(restored.left, []);
    assert_eq!(machine.get(2, "scaling_governor"), "ondemand");
    assert!(!machine.cpufreq().has_something_to_restore());
}

#[test]
fn a_second_program_is_refused_or_waits() {
    let machine = Machine::dirty();
    let guard = machine.cpufreq().guard(&[0], PATIENT).unwrap();
    let error = machine.cpufreq().guard(&[2], Wait::No).unwrap_err();
    assert!(error.to_string().contains("this process itself"), "{error}");
    assert!(matches!(machine.cpufreq().restore(Wait::No), Err(Error::Busy { .. })));
    let cpufreq = machine.cpufreq();
    let second = std::thread::spawn(move || cpufreq.guard(&[2], Wait::AtMost(Duration::from_secs(60))).map(drop));
    std::thread::sleep(Duration::from_millis(50));
    drop(guard);
    second.join().unwrap().unwrap();
}

#[test]
fn set_stays_and_restore_goes_back_to_before_the_first() {
    let machine = Machine::dirty();
    let before = machine.everything();
    let cpufreq = machine.cpufreq();
    assert_eq!(cpufreq.set_governor(&[], "performance", PATIENT).unwrap(), [0, 2]);
    // A speed that userspace shows in between was not there before.
    cpufreq.set_governor(&[2], "userspace", PATIENT).unwrap();
    std::fs::write(machine.folder_of(2).join("scaling_setspeed"), "1000000\n").unwrap();
    cpufreq.set_governor(&[2], "performance", PATIENT).unwrap();
    std::fs::write(machine.folder_of(2).join("scaling_setspeed"), "<unsupported>\n").unwrap();
    assert_eq!(cpufreq.set_governor(&[0], "powersave", PATIENT).unwrap(), [0]);
    assert_eq!(
        (machine.get(0, "scaling_governor"), machine.get(2, "scaling_governor")),
        ("powersave".into(), "performance".into())
    );
    assert!(cpufreq.has_something_to_restore());
    let restored = cpufreq.restore(PATIENT).unwrap();
    assert_eq!(restored.left, []);
    assert_eq!(machine.everything(), before);
    assert_eq!(cpufreq.restore(PATIENT).unwrap(), punctual::cpufreq::Restored::default());
}

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
    assert!(matches!(open.cpufreq().guard(&[], PATIENT), Err(Error::UnsafePlace { .. })));

    let linked = Machine::dirty();
    fs::create_dir(linked.root().join("elsewhere")).unwrap();
    symlink(linked.root().join("elsewhere"), linked.state()).unwrap();
    assert!(matches!(linked.cpufreq().guard(&[], PATIENT), Err(Error::UnsafePlace { .. })));

    let journal = Machine::dirty();
    journal.cpufreq().guard(&[], PATIENT).map(drop).unwrap();
    fs::remove_file(journal.state().join("journal")).unwrap();
    fs::write(journal.root().join("victim"), "precious").unwrap();
    symlink(journal.root().join("victim"), journal.state().join("journal")).unwrap();
    assert!(matches!(journal.cpufreq().guard(&[], PATIENT), Err(Error::UnsafePlace { .. })));
    assert_eq!(fs::read_to_string(journal.root().join("victim")).unwrap(), "precious");
}

#[test]
fn links_among_the_settings_are_not_followed() {
    let machine = Machine::dirty();
    let victim = machine.root().join("victim");
    fs::write(&victim, "precious").unwrap();
    let file = machine.folder_of(2).join("scaling_max_freq");
    fs::remove_file(&file).unwrap();
    symlink(&victim, &file).unwrap();
    let mut guard = machine.cpufreq().guard(&[2], PATIENT).unwrap();
    guard.set_max_khz(2_600_000).unwrap_err();
    drop(guard);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

mod boost {
    use std::time::{Duration, Instant};

    use punctual::cpufreq::{Boost, Error, Lever};

    use super::PATIENT;
    use crate::fixture::Machine;

    #[test]
    fn it_raises_before_each_activation_and_lets_go_after_it() {
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
        // The thread is not on that CPU: nothing is learned from its loops, and the lead is what raising took and the driver says, 10 µs.
        assert_eq!((cost.learned, cost.not_at_full_speed, cost.learning), (0, 0, Duration::ZERO));
        assert!(cost.lead >= Duration::from_micros(10));
        assert!(cost.raised <= cost.elapsed && cost.energy_uj.is_none());
        assert_eq!(cost.full_khz, Some(1_000_000));
        assert_eq!(machine.everything(), before);
    }

    #[test]
    fn on_its_cpu_it_learns_the_lead_from_loops() {
        let machine = Machine::autonomous();
        let cpus = Some(punctual::CpuSet::of([0]));
        let bound = punctual::Conditions { cpus, ..punctual::Conditions::default() }.apply();
        if !bound.refused().is_empty() {
            punctual_testing::lacks("this process may not run on CPU 0");
            return;
        }
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
        assert!((cost.learned == 0) == (cost.learning == Duration::ZERO) || cost.learned == 0, "{cost:?}");
        drop(bound);
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
}

mod energy {
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
        // Root reads it all the same; everybody else is told that it is not counted, and no error.
        assert_eq!(machine.cpufreq().energy_zones()[0].read_uj(), readable.then_some(5));
        assert_eq!(machine.cpufreq().energy().is_some(), readable);
    }
}
