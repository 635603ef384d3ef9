//! A quota of a control group.

use std::fs::{create_dir, read_to_string, remove_dir, write};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use punctual_record::{Budget, Counter, Spent};
use punctual_testing::{Disturbed, undisturbed};

use crate::{assert_whole, ns, watched};

/// A group of this test.
struct Group(PathBuf);

impl Group {
    /// 5 of 20 ms, under the hierarchy that has the controller, and before all others: beside them it would use up no quota.
    fn new() -> Option<Self> {
        for root in ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"] {
            if Path::new(root).join("cpu.cfs_quota_us").exists() || Path::new(root).join("cpu.shares").exists() {
                let folder = Path::new(root).join(format!("punctual-budget-{}", std::process::id()));
                create_dir(&folder).unwrap();
                write(folder.join("cpu.cfs_period_us"), "20000").unwrap();
                write(folder.join("cpu.cfs_quota_us"), "5000").unwrap();
                write(folder.join("cpu.shares"), "262144").unwrap();
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
        write(folder.join("cpu.weight"), "10000").unwrap();
        Some(Self(folder))
    }

    /// For how long the kernel throttled it, ns.
    fn throttled_ns(&self) -> u64 {
        let text = read_to_string(self.0.join("cpu.stat")).unwrap();
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
        value("throttled_time ").or_else(|| Some(value("throttled_usec ")? * 1000)).unwrap()
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

/// What a shell that computes in this group loses until the kernel has throttled it for `least_ns`, with its process.
fn in_group(group: &Group, known: Duration, least_ns: u64) -> Option<(u32, Budget)> {
    let mut child = 0;
    let (_, budget) = watched("starts", || {
        let script = format!("echo $$ > {}; read go; while :; do :; done", group.0.join("cgroup.procs").display());
        let mut shell = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
        child = shell.id();
        // Groups are looked at now and then: this one is known before its quota is used up.
        std::thread::sleep(known);
        shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
        punctual_testing::until("it is throttled", || group.throttled_ns() >= least_ns);
        shell.kill().unwrap();
        shell.wait().unwrap();
    })?;
    Some((child, budget))
}

#[test]
fn a_quota_has_its_time_its_group_and_the_kernels_own_count() {
    if !punctual_testing::needs_root("to make a control group") {
        return;
    }
    undisturbed(|longer| {
        let Some(group) = Group::new() else { return Ok(()) };
        let known = Duration::from_millis(600) * longer;
        let Some((child, budget)) = in_group(&group, known, u64::from(longer) * 400_000_000) else { return Ok(()) };
        let thread = budget.threads.iter().find(|thread| thread.pid == child).unwrap();
        assert_whole(thread);
        let (throttled, ready) = (ns(thread, Spent::ThrottledByQuota), ns(thread, Spent::Ready));
        let counted = budget.quotas.iter().map(|quota| quota.throttled_ns).sum::<u64>();
        if ready > throttled / 10 || counted + 20_000_000 < group.throttled_ns() {
            let said =
                format!("{ready} ns ready, {throttled} ns throttled, {counted} ns of {} counted", group.throttled_ns());
            return Err(Disturbed(said));
        }
        // The kernel counts the same, but for the throttling that goes on at the end.
        let check = budget.checks.iter().find(|check| check.counter == Counter::Throttled);
        let check = check.unwrap_or_else(|| panic!("{:?} {:?}", budget.checks, budget.quotas));
        let difference = check.summed_ns.abs_diff(check.counted_ns);
        assert!(difference < 40_000_000 + check.counted_ns / 10, "{check:?} {thread:?}");
        let part = thread.parts.iter().find(|part| part.spent == Spent::ThrottledByQuota).unwrap();
        assert!(part.thing.cgroup.as_deref().is_some_and(|path| path.contains("punctual-budget-")), "{part:?}");
        assert!(budget.checks.iter().any(|check| check.counter == Counter::Running), "{:?}", budget.checks);
        Ok(())
    });
}
