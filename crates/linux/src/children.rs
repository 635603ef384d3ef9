//! The children that this process has now, in memory that they share: who ends them when the process cannot has to know them. Once
//! the process is gone they have another parent, and nothing else says whose they were.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::shared::Shared;

/// Most children that are known at a time; a run has some seventy at most. Further ones are not entered.
const MOST: usize = 256;

static IDS: OnceLock<Option<Shared<[AtomicI32]>>> = OnceLock::new();

fn ids() -> &'static [AtomicI32] {
    IDS.get_or_init(|| Shared::<[AtomicI32]>::slice(MOST).ok()).as_deref().unwrap_or_default()
}

/// Maps the memory, if it is not there yet: before the first child is forked that is to see later ones.
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
