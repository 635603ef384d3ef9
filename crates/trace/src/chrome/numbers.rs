//! Names of what occupies a CPU. Events have numbers; their names are looked up once.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Batch, Kind, names};

/// What was looked up.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Of timers, by address; none where /proc/kallsyms does not say.
    functions: BTreeMap<u64, Option<String>>,
    idle_states: BTreeMap<u32, String>,
}

impl Numbers {
    /// Looks up the functions of a batch at once: /proc/kallsyms has a hundred thousand lines.
    pub(super) fn learn(&mut self, batch: &Batch) {
        let unknown: BTreeSet<u64> = batch
            .events
            .iter()
            .filter_map(|event| match event.kind {
                Kind::TimerExpire { function, .. } => Some(function),
                _ => None,
            })
            .filter(|function| *function != 0 && !self.functions.contains_key(function))
            .collect();
        let mut known = names::functions(&unknown);
        self.functions.extend(unknown.into_iter().map(|address| (address, known.remove(&address))));
    }

    /// The name of its slice.
    pub(super) fn name(&mut self, kind: &Kind) -> String {
        match kind {
            Kind::TimerExpire { function, .. } => match self.functions.get(function) {
                Some(Some(name)) => format!("timer {name}"),
                _ => "timer".to_owned(),
            },
            Kind::Idle { state: Some(state) } => {
                self.idle_states.entry(*state).or_insert_with(|| names::idle_state(Some(*state))).clone()
            }
            Kind::Interrupt { irq, name } => format!("interrupt {irq} {name}"),
            Kind::Softirq { vector } => format!("softirq {}", names::softirq(*vector)),
            _ => String::new(),
        }
    }
}
