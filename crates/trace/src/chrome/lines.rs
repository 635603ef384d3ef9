//! Events of the Trace Event Format, one a line of JSON: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.
//!
//! Times go in as ns since the trace's origin, and out as µs with three digits. The first error ends the writing.

use std::fmt::Write as _;
use std::io::{self, Write};

use punctual_record::sanitize::JsonEscapes;

/// Written at once.
const CHUNK: usize = 64 << 10;

/// A row of the viewer. It identifies a row by `tid` alone when it names it, so no two have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Track {
    pub(super) pid: u32,
    pub(super) tid: u32,
}

/// The file.
#[derive(Debug)]
pub(super) struct Lines<W> {
    to: W,
    text: String,
    failed: Option<io::Error>,
    arrows: u64,
}

impl<W: Write> Lines<W> {
    pub(super) fn new(to: W, program: &str) -> Self {
        let producer = quoted(program);
        let text = format!("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"producer\":{producer}}},\"traceEvents\":[");
        Self { to, text, failed: None, arrows: 0 }
    }

    /// A slice begins; it lies within the one that is open.
    pub(super) fn begin(&mut self, track: Track, at_ns: u64, name: &str) {
        self.event("B", track, at_ns, &format!(",\"name\":{}", quoted(name)));
    }

    /// The slice that began last ends.
    pub(super) fn end(&mut self, track: Track, at_ns: u64) {
        self.event("E", track, at_ns, "");
    }

    /// It ends, and this is what the call returned.
    pub(super) fn end_returning(&mut self, track: Track, at_ns: u64, returned: i64) {
        self.event("E", track, at_ns, &format!(",\"args\":{{\"returned\":{returned}}}"));
    }

    /// A slice that is over.
    pub(super) fn whole(&mut self, track: Track, from_ns: u64, to_ns: u64, name: &str) {
        let length = Micros(to_ns.saturating_sub(from_ns));
        self.event("X", track, from_ns, &format!(",\"dur\":{length},\"name\":{}", quoted(name)));
    }

    /// Something without length.
    pub(super) fn instant(&mut self, track: Track, at_ns: u64, name: &str) {
        self.event("i", track, at_ns, &format!(",\"s\":\"t\",\"name\":{}", quoted(name)));
    }

    /// An arrow leaves the open slice. Returns its number.
    pub(super) fn arrow_from(&mut self, track: Track, at_ns: u64) -> u64 {
        self.arrows += 1;
        let id = self.arrows;
        self.event("s", track, at_ns, &format!(",\"id\":{id},{WAKE_UP}"));
        id
    }

    /// It arrives at the slice that encloses this time.
    pub(super) fn arrow_to(&mut self, track: Track, at_ns: u64, id: u64) {
        self.event("f", track, at_ns, &format!(",\"id\":{id},\"bp\":\"e\",{WAKE_UP}"));
    }

    /// Names a group of tracks.
    pub(super) fn name_group(&mut self, pid: u32, name: &str) {
        let track = Track { pid, tid: pid };
        self.about("process_name", track, "name", &quoted(name));
        self.about("process_sort_index", track, "sort_index", &pid.to_string());
    }

    /// Names a track.
    pub(super) fn name_track(&mut self, track: Track, name: &str) {
        self.about("thread_name", track, "name", &quoted(name));
    }

    /// Places a track in its group.
    pub(super) fn place_track(&mut self, track: Track, index: u32) {
        self.about("thread_sort_index", track, "sort_index", &index.to_string());
    }

    /// Ends the file. Gives it back, or the first error.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.text.push_str("\n]}\n");
        self.flush();
        match self.failed {
            Some(e) => Err(e),
            None => self.to.flush().map(|()| self.to),
        }
    }

    fn about(&mut self, what: &str, Track { pid, tid }: Track, key: &str, value: &str) {
        let more = format!("\"name\":\"{what}\",\"args\":{{\"{key}\":{value}}}");
        self.line(format_args!("{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},{more}}}"));
    }

    fn event(&mut self, phase: &str, Track { pid, tid }: Track, at_ns: u64, more: &str) {
        let at = Micros(at_ns);
        self.line(format_args!("{{\"ph\":\"{phase}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{at}{more}}}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let comma = if self.text.ends_with('[') { "" } else { "," };
        // Writing to a String does not fail.
        let _ = write!(self.text, "{comma}\n{line}");
        if self.text.len() >= CHUNK {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.to.write_all(self.text.as_bytes()).err();
        }
        self.text.clear();
    }
}

/// Perfetto finds the two ends of an arrow by category, name and number.
const WAKE_UP: &str = "\"cat\":\"wake-up\",\"name\":\"wake-up\"";

/// µs of ns, without a rounding error.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// A string of JSON that controls no terminal.
fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    // Writing to a Vec does not fail.
    let _ = serde_json::to_writer(JsonEscapes::new(&mut out, &[]), text);
    String::from_utf8(out).unwrap_or_default()
}
