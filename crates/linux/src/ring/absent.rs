//! `io_uring(7)` on unsupported architectures, or without the feature `io-uring`: refused.

use std::convert::Infallible;

use crate::sleep::{Armed, Ended};
use crate::{Error, Result};

fn refused() -> Error {
    let object = format!("this build has no io_uring for {}", std::env::consts::ARCH);
    Error::from_errno("io_uring_setup", libc::EOPNOTSUPP).on(object)
}

/// A ring; none can exist on this architecture.
#[derive(Debug)]
pub enum RingTimeout {}

impl RingTimeout {
    /// Always fails, with EOPNOTSUPP.
    pub fn new() -> Result<Self> {
        Err(refused())
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

/// A ring; none can exist on this architecture. The field is private, so callers get no warnings of unreachable code.
#[derive(Debug, Clone)]
pub struct MessageRing(Infallible);

impl MessageRing {
    /// Always fails, with EOPNOTSUPP.
    pub fn new() -> Result<Self> {
        Err(refused())
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
