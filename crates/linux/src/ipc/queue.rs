//! POSIX message queues: `mq_overview(7)`.

use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering};

use super::memory::c_string;
use crate::clock::timespec_of;
use crate::sleep::Ended;
use crate::{Error, Result, check};

/// A descriptor of a queue, closed on drop.
#[derive(Debug)]
pub struct Queue(libc::mqd_t);

/// The purpose of an open queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// `mq_send(3)`.
    Sending,
    /// `mq_receive(3)`.
    Receiving,
    /// `mq_receive(3)` with EAGAIN instead of a wait (O_NONBLOCK).
    Polling,
}

impl Use {
    const fn flags(self) -> i32 {
        libc::O_CLOEXEC
            | match self {
                Self::Sending => libc::O_WRONLY,
                Self::Receiving => libc::O_RDONLY,
                Self::Polling => libc::O_RDONLY | libc::O_NONBLOCK,
            }
    }
}

/// `mq_open(3)` with O_CREAT and O_EXCL: a new queue for sending. It has a capacity in messages and a message size in
/// bytes.
///
/// # Errors
/// - EEXIST
/// - EINVAL above `msg_max` or `msgsize_max` of `/proc/sys/fs/mqueue` (with privilege, 65 536 messages of 16 MiB)
/// - EMFILE above RLIMIT_MSGQUEUE, even with privilege
/// - ENOSPC above `queues_max`
/// - ENOSYS without CONFIG_POSIX_MQUEUE
pub fn create(name: &str, messages: usize, bytes: usize) -> Result<Queue> {
    create_for(name, messages, bytes, Use::Sending)
}

fn create_for(name: &str, messages: usize, bytes: usize, purpose: Use) -> Result<Queue> {
    let c_name = c_string("mq_open", name)?;
    // SAFETY: all-zero bytes are a valid mq_attr.
    let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
    attributes.mq_maxmsg = messages as _;
    attributes.mq_msgsize = bytes as _;
    let flags = libc::O_CREAT | libc::O_EXCL | purpose.flags();
    // SAFETY: name and attributes are valid for the call. The mode is passed as the promoted type it has in C.
    let queue = unsafe { libc::mq_open(c_name.as_ptr(), flags, 0o600 as libc::c_uint, &raw mut attributes) };
    opened(queue, &c_name)
}

/// `mq_open(3)` of an existing queue.
pub fn open(name: &str, purpose: Use) -> Result<Queue> {
    let c_name = c_string("mq_open", name)?;
    // SAFETY: the name is valid for the call.
    let queue = unsafe { libc::mq_open(c_name.as_ptr(), purpose.flags()) };
    opened(queue, &c_name)
}

fn opened(queue: libc::mqd_t, name: &CString) -> Result<Queue> {
    if queue == -1 {
        return Err(Error::last("mq_open").on(name.to_string_lossy()));
    }
    Ok(Queue(queue))
}

/// `mq_open(3)`, `fstat(2)`: the user ID of the owner of an existing queue.
pub fn owner(name: &str) -> Result<u32> {
    let queue = open(name, Use::Polling)?;
    // SAFETY: all-zero bytes are a valid stat; on Linux a queue's descriptor is a file descriptor.
    let mut facts: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: open, and the structure is writable.
    check("fstat", unsafe { libc::fstat(queue.0, &raw mut facts) }).map_err(|e| e.on(name))?;
    Ok(facts.st_uid)
}

/// `mq_unlink(3)`: removes the name; processes that have the queue open keep it.
pub fn unlink(name: &str) -> Result<()> {
    let c_name = c_string("mq_unlink", name)?;
    // SAFETY: the name is valid for the call.
    check("mq_unlink", unsafe { libc::mq_unlink(c_name.as_ptr()) }).map_err(|e| e.on(name)).map(drop)
}

impl Queue {
    /// `mq_send(3)`, priority 0: waits while the queue is full.
    #[inline]
    pub fn send(&self, message: &[u8]) -> Result<()> {
        // SAFETY: the message is readable for its length.
        check("mq_send", unsafe { libc::mq_send(self.0, message.as_ptr().cast(), message.len(), 0) }).map(drop)
    }

    /// `mq_receive(3)`: returns the message's length. The buffer must hold the queue's largest message (EMSGSIZE).
    #[inline]
    pub fn receive(&self, into: &mut [u8]) -> Result<usize> {
        // SAFETY: the buffer is writable for its length; the priority is not asked for.
        let n = unsafe { libc::mq_receive(self.0, into.as_mut_ptr().cast(), into.len(), std::ptr::null_mut()) };
        usize::try_from(n).map_err(|_| Error::last("mq_receive"))
    }

    /// `poll(2)`: waits for a message. On Linux a queue's descriptor is a file descriptor.
    pub fn wait(&self) -> Result<()> {
        let mut poll = libc::pollfd { fd: self.0, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        check("poll", unsafe { libc::poll(&raw mut poll, 1, -1) }).map(drop)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: open, and used no more.
        unsafe { libc::mq_close(self.0) };
    }
}

/// The size of a message; a small queue takes little of the user's `RLIMIT_MSGQUEUE`.
const MESSAGE_BYTES: usize = 8;

/// An empty queue without a name, for the timeout of `mq_timedreceive(3)`.
#[derive(Debug)]
pub struct EmptyQueue(Queue);

impl EmptyQueue {
    /// `mq_open(3)` under a unique name, then `mq_unlink(3)` at once, so that no name is left behind.
    ///
    /// # Errors
    /// Those of [`create`].
    pub fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("/punctual-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let queue = create_for(&name, 1, MESSAGE_BYTES, Use::Receiving)?;
        unlink(&name)?;
        Ok(Self(queue))
    }

    /// `mq_timedreceive(3)`: until `CLOCK_REALTIME` shows `deadline_ns`.
    #[inline]
    pub fn wait_until(&self, deadline_ns: i64) -> Result<Ended> {
        let deadline = timespec_of(deadline_ns);
        let mut message = [0; MESSAGE_BYTES];
        // SAFETY: there is room for one message; the deadline is valid for the call; the priority is not asked for.
        let returned = unsafe {
            libc::mq_timedreceive(
                self.0.0,
                message.as_mut_ptr(),
                MESSAGE_BYTES,
                std::ptr::null_mut(),
                &raw const deadline,
            )
        };
        Ended::of_failure("mq_timedreceive", returned as i64, libc::ETIMEDOUT)
    }
}
