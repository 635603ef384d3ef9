//! Unnamed POSIX semaphores between processes, each in its own shared memory: `sem_overview(7)`.

use std::sync::Arc;

use super::Region;
use crate::{Error, Result, check};

/// A semaphore for this process and its forked children. Clones share the semaphore.
#[derive(Debug, Clone)]
pub struct Semaphore {
    memory: Arc<Region>,
}

impl Semaphore {
    /// `sem_init(3)`, shared between processes.
    pub fn new(value: u32) -> Result<Self> {
        let memory = Arc::new(Region::anonymous(size_of::<libc::sem_t>())?);
        let semaphore = Self { memory };
        // SAFETY: writable memory of the right size, aligned to a page, that nobody else knows yet.
        check("sem_init", unsafe { libc::sem_init(semaphore.raw(), 1, value) })?;
        Ok(semaphore)
    }

    fn raw(&self) -> *mut libc::sem_t {
        self.memory.at(0, size_of::<libc::sem_t>(), 1).cast()
    }

    /// `sem_post(3)`.
    #[inline]
    pub fn post(&self) -> Result<()> {
        // SAFETY: initialised, and mapped as long as `self`.
        check("sem_post", unsafe { libc::sem_post(self.raw()) }).map(drop)
    }

    /// `sem_wait(3)`.
    #[inline]
    pub fn wait(&self) -> Result<()> {
        // SAFETY: initialised, and mapped as long as `self`.
        check("sem_wait", unsafe { libc::sem_wait(self.raw()) }).map(drop)
    }

    /// `sem_trywait(3)`; `false`: it is zero.
    #[inline]
    pub fn try_wait(&self) -> Result<bool> {
        // SAFETY: initialised, and mapped as long as `self`.
        match unsafe { libc::sem_trywait(self.raw()) } {
            0 => Ok(true),
            _ => match Error::last("sem_trywait") {
                e if e.errno() == libc::EAGAIN => Ok(false),
                e => Err(e),
            },
        }
    }
}
