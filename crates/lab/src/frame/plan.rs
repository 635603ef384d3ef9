//! Why a plan cannot be made: the part of the request that is wrong, and a valid example. The command adds the flag's
//! name.

use std::fmt;
use std::time::Duration;

/// A part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// Number of turns of each cell.
    Rounds,
    /// Number of samples of each series.
    Samples,
    /// Total time.
    Time,
    /// Methods, mechanisms or governors.
    Methods,
    /// The measured wait.
    Wait,
    /// The CPU of the measured thread.
    Cpu,
    /// The CPU of the sender.
    SenderCpu,
    /// Number of competitors.
    Competitors,
    /// Polls before a yield.
    Polls,
    /// Bytes of a message.
    Size,
    /// Messages that may be in flight.
    Depth,
    /// The CPUs of sender and receiver.
    Places,
    /// The CPUs of which each pair is measured.
    Matrix,
    /// Time from one message to the next.
    Interval,
    /// Number of datagrams.
    Datagrams,
    /// Destination of datagrams.
    Target,
    /// The range of a search for the highest rate.
    Sweep,
    /// The wait that verifies a calibration.
    Check,
    /// Loops per round.
    Loops,
    /// The work of a loop or an activation.
    Work,
    /// From one activation to the next.
    Period,
    /// Activations per round.
    Periods,
    /// Deadline of an activation's work, relative to the activation.
    Deadline,
    /// Governor switches per round.
    Switches,
}

impl Input {
    /// Its name in a message if no flag sets it.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Rounds => "number of rounds",
            Self::Samples => "number of samples",
            Self::Time => "duration of the run",
            Self::Methods => "method",
            Self::Wait => "wait",
            Self::Cpu => "CPU",
            Self::SenderCpu => "CPU of the sender",
            Self::Competitors => "number of competitors",
            Self::Polls => "number of polls",
            Self::Size => "size",
            Self::Depth => "queue depth",
            Self::Places => "CPUs",
            Self::Matrix => "matrix",
            Self::Interval => "interval",
            Self::Datagrams => "number of datagrams",
            Self::Target => "address",
            Self::Sweep => "range of rates",
            Self::Check => "check",
            Self::Loops => "number of loops",
            Self::Work => "work",
            Self::Period => "period",
            Self::Periods => "number of periods",
            Self::Deadline => "deadline",
            Self::Switches => "number of switches",
        }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.noun())
    }
}

/// Why a plan cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {input}: {why}")]
pub struct PlanError {
    /// The error.
    pub input: Input,
    /// The constraint, and an example.
    pub why: String,
}

impl PlanError {
    pub(crate) fn new(input: Input, why: impl Into<String>) -> Self {
        Self { input, why: why.into() }
    }
}

/// A duration as text, to two digits.
pub(crate) fn rough(duration: Duration) -> String {
    let s = duration.as_secs_f64();
    match s {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}
