//! Applies conditions: the guard of the granted ones, which undoes them, and the refused ones.

use std::cell::LazyCell;
use std::marker::PhantomData;
use std::path::PathBuf;

use super::set::{Conditions, Lost, Refused};
use super::surroundings::{Reason, Surroundings};
use super::{Applying, CONDITIONS, Condition, Kept, Probe, Scope, Target, Thread};
use crate::need::Need;
use crate::restore::{NotRestored, StateDir};

/// Conditions in force. Dropping the guard restores the previous state. [`Guard::restore`] does the same and reports
/// failures.
///
/// A guard is bound to the thread that made it (it is not `Send`). Guards may be nested; drop the inner one first.
#[derive(Debug)]
#[must_use = "the conditions end when the guard is dropped"]
pub struct Guard {
    target: Target,
    /// The changes, in the order in which they were made. Those of a refused condition are among them until the end, not granted.
    kept: Vec<Kept>,
    notes: Vec<String>,
    bound_to_thread: PhantomData<*const ()>,
}

/// What became of requested conditions: `let Applied { guard, refused } = conditions.apply();`.
#[derive(Debug)]
#[must_use = "some conditions may be refused, and the others end when the guard is dropped"]
pub struct Applied {
    /// Holds the granted ones until it is dropped.
    pub guard: Guard,
    /// The others, with their reasons.
    pub refused: Vec<Refused>,
}

impl Conditions {
    /// Applies the conditions to the calling thread, from the last of [`CONDITIONS`] to the first. They are undone in
    /// reverse order.
    ///
    /// Never fails as a whole: see [`Applied::refused`], or [`Conditions::require`].
    pub fn apply(&self) -> Applied {
        apply(self, Target::calling_thread())
    }

    /// Like [`Conditions::apply`], to the thread of this ID, of this process or another; 0 is the calling thread. Memory can be locked
    /// by the process itself only, so [`Conditions::lock_memory`] is refused for other threads.
    pub fn apply_to(&self, tid: i32) -> Applied {
        apply(self, Target::thread(Thread::with_id(tid)))
    }

    /// Like [`Conditions::apply`], for a program that must not run without them: on a refusal, nothing stays changed.
    ///
    /// # Errors
    /// What was refused.
    pub fn require(&self) -> Result<Guard, Vec<Refused>> {
        let Applied { guard, refused } = self.apply();
        if refused.is_empty() { Ok(guard) } else { Err(refused) }
    }

    /// Like [`Conditions::apply`], with /sys and /proc below `root`, to test the conditions of the machine.
    pub fn apply_below(&self, root: impl Into<PathBuf>, state: StateDir) -> Applied {
        apply(self, Target { root: root.into(), state, ..Target::calling_thread() })
    }

    /// Requests that no kernel setting and no privilege could fulfil here, such as CPUs that the machine does not have.
    /// Changes nothing, so a command line can be refused before any change.
    #[must_use]
    pub fn impossible_here(&self) -> Option<Refused> {
        if self.is_empty() {
            return None;
        }
        let here = Surroundings::read();
        self.iter().find_map(|value| {
            let condition = value.condition();
            Some(Refused::new(condition, Some(value), condition.definition().impossible(value, &here)?))
        })
    }

    /// The current conditions of the calling thread, including those that other programs set.
    pub fn inspect() -> Self {
        read(&Target::calling_thread())
    }
}

impl Condition {
    /// Whether the condition is available here. A condition of the thread is tried on a separate thread; for the others
    /// nothing is changed.
    ///
    /// # Errors
    /// Gives the reason, and what the condition needs.
    #[allow(clippy::result_large_err, reason = "it is asked rarely, and a refusal is the same type everywhere")]
    pub fn available(self) -> Result<(), Refused> {
        let value = match self.definition().probe(&Target::calling_thread()) {
            Probe::Try(value) => value,
            Probe::Found(found) => return found.map_err(|reason| Refused::new(self, None, reason)),
        };
        let conditions = Conditions::new().with(value).allow_irreversible();
        let tried = std::thread::Builder::new().spawn(move || conditions.apply().refused).map_err(|error| {
            let reason = Reason::new(format_args!("no thread can be made to try it: {error}"), Need::Unknown);
            Refused::new(self, None, reason.errno(error.raw_os_error()))
        })?;
        let refused = tried.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        refused.into_iter().next().map_or(Ok(()), Err)
    }
}

fn read(target: &Target) -> Conditions {
    let read = |conditions: Conditions, condition: &Condition| match condition.definition().read(target) {
        Some(value) => conditions.with(value),
        None => conditions,
    };
    CONDITIONS.iter().fold(Conditions::new(), read)
}

/// Restores changes that dead programs left behind. Returns a sentence for each restored one, and the failures.
pub fn recover() -> (Vec<String>, Vec<Refused>) {
    let (mut restored, mut refused) = (Vec::new(), Vec::new());
    for condition in CONDITIONS {
        match condition.definition().recover(&Target::calling_thread()) {
            Ok(sentences) => restored.extend(sentences),
            Err(reason) => refused.push(Refused::new(*condition, None, reason)),
        }
    }
    (restored, refused)
}

fn apply(asked: &Conditions, target: Target) -> Applied {
    // The guard exists before the first change, so a panic on the way undoes the changes made so far.
    let mut guard = Guard { target, kept: Vec::new(), notes: Vec::new(), bound_to_thread: PhantomData };
    let refused = guard.make(asked, &Surroundings::at_first_use());
    Applied { guard, refused }
}

impl Guard {
    /// Makes the changes, and returns what was refused.
    fn make(&mut self, asked: &Conditions, here: &LazyCell<Surroundings>) -> Vec<Refused> {
        let mut refused = Vec::new();
        for value in asked.iter().rev() {
            let condition = value.condition();
            let mut applying = Applying {
                condition,
                value,
                here,
                target: &self.target,
                asked: asked.values(),
                allow_irreversible: asked.allows_irreversible(),
                kept: &mut self.kept,
                notes: &mut self.notes,
            };
            match condition.definition().apply(&mut applying) {
                Ok(()) => {
                    self.kept.iter_mut().filter(|kept| kept.condition == condition).for_each(|kept| kept.granted = true)
                }
                Err(reason) => refused.push(Refused::new(condition, Some(value), reason)),
            }
        }
        refused.extend(self.settle());
        refused
    }

    /// Marks conditions as refused if they do not hold once all are applied.
    fn settle(&mut self) -> Vec<Refused> {
        let mut refused = Vec::new();
        for kept in self.kept.iter_mut().filter(|kept| kept.granted) {
            if let Err(reason) = kept.held.settle() {
                kept.granted = false;
                refused.push(Refused::new(kept.condition, Some(&kept.value), reason));
            }
        }
        refused
    }

    /// The current conditions, read back from the kernel, including those not requested.
    pub fn applied(&self) -> Conditions {
        let granted = self.kept.iter().filter(|kept| kept.granted);
        granted.fold(read(&self.target), |all, kept| match kept.held.holds() {
            Some(value) => all.with(value),
            None => all,
        })
    }

    /// Remarks on the applied conditions, one sentence each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The granted conditions that the thread has lost by now. Asks the kernel. A nested guard may have set
    /// some of them to another value.
    #[must_use]
    pub fn lost(&self) -> Vec<Lost> {
        let lost = |kept: &Kept| {
            let found = kept.held.lost()?;
            Some(Lost { condition: kept.condition, set: kept.value.clone(), found })
        };
        let mut all: Vec<Lost> = self.kept.iter().rev().filter(|kept| kept.granted).filter_map(lost).collect();
        // A condition that made several changes has lost one value.
        all.dedup();
        all
    }

    /// Grants the conditions of [`Guard::lost`] again; returns those refused now. Undo still restores the original
    /// state.
    pub fn renew(&mut self, lost: &[Lost]) -> Vec<Refused> {
        let here = Surroundings::at_first_use();
        let mut refused = Vec::new();
        let is_lost = |kept: &&mut Kept| kept.granted && lost.iter().any(|lost| lost.condition == kept.condition);
        for kept in self.kept.iter_mut().filter(is_lost) {
            let renewed = kept.held.renew(&here);
            refused.extend(renewed.err().map(|reason| Refused::new(kept.condition, Some(&kept.value), reason)));
        }
        for kept in self.kept.iter_mut().filter(|kept| kept.granted) {
            let settled = kept.held.settle();
            refused.extend(settled.err().map(|reason| Refused::new(kept.condition, Some(&kept.value), reason)));
        }
        refused
    }

    /// Whether this condition was requested and granted.
    #[must_use]
    pub fn grants(&self, condition: Condition) -> bool {
        self.kept.iter().any(|kept| kept.granted && kept.condition == condition)
    }

    /// Restores the previous state and returns the failures. An empty list means that everything is restored.
    pub fn restore(mut self) -> Vec<NotRestored> {
        self.undo()
    }

    /// Ends the conditions of this scope and returns the failures; the others stay. For a thread whose started program
    /// inherits its conditions.
    pub fn end(&mut self, scope: Scope) -> Vec<NotRestored> {
        let ending = |kept: &mut Kept| kept.condition.scope() == scope;
        let ended: Vec<Kept> = self.kept.extract_if(.., ending).collect();
        ended.into_iter().rev().flat_map(|kept| kept.held.undo()).collect()
    }

    /// Leaves the conditions in force for the life of the thread (memory and C-states: of the process). For a program
    /// that goes on to `exec` another, or a thread that does nothing else.
    pub fn leave_in_force(mut self) {
        // What is dropped without `undo` stays in force, but for a file that holds a setting while it is open.
        let held = self.kept.drain(..).filter(|kept| kept.condition.scope() != Scope::Thread);
        held.for_each(std::mem::forget);
    }

    fn undo(&mut self) -> Vec<NotRestored> {
        std::iter::from_fn(|| self.kept.pop()).flat_map(|kept| kept.held.undo()).collect()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Drop cannot report failures; `restore` does.
        drop(self.undo());
    }
}
