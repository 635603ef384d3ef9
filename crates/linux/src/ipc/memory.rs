//! Memory shared between processes or threads: [`Region`].
//!
//! A region maps a file or anonymous memory. It offers atomics and copies at checked offsets. An offset outside the region or misaligned
//! panics: offsets come from the program, never from the peer.
//!
//! Another process may write to the memory at any time, so the compiler must not assume that it is stable, and no copy is transparent to
//! it. Relaxed atomics copy less than a cache line, word by word. On x86-64, an assembly loop copies the rest.

use std::ffi::{CStr, CString};
use std::fmt;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};

use crate::memory::Mapping;
use crate::{Error, Result, check, descriptor, failed};

/// Shared memory. Unmapped when dropped.
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    /// None: attached by `shmat(2)`.
    mapping: Option<Mapping>,
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
        // Miri takes no other flag than the first two.
        let populated = if cfg!(miri) { 0 } else { libc::MAP_POPULATE };
        Self::mmap(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | populated, -1)
    }

    /// Takes over what `shmat(2)` returned.
    ///
    /// # Safety
    /// `base` must be a segment of at least `len` bytes, attached for reading and writing, that no other code detaches.
    pub(super) unsafe fn attached(base: NonNull<u8>, len: usize) -> Self {
        Self { base, len, mapping: None }
    }

    fn mmap(len: usize, flags: i32, file: i32) -> Result<Self> {
        let mapping = Mapping::writable(len, flags, file).map_err(|e| e.on(format!("{len} bytes")))?;
        Ok(Self { base: mapping.start(), len, mapping: Some(mapping) })
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

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("len", &self.len).field("mapping", &self.mapping).finish_non_exhaustive()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.mapping.is_none() {
            // SAFETY: our own attachment, which nothing refers to any more.
            unsafe { libc::shmdt(self.base.as_ptr().cast()) };
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

/// `memfd_create(2)`: an unnamed file of `len` zero bytes with a sealed length, so that its mapping never raises SIGBUS. `/proc` shows
/// `label`. Closed on exec.
pub fn sealed_memfd(label: &CStr, len: u64) -> Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create(label, flags).map_err(failed("memfd_create"))?;
    set_len(&file, len)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&file, seals).map_err(failed("fcntl(F_ADD_SEALS)"))?;
    Ok(file)
}

/// Whether the file is sealed against shrinking (`fcntl(F_GET_SEALS)`). False for files that cannot be sealed.
#[must_use]
pub fn cannot_shrink(file: BorrowedFd<'_>) -> bool {
    fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}

/// `shm_open(3)` with O_CREAT and O_EXCL, mode 0600: a new file of `len` zero bytes. `name` begins with `/` and has no other. EEXIST if
/// the name is in use.
pub fn create_shm(name: &str, len: u64) -> Result<OwnedFd> {
    let file = shm_open(name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)?;
    if let Err(error) = set_len(&file, len) {
        // Remove the name after a failure; a second error says nothing new.
        let _ = unlink_shm(name);
        return Err(error);
    }
    Ok(file)
}

/// `shm_open(3)` of an existing file.
pub fn open_shm(name: &str) -> Result<OwnedFd> {
    shm_open(name, libc::O_RDWR)
}

fn shm_open(name: &str, flags: i32) -> Result<OwnedFd> {
    let c_name = c_string("shm_open", name)?;
    // SAFETY: a C string that outlives the call, which returns a descriptor of this call alone.
    let fd = unsafe { descriptor("shm_open", libc::shm_open(c_name.as_ptr(), flags | libc::O_CLOEXEC, 0o600)) };
    fd.map_err(|e| e.on(name))
}

/// `shm_unlink(3)`: removes the name; processes that have the file open keep it.
pub fn unlink_shm(name: &str) -> Result<()> {
    let c_name = c_string("shm_unlink", name)?;
    // SAFETY: a C string that outlives the call.
    check("shm_unlink", unsafe { libc::shm_unlink(c_name.as_ptr()) }).map_err(|e| e.on(name)).map(drop)
}

pub(super) fn c_string(call: &'static str, name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| Error::from_errno(call, libc::EINVAL).on(name.escape_default().to_string()))
}

fn set_len(file: &OwnedFd, len: u64) -> Result<()> {
    // posix_fallocate instead of ftruncate: a full /dev/shm is an error here, not SIGBUS later.
    let bytes = libc::off_t::try_from(len).map_err(|_| Error::from_errno("posix_fallocate", libc::EFBIG))?;
    // SAFETY: a descriptor of ours and two integers.
    let returned = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes) };
    crate::check_errno_return("posix_fallocate", returned).map_err(|e| e.on(format!("{len} bytes")))
}

/// `shmget(2)`, `shmat(2)`, `shmctl(IPC_RMID)`: System V shared memory of `len` bytes, already marked for removal. The kernel frees it
/// when the last attached process ends, this one or a forked child.
pub fn sysv_segment(len: usize) -> Result<Region> {
    // SAFETY: integers only.
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, len, libc::IPC_CREAT | 0o600) };
    let id = check("shmget", id).map_err(|e| e.on(format!("{len} bytes")))?;
    // SAFETY: attaches at an address of the kernel's choice, so touches no memory of ours.
    let base = unsafe { libc::shmat(id, std::ptr::null(), 0) };
    let failed = (base as isize == -1).then(|| Error::last("shmat"));
    // SAFETY: the command takes no buffer.
    let removed = check("shmctl(IPC_RMID)", unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) });
    if let Some(error) = failed {
        return Err(error);
    }
    let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| Error::from_errno("shmat", libc::ENOMEM))?;
    // SAFETY: attached just now for reading and writing, `len` bytes long, and known to nobody else.
    let region = unsafe { Region::attached(base, len) };
    removed?;
    Ok(region)
}

/// Private memory that another process writes to, created before a fork. It has the same address in both processes, with contents of their own; each process writes
/// into the other's. Clones share the memory.
#[derive(Debug, Clone)]
pub struct Mailbox {
    memory: Arc<Region>,
}

impl Mailbox {
    /// A mailbox of `len` bytes.
    pub fn new(bytes: usize) -> Result<Self> {
        Ok(Self { memory: Arc::new(Region::private(bytes)?) })
    }

    /// `process_vm_writev(2)`: writes into the same mailbox of process `pid`, the parent or a child of this process.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_PTRACE where Yama forbids it and the peer did not call [`let_others_write`]; ESRCH if the peer ended; EFAULT
    /// if it has no such mailbox.
    ///
    /// # Panics
    /// If the bytes are not within the mailbox.
    #[inline]
    pub fn write_to(&self, pid: i32, offset: usize, from: &[u8]) -> Result<()> {
        let to = self.memory.at(offset, from.len(), 1);
        let local = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
        let remote = libc::iovec { iov_base: to.cast(), iov_len: from.len() };
        // SAFETY: the local part is read only. The remote part lies within this mailbox, which in any process is reached only
        // through copies that tolerate concurrent writers.
        let n = unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) };
        match usize::try_from(n) {
            Ok(n) if n == from.len() => Ok(()),
            Ok(_) => Err(Error::from_errno("process_vm_writev", libc::EFAULT)),
            Err(_) => Err(Error::last("process_vm_writev")),
        }
    }

    /// Copies out of this process's own mailbox.
    ///
    /// # Panics
    /// If the bytes are not within the mailbox.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        self.memory.copy_out(offset, into);
    }
}

/// `prctl(PR_SET_PTRACER)`: any process of this user may write into this one despite Yama (`ptrace_scope` 1). `false` revokes that.
/// Does nothing without Yama.
pub fn let_others_write(allowed: bool) -> Result<()> {
    let who = if allowed { libc::PR_SET_PTRACER_ANY } else { 0 };
    // SAFETY: the command takes a number.
    match check("prctl(PR_SET_PTRACER)", unsafe { libc::prctl(libc::PR_SET_PTRACER, who, 0, 0, 0) }) {
        Err(e) if e.errno() != libc::EINVAL => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    #[test]
    fn what_goes_in_comes_out_at_any_offset_and_length() {
        let region = Region::private(8192).unwrap();
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
        let region = Region::private(4096).unwrap();
        region.copy_in(0, &[0xAA; 4096]);
        region.copy_in(100, &[0; 333]);
        let mut all = [0; 4096];
        region.copy_out(0, &mut all);
        assert!(all[..100].iter().chain(&all[433..]).all(|b| *b == 0xAA));
        assert!(all[100..433].iter().all(|b| *b == 0));
    }

    #[test]
    fn words_are_where_they_are_said_to_be() {
        let region = Region::private(4096).unwrap();
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
        let _ = Region::private(4096).unwrap().u32(4094);
    }

    #[test]
    #[should_panic(expected = "of a region of 4096")]
    fn overflow_is_refused() {
        Region::private(4096).unwrap().copy_in(usize::MAX - 1, &[1, 2, 3]);
    }

    #[test]
    fn a_sealed_memfd_keeps_its_length() {
        let file = sealed_memfd(c"punctual-test", 8192).unwrap();
        assert!(cannot_shrink(file.as_fd()));
        // SAFETY: a descriptor of ours and an integer.
        assert_eq!(unsafe { libc::ftruncate(file.as_raw_fd(), 0) }, -1);
        let (a, b) = (Region::map(file.as_fd(), 8192).unwrap(), Region::map(file.as_fd(), 8192).unwrap());
        a.copy_in(5000, b"seen through both");
        let mut seen = [0; 17];
        b.copy_out(5000, &mut seen);
        assert_eq!(&seen, b"seen through both");
    }

    #[test]
    fn names_are_exclusive_and_go() {
        let name = format!("/punctual-linux-test-{}", std::process::id());
        let first = create_shm(&name, 4096).unwrap();
        assert!(!cannot_shrink(first.as_fd()));
        assert_eq!(create_shm(&name, 4096).unwrap_err().errno(), libc::EEXIST);
        open_shm(&name).unwrap();
        unlink_shm(&name).unwrap();
        assert_eq!(open_shm(&name).unwrap_err().errno(), libc::ENOENT);
        assert_eq!(open_shm("/a\0b").unwrap_err().errno(), libc::EINVAL);
    }

    #[test]
    fn a_system_v_segment_has_no_key_and_leaves_nothing() {
        let region = sysv_segment(4096).unwrap();
        region.copy_in(0, &[7; 4096]);
        drop(region);
    }
}
