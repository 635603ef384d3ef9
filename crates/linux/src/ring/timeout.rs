//! A timeout through `io_uring(7)`: `IORING_OP_TIMEOUT`, submitted and waited for with one `io_uring_enter(2)`.

use io_uring::types::Timespec;
use io_uring::{IoUring, opcode};

use crate::timed::{Armed, Ended};
use crate::{Error, Result};

/// A ring for timeouts only; closed on drop.
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
        let ring = IoUring::new(4).map_err(|source| Error { call: "io_uring_setup", object: None, source })?;
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
            Err(source) if source.raw_os_error() == Some(libc::EINTR) => Ok(Ended::Sooner),
            Err(source) => Err(Error { call: "io_uring_enter", object: None, source }),
        }
    }

    /// The timeout continues; its completion is recognised by its number and ignored.
    fn disarm(&mut self) -> Result<()> {
        Ok(())
    }
}
