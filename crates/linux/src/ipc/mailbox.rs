//! Private memory that another process writes to: `process_vm_writev(2)`.

use std::sync::Arc;

use super::Region;
use crate::{Error, Result, check};

/// Private memory, created before a fork. It has the same address in both processes, with contents of their own; each process writes
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
    /// EPERM (not allowed by the peer, and without CAP_SYS_PTRACE: Yama, see [`let_others_write`]). ESRCH (the peer ended). EFAULT
    /// (the peer has no such mailbox).
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
