//! The table of all conditions. A new condition is a file in this folder and a line here.

use super::condition::Condition;
use super::set::Conditions;
use super::value::Value;

/// All conditions, in display order. They are applied from the last to the first, so the policy comes last. Until then, no real-time thread
/// preempts the rest of the machine, and no policy hides a setting from the kernel.
pub const CONDITIONS: &[Condition] = &[
    Condition::POLICY,
    Condition::NICE,
    Condition::CPU,
    Condition::TIMER_SLACK,
    Condition::SLICE,
    Condition::LOCK_MEMORY,
    Condition::DMA_LATENCY,
    Condition::MIN_FREQUENCY,
    Condition::MAX_FREQUENCY,
    Condition::EPP,
    Condition::GOVERNOR,
    Condition::IRQS_AWAY,
];

impl Condition {
    /// The condition of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        CONDITIONS.iter().copied().find(|condition| condition.name() == name)
    }
}

impl Conditions {
    /// The conditions with their values, in the order of the table.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Condition, &str)> {
        CONDITIONS.iter().filter_map(|condition| Some((*condition, self.value(*condition)?)))
    }
}

impl Value {
    /// The condition whose value it is.
    #[must_use]
    pub const fn condition(&self) -> Condition {
        match self {
            Self::Policy(_) => Condition::POLICY,
            Self::Nice(_) => Condition::NICE,
            Self::Cpu(_) => Condition::CPU,
            Self::TimerSlack(_) => Condition::TIMER_SLACK,
            Self::Slice(_) => Condition::SLICE,
            Self::LockMemory(_) => Condition::LOCK_MEMORY,
            Self::DmaLatency(_) => Condition::DMA_LATENCY,
            Self::MinFrequency(_) => Condition::MIN_FREQUENCY,
            Self::MaxFrequency(_) => Condition::MAX_FREQUENCY,
            Self::Epp(_) => Condition::EPP,
            Self::Governor(_) => Condition::GOVERNOR,
            Self::IrqsAway(_) => Condition::IRQS_AWAY,
        }
    }
}
