//! Experiments on the frequency of a CPU: how it rises, who changes it, and what that does for a periodic task.

/// Loops of equal work, from rest to full speed. The subject is the governor, or `as found`.
pub mod ramp {
    metrics! {
        /// The request: it identifies a series.
        #[derive(Default)]
        pub struct Parameters {
            /// Loops per round.
            loops: u32,
            /// What a loop takes at full speed.
            work_ns: i64,
            /// Rest before each round.
            rest_ns: i64,
        }

        /// The results beside the samples.
        pub struct Metrics {
            /// The CPU.
            cpu: u32 => same,
            /// Steps of work in a loop.
            steps: i64 => mean,
            /// The fastest loop of the run.
            best_ns: i64 => least,
            /// The first loop after the rest, median of the rounds.
            first_ns: i64 => mean,
            /// The last loop, median of the rounds.
            final_ns: i64 => mean,
            /// Rounds that reached full speed.
            rounds_at_full_speed: u64 => sum,
            /// Work until full speed, median of the rounds that reached it, where most did.
            to_full_speed_ns: i64 => mean,
            /// Frequency transitions that the kernel counted, all rounds together.
            transitions: u64 => sum,
            /// Frequency after the last loop, median of the rounds.
            ended_khz: i64 => mean,
            /// Driver of the CPU's frequency.
            driver: String => same,
            /// Highest frequency allowed.
            max_khz: i64 => same,
            /// Governor threads that were raised for the run.
            raised: String => same,
            /// Why it did not reach full speed.
            why: String => same,
            /// Share of the loops that were interrupted.
            interrupted_share: f64 => mean,
            /// What an interrupted loop lost, median.
            interruption_ns: i64 => mean,
            /// Spread of the loops without what interrupted them, as a share of their median.
            own_spread: f64 => mean,
        }
    }
}

/// A change from one governor to another. The subject names both, as `powersave to performance`.
pub mod switch {
    metrics! {
        /// What was asked: the subject says it all.
        pub struct Parameters {}

        /// The results beside the samples.
        pub struct Metrics {
            /// The CPU that loops.
            cpu: u32 => same,
            /// The CPU that switches.
            switched_from_cpu: u32 => same,
            /// What a loop takes.
            loop_ns: i64 => mean,
            /// A loop before the switch, median.
            before_ns: i64 => mean,
            /// A loop after it has settled, median.
            after_ns: i64 => mean,
            /// Switches whose effect was not seen.
            not_seen: u64 => sum,
        }
    }
}

/// A periodic task as found, boosted around its activations, and at full speed. The subject says which.
pub mod boost {
    use std::collections::BTreeMap;

    metrics! {
        /// The request: it identifies a series.
        pub struct Parameters {
            /// From one activation to the next.
            period_ns: i64,
            /// Work of an activation, as it takes at full speed.
            work_ns: i64,
            /// From an activation to the time when its work must be done.
            deadline_ns: i64,
            /// Activations per round.
            periods: u32,
        }

        /// The results beside the samples.
        pub struct Metrics {
            /// The CPU.
            cpu: u32 => same,
            /// The governor as found, under which the task ran.
            governor: String => same,
            /// Highest frequency allowed.
            max_khz: i64 => same,
            /// Steps of work in an activation.
            steps: i64 => mean,
            /// Deadlines met.
            met: u64 => sum,
            /// Deadlines missed.
            missed: u64 => sum,
            /// Mean frequency, idle time included, where the kernel counts.
            mean_khz: i64 => mean,
            /// Share of the time at each frequency, by kHz.
            residency: BTreeMap<u64, f64> => mean_of_each,
            /// Power of all packages (RAPL).
            power_mw: i64 => mean,
            /// By what the boost raises the speed.
            lever: String => same,
            /// How long before an activation it raises, median.
            lead_ns: i64 => mean,
            /// Times that it raised or lowered.
            switches: u64 => sum,
            /// Cost of one such change.
            switching_ns: i64 => mean,
            /// Share of the time raised.
            raised_share: f64 => mean,
            /// Loops from which it learned its lead.
            learned: u64 => sum,
            /// Share of the time spent learning.
            learning_share: f64 => mean,
            /// Activations that began below full speed.
            not_at_full_speed: u64 => sum,
            /// The frequency that counts as full speed.
            full_khz: i64 => same,
        }
    }
}
