use std::fs;
use std::process::{Command, Stdio};

use punctual_testing::{Lack, lacks, skip, until};

use super::*;
use crate::conditions::{Applied, Thread};
use crate::restore::StateDir;

/// Root of the killed program's fixture; unset in the parent.
const ROOT: &str = "PUNCTUAL_TEST_IRQS";

/// A machine with four CPUs and these interrupts: number, affinity, effective affinity, handler.
fn machine(irqs: &[(usize, &str, &str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let cpu = folder.path().join("sys/devices/system/cpu");
    fs::create_dir_all(&cpu).unwrap();
    fs::write(cpu.join("online"), "0-3\n").unwrap();
    for (number, list, effective, name) in irqs {
        let irq = folder.path().join(format!("proc/irq/{number}"));
        fs::create_dir_all(irq.join(name)).unwrap();
        fs::write(irq.join(FILE), format!("{list}\n")).unwrap();
        fs::write(irq.join("effective_affinity_list"), format!("{effective}\n")).unwrap();
    }
    fs::create_dir_all(folder.path().join("proc/irq")).unwrap();
    fs::write(folder.path().join("proc/irq/default_smp_affinity"), "f\n").unwrap();
    folder
}

fn usual() -> tempfile::TempDir {
    machine(&[(24, "0-3", "0", "eth0"), (25, "1", "1", "nvme0q2"), (26, "2-3", "2", "usb")])
}

fn lists(root: &Path) -> Vec<String> {
    FORM.numbers(root).iter().filter_map(|n| files::read(&root.join(format!("proc/irq/{n}/{FILE}")))).collect()
}

/// On the fixture, for CPU 1; the thread itself may run elsewhere.
fn away(root: &Path) -> Applied {
    Conditions::new().cpu(1).irqs_away().apply_below(root, StateDir::at(root.join("state")))
}

#[test]
fn what_can_be_moved_is_moved_and_comes_back() {
    let folder = usual();
    let root = folder.path();
    let before = lists(root);
    let Applied { mut guard, refused } = away(root);
    assert!(guard.grants(Condition::IRQS_AWAY), "{refused:?}");
    assert_eq!(lists(root), ["0,2-3", "0,2-3", "2-3"]);
    assert_eq!(guard.applied().value(Condition::IRQS_AWAY), Some(&Value::IrqsAway(true)));
    // As irqbalance would.
    fs::write(root.join("proc/irq/24/smp_affinity_list"), "0-1\n").unwrap();
    let lost: Vec<_> = guard.lost().into_iter().filter(|lost| lost.condition == Condition::IRQS_AWAY).collect();
    assert_eq!(lost[0].found, "interrupt 24 (eth0) on CPU 0-1");
    guard.renew(&lost);
    assert_eq!(lists(root), ["0,2-3", "0,2-3", "2-3"]);
    let left = guard.restore();
    assert!(left.iter().all(|left| !left.what.contains(FILE)), "{left:?}");
    assert_eq!(lists(root), before);
}

#[test]
fn what_the_kernel_keeps_is_named_and_the_rest_is_moved() {
    let folder = usual();
    let root = folder.path();
    // A managed interrupt's file refuses writes. Root may write to any regular file, so a link stands in its place.
    let file = root.join("proc/irq/25").join(FILE);
    fs::rename(&file, root.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(root.join("elsewhere"), &file).unwrap();
    let Applied { guard, refused } = away(root);
    assert!(guard.grants(Condition::IRQS_AWAY), "{refused:?}");
    assert_eq!(guard.notes(), ["the kernel lets these interrupts stay on CPU 1: 25 (nvme0q2)"]);
    assert_eq!(lists(root), ["0,2-3", "1", "2-3"]);
    drop(guard);
    assert_eq!(lists(root), ["0-3", "1", "2-3"]);
}

#[test]
fn no_other_cpu_no_interrupts_or_no_right_is_refused_with_the_reason() {
    let folder = usual();
    let root = folder.path();
    let state = StateDir::at(root.join("state"));
    let Applied { guard: all, refused } =
        Conditions::new().cpus(&CpuSet::from_iter(0..4)).irqs_away().apply_below(root, state.clone());
    assert!(refused.iter().any(|no| no.why.contains("no other CPU is left")), "{refused:?}");
    drop(all);
    let bare = machine(&[]);
    let none = away(bare.path());
    assert!(none.refused.iter().any(|no| no.why.contains("has no interrupt")), "{:?}", none.refused);
    drop(none);
    assert_eq!(lists(root), ["0-3", "1", "2-3"]);
}

#[test]
fn a_device_that_is_gone_is_no_failure() {
    let folder = usual();
    let root = folder.path();
    let guard = away(root).guard;
    fs::remove_dir_all(root.join("proc/irq/25")).unwrap();
    let left = guard.restore();
    assert!(left.iter().all(|left| !left.what.contains(FILE)), "{left:?}");
    assert_eq!(lists(root), ["0-3", "2-3"]);
}

/// Not a test: this is the program that gets killed.
#[test]
fn the_program_that_is_killed() {
    let Some(root) = std::env::var_os(ROOT).map(PathBuf::from) else { return };
    let _guard = away(&root).guard;
    fs::write(root.join("ready"), "").unwrap();
    std::thread::sleep(Duration::from_secs(3600));
}

#[test]
fn a_killed_program_leaves_them_where_they_were() {
    let folder = usual();
    let root = folder.path();
    let before = lists(root);
    let mut program = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "conditions::irqs_away::tests::the_program_that_is_killed"])
        .env(ROOT, root)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the program's start", || root.join("ready").exists());
    assert_ne!(lists(root), before);
    program.kill().unwrap();
    program.wait().unwrap();
    until("the interrupts' return", || lists(root) == before);
}

#[test]
fn a_journal_left_behind_is_followed() {
    let folder = usual();
    let root = folder.path();
    drop(away(root).guard);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let lines = format!("punctual-irqs-1 {}\n24 smp_affinity_list 3\n", boot.trim());
    fs::write(root.join("state/irqs"), lines).unwrap();
    let target = Target { root: root.into(), state: StateDir::at(root.join("state")), ..Target::calling_thread() };
    assert_eq!(IrqsAway.recover(&target).unwrap().len(), 1);
    assert_eq!(lists(root)[0], "3");
    assert_eq!(IrqsAway.recover(&target).unwrap(), [] as [String; 0]);
}

#[test]
fn on_this_machine_they_leave_a_cpu_and_come_back() {
    if !punctual_testing::is_root() {
        return skip("needs root");
    }
    if let Err(no) = Condition::IRQS_AWAY.available() {
        return skip(&format!("{}; {:?}", no.why, no.needs));
    }
    let root = Path::new("/");
    let cpu = cpu::current(Thread::Calling).unwrap().iter().last().unwrap();
    let before = lists(root);
    let coming = |list: &String| meet(list, &CpuSet::from_iter([cpu]));
    let Applied { guard, refused } = Conditions::new().cpu(cpu).irqs_away().apply();
    assert_eq!(refused, []);
    let during = lists(root);
    if during == before {
        lacks(Lack::MovableInterrupt);
    } else {
        assert!(during.iter().filter(|list| coming(list)).count() < before.iter().filter(|list| coming(list)).count());
        assert_eq!(guard.lost(), []);
    }
    assert_eq!(guard.restore(), []);
    assert_eq!(lists(root), before);
}
