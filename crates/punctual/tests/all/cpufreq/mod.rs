//! Frequency settings on trees of files: read, set, put back, refused.

mod boost;
mod energy;
mod journal;

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use crate::fixture::Machine;
use punctual::Need;
use punctual::cpufreq::Error;
use punctual::restore::{self, LockWait};

/// A child that another test forks holds this process's locks too, until it ends.
pub(crate) const PATIENT: LockWait = LockWait::AtMost(Duration::from_secs(60));

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
    assert_eq!(error.needs(), Need::Host);
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
    assert_eq!(error.needs(), Need::GovernorModule("ondemand".into()));
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
    assert!(
        left[0].to_string().starts_with("policy2 scaling_governor could not be put back: it was ondemand; "),
        "{}",
        left[0]
    );
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
    assert_eq!((left[0].what.as_str(), left[0].was.as_str()), ("policy2 scaling_governor", "ondemand"));
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
    let error = machine.cpufreq().guard(&[2], LockWait::No).unwrap_err();
    assert!(error.to_string().contains("this process itself"), "{error}");
    assert!(matches!(machine.cpufreq().restore(LockWait::No), Err(Error::Setting(restore::Error::Busy { .. }))));
    let cpufreq = machine.cpufreq();
    let second = std::thread::spawn(move || cpufreq.guard(&[2], LockWait::AtMost(Duration::from_secs(60))).map(drop));
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
fn a_speed_stays_until_restored_and_only_one_that_the_cpu_has() {
    let machine = Machine::dirty();
    let (before, cpufreq) = (machine.everything(), machine.cpufreq());
    assert_eq!(cpufreq.set_speed_khz(&[], 1_400_000, PATIENT).unwrap(), [0, 2]);
    for policy in [0, 2] {
        let shown = ["scaling_governor", "scaling_setspeed"].map(|file| machine.get(policy, file));
        assert_eq!(shown, ["userspace", "1400000"]);
    }
    cpufreq.set_speed_khz(&[0], 1_000_000, PATIENT).unwrap();
    // The kernel shows no speed under another governor.
    fs::write(machine.folder_of(2).join("scaling_setspeed"), "<unsupported>\n").unwrap();
    assert_eq!(cpufreq.restore(PATIENT).unwrap().left, []);
    assert_eq!(machine.everything(), before);

    // Outside of the limits in force, between two steps, no such governor, no policy.
    let refused = |khz| cpufreq.set_speed_khz(&[], khz, PATIENT).unwrap_err();
    assert_eq!(
        refused(2_600_000).to_string(),
        "scaling_setspeed of policy2 (CPU 2) cannot be 2.6GHz: it takes 1.4GHz to 2.2GHz"
    );
    let steps = "policy0 has no step of 1.5GHz, only 1GHz, 1.4GHz, 1.8GHz, 2.2GHz, 2.6GHz, 3GHz";
    assert_eq!(refused(1_500_000).to_string(), steps);
    assert_eq!(machine.everything(), before);
    let without = Machine::autonomous().cpufreq().set_speed_khz(&[], 1_400_000, PATIENT).unwrap_err();
    assert!(without.to_string().contains("no governor \"userspace\", only performance, powersave"), "{without}");
    assert!(matches!(Machine::bare().cpufreq().set_speed_khz(&[], 1, PATIENT), Err(Error::NotExposed { .. })));
}

#[test]
fn a_guard_puts_back_the_speed_it_found() {
    let machine = Machine::dirty();
    let before = machine.everything();
    let mut guard = machine.cpufreq().guard(&[0], PATIENT).unwrap();
    guard.set_speed_khz(2_200_000).unwrap();
    assert_eq!(machine.get(0, "scaling_setspeed"), "2200000");
    drop(guard);
    assert_eq!(machine.everything(), before);
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
