//! The warden: what this run holds ends with the command, however the command ends.
//!
//! A thread that a higher priority keeps from its CPU cannot die, not even by SIGKILL; nor can the children whose end is bound to it. So a small
//! process of its own sleeps until the command's main thread is gone. Then it frees what is left of the command from the measured CPUs
//! ([`rescue`]), ends the command's children, and ends itself.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use punctual_linux::affinity;
use punctual_linux::child::Child;
use punctual_linux::children;
use punctual_linux::death::ParentDeath;
use punctual_linux::rescue;
use punctual_linux::shared::Shared;
use rustix::process::{Pid, Signal, kill_process, setsid};

use crate::place;

/// Its name in `ps`.
const NAME: &str = "punctual-warden";
/// Between two looks at what is left.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// Looks until it gives up on what still lives: three seconds.
const LOOKS: u32 = 300;

/// Killed on drop: then the command has ended everything itself.
#[derive(Debug)]
pub(crate) struct Warden {
    child: Child,
}

impl Warden {
    /// Starts the process. To be called by the thread whose end is that of the command.
    pub(crate) fn start() -> punctual_linux::Result<Self> {
        let owner = std::process::id() as i32;
        children::share();
        let ready = Shared::<AtomicU32>::new()?;
        let theirs = ready.clone();
        let mut child = Child::spawn(NAME, move || {
            // It must survive a signal to the process group of the command.
            if setsid().is_ok()
                && let Ok(death) = ParentDeath::instead_of_own()
            {
                theirs.store(1, Ordering::Release);
                place::hurry();
                death.wait();
                end_what_is_left(owner);
            }
        })?;
        while ready.load(Ordering::Acquire) == 0 && child.ended()?.is_none() {
            std::thread::yield_now();
        }
        Ok(Self { child })
    }

    /// Lets it run on these CPUs only. A refusal changes nothing that matters: it then may run anywhere.
    pub(crate) fn stay_on(&self, cpus: &[usize]) {
        drop(affinity::set_affinity(self.child.id(), cpus));
    }

    /// Lets it live until the command has ended, and do its work then.
    pub(crate) fn outlive(self) {
        std::mem::forget(self);
    }
}

/// Frees the threads of the process and ends its children, until none is left.
fn end_what_is_left(owner: i32) {
    let own = std::process::id() as i32;
    for _ in 0..LOOKS {
        rescue::free_process(owner, None);
        let mut children = children::all();
        children.retain(|child| *child != own && is_ours(*child) && !rescue::threads_of(*child).is_empty());
        for child in &children {
            rescue::free_process(*child, None);
            if let Some(pid) = Pid::from_raw(*child) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        if children.is_empty() && rescue::threads_of(owner).is_empty() {
            return;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// Whether the process has one of the names that this project gives, so that a number used again is no danger. The keeper of IPC names is
/// left alone: its work begins when the command has ended, and it ends by itself.
fn is_ours(pid: i32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.starts_with("punctual-") && name.trim_end() != crate::ipc::keeper::NAME
}
