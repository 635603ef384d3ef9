//! The table of all conditions. A new condition is a file in this folder and a line here.

use super::condition::{Applying, Condition, Thread};
use super::reason::Reason;
use super::set::Conditions;
use super::surroundings::Surroundings;
use super::value::{Frequency, Value};
use super::{cpu, dma_latency, frequency, irqs_away, lock_memory, nice, policy, slice, timer_slack};
use crate::cpufreq::Attribute::{Governor, MaxFrequency, MinFrequency, Preference};
use crate::cpufreq::GovernorGuard;
use crate::need::Need;

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
    /// The values, in the order of the table.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Value> {
        CONDITIONS.iter().filter_map(|condition| self.value(*condition))
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

    /// Sets the value and reads it back. [`Applying::hold`] takes over each change.
    pub(super) fn apply(&self, applying: &mut Applying<'_>) -> Result<(), Reason> {
        match self {
            Self::Policy(policy) => policy::apply(*policy, applying),
            Self::Nice(nice) => nice::apply(*nice, applying),
            Self::Cpu(cpus) => cpu::apply(cpus, applying),
            Self::TimerSlack(slack) => timer_slack::apply(*slack, applying),
            Self::Slice(slice) => slice::apply(*slice, applying),
            Self::LockMemory(true) if applying.thread() != Thread::Calling => {
                Err(Reason::new("only the process itself can lock its memory", Need::OwnProcess))
            }
            Self::LockMemory(true) => lock_memory::apply(applying),
            Self::DmaLatency(latency) => dma_latency::apply(*latency, applying),
            Self::IrqsAway(true) => irqs_away::apply(applying),
            Self::MinFrequency(Frequency::Khz(khz)) => {
                frequency::apply(MinFrequency, applying, |guard| guard.set_min_khz(*khz))
            }
            Self::MinFrequency(Frequency::Highest) => {
                frequency::apply(MinFrequency, applying, GovernorGuard::set_min_to_max)
            }
            Self::MaxFrequency(Frequency::Khz(khz)) => {
                frequency::apply(MaxFrequency, applying, |guard| guard.set_max_khz(*khz))
            }
            Self::Epp(name) => frequency::apply(Preference, applying, |guard| guard.set_preference(name)),
            Self::Governor(name) => frequency::apply(Governor, applying, |guard| guard.set_governor(name)),
            Self::LockMemory(false) | Self::IrqsAway(false) | Self::MinFrequency(_) | Self::MaxFrequency(_) => {
                Err(Reason::new("this value can be read, and not be set", Need::NoRequest))
            }
        }
    }

    /// A request that no kernel setting and no privilege could fulfil here. Changes nothing.
    pub(super) fn impossible(&self, here: &Surroundings) -> Option<Reason> {
        if let Self::Cpu(cpus) = self { cpu::missing(cpus, here) } else { None }
    }
}
