//! Messages between two io_urings, on the architectures whose layout of it is not known here: refused.

use crate::{Error, Result};

/// A ring, of which there is none on this architecture.
#[derive(Debug, Clone)]
pub enum MessageRing {}

impl MessageRing {
    /// Always fails, with EOPNOTSUPP.
    pub fn new() -> Result<Self> {
        let object = format!("this program knows no io_uring on {}", std::env::consts::ARCH);
        Err(Error::from_errno("io_uring_setup", libc::EOPNOTSUPP).on(object))
    }

    /// There is no ring to send from.
    pub fn send(&self, _: &Self, _: u64) -> Result<()> {
        match *self {}
    }

    /// There is no ring to receive from.
    pub fn receive(&self) -> Result<u64> {
        match *self {}
    }

    /// There is no ring to look into.
    pub fn try_receive(&self) -> Result<Option<u64>> {
        match *self {}
    }
}
