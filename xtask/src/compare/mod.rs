//! Comparisons with peers: each runs `punctual` and the peer interleaved, and shows percentiles of both.

mod cyclictest;
mod ipc;
mod pace;
mod pairs;
mod percentile;
mod programs;
mod progress;
mod sleep;
mod yielding;

use clap::Subcommand;

/// The peer to compare with.
#[derive(Subcommand)]
pub(crate) enum Peer {
    /// clock_nanosleep to an absolute time under SCHED_FIFO: punctual, cyclictest and a bare C loop
    Cyclictest {
        /// Turns of each
        #[arg(long, default_value_t = 10)]
        turns: u32,
        /// Waits of 1 ms in each turn
        #[arg(long, default_value_t = 1000)]
        waits: u32,
        /// SCHED_FIFO priority of all three
        #[arg(long, default_value_t = 40)]
        priority: u8,
    },
    /// The library's sleeper: hybrid, compensated and native, with spin_sleep, std and tokio, and the oracle
    Sleep {
        /// Only in these places [default: all]
        places: Vec<sleep::Place>,
        /// Rounds: one turn per peer and duration
        #[arg(long, default_value_t = 30)]
        rounds: u32,
        /// Write a plot of lateness against CPU time, for the first place
        #[arg(long, value_name = "FILE")]
        svg: Option<std::path::PathBuf>,
    },
    /// The same wait with and without the progress line on a terminal
    Progress {
        /// Turns of each
        #[arg(long, default_value_t = 20)]
        turns: u32,
        /// Waits of 200 µs in each turn
        #[arg(long, default_value_t = 5000)]
        waits: u32,
    },
    /// Ping-pong through each mechanism: punctual and a C program of the same calls; pmqtest and perf bench sched pipe
    Ipc {
        /// Only these mechanisms (`ring`: the library's ring beside two flags) [default: all, with pmqtest and perf]
        only: Vec<String>,
        /// Turns of each
        #[arg(long, default_value_t = 21)]
        turns: u32,
        /// Round trips in each turn
        #[arg(long, default_value_t = 2000)]
        messages: u32,
        /// The two processes' CPUs
        #[arg(long, num_args = 2, value_names = ["CPU", "CPU"], default_values_t = [0, 0])]
        cpus: Vec<usize>,
        /// Fail if the median of a mechanism is surely more than N times that of the C program
        #[arg(long, default_value_t = 1.05)]
        limit: f64,
    },
    /// The highest rate of datagrams over the loopback: punctual's pacing and a bare C loop of send()
    Pace {
        /// Turns of each
        #[arg(long, default_value_t = 9)]
        turns: u32,
        /// Datagrams in each turn
        #[arg(long, default_value_t = 100_000)]
        datagrams: u32,
        /// CPUs of the sender and of the C program's receiver
        #[arg(long, num_args = 2, value_names = ["CPU", "CPU"], default_values_t = [1, 0])]
        cpus: Vec<usize>,
    },
    /// Real programs with `punctual why` and without: output and exit status, causes, and what watching costs
    Programs {
        /// Only those whose names contain one of these
        only: Vec<String>,
        /// Pairs of turns, in the order ABBA
        #[arg(long, default_value_t = 6)]
        pairs: u32,
        /// This binary instead of a release build
        #[arg(long, value_name = "FILE")]
        binary: Option<std::path::PathBuf>,
        /// Print the Debian packages of the programs, and measure nothing
        #[arg(long)]
        packages: bool,
    },
    /// Real programs under each remedy of `punctual run` and without: output and exit status, gains, CPU time
    Remedies {
        /// Only those whose names contain one of these
        only: Vec<String>,
        /// Rounds: a turn under each remedy; fewer than 9 show no difference
        #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
        rounds: u32,
        /// This binary instead of a release build; the libraries are beside it
        #[arg(long, value_name = "FILE")]
        binary: Option<std::path::PathBuf>,
        /// Print the Debian packages of the programs, and measure nothing
        #[arg(long)]
        packages: bool,
    },
    /// Each way of yielding, alone on its CPU: punctual and a bare C loop of the same call
    Yield {
        /// Turns of each
        #[arg(long, default_value_t = 51)]
        turns: u32,
        /// The CPU
        #[arg(long, default_value_t = 1)]
        cpu: usize,
    },
}

/// Runs the comparison.
pub(crate) fn run(peer: &Peer) -> anyhow::Result<()> {
    match *peer {
        Peer::Ipc { ref only, turns, messages, ref cpus, limit } => {
            ipc::run(&ipc::Request { only, turns, messages, cpus: (cpus[0], cpus[1]), limit })
        }
        Peer::Cyclictest { turns, waits, priority } => cyclictest::run(turns, waits, priority),
        Peer::Progress { turns, waits } => progress::run(turns, waits),
        Peer::Pace { turns, datagrams, ref cpus } => pace::run(turns, datagrams, (cpus[0], cpus[1])),
        Peer::Programs { ref only, pairs, ref binary, packages } => {
            programs::run(&programs::Choice { only, binary: binary.as_deref(), packages }, pairs)
        }
        Peer::Remedies { ref only, rounds, ref binary, packages } => {
            programs::remedies::run(&programs::Choice { only, binary: binary.as_deref(), packages }, rounds)
        }
        Peer::Yield { turns, cpu } => yielding::run(turns, cpu),
        Peer::Sleep { ref places, rounds, ref svg } => sleep::run(places, rounds, svg.as_ref()),
    }
}
