//! The waits that a program makes through the C library, by call site. The subject is the function.
//!
//! A call site has up to three series. `lateness` is of the waits whose time was over, and `away` has the time waited for events. `call_cost`
//! is of calls that cannot block, of which one in 64 is timed. Metrics and CPU time stand in the first of them.

use serde::{Deserialize, Serialize};

/// What was asked: who calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parameters {
    /// The program's name (`/proc/PID/comm`).
    pub program: String,
    /// The file and the function of it that calls, `libfoo.so:poll_loop`; `libfoo.so+0x12ab` where the function has no name.
    pub site: String,
}

metrics! {
    /// The results beside the samples.
    pub struct Metrics {
        /// Calls that began.
        calls: u64 => sum,
        /// Calls that looked without waiting and found nothing to do.
        nothing: u64 => sum,
        /// Calls that an event ended, or that found one.
        events: u64 => sum,
        /// Calls whose time was over.
        expired: u64 => sum,
        /// Calls that a signal ended, or that failed.
        failed: u64 => sum,
        /// The time asked, median: exact where all asked the same, else to 6.3 %.
        asked_p50_ns: i64 => mean,
        /// The sum of their lateness, exact.
        late_total_ns: u64 => sum,
        /// Time in calls that can block.
        waited_ns: u64 => sum,
        /// Share of the yields during which another thread ran, from one yield in 64.
        let_run_share: f64 => mean,
    }
}
