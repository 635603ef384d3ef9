//! What a frequency guard costs a program: making it (lock, journal, keeper), setting a governor, and putting it back. The tree
//! of ordinary files shows the guard's own cost and not the driver's.

use std::time::{Duration, Instant};

use punctual::cpufreq::Cpufreq;
use punctual::restore::{LockWait, StateDir};

const TIMES: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::temp_dir().join(format!("guard-cost-{}", std::process::id()));
    let policy = root.join("sys/devices/system/cpu/cpufreq/policy0");
    std::fs::create_dir_all(&policy)?;
    for (file, value) in [
        ("scaling_governor", "ondemand"),
        ("scaling_available_governors", "performance ondemand"),
        ("affected_cpus", "0"),
    ] {
        std::fs::write(policy.join(file), format!("{value}\n"))?;
    }
    let cpufreq = Cpufreq::at(&root, StateDir::at(root.join("state")));
    let mut parts: [Vec<Duration>; 3] = Default::default();
    for _ in 0..TIMES {
        let begin = Instant::now();
        let mut guard = cpufreq.guard(&[0], LockWait::No)?;
        let made = Instant::now();
        guard.set_governor("performance")?;
        let set = Instant::now();
        assert!(guard.restore().is_empty());
        let end = Instant::now();
        for (part, took) in parts.iter_mut().zip([made - begin, set - made, end - set]) {
            part.push(took);
        }
    }
    std::fs::remove_dir_all(&root)?;
    for (name, mut part) in ["make", "set", "put back"].into_iter().zip(parts) {
        part.sort_unstable();
        println!("{name}: p50 {:?}, p90 {:?}", part[TIMES / 2], part[TIMES * 9 / 10]);
    }
    Ok(())
}
