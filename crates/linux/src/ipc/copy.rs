//! Copies between private memory and memory that another process may write at any time.
//!
//! The compiler must not assume that shared memory is stable, so no copy is transparent to it. Relaxed atomics copy less than a cache
//! line, word by word. On x86-64, an assembly loop copies the rest.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u64>();

/// Copies `from` to `to`.
///
/// # Safety
/// `to` must be valid for reads and writes of `from.len()` bytes during the call and must not overlap `from`. Others may write to it
/// meanwhile.
#[inline]
pub(super) unsafe fn into_shared(to: *mut u8, from: &[u8]) {
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
pub(super) unsafe fn from_shared(into: &mut [u8], from: *mut u8) {
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
