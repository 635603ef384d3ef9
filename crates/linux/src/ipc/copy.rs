//! Copies between ordinary memory and memory that another process may write at any moment.
//!
//! The compiler must not assume that shared memory holds still, so no copy here is one that it could see through: short ones
//! go word by word through relaxed atomics, long ones (on x86-64) through a loop of assembly.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u64>();

/// From here on the assembly loop is quicker than single words.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LONG: usize = 128;

/// Copies `from` to `to`.
///
/// # Safety
/// `to` must be valid for reads and writes of `from.len()` bytes for the duration of the call and must not overlap `from`. It may be
/// written by others meanwhile.
#[inline]
pub(super) unsafe fn into_shared(to: *mut u8, from: &[u8]) {
    let mut done = 0;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if from.len() >= LONG {
        done = from.len() & !63;
        // SAFETY: both ranges are valid for `done` bytes, a multiple of 64, by this function's contract.
        unsafe { blocks(to, from.as_ptr(), done) };
    }
    if (to as usize).is_multiple_of(WORD) {
        while from.len() - done >= WORD {
            let mut word = [0; WORD];
            word.copy_from_slice(&from[done..done + WORD]);
            // SAFETY: in range and aligned: `to` is, and `done` is a multiple of the word.
            let cell = unsafe { AtomicU64::from_ptr(to.add(done).cast()) };
            cell.store(u64::from_ne_bytes(word), Ordering::Relaxed);
            done += WORD;
        }
    }
    for &byte in &from[done..] {
        // SAFETY: in range by this function's contract.
        unsafe { AtomicU8::from_ptr(to.add(done)) }.store(byte, Ordering::Relaxed);
        done += 1;
    }
}

/// Copies `into.len()` bytes from `from`.
///
/// # Safety
/// `from` must be valid for reads and writes of `into.len()` bytes for the duration of the call and must not overlap `into`. It may be
/// written by others meanwhile.
#[inline]
pub(super) unsafe fn from_shared(into: &mut [u8], from: *mut u8) {
    let mut done = 0;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if into.len() >= LONG {
        done = into.len() & !63;
        // SAFETY: both ranges are valid for `done` bytes, a multiple of 64, by this function's contract.
        unsafe { blocks(into.as_mut_ptr(), from, done) };
    }
    if (from as usize).is_multiple_of(WORD) {
        while into.len() - done >= WORD {
            // SAFETY: in range and aligned: `from` is, and `done` is a multiple of the word.
            let cell = unsafe { AtomicU64::from_ptr(from.add(done).cast()) };
            into[done..done + WORD].copy_from_slice(&cell.load(Ordering::Relaxed).to_ne_bytes());
            done += WORD;
        }
    }
    for byte in &mut into[done..] {
        // SAFETY: in range by this function's contract.
        *byte = unsafe { AtomicU8::from_ptr(from.add(done)) }.load(Ordering::Relaxed);
        done += 1;
    }
}

/// Copies `bytes`, a multiple of 64 above zero, 64 at a time.
///
/// # Safety
/// Both ranges must be valid for `bytes` bytes and must not overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn blocks(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: reads and writes exactly the two ranges; SSE2 is part of x86-64; no stack is used and the direction flag is not.
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
