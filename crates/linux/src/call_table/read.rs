//! The counters as their reader gets them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::entry::{Entry, Raw};
use super::{ENTRIES, HEAD, MAGIC};

/// Everything in a file.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Programs that mapped it.
    pub attached: u64,
    /// Calls that found no free entry.
    pub uncounted: u64,
    /// The entries in use, in their order in the file.
    pub entries: Vec<Counted>,
}

/// The counts of a call at a site. The numbers were read one after the other, while the program went on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// The function ([`super::calls`]), or the same with [`super::LOOKS`].
    pub call: u8,
    /// The program's name.
    pub program: Vec<u8>,
    /// The file of the call site; empty where the code is of no file.
    pub path: Vec<u8>,
    /// The address in it (ELF virtual address).
    pub offset: u64,
    /// Calls that began.
    pub calls: u64,
    /// Calls that ended, by [`How`](super::How).
    pub ended: [u64; 4],
    /// Time in calls that could block.
    pub waited_ns: u64,
    /// Sum of the lateness of those whose time was over.
    pub late_sum_ns: u64,
    /// Least and largest lateness.
    pub late_extremes: Option<(u64, u64)>,
    /// Least and largest time asked.
    pub asked_extremes: Option<(u64, u64)>,
    /// Least and largest duration of those that an event ended, or that could not block.
    pub took_extremes: Option<(u64, u64)>,
    /// CPU time of the calls in which it was read.
    pub cpu_ns: u64,
    /// The number of calls in which CPU time was read.
    pub cpu_read: u64,
    /// Yields after which another thread had run.
    pub let_run: u64,
    /// Yields in which that was read.
    pub let_run_read: u64,
    /// Calls by lateness ([`super::bucket`]).
    pub late: Vec<u64>,
    /// Calls by duration.
    pub took: Vec<u64>,
    /// Calls by time asked: four buckets are one.
    pub asked: Vec<u64>,
}

/// `pread(2)`: reads a file that [`super::format`] made. Entries beyond its end are not there.
///
/// # Errors
/// Those of reading; a file without the first word of a table is invalid data.
pub fn read(file: &File) -> io::Result<Totals> {
    let mut head = [0; 24];
    file.read_exact_at(&mut head, 0)?;
    let mut head = words(&head);
    if head.next() != Some(MAGIC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a table of calls"));
    }
    let (attached, uncounted) = (head.next().unwrap_or(0), head.next().unwrap_or(0));
    let mut bytes = vec![0; size_of::<Entry>()];
    let mut entries = Vec::new();
    for place in 0..ENTRIES {
        let at = (HEAD + place * bytes.len()) as u64;
        match file.read_exact_at(&mut bytes, at) {
            // Entries are taken in their order.
            Ok(()) if bytes[..8] == [0; 8] => break,
            Ok(()) => entries.push(Raw::from_words(words(&bytes)).into()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(Totals { attached, uncounted, entries })
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
}

/// The text in these words, up to its first zero byte.
fn text(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect()
}

/// From the complement of the least and the most; zeros are none.
fn extremes([least]: [u64; 1], [most]: [u64; 1]) -> Option<(u64, u64)> {
    (least != 0 && !least <= most).then_some((!least, most))
}

impl From<Raw> for Counted {
    fn from(raw: Raw) -> Self {
        Self {
            call: u8::try_from(raw.call[0]).unwrap_or(0),
            program: text(&raw.program),
            path: text(&raw.path),
            offset: raw.offset[0],
            calls: raw.calls[0],
            ended: raw.ended,
            waited_ns: raw.waited[0],
            late_sum_ns: raw.late_sum[0],
            late_extremes: extremes(raw.late_least, raw.late_most),
            asked_extremes: extremes(raw.asked_least, raw.asked_most),
            took_extremes: extremes(raw.took_least, raw.took_most),
            cpu_ns: raw.cpu[0],
            cpu_read: raw.cpu_read[0],
            let_run: raw.let_run[0],
            let_run_read: raw.let_run_read[0],
            late: raw.late.to_vec(),
            took: raw.took.to_vec(),
            asked: raw.asked.to_vec(),
        }
    }
}
