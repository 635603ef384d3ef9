//! Messages between two io_urings on unsupported architectures, or without the feature `io-uring`: refused.

use std::convert::Infallible;

use crate::{Error, Result};

/// A ring; none can exist on this architecture. The field is private, so callers get no warnings of unreachable code.
#[derive(Debug, Clone)]
pub struct MessageRing(Infallible);

impl MessageRing {
    /// Always fails, with EOPNOTSUPP.
    pub fn new() -> Result<Self> {
        let object = format!("this build has no io_uring for {}", std::env::consts::ARCH);
        Err(Error::from_errno("io_uring_setup", libc::EOPNOTSUPP).on(object))
    }

    /// Unreachable: no ring exists.
    pub fn send(&self, _: &Self, _: u64) -> Result<()> {
        match self.0 {}
    }

    /// Unreachable: no ring exists.
    pub fn receive(&self) -> Result<u64> {
        match self.0 {}
    }

    /// Unreachable: no ring exists.
    pub fn try_receive(&self) -> Result<Option<u64>> {
        match self.0 {}
    }
}
