//! Names for what events give as numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::io::{BufRead as _, BufReader};
use std::sync::{Mutex, PoisonError};

use punctual_record::CulpritPolicy;

use crate::event::Name;

/// The softirqs in the order of include/linux/interrupt.h, as in /proc/softirqs.
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// The softirq of this number.
pub(crate) fn softirq(vector: u32) -> String {
    SOFTIRQS.get(vector as usize).map_or_else(|| format!("softirq {vector}"), |name| (*name).to_owned())
}

/// The idle state of this number: its name in cpuidle's sysfs, or `halt` where the kernel has no cpuidle driver.
pub(crate) fn idle_state(state: Option<u32>) -> String {
    if state.is_none() {
        return "idle loop".to_owned();
    }
    let named =
        state.and_then(|state| read_to_string(format!("/sys/devices/system/cpu/cpu0/cpuidle/state{state}/name")).ok());
    named.map_or_else(|| "halt".to_owned(), |name| name.trim().to_owned())
}

/// Whether idle state 0 is a loop that polls, which nothing has to leave.
pub(crate) fn idle_state_0_polls() -> bool {
    let name = read_to_string("/sys/devices/system/cpu/cpu0/cpuidle/state0/name");
    // Without a driver, only the loop of idle=poll has the number 0 (kernel/sched/idle.c).
    name.map_or(true, |name| name.trim() == "POLL")
}

/// The address of a kernel function; none for those who may not know it (`kernel.kptr_restrict`).
pub(crate) fn address_of(function: &str) -> Option<u64> {
    symbols(|address, name| (name == function).then_some(address))
}

/// The same of several, in one reading.
pub(crate) fn addresses_of<const N: usize>(functions: [&str; N]) -> [Option<u64>; N] {
    let mut found = [None; N];
    symbols(|address, name| {
        let at = functions.iter().position(|function| *function == name)?;
        found[at] = Some(address);
        found.iter().all(Option::is_some).then_some(())
    });
    found
}

/// Functions that were looked up: reading all symbols takes tens of milliseconds.
static LOOKED_UP: Mutex<BTreeMap<u64, Option<String>>> = Mutex::new(BTreeMap::new());

/// The names of kernel functions.
pub(crate) fn functions(addresses: &BTreeSet<u64>) -> BTreeMap<u64, String> {
    let mut known = LOOKED_UP.lock().unwrap_or_else(PoisonError::into_inner);
    if addresses.iter().any(|address| !known.contains_key(address)) {
        known.extend(addresses.iter().map(|address| (*address, None)));
        symbols(|address, name| {
            if let Some(unnamed @ None) = known.get_mut(&address) {
                *unnamed = Some(name.to_owned());
            }
            None::<()>
        });
    }
    addresses.iter().filter_map(|address| Some((*address, known.get(address)?.clone()?))).collect()
}

/// The functions around these addresses, which need not be their beginnings.
pub(crate) fn enclosing(addresses: &BTreeSet<u64>) -> BTreeMap<u64, String> {
    let mut nearest: BTreeMap<u64, (u64, String)> = BTreeMap::new();
    if addresses.is_empty() {
        return BTreeMap::new();
    }
    symbols(|begin, name| {
        // Symbols are in no order: of those before an address, the last one is around it.
        for address in addresses.range(begin..begin.saturating_add(FUNCTION)) {
            let known = nearest.entry(*address).or_insert_with(|| (begin, name.to_owned()));
            if known.0 < begin {
                *known = (begin, name.to_owned());
            }
        }
        None::<()>
    });
    nearest.into_iter().map(|(address, (_, name))| (address, name)).collect()
}

/// The name of a block device, by its number in the kernel.
pub(crate) fn block_device(number: u32) -> Option<String> {
    let (major, minor) = (number >> 20, number & 0xf_ffff);
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

/// The path of a file within its file system, as it is below the file system's mount point, if it has one here. The shortest mount point
/// of several is taken.
pub(crate) fn mounted(path: &str, device: u32, mounts: &[Mount]) -> String {
    let below = |mount: &Mount| {
        let rest = if mount.root == "/" { path } else { path.strip_prefix(mount.root.as_str())? };
        let point = mount.point.trim_end_matches('/');
        rest.starts_with('/').then(|| format!("{point}{rest}"))
    };
    let paths = mounts.iter().filter(|mount| mount.device == device).filter_map(below);
    paths.min_by_key(String::len).unwrap_or_else(|| path.to_owned())
}

/// A file system and where it is mounted.
#[derive(Debug, Clone)]
pub(crate) struct Mount {
    /// Its number in the kernel.
    device: u32,
    /// The folder of the file system that is mounted.
    root: String,
    point: String,
}

/// Those of this process, from /proc/self/mountinfo (proc(5)).
pub(crate) fn mounts() -> Vec<Mount> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(Mount::read).collect()
}

impl Mount {
    fn read(line: &str) -> Option<Self> {
        let mut fields = line.split(' ').skip(2);
        let (major, minor) = fields.next()?.split_once(':')?;
        let device = major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?;
        let mut path = || Some(fields.next()?.replace("\\040", " "));
        Some(Self { device, root: path()?, point: path()? })
    }
}

/// Bytes of a large function.
const FUNCTION: u64 = 1 << 16;

/// Looks at the symbols of /proc/kallsyms until `found` returns something.
fn symbols<T>(mut found: impl FnMut(u64, &str) -> Option<T>) -> Option<T> {
    let file = std::fs::File::open("/proc/kallsyms").ok()?;
    for line in BufReader::new(file).lines() {
        let line = line.ok()?;
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let name = words.nth(1)?;
        // Zero: who may not know it, and per-CPU variables of x86 before Linux 6.15.
        if address != 0
            && let Some(found) = found(address, name)
        {
            return Some(found);
        }
    }
    None
}

/// Whether threads have the numbers here that events give them: `PROC_PID_INIT_INO` (include/linux/proc_ns.h).
pub(crate) fn numbers_are_the_machines() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

/// The number that the next thread of the machine gets, unless numbers wrap (/proc/loadavg shows the last one).
pub(crate) fn next_thread() -> i32 {
    let text = read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().last().and_then(|last| last.parse::<i32>().ok()).map_or(1, |last| last + 1)
}

/// The process of a thread; none once it has ended.
pub(crate) fn process_of(tid: i32) -> Option<u32> {
    let text = read_to_string(format!("/proc/{tid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// The name of a thread and the kernel's priority of it, from `/proc/TID/stat`; none once it has ended.
pub(crate) fn thread(tid: i32) -> Option<(Name, i32)> {
    let stat = std::fs::read(format!("/proc/{tid}/stat")).ok()?;
    // The name may hold parentheses and any bytes.
    let [open, close] = [stat.iter().position(|byte| *byte == b'(')?, stat.iter().rposition(|byte| *byte == b')')?];
    let fields = String::from_utf8_lossy(&stat[close + 1..]);
    // proc_pid_stat(5): the 18th field is the priority from 0 for nice -20; real-time ones are negative.
    let priority: i32 = fields.split_whitespace().nth(15)?.parse().ok()?;
    Some((Name::new(stat.get(open + 1..close)?), priority + 100))
}

/// The policy and priority that a kernel priority stands for; none for SCHED_OTHER at nice 0.
pub(crate) fn policy(prio: i32) -> Option<CulpritPolicy> {
    match prio {
        ..0 => Some(CulpritPolicy::Deadline),
        0..100 => Some(CulpritPolicy::RealTime(99 - prio)),
        120 => None,
        nice => Some(CulpritPolicy::Nice(nice - 120)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_those_of_the_man_page() {
        assert_eq!(policy(59).unwrap().to_string(), "real-time 40");
        assert_eq!(policy(-1).unwrap().to_string(), "SCHED_DEADLINE");
        assert_eq!((policy(120), policy(139)), (None, Some(CulpritPolicy::Nice(19))));
        for prio in [-1, 59, 139] {
            let culprit = format!("a (b) ({})", policy(prio).unwrap());
            assert_eq!(CulpritPolicy::in_name(&culprit), policy(prio), "{culprit}");
        }
        assert_eq!((softirq(3).as_str(), softirq(77).as_str()), ("NET_RX", "softirq 77"));
    }

    #[test]
    fn a_thread_has_its_name_and_priority() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let (name, prio) = thread(own).unwrap();
        let comm = read_to_string(format!("/proc/{own}/comm")).unwrap();
        assert_eq!(name.to_string(), comm.trim_end());
        // Tests may run under any policy.
        assert!((-1..140).contains(&prio), "{prio}");
        assert_eq!(thread(i32::MAX), None);
    }

    #[test]
    fn a_function_is_found_by_name_and_by_address() {
        if !punctual_testing::needs_root("to see addresses in /proc/kallsyms") {
            return;
        }
        let Some(address) = address_of("hrtimer_wakeup") else {
            return punctual_testing::skip("/proc/kallsyms shows no addresses: sysctl kernel.kptr_restrict");
        };
        assert_eq!(functions(&[address].into())[&address], "hrtimer_wakeup");
        assert_eq!(address_of("no_such_function"), None);
    }

    #[test]
    fn a_file_has_the_path_that_its_mount_point_gives_it() {
        let lines = [
            "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw",
            "31 22 0:27 / /var/lib/own\\040data rw shared:3 - tmpfs none rw",
            "32 22 0:27 / /mnt rw - tmpfs none rw",
            "40 22 8:17 /volumes/a /srv rw - btrfs /dev/sdb1 rw",
            "no mount",
        ];
        let mounts: Vec<Mount> = lines.iter().filter_map(|line| Mount::read(line)).collect();
        let device = |major: u32, minor: u32| major << 20 | minor;
        let path = |path, device| mounted(path, device, &mounts);
        assert_eq!(path("/etc/hosts", device(254, 0)), "/etc/hosts");
        assert_eq!(path("/orders.db", device(0, 27)), "/mnt/orders.db");
        assert_eq!(path("/volumes/a/web/x", device(8, 17)), "/srv/web/x");
        // Of another folder than the mounted one, of a file system that is mounted elsewhere, or only its last names.
        assert_eq!(path("/volumes/ab/x", device(8, 17)), "/volumes/ab/x");
        assert_eq!(path("/x", device(0, 99)), "/x");
        assert_eq!(path("data/orders.db", device(0, 27)), "data/orders.db");
        assert_eq!(mounted("/x", device(0, 27), &mounts[1..2]), "/var/lib/own data/x");
    }
}
