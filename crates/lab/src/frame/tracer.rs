//! Who else sees the kernel's events of a run's watched rounds: the writer of a trace.

use std::fmt;

use punctual_trace::{Batch, Target};

/// Takes events on the measuring thread, while no clock runs.
pub trait Tracer: fmt::Debug + Send {
    /// These threads are watched from now on.
    fn begin(&mut self, target: &Target);

    /// The records since the last call.
    fn take(&mut self, batch: &Batch);
}
