//! POSIX message queues (`mq_overview(7)`): the timeout of `mq_timedreceive(3)` on a queue that stays empty.

use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::clock::timespec_of;
use crate::timed::Ended;
use crate::{Error, Result, check};

/// The size of a message; a small queue takes little of the user's `RLIMIT_MSGQUEUE`.
const MESSAGE_BYTES: usize = 8;

/// An empty queue without a name, closed on drop.
#[derive(Debug)]
pub struct MessageQueue(libc::mqd_t);

impl MessageQueue {
    /// `mq_open(3)` under a unique name, then `mq_unlink(3)` at once, so that no name is left behind.
    ///
    /// Errors: ENOSYS (kernel without `CONFIG_POSIX_MQUEUE`), EMFILE, ENOSPC (`/proc/sys/fs/mqueue/queues_max`), EMFILE also for
    /// `RLIMIT_MSGQUEUE`.
    pub fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("/punctual-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = CString::new(name.clone()).map_err(|_| Error::from_errno("mq_open", libc::EINVAL))?;
        // SAFETY: all-zero bytes are a valid mq_attr.
        let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
        attributes.mq_maxmsg = 1;
        attributes.mq_msgsize = MESSAGE_BYTES as _;
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDONLY | libc::O_CLOEXEC;
        // SAFETY: name and attributes are valid for the call. The mode is passed as the promoted type it has in C.
        let queue = unsafe { libc::mq_open(path.as_ptr(), flags, 0o600 as libc::c_uint, &raw mut attributes) };
        if queue == -1 {
            return Err(Error::last("mq_open").on(name));
        }
        let queue = Self(queue);
        // SAFETY: the name is valid for the call.
        check("mq_unlink", unsafe { libc::mq_unlink(path.as_ptr()) }).map_err(|e| e.on(name))?;
        Ok(queue)
    }

    /// `mq_timedreceive(3)`: until `CLOCK_REALTIME` shows `deadline_ns`.
    #[inline]
    pub fn wait_until(&self, deadline_ns: i64) -> Result<Ended> {
        let deadline = timespec_of(deadline_ns);
        let mut message = [0; MESSAGE_BYTES];
        // SAFETY: there is room for one message; the deadline is valid for the call; the priority is not asked for.
        let returned = unsafe {
            libc::mq_timedreceive(
                self.0,
                message.as_mut_ptr(),
                MESSAGE_BYTES,
                std::ptr::null_mut(),
                &raw const deadline,
            )
        };
        Ended::of_failure("mq_timedreceive", returned as i64, libc::ETIMEDOUT)
    }
}

impl Drop for MessageQueue {
    fn drop(&mut self) {
        // SAFETY: open, and used no more.
        unsafe { libc::mq_close(self.0) };
    }
}
