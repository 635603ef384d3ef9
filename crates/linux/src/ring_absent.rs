//! Timeouts through `io_uring(7)`, on the architectures whose layout of it is not known here: refused.

use crate::timed::{Armed, Ended};
use crate::{Error, Result};

/// A ring, of which there is none on this architecture.
#[derive(Debug)]
pub enum RingTimeout {}

impl RingTimeout {
    /// Always fails, with EOPNOTSUPP.
    pub fn new() -> Result<Self> {
        let object = format!("this program knows no io_uring on {}", std::env::consts::ARCH);
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
