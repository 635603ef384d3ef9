//! The file of a program or library, which is read within bounds, and its debug file.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use object::read::{ReadCache, ReadRef};
use object::{Object as _, ObjectSegment as _};
use rustix::fs::OFlags;

/// Bytes of a table that is read: nearly three million symbols.
pub(super) const LARGEST: u64 = 64 << 20;
/// A file of which no piece is read that takes much memory: a program may say of its tables what it likes, and who watches is root.
#[derive(Clone, Copy)]
pub(super) struct Bounded<'a>(pub(super) &'a ReadCache<File>);

impl<'a> ReadRef<'a> for Bounded<'a> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size > LARGEST { Err(()) } else { self.0.read_bytes_at(offset, size) }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

/// The file at this path, which another process has named. open(2) of a pipe would block until a process opens it for writing.
pub(super) fn regular_file(path: &Path) -> Option<File> {
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path).ok()?;
    file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(file)
}

/// Where the parts of a file are in the memory of a process, but for where the process has the file.
#[derive(Debug, Default)]
pub(super) struct Segments(Vec<((u64, u64), u64)>);

impl Segments {
    pub(super) fn read<'a>(object: &object::File<'a, impl ReadRef<'a>>) -> Self {
        Self(object.segments().map(|segment| (segment.file_range(), segment.address())).collect())
    }

    /// The address at this place of the file.
    pub(super) fn address(&self, place: u64) -> Option<u64> {
        let holds = |((offset, size), _): &&((u64, u64), u64)| (*offset..offset.saturating_add(*size)).contains(&place);
        let ((offset, _), address) = self.0.iter().find(holds)?;
        address.checked_add(place - offset)
    }
}

/// The file of a stripped program or library with its symbols and lines, where a package of the distribution has put it (gdb(1)).
pub(super) fn debug_file<'a>(object: &object::File<'a, Bounded<'a>>) -> Option<File> {
    let id = object.build_id().ok()??;
    let (first, rest) = id.split_first()?;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    File::open(format!("/usr/lib/debug/.build-id/{first:02x}/{}.debug", hex(rest))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_would_take_all_memory_is_not_read() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        let cache = ReadCache::new(file);
        assert!(Bounded(&cache).read_bytes_at(0, 1 << 39).is_err());
        assert_eq!(Bounded(&cache).read_bytes_at(9, 2), Ok([0; 2].as_slice()));
    }
}
