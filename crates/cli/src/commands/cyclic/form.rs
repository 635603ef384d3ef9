//! What cyclictest prints, to the byte: the lines of threads, single values, histograms with their trailers, spikes and breaks; and its
//! JSON, with its keys and no other. Two of them really end in a colon.
//!
//! In go the figures of the threads, out come texts.

use std::fmt::Write as _;
use std::sync::Arc;

use punctual_lab::cyclic::{Bell, Gauge, Spikes};

use super::names::MATCHED;

/// What cyclictest shows as the minimum of a thread without cycles.
const NO_MINIMUM: i64 = 1_000_000;

/// A thread as it is shown.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) gauge: Arc<Gauge>,
    pub(super) priority: u8,
    pub(super) interval_us: i64,
    pub(super) cpu: i64,
    pub(super) node: i64,
}

impl Row {
    pub(super) fn min(&self) -> i64 {
        self.gauge.extremes().map_or(NO_MINIMUM, |(min, _)| min)
    }

    pub(super) fn max(&self) -> i64 {
        self.gauge.extremes().map_or(0, |(_, max)| max.max(0))
    }

    /// The mean of its values; 0 without cycles.
    pub(super) fn mean(&self) -> f64 {
        let cycles = self.gauge.cycles();
        if cycles == 0 { 0.0 } else { self.gauge.sum() as f64 / cycles as f64 }
    }
}

/// All threads.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    pub(super) nsecs: bool,
    pub(super) smi: bool,
}

impl Table {
    /// A line for each thread.
    pub(super) fn lines(&self) -> String {
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let wide = if self.nsecs { 8 } else { 5 };
            let _ = write!(
                text,
                "T:{index:2} ({:5}) P:{:2} I:{} C:{:7} Min:{:7} Act:{:wide$} Avg:{:wide$} Max:{:8}",
                row.gauge.tid(),
                row.priority,
                row.interval_us,
                row.gauge.cycles(),
                row.min(),
                row.gauge.last(),
                row.mean() as i64,
                row.max(),
            );
            if self.smi {
                let _ = write!(text, " SMI:{:8}", row.gauge.smis());
            }
            text.push('\n');
        }
        text
    }

    /// The lines between marks, as signals ask for them.
    pub(super) fn status(&self) -> String {
        let rule = "#---------------------------\n";
        format!("{rule}# cyclictest current status:\n{}{rule}", self.lines())
    }

    /// The histogram with its trailer; `all`: with a column of all threads.
    pub(super) fn histogram(&self, buckets: usize, all: bool) -> String {
        let all = all && self.rows.len() > 1;
        let mut text = String::from("# Histogram\n");
        for unit in 0..buckets {
            let counts: Vec<u64> = self.rows.iter().map(|row| row.gauge.at(unit)).collect();
            let cells: Vec<String> = counts.iter().map(|count| format!("{count:06}")).collect();
            let _ = write!(text, "{unit:06} {}", cells.join("\t"));
            if all {
                let _ = write!(text, "\t{:06}", counts.iter().sum::<u64>());
            }
            text.push('\n');
        }
        let total = |row: &Row| (row.gauge.cycles() - row.gauge.beyond()) as i64;
        let beyond = |row: &Row| row.gauge.beyond() as i64;
        let of_all = |value: Option<i64>| value.filter(|_| all);
        text += &self.trailer("Total", 9, total, of_all(Some(self.rows.iter().map(total).sum())));
        text += &self.trailer("Min Latencies", 5, Row::min, None);
        text += &self.trailer("Avg Latencies", 5, |row| row.mean() as i64, None);
        text += &self.trailer("Max Latencies", 5, Row::max, of_all(self.rows.iter().map(Row::max).max()));
        text += &self.trailer("Histogram Overflows", 5, beyond, of_all(Some(self.rows.iter().map(beyond).sum())));
        text += "# Histogram Overflow at cycle number:\n";
        for (index, row) in self.rows.iter().enumerate() {
            text += &beyond_at(index, &row.gauge);
        }
        if self.smi {
            text += &self.trailer("SMIs", 5, |row| row.gauge.smis() as i64, None);
        }
        text + "\n"
    }

    /// The threads' ids and, if a thread met a value above the limit, which one and the value.
    pub(super) fn breaks(&self, bell: &Bell) -> String {
        let ids = self.trailer("Thread Ids", 5, |row| row.gauge.tid().into(), None);
        let broken = bell.broken().map(|(tid, value)| format!("# Break thread: {tid}\n# Break value: {value}\n"));
        ids + &broken.unwrap_or_default()
    }

    /// A line below the histogram. It has a value of each thread, padded with zeros to `digits`, and the value of all threads if that is given.
    fn trailer(&self, name: &str, digits: usize, value: impl Fn(&Row) -> i64, all: Option<i64>) -> String {
        let values = self.rows.iter().map(value).chain(all);
        let values: String = values.map(|value| format!(" {value:0digits$}")).collect();
        format!("# {name}:{values}\n")
    }
}

/// The numbers of the cycles beyond the histogram.
fn beyond_at(index: usize, gauge: &Gauge) -> String {
    let numbers: Vec<u64> = gauge.beyond_at().collect();
    let shown: String = numbers.iter().map(|number| format!(" {number:05}")).collect();
    let others = gauge.beyond().saturating_sub(numbers.len() as u64);
    let others = if others > 0 { format!(" # {others:05} others") } else { String::new() };
    format!("# Thread {index}:{shown}{others}\n")
}

/// The spikes; nothing without one.
pub(super) fn spikes(spikes: &Spikes) -> String {
    if spikes.count() == 0 {
        return String::new();
    }
    let line = |spike: punctual_lab::cyclic::Spike| {
        format!("T:{:2} Spike:{:8}: TS: {:12}\n", spike.thread, spike.value, spike.at_ns / 1000)
    };
    let lines: String = spikes.kept().map(line).collect();
    format!("\n{lines}spikes = {}\n\n", spikes.count())
}

/// The single values of a thread, as `-v` prints them: the largest of each `reduce` values.
#[derive(Debug, Default)]
pub(super) struct Values {
    read: u64,
    taken: u64,
    largest: i64,
    at: u64,
    /// Values that were overwritten before they were read.
    pub(super) lost: u64,
}

impl Values {
    /// The lines of the values since the last call.
    pub(super) fn lines(&mut self, index: usize, gauge: &Gauge, reduce: u64, smi: bool) -> String {
        let mut text = String::new();
        let cycles = gauge.cycles();
        while self.read < cycles {
            let number = self.read;
            self.read += 1;
            let Some(value) = gauge.value(number) else {
                self.lost += 1;
                continue;
            };
            if value > self.largest {
                (self.largest, self.at) = (value, number);
            }
            self.taken += 1;
            if self.taken < reduce {
                continue;
            }
            let _ = write!(text, "{index:8}:{:8}:{:8}", self.at, self.largest);
            if let Some(smis) = gauge.smis_before(number).filter(|_| smi) {
                let _ = write!(text, "{smis:8}");
            }
            text.push('\n');
            (self.taken, self.largest) = (0, 0);
        }
        text
    }
}

/// What the file says beside the figures.
#[derive(Debug)]
pub(super) struct About {
    /// The command line.
    pub(super) words: Vec<String>,
    /// The times of the start and of the end, as in a mail.
    pub(super) times: [String; 2],
    /// Buckets of the histograms.
    pub(super) buckets: usize,
}

/// The local time as in a mail.
pub(super) fn now() -> String {
    jiff::Zoned::now().strftime("%a, %d %b %Y %T %z").to_string()
}

/// The whole file.
pub(super) fn json(about: &About, table: &Table) -> String {
    let system = rustix::system::uname();
    let realtime = std::fs::read("/sys/kernel/realtime").is_ok_and(|text| text.first() == Some(&b'1'));
    let mut text = String::from("{\n  \"file_version\": 1,\n");
    let _ = writeln!(text, "  \"cmdline:\": {},", quoted(&about.words.join(" ")));
    let _ = writeln!(text, "  \"rt_test_version:\": \"{MATCHED}\",");
    let _ = writeln!(text, "  \"start_time\": \"{}\",\n  \"end_time\": \"{}\",", about.times[0], about.times[1]);
    text += "  \"return_code\": 0,\n  \"sysinfo\": {\n";
    for (key, value) in [
        ("sysname", system.sysname()),
        ("nodename", system.nodename()),
        ("release", system.release()),
        ("version", system.version()),
        ("machine", system.machine()),
    ] {
        let _ = writeln!(text, "    \"{key}\": {},", quoted(&value.to_string_lossy()));
    }
    let _ = writeln!(text, "    \"realtime\": {}\n  }},", u8::from(realtime));
    let _ = writeln!(text, "  \"num_threads\": {},", table.rows.len());
    let _ = writeln!(text, "  \"resolution_in_ns\": {},", u8::from(table.nsecs));
    let threads: Vec<String> =
        table.rows.iter().enumerate().map(|(number, row)| thread(number, row, about.buckets)).collect();
    let _ = write!(text, "  \"thread\": {{\n{}\n  }}\n}}\n", threads.join(",\n"));
    text
}

fn thread(number: usize, row: &Row, buckets: usize) -> String {
    let met = (0..buckets).map(|unit| (unit, row.gauge.at(unit))).filter(|(_, count)| *count > 0);
    let counts: Vec<String> = met.map(|(unit, count)| format!("\n        \"{unit}\": {count}")).collect();
    let end = if counts.is_empty() { "" } else { "\n" };
    let mut text = format!("    \"{number}\": {{\n      \"histogram\": {{{}{end}      }},\n", counts.join(","));
    let _ = writeln!(text, "      \"cycles\": {},", row.gauge.cycles());
    let _ = writeln!(text, "      \"min\": {},\n      \"max\": {},", row.min(), row.max());
    let _ = write!(
        text,
        "      \"avg\": {:.2},\n      \"cpu\": {},\n      \"node\": {}\n    }}",
        row.mean(),
        row.cpu,
        row.node
    );
    text
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
