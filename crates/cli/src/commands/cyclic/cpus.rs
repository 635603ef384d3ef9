//! CPU lists as cyclictest takes them, and the memory node of a CPU.

use std::path::Path;

use punctual::CpuSet;
use punctual_linux::sched;

/// The CPUs of a list that this process may have: `0-3,8`, `!2` for all others, `all`. The error has the constraint and an example.
pub(super) fn cpu_list(text: &str, allowed: &CpuSet) -> Result<CpuSet, String> {
    let text = text.trim();
    let chosen = match text.strip_prefix('!') {
        _ if text == "all" => allowed.clone(),
        Some(others) => allowed.without(&parsed(others)?),
        None => {
            let list = parsed(text)?;
            allowed.without(&allowed.without(&list))
        }
    };
    if chosen.is_empty() {
        return Err(format!("this process may use no CPU of '{text}', but CPU {allowed} (example: {allowed})"));
    }
    Ok(chosen)
}

fn parsed(list: &str) -> Result<CpuSet, String> {
    list.parse::<CpuSet>().map_err(|error| error.to_string())
}

/// The CPUs that the kernel grants a thread. It begins with fewer where some are isolated (isolcpus), or as taskset(1) says.
pub(super) fn granted(begins: &CpuSet) -> CpuSet {
    let of_all = || {
        let possible: CpuSet = std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?.parse().ok()?;
        sched::set_affinity(0, possible.as_slice()).ok()?;
        sched::affinity(0).ok().map(CpuSet::from_iter)
    };
    let thread = std::thread::Builder::new().spawn(of_all);
    thread.ok().and_then(|thread| thread.join().ok()?).unwrap_or_else(|| begins.clone())
}

/// The CPU of thread `number`: one after the other, and from the beginning again.
pub(super) fn nth(cpus: &CpuSet, number: usize) -> Option<usize> {
    cpus.as_slice().get(number.checked_rem(cpus.len())?).copied()
}

/// The memory node of a CPU; -1 on a machine without nodes.
pub(super) fn node_of(cpu: usize) -> i64 {
    let Ok(nodes) = std::fs::read_dir("/sys/devices/system/node") else { return -1 };
    let has_it = |path: &Path| path.join(format!("cpu{cpu}")).exists();
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix("node")?.parse().ok();
    nodes.flatten().map(|entry| entry.path()).filter(|path| has_it(path)).find_map(|path| number(&path)).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_to_what_is_allowed() {
        let allowed = CpuSet::from_iter([1, 2, 5]);
        let chosen = |text: &str| cpu_list(text, &allowed).map(|cpus| cpus.to_string());
        assert_eq!(chosen("0-2,7").as_deref(), Ok("1-2"));
        assert_eq!(chosen(" !2 ").as_deref(), Ok("1,5"));
        assert_eq!(chosen("all").as_deref(), Ok("1-2,5"));
        assert!(chosen("7").unwrap_err().contains("no CPU of '7', but CPU 1-2,5"));
        assert!(chosen("t4").is_err() && chosen("").is_err());
        assert_eq!([0, 1, 4].map(|number| nth(&allowed, number)), [Some(1), Some(2), Some(2)]);
    }
}
