//! A series of messages with its kind, place and size in words, and mechanisms against each other.
//!
//! Series of a contest differ in mechanism and way of receiving only. The quickest is tested against all others on their
//! rounds.

use punctual_record::Run;
use punctual_record::experiment::ipc::{Metrics, Mode, Parameters, Placement, Receive};

use crate::evidence::rounds::{Pair, test};
use crate::evidence::{Effect, Figure};
use crate::family::shared::Measured;
use crate::format::{grouped, spoken, units};

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

/// What the series of one contest have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Common<'a> {
    pub(super) conditions: &'a str,
    pub(super) size: u64,
    pub(super) place: Placement,
    cpus: (Option<u32>, Option<u32>),
    pub(super) mode: Mode,
    pub(super) interval_ns: Option<i64>,
}

/// The series of one contest.
#[derive(Debug, Clone)]
pub(super) struct Contest<'a> {
    pub(super) common: Common<'a>,
    pub(super) series: Vec<Message<'a>>,
}

/// The contests of a run, ordered by conditions, size and place.
pub(super) fn contests<'a>(series: &[Message<'a>]) -> Vec<Contest<'a>> {
    let common = |message: &Message<'a>| {
        let asked = message.parameters;
        Common {
            conditions: &message.series.conditions,
            size: asked.size,
            place: asked.place,
            cpus: (asked.sender_cpu, asked.receiver_cpu),
            mode: asked.mode,
            interval_ns: asked.interval_ns,
        }
    };
    let mut all: Vec<Contest<'a>> =
        grouped(series, common).into_iter().map(|(common, series)| Contest { common, series }).collect();
    all.sort_by_key(|contest| contest.common);
    all
}

/// A receiver that sleeps when it waits.
pub(super) fn sleeps(series: &Message<'_>) -> bool {
    series.parameters.receive == Receive::Block
}

/// The series with the smallest median.
pub(super) fn quickest<'a>(list: &[Message<'a>]) -> Option<Message<'a>> {
    list.iter().copied().filter(|message| message.summary.p50.is_some()).min_by_key(|message| message.summary.p50)
}

/// The series with the smallest median, and the effect of taking it instead of each other one.
#[derive(Debug, Clone)]
pub(super) struct Race<'a> {
    pub(super) best: Message<'a>,
    pub(super) others: Vec<(Message<'a>, Effect)>,
}

/// A race for each list that has a median; all are tested together.
pub(super) fn races<'a>(run: &Run, lists: &[Vec<Message<'a>>]) -> Vec<Option<Race<'a>>> {
    let others = |list: &Vec<Message<'a>>, best: &Message<'a>| -> Vec<Message<'a>> {
        let best = std::ptr::from_ref(best.series);
        list.iter().copied().filter(|message| !std::ptr::eq(message.series, best)).collect()
    };
    let fields: Vec<Option<(Message<'a>, Vec<Message<'a>>)>> =
        lists.iter().map(|list| quickest(list).map(|best| (best, others(list, &best)))).collect();
    let pair = |before: &Message<'a>, after: &Message<'a>| Pair {
        before: before.series,
        after: after.series,
        figure: Figure::P50,
    };
    let pairs: Vec<Pair<'a>> =
        fields.iter().flatten().flat_map(|(best, others)| others.iter().map(|other| pair(other, best))).collect();
    let mut effects = test(run, &pairs).into_iter();
    let mut race = |(best, others): (Message<'a>, Vec<Message<'a>>)| {
        let others = others.into_iter().map(|other| (other, effects.next().unwrap_or_default())).collect();
        Race { best, others }
    };
    fields.into_iter().map(|field| field.map(&mut race)).collect()
}
