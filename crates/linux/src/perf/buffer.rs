//! Memory that programs in the kernel write and this process reads: a ring for each CPU.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::event::{Record, Sample};
use crate::memory::Mapping;
use crate::{Result, bpf};

/// Where the words of a ring's header lie: written by the program, read by this process, and so on.
pub(super) const HEAD: i16 = 0;
pub(super) const TAIL: i16 = 8;
/// Whether events are recorded.
pub(super) const ON: i16 = 16;
/// The bytes of the ring, less one.
pub(super) const MASK: i16 = 24;
/// Most bytes that may be in it when an event comes.
pub(super) const ROOM: i16 = 32;
/// Events that found none.
pub(super) const LOST: i16 = 40;
/// A line of the CPU's cache.
pub(super) const HEADER: usize = 64;
/// `BPF_F_MMAPABLE` (Linux 5.5).
const MMAPABLE: u32 = 1 << 10;
/// Most bytes of an event. One that begins before the end of the ring goes on behind it, where this much is kept free.
pub(super) const MOST: usize = 256;

/// The rings of all CPUs, up to the last that is online.
#[derive(Debug)]
pub(super) struct Buffer {
    map: OwnedFd,
    mapping: Mapping,
    rings: usize,
    /// Of the largest ring.
    bytes: usize,
    /// The counts of lost events at the last reading.
    lost: Vec<u64>,
}

impl Buffer {
    /// Rings of these sizes, powers of two; a CPU without one has 0.
    pub(super) fn open(sizes: &[usize]) -> Result<Self> {
        let bytes = sizes.iter().copied().max().unwrap_or(0).max(rustix::param::page_size());
        let map = bpf::array(element(bytes) as u32, sizes.len() as u32, MMAPABLE)?;
        let mapping = Mapping::writable(sizes.len() * element(bytes), libc::MAP_SHARED, map.as_raw_fd())?;
        let buffer = Self { map, mapping, rings: sizes.len(), bytes, lost: vec![0; sizes.len()] };
        for (cpu, size) in sizes.iter().enumerate() {
            buffer.word(cpu, MASK).store(size.saturating_sub(1) as u64, Ordering::Relaxed);
            buffer.word(cpu, ROOM).store(size.saturating_sub(MOST) as u64, Ordering::Relaxed);
        }
        Ok(buffer)
    }

    pub(super) fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// CPUs without a ring stay off.
    pub(super) fn switch(&self, on: bool) {
        for cpu in 0..self.rings {
            let has_room = self.word(cpu, ROOM).load(Ordering::Relaxed) > 0;
            self.word(cpu, ON).store(u64::from(on && has_room), Ordering::Release);
        }
    }

    /// Events that found no room.
    pub(super) fn lost(&self) -> u64 {
        (0..self.rings).map(|cpu| self.word(cpu, LOST).load(Ordering::Relaxed)).sum()
    }

    /// Whether a ring is half full, or has this many bytes to read.
    pub(super) fn has(&self, bytes: u64) -> bool {
        (0..self.rings).any(|cpu| {
            let used = self.word(cpu, HEAD).load(Ordering::Relaxed) - self.word(cpu, TAIL).load(Ordering::Relaxed);
            used >= bytes.min(self.word(cpu, MASK).load(Ordering::Relaxed) / 2 + 1)
        })
    }

    /// Reads all that the rings hold, and frees them.
    pub(super) fn drain(&mut self, each: &mut dyn FnMut(usize, Record<'_>)) {
        for cpu in 0..self.rings {
            let end = self.word(cpu, HEAD).load(Ordering::Acquire);
            let lost = self.word(cpu, LOST).load(Ordering::Relaxed);
            let mut at = self.word(cpu, TAIL).load(Ordering::Relaxed);
            while at < end {
                let Some((time_ns, raw)) = self.event(cpu, at) else { break };
                each(cpu, Record::Sample(Sample { time_ns, raw }));
                at += 8 + raw.len().next_multiple_of(8) as u64;
            }
            self.word(cpu, TAIL).store(end, Ordering::Release);
            let more = lost - std::mem::replace(&mut self.lost[cpu], lost);
            if more > 0 {
                each(cpu, Record::Lost(more));
            }
        }
    }

    /// The event at this place: its time, then its number, its length and its thread, then its fields.
    fn event(&self, cpu: usize, at: u64) -> Option<(u64, &[u8])> {
        let from = cpu * element(self.bytes) + HEADER + (at & self.word(cpu, MASK).load(Ordering::Relaxed)) as usize;
        // SAFETY: an event begins within the ring, and MOST bytes more belong to it. The program does not write there before the tail
        // passes.
        let bytes = unsafe { std::slice::from_raw_parts(self.mapping.start().as_ptr().add(from), MOST) };
        let time_ns = u64::from_ne_bytes(bytes[..8].try_into().ok()?);
        let length = usize::from(u16::from_ne_bytes(bytes[10..12].try_into().ok()?));
        // A length of zero would never end; the program writes none.
        Some((time_ns, bytes.get(8..8 + length).filter(|raw| raw.len() >= 8)?))
    }

    fn word(&self, cpu: usize, at: i16) -> &AtomicU64 {
        debug_assert!(cpu < self.rings);
        // SAFETY: an aligned word of the mapping, which lives as long as `self`. Both sides use it as an atomic.
        unsafe {
            self.mapping
                .start()
                .add(cpu * element(self.bytes) + at.unsigned_abs() as usize)
                .cast::<AtomicU64>()
                .as_ref()
        }
    }
}

/// Bytes of a ring of this size with its header.
fn element(bytes: usize) -> usize {
    HEADER + bytes + MOST
}
