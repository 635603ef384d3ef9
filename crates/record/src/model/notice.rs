//! Notices: what a reader of the figures should know. They are data; the report phrases them.

use serde::{Deserialize, Serialize};

use super::{Refusal, Unseen};

/// One notice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Notice {
    /// A condition was refused; the series were measured without it.
    ConditionRefused {
        /// Label of the condition set.
        conditions: String,
        /// What, why, remedy.
        refusal: Refusal,
    },
    /// A set of conditions was left out, since without the refused condition it would repeat another set.
    ConditionsSkipped {
        /// Label of the condition set.
        conditions: String,
        /// What, why, remedy.
        refusal: Refusal,
    },
    /// The kernel accepted a condition and then did not keep it: read back differently, or changed while measuring.
    ConditionNotKept {
        /// Label of the condition set.
        conditions: String,
        /// Which condition.
        condition: String,
        /// What was set.
        set: String,
        /// What was found.
        found: String,
        /// How many batches of samples were left out for it.
        #[serde(default)]
        left_out: u32,
    },
    /// The wall clock was set while measuring; what was measured meanwhile was left out.
    ClockStepped {
        /// By how much; back is negative. Of several times the largest.
        by_ns: i64,
        /// When it was first noticed, from the beginning of the run.
        after_ns: u64,
        /// How often: in how many batches of samples, which were left out.
        times: u32,
    },
    /// The measurement stood still and went on; what was measured meanwhile was left out, but by threads that wake up at intervals.
    Paused {
        /// What stood still.
        cause: PauseCause,
        /// For about how long altogether.
        gap_ns: u64,
        /// When it was first noticed, from the beginning of the run.
        after_ns: u64,
        /// How often: in how many batches of samples, which were left out; 0: nothing was left out.
        times: u32,
    },
    /// A part of a check-up failed; the others are reported.
    PartFailed {
        /// The part, called as in its series.
        part: String,
        /// Why.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// The hypervisor took CPU time away.
    Steal {
        /// Share of the CPUs' time, 0 to 1.
        share: f64,
    },
    /// Others used the CPUs while this run measured.
    BusyMachine {
        /// Share of all CPUs' time that was not this run's and not idle, 0 to 1.
        share: f64,
    },
    /// The rounds of a series differ more than its samples explain: the machine drifted or was disturbed.
    Unsteady {
        /// Series that are so, of those that could be judged.
        series: u32,
        /// Series that could be judged.
        judged: u32,
    },
    /// A call counts in coarser units than the wait asked for.
    Coarse {
        /// The subject.
        subject: String,
        /// What was asked.
        asked_ns: u64,
        /// What the call makes of it.
        effective_ns: u64,
    },
    /// A wait came back before its time.
    Early {
        /// The subject.
        subject: String,
        /// How often.
        count: u64,
        /// The earliest.
        min_ns: i64,
    },
    /// The run was interrupted; what had been measured is reported.
    Interrupted {
        /// The signal's name.
        signal: String,
    },
    /// The run took longer than it had announced and was ended; what had been measured is reported.
    Overdue,
    /// Threads or processes under a real-time policy were measured where nothing can surely end them in time.
    Unsupervised {
        /// What is missing.
        why: String,
        /// What would help.
        remedy: String,
    },
    /// Messages passed between CPUs that are hardware threads of one core.
    SameCore {
        /// The pairs of CPUs.
        pairs: Vec<[u32; 2]>,
    },
    /// Messages passed between CPUs of which the kernel does not tell whether they are of one core.
    CoresUnknown {
        /// The pairs of CPUs.
        pairs: Vec<[u32; 2]>,
    },
    /// A process that took part in the measurement ended in the middle of it; what had been measured is reported.
    PeerEnded {
        /// What was being measured.
        subject: String,
        /// How it ended, as in `was killed by signal 9`.
        how: String,
        /// When that was noticed, from the beginning of the run.
        after_ns: u64,
    },
    /// A real-time thread held its CPU too long and was put back under SCHED_OTHER by the watchdog.
    WatchdogTripped {
        /// Label of the condition set.
        conditions: String,
        /// CPU time without a break.
        busy_ns: u64,
    },
    /// Samples larger than the histogram can place.
    Overflow {
        /// The subject.
        subject: String,
        /// How many.
        count: u64,
    },
    /// The CPU's counter was not used, and why.
    CounterUnavailable {
        /// Why.
        why: String,
    },
    /// The kernel's events were refused: no single wake-up could be watched.
    Unseen(Unseen),
    /// Something that held before the run could not be put back.
    NotRestored {
        /// What.
        what: String,
        /// Why.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// Runs were merged of which at least one said why threads woke up late; the merged run does not.
    CausesNotMerged,
    /// Something else.
    Other {
        /// A sentence.
        text: String,
    },
}

/// What stood still while it should have measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PauseCause {
    /// The process, by a signal (SIGSTOP, or Ctrl-Z in a terminal).
    Stopped,
    /// The machine, in suspend.
    Suspended,
    /// The virtual machine: its hypervisor let none of its CPUs run.
    Machine,
}
