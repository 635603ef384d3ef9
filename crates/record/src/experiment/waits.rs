//! Experiments on waits and on giving up the CPU: what a thread asked, and when it ran again.

/// A wait of a given length.
pub mod wait {
    use crate::experiment::metrics::Typed;

    metrics! {
        /// The request: it identifies a series.
        #[derive(Default)]
        pub struct Parameters {
            /// The duration, or the distance of the deadline.
            asked_ns: i64,
            /// From one signal to the next, where signals interrupt the waits.
            interrupt_ns?: i64,
        }

        /// The results beside the samples.
        pub struct Metrics {
            /// What a call of coarse resolution makes of the duration asked; equal to it where the call takes nanoseconds.
            effective_ns: i64 => same,
            /// Share of the waits whose first call a signal ended before its time.
            cut_short_share: f64 => mean,
            /// What that call says is left, minus what is left by the clock; median.
            remainder_error_ns: i64 => mean,
            /// Share of the waits given up: interrupted again and again, they lasted ten times as long as asked.
            given_up_share: f64 => mean,
        }
    }

    impl Parameters {
        /// A wait that no signal interrupts.
        #[must_use]
        pub const fn asking(asked_ns: i64) -> Self {
            Self { asked_ns, interrupt_ns: None }
        }
    }

    impl Typed<Parameters, Metrics> {
        /// What a call of coarse resolution makes of the duration; `None` where it waits as long as asked.
        #[must_use]
        pub fn rounds_to(&self) -> Option<i64> {
            self.metrics.effective_ns.filter(|&ns| ns > self.parameters.asked_ns)
        }
    }
}

/// A call to yield, alone and against competitors on its CPU.
pub mod yielding {
    words! {
        /// What a competitor is.
        pub enum CompetitorKind {
            /// A process of its own.
            Process = "process",
            /// A thread of the same process.
            Thread = "thread",
        }
    }

    words! {
        /// How the scheduler ranks a competitor against the caller.
        pub enum Rank {
            /// It goes first.
            Higher = "higher",
            /// Neither goes first.
            Same = "same",
            /// The caller goes first.
            Lower = "lower",
        }
    }

    metrics! {
        /// The request: it identifies a series.
        #[derive(Default)]
        pub struct Parameters {
            /// Busy competitors on the CPU.
            competitors: u32,
            /// What they are; absent where there are none.
            competitor_kind?: CompetitorKind,
            /// Their scheduling, for instance `SCHED_BATCH`, or `as found`.
            competitor_policy?: String,
            /// Their rank.
            competitor_rank?: Rank,
        }

        /// The results beside the samples.
        pub struct Metrics {
            /// The system calls that were seen, by name; `none` where there were none.
            observed: String => same,
            /// Cost of a call in a bare loop, without readings of the clock.
            bare_ns: f64 => mean,
            /// CPU time of a call in the bare loop, by the thread's CPU clock.
            bare_cpu_ns: f64 => mean,
            /// The part of `bare_cpu_ns` in user mode; absent where the loop met too few of the kernel's ticks.
            user_ns_per_op: f64 => mean,
            /// The rest of `bare_cpu_ns`.
            system_ns_per_op: f64 => mean,
            /// Share of the calls during which a competitor ran.
            yielded_share: f64 => mean,
            /// Share of the CPU that the competitors got.
            competitor_cpu_share: f64 => mean,
            /// Share of the CPU that the caller used.
            own_cpu_share: f64 => mean,
        }
    }
}

/// A receiver that polls for a message a number of times before it gives up the CPU.
pub mod polls {
    words! {
        /// What runs on the receiver's CPU meanwhile.
        pub enum Load {
            /// Nothing else.
            Idle = "idle",
            /// A busy competitor.
            Busy = "busy",
        }
    }

    words! {
        /// Where the sender runs.
        pub enum SenderPlace {
            /// On the receiver's CPU.
            SameCpu = "same-cpu",
            /// On another CPU.
            OtherCpu = "other-cpu",
        }
    }

    metrics! {
        /// The request: it identifies a series.
        pub struct Parameters {
            /// What runs on the receiver's CPU.
            load: Load,
            /// Where the sender runs.
            sender: SenderPlace,
            /// Polls before the CPU is given up; 0: never given up. Absent for receivers that do not count polls.
            polls?: u32,
        }

        /// The results beside the samples.
        pub struct Metrics {
            /// Share of the CPU that the competitor got while no message came.
            competitor_cpu_share: f64 => mean,
            /// Share of the CPU that the receiver used meanwhile.
            own_cpu_share: f64 => mean,
        }
    }
}

/// What a sleep adds, and what reading the clock costs.
pub mod calibrate {
    words! {
        /// Which figure a series holds.
        pub enum Figure {
            /// TN: what a sleep adds, per round.
            SleepAdds = "sleep_adds",
            /// TS + TE: what reading the clock costs, per round.
            ClockCosts = "clock_costs",
            /// The proof: sleeps as asked.
            Plain = "plain",
            /// The proof: sleeps shortened by TN.
            Compensated = "compensated",
            /// The proof: sleeps shortened by what sleeps of that length added just before.
            Remeasured = "remeasured",
            /// The proof: the library's compensated sleeper.
            CompensatedSleeper = "compensated_sleeper",
        }
    }

    metrics! {
        /// The request: it identifies a series.
        pub struct Parameters {
            /// The figure that the series holds.
            figure: Figure,
            /// The length of the sleep, in a proof.
            asked_ns?: i64,
        }

        /// The results beside the samples.
        pub struct Metrics {
            /// What was taken off each sleep of a proof, on average over its turns.
            shortened_by_ns: f64 => mean,
            /// Cost of one reading of the clock, measured by itself.
            clock_read_ns: f64 => mean,
            /// Pairs of readings without a sleep between them, of which TS + TE is the median. Absent: it was extrapolated from sleeps.
            pairs: u64 => sum,
            /// 5th percentile of TN over the rounds.
            p5_ns: f64 => mean,
            /// 95th percentile of TN over the rounds.
            p95_ns: f64 => mean,
            /// Drift of TN per second.
            drift_ns_per_s: f64 => mean,
        }
    }
}

/// The waits that a program makes through the C library, by call site. The subject is the function.
///
/// A call site has up to three series. `lateness` is of the waits whose time was over, and `away` has the time waited for events. `call_cost`
/// is of calls that cannot block, of which one in 64 is timed. Metrics and CPU time stand in the first of them.
pub mod calls {
    metrics! {
        /// What was asked: who calls.
        pub struct Parameters {
            /// The program's name (`/proc/PID/comm`).
            program: String,
            /// The file and the function of it that calls, `libfoo.so:poll_loop`; `libfoo.so+0x12ab` where the function has no name.
            site: String,
        }

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
}

/// A thread that wakes up at regular intervals. The subject is its CPU: `cpu0`.
pub mod cyclic {
    metrics! {
        /// The request: it identifies a series.
        #[derive(Default)]
        pub struct Parameters {
            /// From one wake-up to the next.
            interval_ns: i64,
            /// What the machine did meanwhile, by the choice of who measured; absent: nothing was added.
            load?: String,
        }

        /// The results beside the samples.
        pub struct Metrics {
            /// Expected wake-ups that the thread overslept: it was not yet back from an earlier one.
            missed: u64 => sum,
            /// Times that the thread rested, to stay below what the kernel allows real-time threads; its wake-ups meanwhile are missed.
            rested: u64 => sum,
        }
    }

    /// Whether a thread of this name made the series of this subject: `cyclic/0` that of `cpu0`.
    #[must_use]
    pub fn is_of(thread: &str, subject: &str) -> bool {
        let number = thread.strip_prefix("cyclic/");
        number.is_some() && number == subject.strip_prefix("cpu")
    }
}
