//! Timeouts through `io_uring(7)` on unsupported architectures, or without the feature `io-uring`: refused.

use crate::timed::{Armed, Ended};
use crate::{Error, Result};

/// A ring; none can exist on this architecture.
#[derive(Debug)]
pub enum RingTimeout {}

impl RingTimeout {
    /// Always fails, with EOPNOTSUPP.
    pub fn new() -> Result<Self> {
        let object = format!("this build has no io_uring for {}", std::env::consts::ARCH);
        Err(Error::from_errno("io_uring_setup", libc::EOPNOTSUPP).on(object))
    }
}

impl Armed for RingTimeout {
    fn arm(&mut self, _: i64) -> Result<()> {
        match *self {}
    }

    fn wait(&mut self) -> Result<Ended> {
        match *self {}
    }

    fn disarm(&mut self) -> Result<()> {
        match *self {}
    }
}
