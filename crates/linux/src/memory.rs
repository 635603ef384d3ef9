//! The memory of this process: locked and pre-faulted (`mlockall(2)`, `munlockall(2)`), shared with forked children, and missing pages for
//! tests of page faults (`mmap(2)`, `madvise(2)` with MADV_DONTNEED, `userfaultfd(2)`).
//!
//! A lock belongs to the whole process. The caller counts its users.
//!
//! [`Shared`] is `mmap(2)` with `MAP_SHARED | MAP_ANONYMOUS`. It needs no file system, not even /dev/shm. It derefs to a type made of atomics
//! ([`Shareable`]), initially zero, at the same address in every process forked afterwards. The mapping is freed when its last process
//! drops it or ends.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64};

use rustix::mm::{MlockAllFlags, UserfaultfdFlags, mlockall, munlockall};

use crate::{Error, Result, check, failed};

/// Bytes of stack that [`prefault_stack`] touches: 128 KiB, more than measuring and pacing loops use. The default stack of a Rust thread
/// is 2 MiB.
pub const PREFAULTED_STACK_BYTES: usize = 128 * 1024;

const PAGE: usize = 4096;

/// `mlockall(MCL_CURRENT | MCL_FUTURE)`: keeps every page of the process, present and future, in memory.
pub fn lock_all() -> Result<()> {
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(failed("mlockall(MCL_CURRENT | MCL_FUTURE)"))
}

/// `munlockall(2)`: unlocks every page of the process, including pages locked by other code.
pub fn unlock_all() -> Result<()> {
    munlockall().map_err(failed("munlockall"))
}

/// Writes to each page of the next [`PREFAULTED_STACK_BYTES`] of the calling thread's stack. Later use then causes no page fault. The
/// thread must have that much stack left.
#[inline(never)]
pub fn prefault_stack() {
    let mut stack = [0_u8; PREFAULTED_STACK_BYTES];
    for offset in (0..PREFAULTED_STACK_BYTES).step_by(PAGE) {
        // SAFETY: `offset` is inside the array, which is writable and lives until the function returns. The write is
        // volatile, so that the compiler does not leave it out: nothing reads it.
        unsafe { stack.as_mut_ptr().add(offset).write_volatile(1) };
    }
    std::hint::black_box(&stack);
}

/// A mapping of `mmap(2)`, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is plain memory, owned by this value alone; unmapping may happen on any thread.
unsafe impl Send for Mapping {}
// SAFETY: a `&Mapping` gives no access by itself.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `mmap(2)` of a file from its beginning on; `file` is -1 for anonymous memory.
    pub(crate) fn new(bytes: usize, protection: i32, flags: i32, file: i32) -> Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file, 0) };
        if start == libc::MAP_FAILED {
            return Err(Error::last("mmap"));
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| Error::from_errno("mmap", libc::ENOMEM))?;
        Ok(Self { start, bytes })
    }

    /// The same, to read and to write.
    pub(crate) fn writable(bytes: usize, flags: i32, file: i32) -> Result<Self> {
        Self::new(bytes, libc::PROT_READ | libc::PROT_WRITE, flags, file)
    }

    /// Its first byte.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `start` and `bytes` are those of a mapping that only this value owns. No reference into it outlives its user.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Anonymous memory of whole pages, zeroed.
#[derive(Debug)]
pub struct Pages {
    mapping: Mapping,
}

impl Pages {
    /// `mmap(2)`: maps this number of pages; none is present yet.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(count: usize) -> Result<Self> {
        let bytes = count * rustix::param::page_size();
        let mapping = Mapping::writable(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
        // A huge page would be one fault instead of many. A kernel without them refuses the advice.
        // SAFETY: advice on the mapping that was just made.
        let _ = unsafe { libc::madvise(mapping.start.as_ptr().cast(), bytes, libc::MADV_NOHUGEPAGE) };
        Ok(Self { mapping })
    }

    /// `madvise(2)`, MADV_DONTNEED: takes the pages away. The next access to each is a fault, and finds zeros.
    ///
    /// # Errors
    /// EINVAL for locked pages.
    pub fn take_away(&mut self) -> Result<()> {
        let Mapping { start, bytes } = self.mapping;
        // SAFETY: nobody else refers to the mapping, and any bytes are valid in it.
        check("madvise(MADV_DONTNEED)", unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_DONTNEED) })
            .map(drop)
    }

    /// The memory.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is readable, writable, zeroed, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.start.as_ptr(), self.mapping.bytes) }
    }
}

/// Supplies the missing pages of a [`Pages`]: a thread that touches one sleeps until then.
#[derive(Debug)]
pub struct Supplier {
    events: OwnedFd,
    page: usize,
}

/// `struct uffdio_api`, `struct uffdio_register`, `struct uffdio_zeropage` (include/uapi/linux/userfaultfd.h): all words of 64 bits.
const API: u64 = 0xaa;
const REGISTER_MISSING: u64 = 1;
/// `_IOWR(0xaa, 0x3f, struct uffdio_api)`, `_IOWR(0xaa, 0x00, struct uffdio_register)`, `_IOWR(0xaa, 0x04, struct uffdio_zeropage)`.
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_ZEROPAGE: u64 = 0xc020_aa04;
/// `UFFD_EVENT_PAGEFAULT`.
const FAULT: u8 = 0x12;

impl Supplier {
    /// `userfaultfd(2)`: from now on, faults in this memory wait for [`Supplier::supply`], those of the kernel too.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_PTRACE where `vm.unprivileged_userfaultfd` is 0; ENOSYS on kernels without it.
    pub fn new(pages: &mut Pages) -> Result<Self> {
        // SAFETY: creates a descriptor; memory is affected below only.
        let events = unsafe { rustix::mm::userfaultfd(UserfaultfdFlags::CLOEXEC) }.map_err(failed("userfaultfd"))?;
        let supplier = Self { events, page: rustix::param::page_size() };
        supplier.ask("ioctl(UFFDIO_API)", UFFDIO_API, &mut [API, 0, 0, 0])?;
        let start = pages.mapping.start.as_ptr().expose_provenance() as u64;
        let mut range = [start, pages.mapping.bytes as u64, REGISTER_MISSING, 0];
        supplier.ask("ioctl(UFFDIO_REGISTER)", UFFDIO_REGISTER, &mut range)?;
        Ok(supplier)
    }

    /// `read(2)`: waits for a thread that touches a missing page. Returns the address for [`Supplier::supply`].
    ///
    /// # Errors
    /// As read(2) says.
    pub fn wait(&self) -> Result<u64> {
        loop {
            // `struct uffd_msg`: the event, then flags and address of a fault.
            let mut message = [0_u8; 32];
            rustix::io::read(&self.events, &mut message).map_err(failed("read"))?;
            if message[0] == FAULT {
                return Ok(u64::from_ne_bytes(message[16..24].try_into().expect("eight bytes")));
            }
        }
    }

    /// `ioctl(UFFDIO_ZEROPAGE)`: a page of zeros is at this address; the thread goes on.
    ///
    /// # Errors
    /// EEXIST if a page is there; ENOENT outside of the memory.
    pub fn supply(&self, address: u64) -> Result<()> {
        let start = address & !(self.page as u64 - 1);
        self.ask("ioctl(UFFDIO_ZEROPAGE)", UFFDIO_ZEROPAGE, &mut [start, self.page as u64, 0, 0])
    }

    fn ask(&self, call: &'static str, request: u64, words: &mut [u64; 4]) -> Result<()> {
        // SAFETY: each request reads and writes at most four words of 64 bits. It affects only registered memory, where zeros are valid.
        let done = unsafe { libc::ioctl(self.events.as_raw_fd(), request as _, words.as_mut_ptr()) };
        check(call, done).map(drop)
    }
}

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
shareable!(AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64);

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

impl<T: ?Sized> Shared<T> {
    fn map(bytes: usize, count: usize) -> Result<Self> {
        let mapping = Mapping::writable(bytes.max(1), libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
        let mapping = mapping.map_err(|error| error.on(format!("{bytes} bytes of shared memory")))?;
        Ok(Self { mapping: Arc::new(mapping), count, of: PhantomData })
    }
}

impl<T: Shareable> Shared<T> {
    /// A zeroed `T`.
    pub fn new() -> Result<Self> {
        Self::map(size_of::<T>(), 1)
    }
}

impl<T: Shareable> Shared<[T]> {
    /// `count` adjacent zeroed `T`. ENOMEM if they do not fit into the address space.
    pub fn slice(count: usize) -> Result<Self> {
        let bytes = size_of::<T>().checked_mul(count).filter(|b| isize::try_from(*b).is_ok());
        let bytes = bytes.ok_or_else(|| Error::from_errno("mmap", libc::ENOMEM).on(format!("{count} elements")))?;
        Self::map(bytes, count)
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
    use std::sync::atomic::Ordering;

    use super::*;

    /// After a fork by another test, the next write to each page is a fault. So this test runs in a process of its
    /// own.
    #[test]
    fn prefaulted_stack_does_not_fault_again() {
        if !punctual_testing::in_a_process_of_its_own("memory::tests::prefaulted_stack_does_not_fault_again") {
            return;
        }
        std::thread::spawn(|| {
            prefault_stack();
            let before = crate::clock::thread_usage().unwrap();
            prefault_stack();
            let after = crate::clock::thread_usage().unwrap();
            assert_eq!(after.minor_faults, before.minor_faults);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn pages_are_taken_away_and_supplied() {
        let mut pages = Pages::new(2).unwrap();
        pages.bytes().fill(7);
        pages.take_away().unwrap();
        assert!(pages.bytes().iter().all(|byte| *byte == 0));
        pages.take_away().unwrap();
        let supplier = match Supplier::new(&mut pages) {
            Ok(supplier) => supplier,
            Err(e) if [libc::EPERM, libc::ENOSYS].contains(&e.errno()) => {
                return punctual_testing::lacks(punctual_testing::Lack::Call("userfaultfd", e.errno()));
            }
            Err(e) => panic!("{e}"),
        };
        std::thread::scope(|scope| {
            let touches = scope.spawn(|| pages.bytes()[0]);
            supplier.supply(supplier.wait().unwrap()).unwrap();
            assert_eq!(touches.join().unwrap(), 0);
        });
    }

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
