//! A series of messages, and its kind, place and size in words.

use punctual_record::experiment::ipc::{Metrics, Mode, Parameters, Placement};

use crate::family::shared::Measured;
use crate::format::{spoken, units};

pub(super) type Message<'a> = Measured<'a, Parameters, Metrics>;

/// What a table is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Traffic {
    pub(super) mode: Mode,
    interval_ns: Option<i64>,
    pair: Option<(u32, u32)>,
    place: Placement,
}

impl Traffic {
    pub(super) fn of(parameters: &Parameters) -> Self {
        let Parameters { mode, interval_ns, place, .. } = *parameters;
        Self { mode, interval_ns, pair: pair(parameters), place }
    }

    /// The traffic in words, without the place.
    pub(super) fn mode_in_words(&self) -> String {
        let every = || self.interval_ns.map_or(String::new(), units::exact);
        match self.mode {
            Mode::PingPong => "ping-pong: there and back".to_owned(),
            Mode::Saturated => "saturated: one way, as fast as they are taken".to_owned(),
            Mode::Sporadic => format!("sporadic: one way, one every {}", every()),
            Mode::Rate => format!("at a rate: one way, one due every {}", every()),
        }
    }

    pub(super) fn place_in_words(&self) -> String {
        match (self.pair, self.place) {
            (Some((a, b)), _) if a == b => format!("both on CPU {a}"),
            (Some((a, b)), _) => format!("from CPU {a} to CPU {b}"),
            (None, Placement::SameCpu) => "same CPU".to_owned(),
            (None, Placement::TwoCpus) => "two CPUs".to_owned(),
            (None, Placement::AnyCpu) => "any CPU".to_owned(),
        }
    }
}

/// The kind of traffic in a few words.
pub(super) fn brief(parameters: &Parameters) -> String {
    let every = || parameters.interval_ns.map_or(String::new(), spoken::exact);
    match parameters.mode {
        Mode::PingPong => "there and back".to_owned(),
        Mode::Saturated => "saturated".to_owned(),
        Mode::Sporadic => format!("one every {}", every()),
        Mode::Rate => format!("one due every {}", every()),
    }
}

/// The place in a few words.
pub(super) fn place(parameters: &Parameters) -> &'static str {
    match parameters.place {
        Placement::SameCpu => "one CPU",
        Placement::TwoCpus => "two CPUs",
        Placement::AnyCpu => "any CPU",
    }
}

/// The CPUs themselves, where both processes are pinned.
pub(super) fn cpus(parameters: &Parameters) -> Option<String> {
    let (a, b) = pair(parameters)?;
    Some(if a == b { format!("CPU {a}") } else { format!("CPUs {a} and {b}") })
}

/// The CPUs of sender and receiver, where both are pinned.
pub(super) fn pair(parameters: &Parameters) -> Option<(u32, u32)> {
    parameters.sender_cpu.zip(parameters.receiver_cpu)
}

/// Bytes a second in MB/s (10^6) with three digits.
pub(super) fn megabytes(bytes_per_second: f64) -> String {
    let mb = bytes_per_second / 1e6;
    let decimals = match mb {
        _ if mb >= 99.95 => 0,
        _ if mb >= 9.995 => 1,
        _ if mb >= 0.9995 => 2,
        _ => 3,
    };
    format!("{mb:.decimals$}")
}

/// A size: `64 B`, `16 KiB`, `1 MiB`.
pub(super) fn bytes(size: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(unit, _)| size >= *unit && size.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{size} B"), |(unit, name)| format!("{} {name}", size / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_as_people_read_them() {
        assert_eq!(
            (bytes(8), bytes(65_536), bytes(1 << 20), bytes(1500)),
            ("8 B".into(), "64 KiB".into(), "1 MiB".into(), "1500 B".into())
        );
        assert_eq!(megabytes(1.5e9), "1500");
        assert_eq!(megabytes(12_345_678.0), "12.3");
        assert_eq!(megabytes(640.0), "0.001");
    }
}
