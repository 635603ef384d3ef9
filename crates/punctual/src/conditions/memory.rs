//! Locking the memory of the process, and unlocking it.
//!
//! Locked is all of it, present and future (`mlockall(MCL_CURRENT | MCL_FUTURE)`). The weaker forms are not used as a way out of too
//! small a limit: the kernel holds `MCL_ONFAULT` to the same limit, and without `MCL_FUTURE` what is allocated later can be paged
//! out unnoticed.

use std::sync::{Mutex, PoisonError};

use punctual_linux::memory as linux;

use super::guard::{Steps, Undo};
use super::remedy;
use super::surroundings::{Surroundings, status_kib};
use super::{Condition, NotRestored, Refused};

/// Room that must be left below a finite limit, in KiB: under `MCL_FUTURE` an allocation beyond the limit fails, and a failed
/// allocation ends a Rust program. A thread needs its stack and, from the C library, an arena mapped as 128 MiB.
const HEADROOM_KIB: u64 = 256 * 1024;

/// Who holds the lock of this process.
static HOLDERS: Mutex<Holders> = Mutex::new(Holders { count: 0, before: Before::Unlocked });

#[derive(Debug)]
struct Holders {
    count: usize,
    before: Before,
}

/// What was locked before the first of us. The last of us must unlock nothing of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Unlocked,
    /// Some of it, or /proc does not tell.
    Partly,
    Wholly,
}

/// Whether at least as much is locked as is resident; `None` when /proc does not tell.
pub(super) fn is_locked() -> Option<bool> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let (locked, resident) = (status_kib(&status, "VmLck")?, status_kib(&status, "VmRSS")?);
    Some(locked > 0 && locked >= resident)
}

/// Whether nothing at all is locked: the kernel has no call that unlocks the memory of another process, so it is all or nothing.
pub(super) fn none_is_locked() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").ok();
    status.and_then(|status| status_kib(&status, "VmLck")) == Some(0)
}

/// Locks the memory of the process and touches the stack of the calling thread.
pub(super) fn lock(here: &Surroundings, steps: &mut Steps) -> Result<(), Refused> {
    let refuse = |why: String, remedy: String, errno| Refused {
        condition: Condition::LockMemory,
        asked: "yes".into(),
        why,
        remedy,
        errno,
    };
    if let Some((why, remedy)) = too_little_room(here) {
        return Err(refuse(why, remedy, None));
    }
    let mut holders = HOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    let before = match (is_locked(), here.locked_kib) {
        (Some(true), _) => Before::Wholly,
        (_, Some(0)) => Before::Unlocked,
        _ => Before::Partly,
    };
    linux::lock_all().map_err(|error| {
        let (why, remedy) = remedy::memory(&error, here);
        refuse(why, remedy, Some(error.errno()))
    })?;
    if holders.count == 0 {
        holders.before = before;
    }
    holders.count += 1;
    drop(holders);
    steps.push(Box::new(Lock));
    linux::prefault_stack();
    match is_locked() {
        Some(true) => Ok(()),
        Some(false) => Err(refuse(
            "the kernel accepted it, but less is locked than is resident (VmLck, VmRSS in /proc/self/status)".into(),
            "see whether something else in this process unlocks memory".into(),
            None,
        )),
        None => Err(refuse(
            "the kernel accepted it, but /proc/self/status does not tell whether it holds".into(),
            "mount /proc".into(),
            None,
        )),
    }
}

/// A limit that the process would run into later is refused now.
fn too_little_room(here: &Surroundings) -> Option<(String, String)> {
    let limit_kib = here.memlock_limit? / 1024;
    let mapped_kib = here.mapped_kib?;
    if here.may_lock_any_memory() || limit_kib >= mapped_kib + HEADROOM_KIB {
        return None;
    }
    let why = format!(
        "at most {limit_kib} KiB may be locked (RLIMIT_MEMLOCK), {mapped_kib} KiB are mapped, and with future memory locked too, \
         allocations beyond the limit would fail: {} KiB are wanted",
        mapped_kib + HEADROOM_KIB
    );
    Some((why, remedy::memory_limit(here)))
}

#[derive(Debug)]
struct Lock;

impl Undo for Lock {
    fn undo(self: Box<Self>) -> Result<(), NotRestored> {
        let mut holders = HOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        holders.count = holders.count.saturating_sub(1);
        if holders.count > 0 {
            return Ok(());
        }
        let not_restored =
            |was: &str, why: String| NotRestored { condition: Condition::LockMemory, was: was.into(), why };
        match holders.before {
            Before::Unlocked => linux::unlock_all().map_err(|error| not_restored("unlocked", error.to_string())),
            Before::Wholly => Ok(()),
            Before::Partly => Err(not_restored(
                "partly locked",
                "all memory stays locked, because unlocking would also unlock what was locked before".into(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finite_limit_needs_room_for_what_is_allocated_later() {
        let with = |limit_mib: u64| Surroundings {
            memlock_limit: Some(limit_mib << 20),
            mapped_kib: Some(100 * 1024),
            ..Surroundings::default()
        };
        assert!(too_little_room(&with(356)).is_none());
        let (why, remedy) = too_little_room(&with(355)).unwrap();
        assert!(why.contains("at most 363520 KiB") && why.contains("364544 KiB are wanted"), "{why}");
        assert!(remedy.contains("memlock unlimited"), "{remedy}");
        let privileged = Surroundings { capabilities: !0, ..with(1) };
        let unlimited = Surroundings { memlock_limit: None, ..with(1) };
        assert!(too_little_room(&privileged).is_none() && too_little_room(&unlimited).is_none());
    }
}
