//! Memory shared between processes or threads: [`Region`].
//!
//! A region maps a file or anonymous memory. It offers atomics and copies at checked offsets. An offset outside the region or misaligned
//! panics: offsets come from the program, never from the peer.
//!
//! Another process may write to the memory at any time, so the compiler must not assume that it is stable, and no copy is transparent to
//! it. Relaxed atomics copy less than a cache line, word by word. On x86-64, an assembly loop copies the rest.

use std::alloc::Layout;
use std::fmt;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::{Error, Result};

/// Alignment of an allocated region: a page.
const PAGE: usize = 4096;

/// Shared memory. Unmapped when dropped.
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    origin: Origin,
}

/// The source of the memory, which determines how it is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// `mmap(2)`.
    Mapped,
    /// `shmat(2)`.
    Attached,
    /// The allocator.
    Heap,
}

// SAFETY: the memory is reached only through atomics and through copies that tolerate concurrent writers.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// `mmap(2)`: the first `len` bytes of a file, shared, readable, writable and populated.
    ///
    /// If the file is truncated afterwards, touching the lost pages raises SIGBUS; seal a memfd against that.
    pub fn map(file: BorrowedFd<'_>, len: usize) -> Result<Self> {
        Self::mmap(len, libc::MAP_SHARED | libc::MAP_POPULATE, file.as_raw_fd())
    }

    /// `mmap(2)`: shared anonymous memory, for this process and its forked children.
    pub fn anonymous(len: usize) -> Result<Self> {
        Self::mmap(len, libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1)
    }

    /// `mmap(2)`: *private* anonymous memory: after a fork each process has its own, at the same address.
    pub fn private(len: usize) -> Result<Self> {
        Self::mmap(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1)
    }

    /// Zeroed memory from the allocator, shared among threads of this process.
    ///
    /// # Panics
    /// When `len` is zero.
    #[must_use]
    pub fn heap(len: usize) -> Self {
        let layout = heap_layout(len);
        // SAFETY: the layout is not of size zero, which `heap_layout` checks.
        let pointer = unsafe { std::alloc::alloc_zeroed(layout) };
        let Some(base) = NonNull::new(pointer) else { std::alloc::handle_alloc_error(layout) };
        Self { base, len, origin: Origin::Heap }
    }

    /// Takes over what `shmat(2)` returned.
    ///
    /// # Safety
    /// `base` must be a segment of at least `len` bytes, attached for reading and writing, that no other code detaches.
    pub(super) unsafe fn attached(base: NonNull<u8>, len: usize) -> Self {
        Self { base, len, origin: Origin::Attached }
    }

    fn mmap(len: usize, flags: i32, file: i32) -> Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, file, 0) };
        if base == libc::MAP_FAILED {
            return Err(Error::last("mmap").on(format!("{len} bytes")));
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| Error::from_errno("mmap", libc::ENOMEM))?;
        Ok(Self { base, len, origin: Origin::Mapped })
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: `mmap(2)` creates no empty region.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of `len` bytes at `offset`, a multiple of `align`.
    ///
    /// # Panics
    /// If they are not within the region.
    #[inline]
    pub(super) fn at(&self, offset: usize, len: usize, align: usize) -> *mut u8 {
        let within = offset.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(within && offset.is_multiple_of(align), "{len} bytes at {offset} of a region of {}", self.len);
        // SAFETY: within the region, as was just checked.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// The 32-bit word at `offset`, a multiple of 4.
    ///
    /// # Panics
    /// If it is not within the region.
    #[inline]
    #[must_use]
    pub fn u32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: in range, aligned (the base is to a page), alive as long as `self`, and reached only through atomics.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4, 4).cast()) }
    }

    /// The 64-bit word at `offset`, a multiple of 8.
    ///
    /// # Panics
    /// If it is not within the region.
    #[inline]
    #[must_use]
    pub fn u64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: in range, aligned (the base is to a page), alive as long as `self`, and reached only through atomics.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8, 8).cast()) }
    }

    /// Copies `from` to `offset`. Not atomic as a whole: a concurrent reader may see a mix.
    ///
    /// # Panics
    /// If the bytes are not within the region.
    #[inline]
    pub fn copy_in(&self, offset: usize, from: &[u8]) {
        let to = self.at(offset, from.len(), 1);
        // SAFETY: in range; `from` is ordinary memory, which no region overlaps.
        unsafe { copy_into_shared(to, from) };
    }

    /// Copies from `offset` to `into`. Not atomic as a whole: it may copy part of a concurrent write.
    ///
    /// # Panics
    /// If the bytes are not within the region.
    #[inline]
    pub fn copy_out(&self, offset: usize, into: &mut [u8]) {
        let from = self.at(offset, into.len(), 1);
        // SAFETY: in range; `into` is ordinary memory, which no region overlaps.
        unsafe { copy_from_shared(into, from) };
    }
}

fn heap_layout(len: usize) -> Layout {
    assert!(len > 0, "a region of no bytes");
    Layout::from_size_align(len, PAGE).expect("a length that fits the address space")
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("len", &self.len).field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let base = self.base.as_ptr();
        match self.origin {
            // SAFETY: our own mapping, which nothing refers to any more.
            Origin::Mapped => drop(unsafe { libc::munmap(base.cast(), self.len) }),
            // SAFETY: our own attachment, which nothing refers to any more.
            Origin::Attached => drop(unsafe { libc::shmdt(base.cast()) }),
            // SAFETY: allocated with this very layout.
            Origin::Heap => unsafe { std::alloc::dealloc(base, heap_layout(self.len)) },
        }
    }
}

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// Copies `from` to `to`.
///
/// # Safety
/// `to` must be valid for reads and writes of `from.len()` bytes during the call and must not overlap `from`. Others may write to it
/// meanwhile.
#[inline]
unsafe fn copy_into_shared(to: *mut u8, from: &[u8]) {
    // SAFETY: both ranges are valid for the given number of bytes by this function's contract.
    let done = unsafe { long_part(to, from.as_ptr(), from.len()) };
    // SAFETY: at most one past the range.
    let mut to = unsafe { to.add(done) };
    let mut rest = &from[done..];
    if to.addr().is_multiple_of(WORD) {
        let (words, odd) = rest.as_chunks::<WORD>();
        for word in words {
            // SAFETY: in range, and aligned: `to` is, and goes on in words.
            unsafe {
                AtomicU64::from_ptr(to.cast()).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
                to = to.add(WORD);
            }
        }
        rest = odd;
    }
    for &byte in rest {
        // SAFETY: in range by this function's contract.
        unsafe {
            AtomicU8::from_ptr(to).store(byte, Ordering::Relaxed);
            to = to.add(1);
        }
    }
}

/// Copies `into.len()` bytes from `from`.
///
/// # Safety
/// `from` must be valid for reads and writes of `into.len()` bytes during the call and must not overlap `into`. Others may write to it
/// meanwhile.
#[inline]
unsafe fn copy_from_shared(into: &mut [u8], from: *mut u8) {
    // SAFETY: both ranges are valid for the given number of bytes by this function's contract.
    let done = unsafe { long_part(into.as_mut_ptr(), from, into.len()) };
    // SAFETY: at most one past the range.
    let mut from = unsafe { from.add(done) };
    let mut rest = &mut into[done..];
    if from.addr().is_multiple_of(WORD) {
        let (words, odd) = rest.as_chunks_mut::<WORD>();
        for word in words {
            // SAFETY: in range, and aligned: `from` is, and goes on in words.
            unsafe {
                *word = AtomicU64::from_ptr(from.cast()).load(Ordering::Relaxed).to_ne_bytes();
                from = from.add(WORD);
            }
        }
        rest = odd;
    }
    for byte in rest {
        // SAFETY: in range by this function's contract.
        unsafe {
            *byte = AtomicU8::from_ptr(from).load(Ordering::Relaxed);
            from = from.add(1);
        }
    }
}

/// Copies the part of `bytes` bytes that is faster in blocks. Returns its length.
///
/// # Safety
/// Both ranges must be valid for `bytes` bytes and must not overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn long_part(to: *mut u8, from: *const u8, bytes: usize) -> usize {
    let done = bytes & !63;
    if done > 0 {
        // SAFETY: both ranges are valid for `done` bytes, by this function's contract.
        unsafe { blocks(to, from, done) };
    }
    done
}

/// Without an assembly loop: copies nothing.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
unsafe fn long_part(_: *mut u8, _: *const u8, _: usize) -> usize {
    0
}

/// Copies `bytes`, a multiple of 64 above zero, 64 at a time.
///
/// # Safety
/// Both ranges must be valid for `bytes` bytes and must not overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn blocks(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: reads and writes exactly the two ranges. SSE2 is part of x86-64, no stack is used and the direction flag is not.
    unsafe {
        std::arch::asm!(
            "2:",
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 48], {d}",
            "add {from}, 64",
            "add {to}, 64",
            "sub {left}, 64",
            "jnz 2b",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            left = inout(reg) bytes => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_at_any_offset_and_length() {
        let region = Region::heap(8192);
        for offset in [0, 1, 7, 8, 64, 100, 4000] {
            for len in [0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 200, 1000, 4096] {
                let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + offset) as u8).collect();
                region.copy_in(offset, &bytes);
                let mut back = vec![0; len];
                region.copy_out(offset, &mut back);
                assert_eq!(back, bytes, "{len} bytes at {offset}");
            }
        }
    }

    #[test]
    fn a_copy_touches_nothing_else() {
        let region = Region::heap(4096);
        region.copy_in(0, &[0xAA; 4096]);
        region.copy_in(100, &[0; 333]);
        let mut all = [0; 4096];
        region.copy_out(0, &mut all);
        assert!(all[..100].iter().chain(&all[433..]).all(|b| *b == 0xAA));
        assert!(all[100..433].iter().all(|b| *b == 0));
    }

    #[test]
    fn words_are_where_they_are_said_to_be() {
        let region = Region::heap(4096);
        region.u64(8).store(0x0102_0304_0506_0708, Ordering::Relaxed);
        let mut bytes = [0; 8];
        region.copy_out(8, &mut bytes);
        assert_eq!(u64::from_ne_bytes(bytes), 0x0102_0304_0506_0708);
        region.u32(4092).store(7, Ordering::Relaxed);
        assert_eq!(region.u32(4092).load(Ordering::Relaxed), 7);
    }

    #[test]
    #[should_panic(expected = "of a region of 4096")]
    fn outside_is_refused() {
        let _ = Region::heap(4096).u32(4094);
    }

    #[test]
    #[should_panic(expected = "of a region of 4096")]
    fn overflow_is_refused() {
        Region::heap(4096).copy_in(usize::MAX - 1, &[1, 2, 3]);
    }
}
