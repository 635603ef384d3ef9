//! Whether the kernel itself keeps a part of each CPU for others where a real-time thread never sleeps.
//!
//! A trial of SCHED_FIFO relies on it. A program may begin to spin just when this process and the guardian are killed. Linux 6.12
//! and later have the fair server: 50 ms of each second for all other threads (kernel/sched/fair.c, `fair_server_init`). Earlier
//! ones throttle by `sched_rt_runtime_us` (sched(7)). Before 5.10 a CPU borrowed the runtime of others (`RT_RUNTIME_SHARE`), and
//! its own threads could get none.

use std::fs;
use std::path::Path;

use punctual_record::TrialRefused;

use super::remedy::refused;

/// Shown to root where debugfs is mounted.
const FAIR_SERVER: &str = "sys/kernel/debug/sched/fair_server";

/// `Err`: a spinning real-time thread may keep a CPU for good, and what would change that.
pub(super) fn check(root: &Path) -> Result<(), TrialRefused> {
    let refused = |why: &str, remedy: &str| Err(refused(why, Some(remedy)));
    let number = |file: &str| fs::read_to_string(root.join(file)).ok()?.trim().parse::<i64>().ok();
    match version(&fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default()) {
        Some(version) if version >= (6, 12) => match off(&root.join(FAIR_SERVER)) {
            Some(cpu) => refused(
                &format!("the fair server of {cpu} is off: a spinning real-time thread could keep that CPU for good"),
                "write 50000000 to runtime of that CPU in /sys/kernel/debug/sched/fair_server",
            ),
            None => Ok(()),
        },
        Some(version) if version >= (5, 10) => {
            let runtime = number("proc/sys/kernel/sched_rt_runtime_us");
            let period = number("proc/sys/kernel/sched_rt_period_us");
            match runtime.zip(period) {
                Some((runtime, period)) if (0..period).contains(&runtime) => Ok(()),
                _ => refused(
                    "real-time threads are not throttled: one that spins could keep a CPU for good",
                    "sysctl kernel.sched_rt_runtime_us=950000",
                ),
            }
        }
        _ => refused("this kernel lets a spinning real-time thread keep a CPU for good", "use Linux 5.10 or later"),
    }
}

/// Major and minor number of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The first CPU whose fair server has no runtime, as far as this is shown.
fn off(servers: &Path) -> Option<String> {
    let is_off =
        |cpu: &fs::DirEntry| fs::read_to_string(cpu.path().join("runtime")).is_ok_and(|text| text.trim() == "0");
    let cpu = fs::read_dir(servers).ok()?.flatten().find(is_off)?;
    Some(cpu.file_name().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with these files.
    fn kernel(release: &str, files: &[(&str, &str)]) -> Result<(), TrialRefused> {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in [("proc/sys/kernel/osrelease", release)].iter().chain(files) {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        check(root.path())
    }

    const RUNTIME: &str = "proc/sys/kernel/sched_rt_runtime_us";
    const PERIOD: (&str, &str) = ("proc/sys/kernel/sched_rt_period_us", "1000000");

    #[test]
    fn throttled_threads_and_the_fair_server_are_bounds() {
        assert_eq!(kernel("6.1.0-18-amd64", &[(RUNTIME, "950000"), PERIOD]), Ok(()));
        assert_eq!(kernel("6.12.38+deb13-amd64", &[(RUNTIME, "-1"), PERIOD]), Ok(()));
        let server = "sys/kernel/debug/sched/fair_server/cpu1/runtime";
        assert_eq!(kernel("7.3.1", &[(RUNTIME, "1000000"), PERIOD, (server, "50000000")]), Ok(()));
        assert!(kernel("7.3.1", &[(server, "0")]).is_err_and(|refusal| refusal.why.contains("cpu1")));
    }

    #[test]
    fn a_kernel_that_lets_a_thread_keep_a_cpu_is_no_place_for_a_trial() {
        for runtime in ["-1", "1000000"] {
            let refused = kernel("6.1.0-18-amd64", &[(RUNTIME, runtime), PERIOD]).unwrap_err();
            assert!(refused.why.contains("not throttled") && refused.remedy.is_some(), "{refused:?}");
        }
        assert!(kernel("6.1.0", &[]).is_err());
        assert!(kernel("5.4.0-150-generic", &[(RUNTIME, "950000"), PERIOD]).is_err());
        assert!(kernel("custom", &[(RUNTIME, "950000"), PERIOD]).is_err());
    }
}
