//! Locks the memory of the process, and touches 128 KiB of the calling thread's stack.
//!
//! It locks all present and future memory (`mlockall(MCL_CURRENT | MCL_FUTURE)`). Weaker forms do not help against a small limit. The
//! kernel applies the same limit to `MCL_ONFAULT`. Without `MCL_FUTURE`, later allocations can be paged out unnoticed. Guards are counted:
//! the last one unlocks, unless memory was locked before the first.

use std::cell::LazyCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use punctual_linux::{Error, memory as linux};
use rustix::io::Errno;

use super::set::{Conditions, is};
use super::surroundings::{CAP_IPC_LOCK, Reason, Surroundings, status_kib};
use super::{
    Applying, Condition, Definition, Facts, Held, InvalidValue, Probe, Scope, Target, Thread, Value, not_restored,
};
use crate::need::Need;
use crate::restore::NotRestored;

/// Required headroom below a finite limit, in KiB. Under `MCL_FUTURE` an allocation beyond the limit fails, and a
/// failed allocation aborts a Rust program. A thread needs its stack and an arena of the C library, mapped as 128 MiB.
const HEADROOM_KIB: u64 = 256 * 1024;

/// The holders of this process' memory lock.
static HOLDERS: Mutex<Holders> = Mutex::new(Holders { count: 0, before: Before::Unlocked });

#[derive(Debug)]
struct Holders {
    count: usize,
    before: Before,
}

/// The lock state before our first holder. Our last holder must not unlock memory that other code locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Unlocked,
    /// Partly locked, or unknown.
    Partly,
    Wholly,
}

struct LockMemory;

impl Condition {
    /// `lock-memory`.
    pub const LOCK_MEMORY: Self = Self(&Facts { name: "lock-memory", scope: Scope::Process, definition: &LockMemory });
}

impl Conditions {
    /// Requests a lock of all present and future memory of the *process*. Touches 128 KiB of the calling thread's stack.
    pub fn lock_memory(self) -> Self {
        self.with(Value::LockMemory(true))
    }

    /// Whether all resident memory of the process that can be locked is locked (`VmFlags` in /proc/self/smaps).
    #[must_use]
    pub fn get_lock_memory(&self) -> Option<bool> {
        let Value::LockMemory(locked) = self.value(Condition::LOCK_MEMORY)? else { return None };
        Some(*locked)
    }
}

impl Definition for LockMemory {
    fn parse(&self, typed: &str) -> Result<Value, InvalidValue> {
        if typed == "yes" { Ok(Value::LockMemory(true)) } else { Err(InvalidValue::TakesNone) }
    }

    fn read(&self, _: &Target) -> Option<Value> {
        is_locked().map(Value::LockMemory)
    }

    fn probe(&self, _: &Target) -> Probe {
        Probe::Try(Value::LockMemory(true))
    }

    fn apply(&self, applying: &mut Applying<'_>) -> Result<(), Reason> {
        let Value::LockMemory(true) = applying.value else { return Err(Applying::read_only()) };
        if applying.thread() != Thread::Calling {
            return Err(Reason::new("only the process itself can lock its memory", Need::OwnProcess));
        }
        let here = applying.here;
        too_little_room(here).map_or(Ok(()), Err)?;
        let mut holders = HOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match (is_locked(), here.locked_kib) {
            (Some(true), _) => Before::Wholly,
            (_, Some(0)) => Before::Unlocked,
            _ => Before::Partly,
        };
        linux::lock_all().map_err(|error| explain(&error, here).errno(error.errno()))?;
        if holders.count == 0 {
            holders.before = before;
        }
        holders.count += 1;
        drop(holders);
        applying.hold(Lock { lead_kib: AtomicU64::new(0) });
        linux::prefault_stack();
        match is_locked() {
            Some(true) => Ok(()),
            Some(false) => Err(Reason::new(
                "the kernel accepted it, but resident memory is not locked (VmFlags without lo in /proc/self/smaps)",
                Need::NoOtherSetter,
            )),
            None => Err(Reason::new(
                "the kernel accepted it, but /proc/self/smaps does not tell whether it holds",
                Need::Mounted("/proc"),
            )),
        }
    }
}

/// One holder of the lock.
#[derive(Debug)]
struct Lock {
    /// How much more may be resident than locked, in KiB: the largest difference at which all that can be locked was locked.
    lead_kib: AtomicU64,
}

impl Held for Lock {
    fn lost(&self) -> Option<String> {
        self.is_lost().then(|| "no".into())
    }

    fn renew(&mut self, here: &LazyCell<Surroundings>) -> Result<(), Reason> {
        // The number of holders does not change.
        linux::lock_all().map_err(|error| explain(&error, here).errno(error.errno()))
    }

    fn undo(self: Box<Self>) -> Vec<NotRestored> {
        let mut holders = HOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        holders.count = holders.count.saturating_sub(1);
        if holders.count > 0 {
            return Vec::new();
        }
        let left = match holders.before {
            Before::Unlocked => linux::unlock_all().err().map(|error| not_restored("lock-memory", "unlocked", error)),
            Before::Wholly => None,
            Before::Partly => Some(not_restored(
                "lock-memory",
                "partly locked",
                "all memory stays locked, because unlocking would also unlock what was locked before",
            )),
        };
        left.into_iter().collect()
    }
}

impl Lock {
    /// Whether something unlocked memory. It reads the mappings only when more is resident, beyond what is locked, than ever before.
    fn is_lost(&self) -> bool {
        let Some((locked, resident)) = locked_and_resident_kib() else { return false };
        let lead = resident.saturating_sub(locked);
        if locked > 0 && lead <= self.lead_kib.load(Ordering::Relaxed) {
            return false;
        }
        let lost = is_locked() == Some(false);
        if !lost {
            self.lead_kib.fetch_max(lead, Ordering::Relaxed);
        }
        lost
    }
}

/// Whether all resident memory that can be locked is locked; `None` if /proc does not show it.
fn is_locked() -> Option<bool> {
    let (locked, _) = locked_and_resident_kib()?;
    if locked == 0 { Some(false) } else { smaps_are_locked(&std::fs::read_to_string("/proc/self/smaps").ok()?) }
}

/// `VmLck` and `VmRSS`. Their difference proves no loss: the vdso is resident and cannot be locked, and Linux 6.2 and later sum up
/// `VmRSS` only roughly.
fn locked_and_resident_kib() -> Option<(u64, u64)> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    Some((status_kib(&status, "VmLck")?, status_kib(&status, "VmRSS")?))
}

/// Flags of mappings that mlockall(2) leaves out (mlock_fixup in mm/mlock.c): of devices and the kernel (`io`, `de`, `pf`, `mm`), of
/// huge pages, which are never paged out (`ht`), and droppable ones (`dp`).
const NOT_LOCKABLE: [&str; 6] = ["io", "de", "pf", "mm", "ht", "dp"];

/// Whether every mapping in the text of /proc/PID/smaps that is resident and can be locked is locked. `None`: the kernel shows no flags.
fn smaps_are_locked(smaps: &str) -> Option<bool> {
    let (mut resident, mut shows_flags) = (false, false);
    for line in smaps.lines() {
        if let Some(rest) = line.strip_prefix("Rss:") {
            resident = rest.split_whitespace().next() != Some("0");
        } else if let Some(flags) = line.strip_prefix("VmFlags:") {
            shows_flags = true;
            let has = |wanted: &str| flags.split_whitespace().any(|flag| flag == wanted);
            if resident && !has("lo") && !NOT_LOCKABLE.iter().any(|flag| has(flag)) {
                return Some(false);
            }
        }
    }
    shows_flags.then_some(true)
}

/// Refuses now a limit that the process would exceed later.
fn too_little_room(here: &Surroundings) -> Option<Reason> {
    let limit_kib = here.memlock_limit? / 1024;
    let mapped_kib = here.mapped_kib?;
    if here.has(CAP_IPC_LOCK) || limit_kib >= mapped_kib + HEADROOM_KIB {
        return None;
    }
    let why = format!(
        "at most {limit_kib} KiB may be locked (RLIMIT_MEMLOCK), {mapped_kib} KiB are mapped, and with future memory locked too, \
         allocations beyond the limit would fail: {} KiB are wanted",
        mapped_kib + HEADROOM_KIB
    );
    Some(Reason::new(why, memory_limit(here)))
}

/// Why memory could not be locked.
pub(super) fn explain(error: &Error, here: &Surroundings) -> Reason {
    let limit = here.memlock_limit.map_or_else(|| "unlimited".to_owned(), |bytes| format!("{} KiB", bytes / 1024));
    let mapped = here.mapped_kib.map(|kib| format!(", and {kib} KiB are mapped")).unwrap_or_default();
    if is(error, Errno::PERM) || is(error, Errno::NOMEM) || is(error, Errno::AGAIN) {
        return Reason::new(
            format!("{error}: without CAP_IPC_LOCK at most {limit} may be locked (RLIMIT_MEMLOCK){mapped}"),
            memory_limit(here),
        );
    }
    Reason::new(error, Need::Unknown)
}

/// The limit of locked memory, and who withholds it.
fn memory_limit(here: &Surroundings) -> Need {
    Need::MemoryLimit { within_hard_limit: here.memlock_hard_limit.is_none(), withheld: here.withheld(CAP_IPC_LOCK) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mappings of Linux 6.12: a heap, droppable memory, the kernel's own pages, and huge pages.
    const LOCKED: &str = "\
7f00-7f01 rw-p 00000000 00:00 0 [heap]\nRss: 132 kB\nVmFlags: rd wr mr mw me lo ac sd \n\
7f02-7f03 rw-p 00000000 00:00 0 [anon]\nRss: 4 kB\nVmFlags: rd wr mr mw me dp wf dd nl sd \n\
7f03-7f04 r--p 00000000 00:00 0 [vvar]\nRss: 0 kB\nVmFlags: rd mr pf io de dd sd \n\
7f04-7f05 r-xp 00000000 00:00 0 [vdso]\nRss: 4 kB\nVmFlags: rd ex mr mw me de sd \n\
7f05-7f06 rw-p 00000000 00:00 0\nRss: 2048 kB\nVmFlags: rd wr mr mw me de ht sd \n\
ffff-ffff --xp 00000000 00:00 0 [vsyscall]\nRss: 0 kB\nVmFlags: ex \n";

    #[test]
    fn only_resident_memory_that_can_be_locked_must_be() {
        assert_eq!(smaps_are_locked(LOCKED), Some(true));
        assert_eq!(smaps_are_locked(&LOCKED.replace(" lo ", " ")), Some(false));
        let untouched = LOCKED.replace(" lo ", " ").replace("Rss: 132 kB", "Rss: 0 kB");
        assert_eq!(smaps_are_locked(&untouched), Some(true));
        assert_eq!(smaps_are_locked("7f00-7f01 rw-p 00000000 00:00 0\nRss: 132 kB\n"), None, "no flags are shown");
    }

    #[test]
    fn a_finite_limit_needs_room_for_what_is_allocated_later() {
        let with = |limit_mib: u64| Surroundings {
            memlock_limit: Some(limit_mib << 20),
            mapped_kib: Some(100 * 1024),
            ..Surroundings::default()
        };
        assert!(too_little_room(&with(356)).is_none());
        let Reason { why, needs, .. } = too_little_room(&with(355)).unwrap();
        assert!(why.contains("at most 363520 KiB") && why.contains("364544 KiB are wanted"), "{why}");
        assert!(matches!(needs, Need::MemoryLimit { .. }), "{needs:?}");
        let privileged = Surroundings { capabilities: !0, ..with(1) };
        let unlimited = Surroundings { memlock_limit: None, ..with(1) };
        assert!(too_little_room(&privileged).is_none() && too_little_room(&unlimited).is_none());
    }
}
