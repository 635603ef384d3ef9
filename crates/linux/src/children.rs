//! The present children of this process, in shared memory. The warden ends them if the process dies. The kernel gives them another parent
//! then, and keeps no record of the first.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::shared::Shared;

/// Most children recorded at a time; a run has at most about seventy. Further ones are not recorded.
const MOST: usize = 256;

static IDS: OnceLock<Option<Shared<[AtomicI32]>>> = OnceLock::new();

fn ids() -> &'static [AtomicI32] {
    IDS.get_or_init(|| Shared::<[AtomicI32]>::slice(MOST).ok()).as_deref().unwrap_or_default()
}

/// Maps the memory once; call it before forking a child that must see later ones.
pub fn share() {
    ids();
}

/// Process ids of the children that have not been reaped.
#[must_use]
pub fn all() -> Vec<i32> {
    ids().iter().map(|id| id.load(Ordering::Acquire)).filter(|id| *id != 0).collect()
}

pub(crate) fn enter(pid: i32) {
    let free = |id: &&AtomicI32| id.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    ids().iter().find(free);
}

pub(crate) fn leave(pid: i32) {
    let its = |id: &&AtomicI32| id.compare_exchange(pid, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    ids().iter().find(its);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Child;

    #[test]
    fn a_child_is_known_until_it_is_reaped() {
        let mut child = Child::spawn("known", || std::thread::sleep(std::time::Duration::from_secs(3600))).unwrap();
        assert!(all().contains(&child.id()));
        child.kill().unwrap();
        assert!(!all().contains(&child.id()));
    }
}
