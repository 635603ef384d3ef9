//! Where the sleepers are compared.

use std::time::Duration;

use punctual::{Conditions, Policy};

/// The environment of the waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Place {
    /// SCHED_OTHER, alone on the machine
    Other,
    /// The same with a busy program on the last CPU
    OtherNeighbour,
    /// SCHED_FIFO 40, alone on the machine
    Fifo,
    /// The same with a busy program on the last CPU, which a real-time thread may take from it
    FifoNeighbour,
    /// SCHED_OTHER, alone, only the polling idle state (/dev/cpu_dma_latency held at 0)
    KeptAwake,
}

impl Place {
    fn is_fifo(self) -> bool {
        matches!(self, Self::Fifo | Self::FifoNeighbour)
    }

    pub(super) fn has_neighbour(self) -> bool {
        matches!(self, Self::OtherNeighbour | Self::FifoNeighbour)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Other => "SCHED_OTHER, alone",
            Self::OtherNeighbour => "SCHED_OTHER, beside a busy neighbour",
            Self::Fifo => "SCHED_FIFO 40, alone",
            Self::FifoNeighbour => "SCHED_FIFO 40, beside a busy neighbour",
            Self::KeptAwake => "SCHED_OTHER, alone, CPUs kept awake",
        }
    }

    pub(super) fn conditions(self) -> Conditions {
        Conditions::new()
            .maybe(self.is_fifo().then_some(Policy::Fifo(40)), Conditions::policy)
            .maybe((self == Self::KeptAwake).then_some(Duration::ZERO), Conditions::dma_latency)
    }
}
