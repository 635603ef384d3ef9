//! Eight-byte messages between two io_urings: IORING_OP_MSG_RING (Linux 5.18).

use std::collections::VecDeque;
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use io_uring::{IoUring, opcode, types};

use crate::{Error, Result};

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

fn failed(call: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error { call, object: None, source }
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
        let entry = opcode::MsgRingData::new(types::Fd(to.descriptor), MESSAGE, value, None).build();
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
            Some(failed) => Err(Error::from_errno("IORING_OP_MSG_RING", -failed.result())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, Ended};

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
        assert_eq!(child.wait().unwrap(), Ended::Exited(0));
        assert_eq!(here.try_receive().unwrap(), None);
    }
}
