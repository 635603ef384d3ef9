//! The file in which a library counts the waits of a program: an entry for each call and call site.
//!
//! Processes map the file and count with atomics, so the counts survive `_exit(2)`, `execve(2)` and SIGKILL. Counting allocates nothing,
//! takes no lock and makes no system call. The reader uses `pread(2)`: a program that changes its mapping or the file's length cannot
//! fault it. The numbers come from another process and may be anything.
//!
//! The file has one page for the whole and [`ENTRIES`] entries. All of it is allocated: a store into a file that needs memory or space then,
//! where none is left, ends the program with SIGBUS.

pub mod bucket;
mod entry;
mod read;

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

pub use entry::{Ended, Entry, How, LOOKS, Site, call_name, calls};
pub use read::{Counted, Totals, read};

use crate::{Error, Result};

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
    use std::os::unix::fs::FileExt as _;
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
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(Error::last("mmap"));
        }
        // SAFETY: the mapping has this many bytes and stays. All of it is atomics, for which any bytes are valid, and bytes that nobody reads.
        let table = unsafe { &*start.cast::<Self>() };
        if table.head.magic.load(Ordering::Relaxed) != MAGIC {
            // SAFETY: nothing refers to the mapping any more.
            unsafe { libc::munmap(start, BYTES) };
            return Err(Error::from_errno("mmap", libc::EINVAL).on("a table of another version"));
        }
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
