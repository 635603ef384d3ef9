//! The warden: ends whatever the run started when the command ends, however that happens.
//!
//! A thread that a higher priority keeps off its CPU cannot die, not even by SIGKILL. Nor can the children whose end
//! is bound to it. So a small process of its own sleeps until the command's main thread is gone. It then moves the
//! rest of the command off the measured CPUs ([`rescue`]), ends the command's children, and exits.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use punctual_linux::affinity;
use punctual_linux::child::{self, Child};
use punctual_linux::death::ParentDeath;
use punctual_linux::rescue;
use punctual_linux::shared::Shared;
use rustix::process::{Pid, Signal, kill_process, setsid};

use super::place::{HURRIED, Nice};

/// Its name in `ps`.
const NAME: &str = "punctual-warden";
/// Interval of checks for remaining processes.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// Number of checks before it gives up: three seconds.
const LOOKS: u32 = 300;

/// Killed on drop, when the command has ended everything itself.
#[derive(Debug)]
pub(crate) struct Warden {
    child: Child,
}

impl Warden {
    /// Starts the process. Call it from the command's main thread.
    pub(crate) fn start() -> punctual_linux::Result<Self> {
        let owner = std::process::id() as i32;
        child::share_ids();
        let ready = Shared::<AtomicU32>::new()?;
        let theirs = ready.clone();
        let mut child = Child::spawn(NAME, move || {
            // It must survive a signal to the command's process group.
            if setsid().is_ok()
                && let Ok(death) = ParentDeath::instead_of_own()
            {
                theirs.store(1, Ordering::Release);
                std::mem::forget(Nice::lowered_to(HURRIED));
                death.wait();
                end_what_is_left(owner);
            }
        })?;
        while ready.load(Ordering::Acquire) == 0 && child.ended()?.is_none() {
            std::thread::yield_now();
        }
        Ok(Self { child })
    }

    /// Restricts it to these CPUs. A refusal is harmless: the process may then run anywhere.
    pub(crate) fn stay_on(&self, cpus: &[usize]) {
        drop(affinity::set_affinity(self.child.id(), cpus));
    }

    /// Lets it live on until the command has ended, and do its work then.
    pub(crate) fn outlive(self) {
        std::mem::forget(self);
    }
}

/// Moves the threads of the process off the measured CPUs and ends its children, until none is left.
fn end_what_is_left(owner: i32) {
    let own = std::process::id() as i32;
    for _ in 0..LOOKS {
        rescue::free_process(owner, None);
        let mut children = child::ids();
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

/// Name of the keeper of IPC names.
pub(crate) const KEEPER: &str = "punctual-keeper";

/// Whether the process has one of this project's names, so that a reused process id does no harm. The keeper of IPC
/// names is left alone: it works after the command has ended, and ends by itself.
fn is_ours(pid: i32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.starts_with("punctual-") && name.trim_end() != KEEPER
}
