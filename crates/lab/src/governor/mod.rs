//! CPU frequency: how a fixed piece of work speeds up under each governor, and what switching governors takes.
//!
//! [`ramp`] lets a thread repeat the same work from a rested CPU and keeps the duration of every loop; [`switch`] changes the governor at a
//! known moment while another thread loops; [`boost`] has a periodic task run as the machine is, with its speed raised around each activation, and at
//! full speed all the time. All take [`Work`](punctual::cpufreq::Work) as their clockwork, and `frame` is what they share. Where the machine shows
//! no cpufreq, the loops are measured all the same: they show what the hypervisor, throttling and others take.

pub mod boost;
mod frame;
pub mod ramp;
mod settle;
pub mod switch;
mod under;

pub use frame::Thread;
pub use under::{Asked, SetGovernor, Under};

/// Why the experiment could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No thread could be started.
    #[error("starting a thread: {0}; {remedy}", remedy = crate::no_thread::remedy())]
    Thread(#[from] std::io::Error),
    /// The settings could not be read or changed.
    #[error("{0}; {remedy}", remedy = .0.remedy())]
    Cpufreq(#[from] punctual::cpufreq::Error),
    /// A condition was refused or lost, and the caller insists on it.
    #[error(transparent)]
    Unmet(#[from] crate::Unmet),
}

/// Why a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Nothing to measure.
    #[error("{0} must be at least 1")]
    None(&'static str),
    /// A piece of work too short to be timed or too long to be a loop.
    #[error("--work {}: from 10us, so that reading the clock does not count, to 100ms", punctual::format_duration(*.0))]
    Work(std::time::Duration),
    /// A real-time thread would hold its CPU longer than the kernel lets it.
    #[error(
        "{loops} loops of {} under a real-time policy would hold the CPU for more than {}, and the kernel would interfere \
         (sched_rt_runtime_us); ask for {fits} loops or fewer, or for --policy other",
        punctual::format_duration(*work),
        punctual::format_duration(ramp::LONGEST_REAL_TIME)
    )]
    HoldsCpu {
        /// Loops asked for.
        loops: u32,
        /// Their work.
        work: std::time::Duration,
        /// How many would do.
        fits: u32,
    },
    /// Work that does not fit into its period.
    #[error("--{name} {}: less than --period {}", punctual::format_duration(*.length), punctual::format_duration(*.period))]
    Period {
        /// The flag: work, or deadline.
        name: &'static str,
        /// Its value.
        length: std::time::Duration,
        /// The period.
        period: std::time::Duration,
    },
    /// A deadline that no CPU can meet.
    #[error(
        "--deadline {}: longer than --work {}, which is what the work takes at full speed",
        punctual::format_duration(*.deadline),
        punctual::format_duration(*.work)
    )]
    Deadline {
        /// The deadline.
        deadline: std::time::Duration,
        /// The work.
        work: std::time::Duration,
    },
    /// More time than is begun without a word.
    #[error("this would take about {}; ask for fewer rounds, loops or periods", punctual::format_duration(*.0))]
    Endless(std::time::Duration),
}
