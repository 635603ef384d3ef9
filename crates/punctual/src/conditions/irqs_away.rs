//! Moves interrupts from the measured CPUs to the others.
//!
//! The measured CPUs are the requested ones, or those of the calling thread's affinity. It writes
//! /proc/irq/*/smp_affinity_list (Documentation/core-api/irq/irq-affinity.rst). The guard restores the old values;
//! after SIGKILL the keeper does. Interrupts that the kernel does not move (per-CPU ones, managed queues) stay and are
//! reported.

use std::cell::LazyCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::set::Conditions;
use super::surroundings::{Reason, Surroundings};
use super::{Applying, Condition, Definition, Facts, Held, InvalidValue, Probe, Scope, Target, Value, cpu};
use crate::cpu_set::CpuSet;
use crate::need::Need;
use crate::restore::journal::Journal;
use crate::restore::keeper::Keeper;
use crate::restore::{Error, FileForm, Form, LockWait, NotRestored, Setting, files, put_back, replay};

/// Longest wait for another program that moves interrupts; it may be about to end.
const PATIENCE: LockWait = LockWait::AtMost(Duration::from_secs(2));
const FILE: &str = "smp_affinity_list";

static FORM: Form = Form {
    what: "interrupt affinities",
    magic: "punctual-irqs-1",
    journal: "irqs",
    lock: "irqs-lock",
    folder: "proc/irq",
    prefix: "",
    files: &[FileForm { name: FILE, accepts: is_list, is_taken_up_later: false }],
    bytes: "0-9,-",
};

fn is_list(value: &str) -> bool {
    value.len() <= 4096
        && value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b',' | b'-'))
        && value.parse::<CpuSet>().is_ok()
}

struct IrqsAway;

impl Condition {
    /// `irqs-away`.
    pub const IRQS_AWAY: Self = Self(&Facts { name: "irqs-away", scope: Scope::Machine, definition: &IrqsAway });
}

impl Conditions {
    /// Requests that movable interrupts leave the requested CPUs, or those of the calling thread's affinity.
    pub fn irqs_away(self) -> Self {
        self.with(Value::IrqsAway(true))
    }
}

impl Definition for IrqsAway {
    fn parse(&self, typed: &str) -> Result<Value, InvalidValue> {
        if typed == "yes" { Ok(Value::IrqsAway(true)) } else { Err(InvalidValue::TakesNone) }
    }

    /// The state depends on the measured CPUs, so only the guard knows it.
    fn read(&self, _: &Target) -> Option<Value> {
        None
    }

    fn probe(&self, target: &Target) -> Probe {
        let several = |online: CpuSet| match online.len() {
            0 | 1 => Err(Reason::new("there is one CPU", Need::SecondCpu)),
            _ => writable(&target.root),
        };
        Probe::Found(online(&target.root).and_then(several))
    }

    fn recover(&self, target: &Target) -> Result<Vec<String>, Reason> {
        if files::read(&target.state.path().join(FORM.journal)).is_none() {
            return Ok(Vec::new());
        }
        let _lock = target.state.lock(&FORM, PATIENCE)?;
        let mut journal = Journal::open(&target.state, FORM.journal, &FORM)?;
        let (left, told) = replay(&target.root, &mut journal)?;
        journal.settle(&left)?;
        Ok(told)
    }

    fn apply(&self, applying: &mut Applying<'_>) -> Result<(), Reason> {
        let Value::IrqsAway(true) = applying.value else { return Err(Applying::read_only()) };
        let asked = applying.cpus().cloned();
        let failed = |error| Reason::new(error, Need::MeasuredCpus);
        let cpus = asked.map_or_else(|| cpu::current(applying.thread()), Ok).map_err(failed)?;
        let Target { root, state, .. } = applying.target;
        let others = online(root)?.without(&cpus);
        if others.is_empty() {
            let why = format!("no other CPU is left for the interrupts of CPU {cpus}");
            return Err(Reason::new(why, Need::FewerCpus));
        }
        writable(root)?;
        let lock = state.lock(&FORM, PATIENCE)?;
        let mut journal = Journal::open(state, FORM.journal, &FORM)?;
        let (left, told) = replay(root, &mut journal)?;
        let found: Vec<Setting> = left.into_iter().map(|left| left.setting).collect();
        journal.begin(&found)?;
        let keeper = Keeper::start(&FORM, root, &journal.path(), None, lock)?;
        let mut away = Away { root: root.clone(), cpus, others, found, moved: Vec::new(), journal, keeper };
        let stay = away.move_all();
        applying.notes.extend(told);
        if let Ok(stay) = &stay
            && !stay.is_empty()
        {
            let cpus = &away.cpus;
            applying.notes.push(format!("the kernel lets these interrupts stay on CPU {cpus}: {}", stay.join(", ")));
        }
        applying.hold(away);
        Ok(stay.map(drop)?)
    }
}

/// Moved interrupts, and how to restore them.
#[derive(Debug)]
struct Away {
    root: PathBuf,
    cpus: CpuSet,
    others: CpuSet,
    found: Vec<Setting>,
    moved: Vec<Setting>,
    journal: Journal,
    keeper: Keeper,
}

impl Away {
    /// Moves all movable interrupts. Returns those that stay, by number and name.
    fn move_all(&mut self) -> Result<Vec<String>, Error> {
        let mut stay = Vec::new();
        for number in FORM.numbers(&self.root) {
            let folder = FORM.item(&self.root, number);
            let Some(list) = files::read(&folder.join(FILE)) else { continue };
            let Some(target) = self.target(&list) else { continue };
            let (Some(was), Some(wanted)) = (setting(number, &list), setting(number, &target)) else { continue };
            self.journal.note(&was)?;
            self.found.push(was);
            // A moved interrupt may arrive once more on its former CPU. The kernel completes many moves in the next
            // handler call.
            if files::write(&folder.join(FILE), wanted.value()).is_ok() {
                self.moved.push(wanted);
                continue;
            }
            let now = files::read(&folder.join("effective_affinity_list")).or_else(|| files::read(&folder.join(FILE)));
            let name = handler(&folder).filter(|_| now.is_some_and(|now| meet(&now, &self.cpus)));
            stay.extend(name.map(|name| format!("{number} ({name})")));
        }
        Ok(stay)
    }

    /// The new CPUs of an interrupt that may arrive on the measured ones. `None` if it arrives on none of them.
    fn target(&self, list: &str) -> Option<String> {
        let now: CpuSet = list.parse().ok()?;
        let left = now.without(&self.cpus);
        (left != now).then(|| if left.is_empty() { self.others.to_string() } else { left.to_string() })
    }
}

impl Held for Away {
    fn lost(&self) -> Option<String> {
        self.moved.iter().find_map(|moved| {
            let path = moved.path(&self.root);
            let now = files::read(&path).filter(|now| meet(now, &self.cpus))?;
            let name = path.parent().and_then(handler).unwrap_or_else(|| "without a handler".into());
            Some(format!("interrupt {} ({name}) on CPU {now}", moved.number()))
        })
    }

    fn holds(&self) -> Option<Value> {
        Some(Value::IrqsAway(self.lost().is_none()))
    }

    fn renew(&mut self, _: &LazyCell<Surroundings>) -> Result<(), Reason> {
        self.moved.iter().try_for_each(|moved| files::write(&moved.path(&self.root), moved.value()))?;
        Ok(())
    }

    fn undo(mut self: Box<Self>) -> Vec<NotRestored> {
        // An interrupt whose device is gone needs no restore.
        self.found.retain(|was| was.path(&self.root).exists());
        let left = put_back(&self.root, &self.found);
        // A journal that could not be emptied contains only restored values: following it again changes nothing.
        drop(self.journal.settle(&left));
        self.keeper.dismiss();
        left.into_iter().map(NotRestored::from).collect()
    }
}

fn setting(number: usize, list: &str) -> Option<Setting> {
    Setting::new(&FORM, FILE, number, list)
}

/// Whether the list contains one of these CPUs.
fn meet(list: &str, cpus: &CpuSet) -> bool {
    list.parse::<CpuSet>().is_ok_and(|list| list.iter().any(|cpu| cpus.contains(cpu)))
}

fn online(root: &Path) -> Result<CpuSet, Reason> {
    let path = root.join("sys/devices/system/cpu/online");
    let missing =
        || Reason::new(format!("{} does not tell which CPUs are online", path.display()), Need::Mounted("/sys"));
    files::read(&path).and_then(|online| online.parse().ok()).ok_or_else(missing)
}

/// The name of an interrupt's handler: its folder has a subfolder of that name.
fn handler(folder: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let mut names = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    names.next().map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// Whether this user may move interrupts.
fn writable(root: &Path) -> Result<(), Reason> {
    let Some(first) = FORM.numbers(root).first().copied() else {
        let why = format!("{} has no interrupt", root.join(FORM.folder).display());
        return Err(Reason::new(why, Need::InterruptFolder));
    };
    Ok(files::writable(&FORM.item(root, first).join(FILE))?)
}

#[cfg(test)]
mod tests;
