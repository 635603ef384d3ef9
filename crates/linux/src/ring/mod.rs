//! `io_uring(7)`: timeouts (IORING_OP_TIMEOUT), and eight-byte messages between two rings (IORING_OP_MSG_RING, Linux 5.18).

use std::collections::VecDeque;
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use io_uring::types::{Fd, Timespec};
use io_uring::{IoUring, opcode};

use crate::sleep::{Armed, Ended};
use crate::{Error, Result, failed};

/// A ring for timeouts only, submitted and waited for with one `io_uring_enter(2)`; closed on drop.
pub struct RingTimeout {
    // Dropped first, so that no entry refers to the timespec afterwards.
    ring: IoUring,
    // Boxed: queued entries point to it until they are submitted.
    time: Box<Timespec>,
    number: u64,
}

impl RingTimeout {
    /// `io_uring_setup(2)`. Timeouts need Linux 5.4: on older kernels the first wait fails with EINVAL.
    ///
    /// Errors: ENOSYS (before Linux 5.1, or built without), EPERM (`/proc/sys/kernel/io_uring_disabled`, or a container's filter).
    pub fn new() -> Result<Self> {
        let ring = IoUring::new(4).map_err(failed("io_uring_setup"))?;
        Ok(Self { ring, time: Box::new(Timespec::new()), number: 0 })
    }
}

impl Armed for RingTimeout {
    /// Queues the timeout; [`Armed::wait`] submits it.
    #[inline]
    fn arm(&mut self, duration_ns: i64) -> Result<()> {
        let ns = duration_ns.max(1).unsigned_abs();
        *self.time = Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32);
        self.number += 1;
        let entry = opcode::Timeout::new(&raw const *self.time).build().user_data(self.number);
        // SAFETY: the timespec outlives the submission, at which the kernel copies it (io_uring/timeout.c, io_timeout_prep).
        unsafe { self.ring.submission().push(&entry) }
            .map_err(|_| Error::from_errno("io_uring_enter", libc::EBUSY).on("the submission queue is full"))
    }

    /// `io_uring_enter(2)`.
    #[inline]
    fn wait(&mut self) -> Result<Ended> {
        let entered = self.ring.submit_and_wait(1);
        // Timeouts of abandoned waits complete too, under their own numbers.
        for completion in self.ring.completion() {
            if completion.user_data() == self.number {
                return Ended::of_errno("io_uring timeout", -completion.result(), libc::ETIME);
            }
        }
        match entered {
            Ok(_) => Ok(Ended::Sooner),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(Ended::Sooner),
            Err(error) => Err(failed("io_uring_enter")(error)),
        }
    }

    /// The timeout continues; its completion is recognised by its number and ignored.
    fn disarm(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Entries of the queues.
const ENTRIES: u32 = 256;

/// An io_uring, created before a fork, so that both processes have it. Each sends from its own ring to the other's. Clones share the ring.
#[derive(Clone)]
pub struct MessageRing {
    inner: Arc<Mutex<Inner>>,
    descriptor: RawFd,
}

struct Inner {
    ring: IoUring,
    /// Messages received while checking for a failure.
    early: VecDeque<u64>,
}

/// Result of a completion with a message; a failure has a negative one.
const MESSAGE: i32 = 1;

impl std::fmt::Debug for MessageRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageRing").field("descriptor", &self.descriptor).finish_non_exhaustive()
    }
}

impl MessageRing {
    /// `io_uring_setup(2)`, and a probe for the operation.
    ///
    /// # Errors
    /// ENOSYS (no io_uring), EPERM (`/proc/sys/kernel/io_uring_disabled`), ENOMEM, EOPNOTSUPP (before Linux 5.18).
    pub fn new() -> Result<Self> {
        let ring = IoUring::new(ENTRIES).map_err(failed("io_uring_setup"))?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(failed("io_uring_register(PROBE)"))?;
        if !probe.is_supported(opcode::MsgRingData::CODE) {
            return Err(Error::from_errno("io_uring_setup", libc::EOPNOTSUPP).on("IORING_OP_MSG_RING"));
        }
        let descriptor = ring.as_raw_fd();
        Ok(Self {
            inner: Arc::new(Mutex::new(Inner { ring, early: VecDeque::with_capacity(ENTRIES as usize) })),
            descriptor,
        })
    }

    /// `io_uring_enter(2)`: sends from this ring to the other one. Only a failure creates a completion (IOSQE_CQE_SKIP_SUCCESS).
    #[inline]
    pub fn send(&self, to: &Self, value: u64) -> Result<()> {
        let entry = opcode::MsgRingData::new(Fd(to.descriptor), MESSAGE, value, None).build();
        let entry = entry.flags(io_uring::squeue::Flags::SKIP_SUCCESS);
        let mut inner = self.lock();
        // SAFETY: the entry holds numbers only: no buffer has to live until it is done.
        let pushed = unsafe { inner.ring.submission().push(&entry) };
        pushed.map_err(|_| Error::from_errno("io_uring_enter", libc::EBUSY).on("submission queue"))?;
        inner.ring.submit().map_err(failed("io_uring_enter"))?;
        while let Some(message) = inner.next()? {
            // The peer's messages arrive in the same queue.
            inner.early.push_back(message);
        }
        Ok(())
    }

    /// `io_uring_enter(2)`: waits for a message.
    #[inline]
    pub fn receive(&self) -> Result<u64> {
        let mut inner = self.lock();
        loop {
            if let Some(message) = inner.take()? {
                return Ok(message);
            }
            inner.ring.submit_and_wait(1).map_err(failed("io_uring_enter"))?;
        }
    }

    /// Polls the completion queue, without a system call.
    #[inline]
    pub fn try_receive(&self) -> Result<Option<u64>> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn take(&mut self) -> Result<Option<u64>> {
        match self.early.pop_front() {
            Some(message) => Ok(Some(message)),
            None => self.next(),
        }
    }

    /// The next completion: a message, or the failure of a sent one.
    fn next(&mut self) -> Result<Option<u64>> {
        match self.ring.completion().next() {
            None => Ok(None),
            Some(done) if done.result() == MESSAGE => Ok(Some(done.user_data())),
            Some(done) => Err(Error::from_errno("IORING_OP_MSG_RING", -done.result())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{self, Child};

    #[test]
    fn messages_go_both_ways_between_processes() {
        let (here, there) = match (MessageRing::new(), MessageRing::new()) {
            (Ok(here), Ok(there)) => (here, there),
            (Err(error), _) | (_, Err(error)) => {
                return punctual_testing::lacks(punctual_testing::Lack::Call("io_uring_setup", error.errno()));
            }
        };
        let (theirs, mine) = (there.clone(), here.clone());
        let mut child = Child::spawn("uring", move || {
            for _ in 0..1000 {
                let value = theirs.receive().unwrap();
                theirs.send(&mine, value + 1).unwrap();
            }
        })
        .unwrap();
        for value in 0..1000 {
            here.send(&there, value).unwrap();
            assert_eq!(here.receive().unwrap(), value + 1);
        }
        assert_eq!(child.wait().unwrap(), child::Ended::Exited(0));
        assert_eq!(here.try_receive().unwrap(), None);
    }
}
