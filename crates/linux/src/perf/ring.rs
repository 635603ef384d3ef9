//! The mapped ring of perf_event_open(2): the kernel writes at `data_head`, this process frees at `data_tail`.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::{self, perf_event_mmap_page};

use super::record::{Record, lost, sample};
use crate::{Error, Result};

/// A mapping of a page of positions and 2^n pages of data.
#[derive(Debug)]
pub(super) struct Ring {
    base: *mut u8,
    page: usize,
    bytes: usize,
    /// An entry that goes around the end, in one piece.
    pieced: Vec<u8>,
}

// SAFETY: the mapping belongs to this value alone, and any thread may read it.
unsafe impl Send for Ring {}

impl Ring {
    pub(super) fn map(event: &OwnedFd, order: u32) -> Result<Self> {
        let page = rustix::param::page_size();
        let bytes = page << order;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: asks for a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), page + bytes, protection, libc::MAP_SHARED, event.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(Error::last("mmap"));
        }
        Ok(Self { base: base.cast(), page, bytes, pieced: Vec::with_capacity(1 << 16) })
    }

    pub(super) fn drain(&mut self, each: &mut dyn FnMut(Record<'_>)) {
        let head_of = std::mem::offset_of!(perf_event_mmap_page, data_head);
        let tail_of = std::mem::offset_of!(perf_event_mmap_page, data_tail);
        // SAFETY: both positions are aligned words of the first page, which is mapped as long as `self` lives. The kernel writes the
        // first and reads the second; both sides use them as atomics (perf_event_open(2), "mmap layout").
        let (head, tail) =
            unsafe { (&*self.base.add(head_of).cast::<AtomicU64>(), &*self.base.add(tail_of).cast::<AtomicU64>()) };
        let end = head.load(Ordering::Acquire);
        let mut at = tail.load(Ordering::Relaxed);
        while at < end {
            let header = self.bytes_at(at, 8);
            let kind = u32::from_ne_bytes(header[..4].try_into().expect("four bytes"));
            let size = u64::from(u16::from_ne_bytes(header[6..8].try_into().expect("two bytes")));
            // A size of zero would never end; the kernel writes none.
            if size < 8 || size > end - at {
                break;
            }
            let body = self.bytes_at(at + 8, size as usize - 8);
            match kind {
                bindings::PERF_RECORD_SAMPLE => sample(body).map(Record::Sample),
                bindings::PERF_RECORD_LOST => lost(body).map(Record::Lost),
                _ => None,
            }
            .map(&mut *each);
            at += size;
        }
        tail.store(end, Ordering::Release);
    }

    /// These bytes of the ring, copied where they go around its end.
    fn bytes_at(&mut self, position: u64, length: usize) -> &[u8] {
        let from = (position as usize) & (self.bytes - 1);
        let straight = length.min(self.bytes - from);
        // SAFETY: `from + straight` lies in the data pages, and the kernel does not write there before `data_tail` passes.
        let first = unsafe { std::slice::from_raw_parts(self.base.add(self.page + from), straight) };
        if straight == length {
            return first;
        }
        self.pieced.clear();
        self.pieced.extend_from_slice(first);
        // SAFETY: the rest lies at the beginning of the data pages.
        let rest = unsafe { std::slice::from_raw_parts(self.base.add(self.page), length - straight) };
        self.pieced.extend_from_slice(rest);
        &self.pieced
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: unmaps what `map` mapped; no reference into it is left.
        unsafe { libc::munmap(self.base.cast(), self.page + self.bytes) };
    }
}
