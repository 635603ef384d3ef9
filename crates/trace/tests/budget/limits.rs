//! A quota of a control group.

use std::fs::{create_dir, read_to_string, remove_dir, write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use punctual_record::{Counter, Spent};

use crate::{assert_whole, ns, watched};

/// A group of this test.
struct Group(PathBuf);

impl Group {
    /// 5 of 20 ms, under the hierarchy that has the controller.
    fn new() -> Option<Self> {
        for root in ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"] {
            if Path::new(root).join("cpu.cfs_quota_us").exists() || Path::new(root).join("cpu.shares").exists() {
                let folder = Path::new(root).join(format!("punctual-budget-{}", std::process::id()));
                create_dir(&folder).unwrap();
                write(folder.join("cpu.cfs_period_us"), "20000").unwrap();
                write(folder.join("cpu.cfs_quota_us"), "5000").unwrap();
                return Some(Self(folder));
            }
        }
        let root = Path::new("/sys/fs/cgroup");
        let lists = |name: &str| read_to_string(root.join(name)).unwrap_or_default();
        if !lists("cgroup.controllers").contains("cpu") || write(root.join("cgroup.subtree_control"), "+cpu").is_err() {
            punctual_testing::skip("no hierarchy of control groups has the controller cpu");
            return None;
        }
        let folder = root.join(format!("punctual-budget-{}", std::process::id()));
        create_dir(&folder).unwrap();
        write(folder.join("cpu.max"), "5000 20000").unwrap();
        Some(Self(folder))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..100 {
            if remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_quota_has_its_time_its_group_and_the_kernels_own_count() {
    if !punctual_testing::needs_root("to make a control group") {
        return;
    }
    let Some(group) = Group::new() else { return };
    let procs = group.0.join("cgroup.procs");
    let mut child = None;
    let Some((_, budget)) = watched("starts", || {
        let script = format!("echo $$ > {}; sleep 0.6; while :; do :; done", procs.display());
        let mut busy = std::process::Command::new("sh").args(["-c", &script]).spawn().unwrap();
        // The group is known before its quota is used up.
        std::thread::sleep(Duration::from_millis(1400));
        child = Some(busy.id());
        let begin = Instant::now();
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(begin.elapsed() < Duration::from_secs(30));
    }) else {
        return;
    };
    let thread = budget.threads.iter().find(|thread| Some(thread.pid) == child).unwrap();
    assert_whole(thread);
    let throttled = ns(thread, Spent::ThrottledByQuota);
    assert!(throttled > 20_000_000, "{thread:?}");
    // The kernel counts the same, but for the throttling that goes on at the end.
    let check = budget.checks.iter().find(|check| check.counter == Counter::Throttled);
    let check = check.unwrap_or_else(|| panic!("{:?} {:?}", budget.checks, budget.quotas));
    let difference = check.summed_ns.abs_diff(check.counted_ns);
    assert!(difference < 40_000_000 + check.counted_ns / 10, "{check:?} {thread:?}");
    let part = thread.parts.iter().find(|part| part.spent == Spent::ThrottledByQuota).unwrap();
    assert!(part.thing.cgroup.as_deref().is_some_and(|path| path.contains("punctual-budget-")), "{part:?}");
    assert!(budget.checks.iter().any(|check| check.counter == Counter::Running), "{:?}", budget.checks);
}
