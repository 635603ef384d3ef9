//! What culprits are called.

use std::collections::BTreeMap;

use crate::culprit::Culprit;
use crate::names;

/// The names of all that was seen.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    functions: BTreeMap<u64, String>,
}

impl Labels {
    pub(crate) fn naming<'a>(culprits: impl Iterator<Item = &'a Culprit>) -> Self {
        let addresses = culprits.filter_map(|culprit| match culprit {
            Culprit::Function(address) => Some(*address),
            _ => None,
        });
        Self { functions: names::functions(&addresses.collect()) }
    }

    /// None for what has no name.
    pub(crate) fn label(&self, culprit: Culprit) -> Option<String> {
        Some(match culprit {
            Culprit::Nobody => return None,
            Culprit::Thread(name, prio) => match names::policy(prio) {
                Some(policy) => format!("{name} ({policy})"),
                None => name.to_string(),
            },
            Culprit::Interrupt(name) => name.to_string(),
            Culprit::Softirq(vector) => names::softirq(vector),
            Culprit::Function(address) => {
                self.functions.get(&address).cloned().unwrap_or_else(|| format!("{address:#x}"))
            }
            Culprit::Idle(state) => names::idle_state(state),
        })
    }

    /// A waker that is no thread stands in parentheses.
    pub(crate) fn waker(&self, culprit: Culprit) -> String {
        let name = self.label(culprit).unwrap_or_else(|| "interrupt".to_owned());
        match culprit {
            Culprit::Thread(..) => name,
            Culprit::Softirq(_) => format!("(softirq {name})"),
            Culprit::Function(_) => format!("(timer {name})"),
            _ => format!("({name})"),
        }
    }
}
