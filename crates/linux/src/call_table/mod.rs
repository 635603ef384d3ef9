//! The file in which a library counts the waits of a program: an entry for each call and call site.
//!
//! Processes map the file and count with atomics, so the counts survive `_exit(2)`, `execve(2)` and SIGKILL. Counting allocates nothing,
//! takes no lock and makes no system call. The reader uses `pread(2)`: a program that changes its mapping or the file's length cannot
//! fault it. The numbers come from another process and may be anything.
//!
//! The file has one page for the whole and [`ENTRIES`] entries. All of it is allocated: a store into a file that needs memory or space then,
//! where none is left, ends the program with SIGBUS.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::atomic::{AtomicU64, Ordering};

use entry::{ASKED, PATH, PROGRAM};

use crate::memory::Mapping;
use crate::{Error, Result};

mod entry;

pub use entry::{Ended, Entry, How, LOOKS, Site, bucket, call_name, calls};

/// Pairs of call and call site that a file can hold.
pub const ENTRIES: usize = 512;
/// Bytes of the head.
const HEAD: usize = 4096;
/// Bytes of the file.
pub const BYTES: usize = HEAD + ENTRIES * size_of::<Entry>();
/// The first word of a file: another version of the library has another layout and does not count in it.
const MAGIC: u64 = u64::from_le_bytes(*b"pctcall1");

/// The head of the file.
#[repr(C)]
struct Head {
    magic: AtomicU64,
    /// Programs that mapped it: an `execve(2)` counts again.
    attached: AtomicU64,
    /// Calls that found no free entry.
    uncounted: AtomicU64,
}

/// A mapped file.
#[repr(C)]
pub struct Table {
    head: Head,
    rest: [u8; HEAD - size_of::<Head>()],
    entries: [Entry; ENTRIES],
}

/// Gives an empty file its length and its first word, and allocates its space: `fallocate(2)`.
///
/// # Errors
/// `ENOSPC` where there is no space; `EFBIG` where `RLIMIT_FSIZE` forbids it (no SIGXFSZ is sent); others of `pwrite(2)`.
pub fn format(file: &File) -> std::io::Result<()> {
    use rustix::fs::FallocateFlags;
    use rustix::process::{Resource, getrlimit};
    if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < BYTES as u64) {
        return Err(std::io::Error::from_raw_os_error(libc::EFBIG));
    }
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, BYTES as u64) {
        Ok(()) => {}
        // A file system that cannot reserve space allocates what is written.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => file.write_all_at(&vec![0; BYTES], 0)?,
        Err(errno) => return Err(errno.into()),
    }
    file.write_all_at(&MAGIC.to_ne_bytes(), 0)
}

impl Table {
    /// `mmap(2)`: maps the file into this process until it ends. Its descriptor may be closed.
    ///
    /// # Errors
    /// The file is of another length or not allocated, or the kernel does not map it (`RLIMIT_AS`).
    pub fn map(file: &File) -> Result<&'static Self> {
        let (length, allocated) = file.metadata().map_or((0, 0), |facts| (facts.len(), facts.blocks() * 512));
        if length != BYTES as u64 || allocated < length {
            let table = format!("a table of {length} bytes, {allocated} of them allocated");
            return Err(Error::from_errno("mmap", libc::EINVAL).on(table));
        }
        let mapping = Mapping::writable(BYTES, libc::MAP_SHARED, file.as_raw_fd())?;
        // SAFETY: the mapping has this many bytes, and stays where it is returned. All of it is atomics, for which any bytes are valid, and bytes
        // that nobody reads.
        let table = unsafe { mapping.start().cast::<Self>().as_ref() };
        if table.head.magic.load(Ordering::Relaxed) != MAGIC {
            return Err(Error::from_errno("mmap", libc::EINVAL).on("a table of another version"));
        }
        std::mem::forget(mapping);
        Ok(table)
    }

    /// A program counts here from now on.
    pub fn attach(&self) {
        self.head.attached.fetch_add(1, Ordering::Relaxed);
    }

    /// A call that has no entry.
    pub fn leave_out(&self) {
        self.head.uncounted.fetch_add(1, Ordering::Relaxed);
    }

    /// The entry of a call at a site, made if there is none. `None`: the table is full.
    ///
    /// Two processes may make one entry at the same time: both write the same site into it.
    pub fn entry(&self, site: &Site<'_>) -> Option<&Entry> {
        let key = site.key();
        self.entries.iter().find(|entry| entry.claim(key)).inspect(|entry| entry.describe(site))
    }
}

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
    /// The function ([`calls`]), or the same with [`LOOKS`].
    pub call: u8,
    /// The program's name.
    pub program: Vec<u8>,
    /// The file of the call site; empty where the code is of no file.
    pub path: Vec<u8>,
    /// The address in it (ELF virtual address).
    pub offset: u64,
    /// Calls that began.
    pub calls: u64,
    /// Calls that ended, by [`How`].
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
    /// Calls by lateness ([`bucket`]).
    pub late: Vec<u64>,
    /// Calls by duration.
    pub took: Vec<u64>,
    /// Calls by time asked: four buckets are one.
    pub asked: Vec<u64>,
}

/// `pread(2)`: reads a file that [`format()`] made. Entries beyond its end are not there.
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
            Ok(()) => entries.push(Counted::read(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(Totals { attached, uncounted, entries })
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
}

impl Counted {
    /// From the bytes of an [`Entry`].
    fn read(bytes: &[u8]) -> Self {
        let list = |at: usize, count: usize| words(&bytes[at..]).take(count).collect::<Vec<u64>>();
        let word = |at: usize| words(&bytes[at..]).next().unwrap_or(0);
        // The complement of the least, and the most; zeros are none.
        let extremes = |at: usize| {
            let (least, most) = (word(at), word(at + 8));
            (least != 0 && !least <= most).then_some((!least, most))
        };
        let text =
            |at: usize, most: usize| bytes[at..at + most].iter().copied().take_while(|byte| *byte != 0).collect();
        Self {
            call: u8::try_from(word(offset_of!(Entry, call))).unwrap_or(0),
            program: text(offset_of!(Entry, program), PROGRAM),
            path: text(offset_of!(Entry, path), PATH),
            offset: word(offset_of!(Entry, offset)),
            calls: word(offset_of!(Entry, calls)),
            ended: std::array::from_fn(|how| word(offset_of!(Entry, ended) + 8 * how)),
            waited_ns: word(offset_of!(Entry, waited)),
            late_sum_ns: word(offset_of!(Entry, late_sum)),
            late_extremes: extremes(offset_of!(Entry, late)),
            asked_extremes: extremes(offset_of!(Entry, asked)),
            took_extremes: extremes(offset_of!(Entry, took)),
            cpu_ns: word(offset_of!(Entry, cpu)),
            cpu_read: word(offset_of!(Entry, cpu_read)),
            let_run: word(offset_of!(Entry, let_run)),
            let_run_read: word(offset_of!(Entry, let_run_read)),
            late: list(offset_of!(Entry, by_late), bucket::COUNT),
            took: list(offset_of!(Entry, by_took), bucket::COUNT),
            asked: list(offset_of!(Entry, by_asked), ASKED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> (File, &'static Table) {
        let file = tempfile::tempfile().unwrap();
        format(&file).unwrap();
        let table = Table::map(&file).unwrap();
        (file, table)
    }

    fn site(offset: u64) -> Site<'static> {
        Site { call: calls::USLEEP, program: b"prog", path: b"/bin/prog", offset }
    }

    #[test]
    fn what_is_counted_is_read() {
        let (file, table) = table();
        table.attach();
        let entry = table.entry(&site(7)).unwrap();
        entry.begin();
        entry.end(&Ended { how: How::Expired, took_ns: 1_050_000, asked_ns: Some(1_000_000), late_ns: Some(50_000) });
        entry.begin();
        entry.end(&Ended { how: How::Event, took_ns: 300, asked_ns: Some(1_000_000), late_ns: None });
        entry.begin();
        let totals = read(&file).unwrap();
        assert_eq!((totals.attached, totals.uncounted, totals.entries.len()), (1, 0, 1));
        let counted = &totals.entries[0];
        assert_eq!((counted.call, counted.offset), (calls::USLEEP, 7));
        assert_eq!((counted.program.as_slice(), counted.path.as_slice()), (&b"prog"[..], &b"/bin/prog"[..]));
        assert_eq!((counted.calls, counted.ended), (3, [0, 1, 1, 0]));
        assert_eq!((counted.late_extremes, counted.late_sum_ns), (Some((50_000, 50_000)), 50_000));
        assert_eq!(counted.late[bucket::number(50_000)], 1);
        assert_eq!(counted.late.iter().sum::<u64>(), 1);
        assert_eq!((counted.asked_extremes, counted.waited_ns), (Some((1_000_000, 1_000_000)), 1_050_300));
        assert_eq!(counted.took_extremes, Some((300, 300)), "the time waited for events");
    }

    #[test]
    fn a_site_has_one_entry_in_all_processes() {
        let (file, table) = table();
        let other = Table::map(&file).unwrap();
        for table in [table, other, table] {
            table.entry(&site(1)).unwrap().begin();
        }
        let counted = read(&file).unwrap().entries;
        assert_eq!(counted.iter().map(|entry| entry.calls).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn a_full_table_has_no_entry_for_more_and_keeps_the_others() {
        let (file, table) = table();
        for offset in 0..ENTRIES as u64 {
            assert_eq!(table.entry(&site(offset)).unwrap().begin(), 0);
        }
        assert!(table.entry(&site(ENTRIES as u64)).is_none());
        table.leave_out();
        assert!(table.entry(&site(3)).is_some());
        let totals = read(&file).unwrap();
        assert_eq!((totals.entries.len(), totals.uncounted), (ENTRIES, 1));
    }

    #[test]
    fn another_file_is_refused_and_a_shorter_one_is_read() {
        let file = tempfile::tempfile().unwrap();
        assert!(Table::map(&file).is_err());
        assert!(read(&file).is_err());
        file.set_len(BYTES as u64).unwrap();
        assert!(Table::map(&file).is_err() && read(&file).is_err(), "no magic, and sparse");
        let (file, _) = self::table();
        assert!(file.metadata().unwrap().blocks() * 512 >= BYTES as u64, "all of it is allocated");
        file.set_len(8).unwrap();
        file.set_len(BYTES as u64).unwrap();
        assert!(Table::map(&file).is_err(), "sparse");
        let (file, table) = self::table();
        table.entry(&site(1)).unwrap().begin();
        file.set_len((HEAD + size_of::<Entry>()) as u64).unwrap();
        assert_eq!(read(&file).unwrap().entries.len(), 1, "the program cut it off");
    }
}
