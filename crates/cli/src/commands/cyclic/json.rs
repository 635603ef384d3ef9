//! The results in the JSON of cyclictest: its keys, and no other. Two of them really end in a colon.

use std::fmt::Write as _;

use super::form::{Row, Table};
use super::names::MATCHED;

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
pub(super) fn text(about: &About, table: &Table) -> String {
    let system = rustix::system::uname();
    let word = |text: &std::ffi::CStr| quoted(&text.to_string_lossy());
    let realtime = std::fs::read("/sys/kernel/realtime").is_ok_and(|text| text.first() == Some(&b'1'));
    let mut text = String::from("{\n  \"file_version\": 1,\n");
    let _ = writeln!(text, "  \"cmdline:\": {},", quoted(&about.words.join(" ")));
    let _ = writeln!(text, "  \"rt_test_version:\": \"{MATCHED}\",");
    let _ = writeln!(text, "  \"start_time\": \"{}\",\n  \"end_time\": \"{}\",", about.times[0], about.times[1]);
    text += "  \"return_code\": 0,\n  \"sysinfo\": {\n";
    let _ = writeln!(text, "    \"sysname\": {},", word(system.sysname()));
    let _ = writeln!(text, "    \"nodename\": {},", word(system.nodename()));
    let _ = writeln!(text, "    \"release\": {},", word(system.release()));
    let _ = writeln!(text, "    \"version\": {},", word(system.version()));
    let _ = writeln!(text, "    \"machine\": {},", word(system.machine()));
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
