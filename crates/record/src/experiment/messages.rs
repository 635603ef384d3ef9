//! Experiments on messages: between two processes, and as datagrams or bare ticks at a rate.

/// Messages between two processes.
pub mod ipc {
    use serde::{Deserialize, Serialize};

    words! {
        /// How messages are sent.
        pub enum Mode {
            /// There and back, one at a time.
            PingPong = "ping-pong",
            /// One way, with a pause after each.
            Sporadic = "sporadic",
            /// One way, at a rate, whether or not the receiver keeps up.
            Rate = "rate",
            /// One way, as fast as they are taken.
            Saturated = "saturated",
        }
    }

    words! {
        /// Where the two processes run.
        pub enum Placement {
            /// On one CPU.
            SameCpu = "same-cpu",
            /// Each on a CPU of its own.
            TwoCpus = "two-cpus",
            /// Wherever the scheduler puts them.
            AnyCpu = "any-cpu",
        }
    }

    words! {
        /// How the receiver waits.
        pub enum Receive {
            /// In the kernel, until a message is there.
            Block = "block",
            /// By asking again and again.
            Poll = "poll",
            /// Polling first, then blocking.
            Backoff = "backoff",
        }
    }

    /// The latencies of consecutive messages.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub struct Block {
        /// The smallest latency.
        pub min_ns: i64,
        /// Their mean.
        pub mean_ns: f64,
        /// The largest latency.
        pub max_ns: i64,
    }

    metrics! {
        /// The request: it identifies a series.
        pub struct Parameters {
            /// Bytes of a message.
            size: u64,
            /// How the messages are sent.
            mode: Mode,
            /// Where the two processes run.
            place: Placement,
            /// How the receiver waits for them.
            receive: Receive,
            /// The sender's CPU, where it is pinned.
            sender_cpu?: u32,
            /// The receiver's CPU, where it is pinned.
            receiver_cpu?: u32,
            /// From one message to the next, in the modes that have one.
            interval_ns?: i64,
            /// Messages that the channel holds, where it was asked.
            depth?: u64,
        }

        /// The results beside the samples.
        pub struct Metrics {
            /// Messages a second.
            per_second: f64 => mean,
            /// CPU time of the other process per message.
            peer_cpu_ns: f64 => mean,
            /// Voluntary context switches of the other process per message.
            peer_voluntary_switches: f64 => mean,
            /// Involuntary context switches of the other process per message.
            peer_involuntary_switches: f64 => mean,
            /// Messages that left after they were due.
            late_sends: u64 => sum,
            /// Contents were verified.
            verified: bool => same,
            /// Messages that did not arrive.
            lost: u64 => sum,
            /// Messages that arrived more than once.
            duplicates: u64 => sum,
            /// Messages that arrived with other contents.
            torn: u64 => sum,
            /// Messages that arrived out of order.
            reordered: u64 => sum,
            /// Messages of each block, where blocks were asked for.
            block_messages: u64 => same,
            /// The blocks in their order, at most some thousands.
            blocks: Vec<Block> => joined,
        }
    }
}

/// Datagrams, or bare ticks, at a rate.
pub mod pace {
    words! {
        /// Which end a series is of.
        pub enum Measured {
            /// The sender's: as they leave.
            Departure = "departure",
            /// The receiver's: as they arrive.
            Arrival = "arrival",
        }
    }

    words! {
        /// Who took the time of a departure.
        pub enum DepartureClock {
            /// The kernel's transmit time stamp.
            KernelStamp = "kernel-stamp",
            /// The clock, read before the call.
            BeforeCall = "before-call",
        }
    }

    metrics! {
        /// The request: it identifies a series.
        pub struct Parameters {
            /// Datagrams or ticks a second.
            rate_per_second: f64,
            /// The end that the series is of.
            measured: Measured,
            /// Where to, as `udp ADDRESS:PORT`; `tick-only` where nothing is sent.
            to?: String,
            /// Bytes of a datagram.
            size?: u64,
        }

        /// The results beside the samples.
        pub struct Metrics {
            /// Departures that were due.
            events: u64 => sum,
            /// Who took their time; absent where trials differ.
            departure: DepartureClock => same,
            /// The rate that was reached.
            rate_reached: f64 => mean,
            /// That rate as a share of the one asked.
            rate_share: f64 => mean,
            /// The median of the rates that single trials reached.
            rate_p50: f64 => mean,
            /// Lower end of its 95 % confidence interval.
            rate_p50_low: f64 => mean,
            /// Upper end of its 95 % confidence interval.
            rate_p50_high: f64 => mean,
            /// Drift of the period, in millionths.
            drift_ppm: f64 => mean,
            /// Lower end of its 95 % confidence interval.
            drift_ppm_low: f64 => mean,
            /// Upper end of its 95 % confidence interval.
            drift_ppm_high: f64 => mean,
            /// Datagrams that could not be sent when they were due.
            not_sent: u64 => sum,
            /// Datagrams that the kernel refused.
            refused: u64 => sum,
            /// Datagrams that arrived.
            received: u64 => sum,
            /// Datagrams that did not arrive.
            lost: u64 => sum,
            /// Datagrams that arrived out of order.
            reordered: u64 => sum,
            /// Datagrams that arrived more than once.
            duplicates: u64 => sum,
            /// Streams that were received.
            streams: u64 => sum,
        }
    }
}

/// The highest rate that a method of pacing holds.
pub mod sweep {
    metrics! {
        /// The request: it identifies a series.
        #[derive(Default)]
        pub struct Parameters {
            /// The rate that the search begins at.
            from_per_second?: f64,
            /// The highest rate of the search.
            to_per_second: f64,
            /// The 99th percentile of lateness that a rate must keep to count as held.
            within_ns: i64,
            /// Where to, as `udp ADDRESS:PORT`; `tick-only` where nothing is sent.
            to?: String,
            /// Bytes of a datagram.
            size?: u64,
        }

        /// The results beside the samples.
        pub struct Metrics {
            /// The highest rate that was held, in events a second.
            highest_rate_held: f64 => mean,
            /// The rate that was reached there.
            rate_reached: f64 => mean,
            /// The lowest rate that was not held.
            rate_not_held: f64 => mean,
            /// Why it was not held.
            why_not_higher: String => same,
        }
    }
}
