//! Memory shared with forked children: `mmap(2)` with `MAP_SHARED | MAP_ANONYMOUS`.
//!
//! It needs no file system, not even /dev/shm. [`Shared`] derefs to a type made of atomics ([`Shareable`]), initially zero, at the same
//! address in every process forked afterwards. The mapping is freed when its last process drops it or ends.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize,
};

use crate::{Error, Result};

/// Types for memory shared between processes: atomics, and arrays, tuples and [`CacheLine`]s of them.
///
/// # Safety
/// All bytes zero is a valid value. Every access through `&T` is atomic. The type has no pointer and needs no drop.
pub unsafe trait Shareable: Sync + Send + 'static {}

macro_rules! shareable {
    ($($atomic:ty),*) => {
        $(
            // SAFETY: an atomic integer: any bytes are valid (`AtomicBool`: zero is), all access is atomic, nothing to drop.
            unsafe impl Shareable for $atomic {}
        )*
    };
}
shareable!(
    AtomicBool,
    AtomicI8,
    AtomicI16,
    AtomicI32,
    AtomicI64,
    AtomicIsize,
    AtomicU8,
    AtomicU16,
    AtomicU32,
    AtomicU64,
    AtomicUsize
);

// SAFETY: made of Shareable parts only.
unsafe impl<T: Shareable, const N: usize> Shareable for [T; N] {}
// SAFETY: made of Shareable parts only. Tuples are laid out alike in all processes, since all run the same program.
unsafe impl<A: Shareable, B: Shareable> Shareable for (A, B) {}
// SAFETY: as above.
unsafe impl<A: Shareable, B: Shareable, C: Shareable> Shareable for (A, B, C) {}
// SAFETY: as above.
unsafe impl<A: Shareable, B: Shareable, C: Shareable, D: Shareable> Shareable for (A, B, C, D) {}

/// A full memory barrier, for other processes too: `fence(SeqCst)`.
///
/// On x86-64 it is an atomic operation on the stack. That is a full barrier like `mfence` (Intel SDM, volume 3, 9.2.3.9) at a
/// quarter of the cost. Unlike an atomic exchange of the published word, it lets that word and earlier writes reach memory together.
#[inline]
pub fn full_fence() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: changes no bit of the word that the stack pointer is at. That word is always mapped, and flags count as changed.
    unsafe {
        std::arch::asm!("lock or dword ptr [rsp], 0");
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// A value in its own cache line: 128 bytes, two lines of 64, since x86 CPUs fetch lines in pairs. It is one line on some 64-bit Arm CPUs, such as
/// Apple's.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct CacheLine<T>(pub T);

// SAFETY: made of a Shareable part and padding that nobody reads.
unsafe impl<T: Shareable> Shareable for CacheLine<T> {}

impl<T> Deref for CacheLine<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A zeroed `T` (or a slice of them) in shared memory. Clones share the memory.
pub struct Shared<T: ?Sized> {
    mapping: Arc<Mapping>,
    count: usize,
    of: PhantomData<T>,
}

/// One mapping, unmapped on drop.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is plain memory, owned by this value alone; unmapping may happen on any thread.
unsafe impl Send for Mapping {}
// SAFETY: a `&Mapping` gives no access by itself.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize) -> Result<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let failed = |error: Error| error.on(format!("{bytes} bytes of shared memory"));
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes.max(1), protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(failed(Error::last("mmap")));
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| failed(Error::from_errno("mmap", libc::ENOMEM)))?;
        Ok(Self { start, bytes: bytes.max(1) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `start` and `bytes` are those of a mapping that only this value owns. No reference into it outlives the
        // `Shared` that keeps this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

impl<T: Shareable> Shared<T> {
    /// A zeroed `T`.
    pub fn new() -> Result<Self> {
        Ok(Self { mapping: Arc::new(Mapping::new(size_of::<T>())?), count: 1, of: PhantomData })
    }
}

impl<T: Shareable> Shared<[T]> {
    /// `count` adjacent zeroed `T`. ENOMEM if they do not fit into the address space.
    pub fn slice(count: usize) -> Result<Self> {
        let bytes = size_of::<T>().checked_mul(count).filter(|b| isize::try_from(*b).is_ok());
        let bytes = bytes.ok_or_else(|| Error::from_errno("mmap", libc::ENOMEM).on(format!("{count} elements")))?;
        Ok(Self { mapping: Arc::new(Mapping::new(bytes)?), count, of: PhantomData })
    }
}

const _: () =
    assert!(align_of::<CacheLine<[u8; 1]>>() <= 4096, "a mapping begins at a page, which aligns everything in it");

impl<T: Shareable> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mapping holds a T (made in `new`), aligned to a page and zeroed (valid for Shareable). It is alive as long
        // as `self`. Other processes change it only atomically.
        unsafe { self.mapping.start.cast::<T>().as_ref() }
    }
}

impl<T: Shareable> Deref for Shared<[T]> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: as above, for `count` elements.
        unsafe { std::slice::from_raw_parts(self.mapping.start.cast::<T>().as_ptr(), self.count) }
    }
}

impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { mapping: Arc::clone(&self.mapping), count: self.count, of: PhantomData }
    }
}

impl<T: ?Sized> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("bytes", &self.mapping.bytes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn zeroed_aligned_and_the_same_through_clones() {
        let one = Shared::<(CacheLine<AtomicU64>, CacheLine<[AtomicU32; 3]>)>::new().unwrap();
        assert_eq!(one.0.load(Ordering::Relaxed), 0);
        assert_eq!(std::ptr::from_ref(&one.0).addr() % 128, 0);
        one.clone().1[2].store(5, Ordering::Relaxed);
        assert_eq!(one.1[2].load(Ordering::Relaxed), 5);
    }

    #[test]
    fn slices_have_their_length_and_absurd_ones_are_refused() {
        let many = Shared::<[AtomicU64]>::slice(10_000).unwrap();
        assert_eq!(many.len(), 10_000);
        many[9_999].store(1, Ordering::Relaxed);
        assert_eq!(many.iter().map(|w| w.load(Ordering::Relaxed)).sum::<u64>(), 1);
        assert!(Shared::<[AtomicU64]>::slice(0).unwrap().is_empty());
        let error = Shared::<[AtomicU64]>::slice(usize::MAX / 4).unwrap_err();
        assert_eq!(error.errno(), libc::ENOMEM);
        assert_eq!(Shared::<[AtomicU8]>::slice(1 << 60).unwrap_err().errno(), libc::ENOMEM);
    }
}
