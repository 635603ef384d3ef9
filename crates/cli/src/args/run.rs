//! `punctual run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use punctual::conditions::{Conditions, CpuSet, Policy};

use super::values;

/// Run a program under chosen conditions, and put everything back afterwards.
///
/// The program has this terminal and these streams; signals are passed on; its exit status is returned (128 + N when signal N
/// ended it, 127 when it was not found, 126 when it cannot be executed). A refused condition is told on stderr with its remedy and the program runs without it, unless --require is
/// given.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Scheduling policy: other, batch, idle, rr:PRIO, fifo:PRIO (1-99), deadline:RUNTIME/DEADLINE/PERIOD; threads and processes that the
    /// program starts have it too, but for deadline, under which the kernel starts them under SCHED_OTHER
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Option<Policy>,
    /// Nice value, -20 (favoured) to 19
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::nice)]
    pub(crate) nice: Option<i32>,
    /// CPUs to run on (0-3,8)
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<CpuSet>,
    /// Let the program lock its memory: no kernel passes locked memory on to a program, so only the limit is lifted
    #[arg(long)]
    pub(crate) lock_memory: bool,
    /// Timer slack
    #[arg(long, value_name = "DUR", value_parser = values::timer_slack)]
    pub(crate) timer_slack: Option<Duration>,
    /// Longest exit latency of a CPU idle state to allow while the program runs
    #[arg(long, value_name = "DUR", value_parser = values::dma_latency)]
    pub(crate) dma_latency: Option<Duration>,
    /// CPU frequency governor while the program runs, on the CPUs of --cpu, or on all
    #[arg(long, value_name = "NAME")]
    pub(crate) governor: Option<String>,
    /// Energy-performance preference while the program runs (performance, balance_performance, ..., or 0 to 255)
    #[arg(long, value_name = "PREFERENCE")]
    pub(crate) epp: Option<String>,
    /// Lowest frequency while the program runs; without a value the highest that is allowed (--min-frequency=2.2GHz)
    #[arg(long, value_name = "FREQ", num_args = 0..=1, require_equals = true, default_missing_value = "max",
          value_parser = values::frequency)]
    pub(crate) min_frequency: Option<values::Frequency>,
    /// Do not run the program when a condition is refused
    #[arg(long)]
    pub(crate) require: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Say nothing of refused conditions
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) program: Vec<OsString>,
}

impl RunArgs {
    /// What the program inherits from the thread that starts it.
    pub(crate) fn inherited(&self) -> Conditions {
        Conditions {
            nice: self.nice,
            cpus: self.cpu.clone(),
            timer_slack: self.timer_slack,
            one_way: true,
            ..Conditions::default()
        }
    }

    /// The CPUs whose frequency is concerned.
    pub(crate) fn cpus(&self) -> Vec<usize> {
        self.cpu.as_ref().map(|cpus| cpus.as_slice().to_vec()).unwrap_or_default()
    }
}
