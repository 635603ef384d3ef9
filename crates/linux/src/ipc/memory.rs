//! Memory that several processes reach: memfd, POSIX shared memory and System V segments, which they map; and mailboxes, private memory
//! that another process writes to (`process_vm_writev(2)`).

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use super::Region;
use crate::{Error, Result, check};

/// `memfd_create(2)`: an unnamed file of `len` zero bytes with a sealed length, so that its mapping never raises SIGBUS. `/proc` shows
/// `label`. Closed on exec.
pub fn sealed_memfd(label: &CStr, len: u64) -> Result<OwnedFd> {
    // SAFETY: `label` is a C string that outlives the call.
    let fd = unsafe { libc::memfd_create(label.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    let fd = check("memfd_create", fd)?;
    // SAFETY: the kernel just gave us this descriptor, and nobody else knows it.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    set_len(&file, len)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: this command takes an integer.
    check("fcntl(F_ADD_SEALS)", unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
    Ok(file)
}

/// Whether the file is sealed against shrinking (`fcntl(F_GET_SEALS)`). False for files that cannot be sealed.
#[must_use]
pub fn cannot_shrink(file: BorrowedFd<'_>) -> bool {
    // SAFETY: this command takes no argument.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals != -1 && seals & libc::F_SEAL_SHRINK != 0
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
    // SAFETY: a C string that outlives the call.
    let fd = unsafe { libc::shm_open(c_name.as_ptr(), flags | libc::O_CLOEXEC, 0o600) };
    let fd = check("shm_open", fd).map_err(|e| e.on(name))?;
    // SAFETY: the kernel just gave us this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `shm_unlink(3)`: removes the name; processes that have the file open keep it.
pub fn unlink_shm(name: &str) -> Result<()> {
    let c_name = c_string("shm_unlink", name)?;
    // SAFETY: a C string that outlives the call.
    check("shm_unlink", unsafe { libc::shm_unlink(c_name.as_ptr()) }).map_err(|e| e.on(name))?;
    Ok(())
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
