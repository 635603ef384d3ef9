//! A ring's file: made, opened, examined.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_linux::ipc::{Region, lock, memory};

use super::ends::{Receiver, Sender};
use super::error::RingError;
use super::layout::{
    AT_CAPACITY, AT_DATA, AT_MAGIC, AT_VERSION, DATA, GREATEST, LEAST, MAGIC, VERSION, largest_message,
};

/// A ring, mapped. Both ends are taken from it, usually each in another process.
#[derive(Debug)]
pub struct Ring {
    file: OwnedFd,
    region: Arc<Region>,
    capacity: u64,
}

impl Ring {
    /// Makes a ring in a sealed memfd, for a process that inherits it ([`Ring::as_fd`]) or is sent it over a Unix socket.
    ///
    /// `capacity` is 4 KiB to 4 GiB, and is rounded up to a power of two.
    pub fn anonymous(capacity: u64) -> Result<Self, RingError> {
        let capacity = checked(capacity)?;
        Self::make(memory::sealed_memfd(c"punctual-ring", DATA as u64 + capacity)?, capacity)
    }

    /// Makes a ring with a name in /dev/shm, which no other file there may have. `name` is a slash and up to 254 more bytes.
    ///
    /// The name stays until [`Ring::remove`] takes it away; that may be done as soon as the other side has opened it.
    pub fn create(name: &str, capacity: u64) -> Result<Self, RingError> {
        let capacity = checked(capacity)?;
        let file = memory::create_shm(checked_name(name)?, DATA as u64 + capacity)?;
        Self::make(file, capacity).inspect_err(|_| {
            // The first error is the one to tell.
            let _ = Self::remove(name);
        })
    }

    /// Opens a ring by its name.
    pub fn open(name: &str) -> Result<Self, RingError> {
        Self::examine(memory::open_shm(checked_name(name)?)?)
    }

    /// Opens a ring in a memfd that was inherited or received. Refused unless its length is sealed.
    pub fn from_fd(file: OwnedFd) -> Result<Self, RingError> {
        if !memory::cannot_shrink(file.as_fd()) {
            return Err(RingError::NotSealed);
        }
        Self::examine(file)
    }

    /// Takes a name away. Who has the ring open keeps it.
    pub fn remove(name: &str) -> Result<(), RingError> {
        Ok(memory::unlink_shm(checked_name(name)?)?)
    }

    /// Takes the sending end. One process at a time has it; when that process ends, another may take it over.
    pub fn sender(&self) -> Result<Sender, RingError> {
        Sender::take(lock::reopen(self.file.as_fd())?, Arc::clone(&self.region), self.capacity)
    }

    /// Takes the receiving end. One process at a time has it; when that process ends, another may take it over.
    pub fn receiver(&self) -> Result<Receiver, RingError> {
        Receiver::take(lock::reopen(self.file.as_fd())?, Arc::clone(&self.region), self.capacity)
    }

    /// Bytes for messages, their words of 8 bytes included.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes of the largest message: the capacity less 16.
    #[must_use]
    pub fn largest_message(&self) -> u64 {
        largest_message(self.capacity)
    }

    fn make(file: OwnedFd, capacity: u64) -> Result<Self, RingError> {
        let len = usize::try_from(DATA as u64 + capacity).map_err(|_| RingError::Capacity(capacity))?;
        let region = Arc::new(Region::map(file.as_fd(), len)?);
        region.u32(AT_VERSION).store(VERSION, Ordering::Relaxed);
        region.u32(AT_DATA).store(DATA as u32, Ordering::Relaxed);
        region.u64(AT_CAPACITY).store(capacity, Ordering::Relaxed);
        region.u64(AT_MAGIC).store(MAGIC, Ordering::Release);
        Ok(Self { file, region, capacity })
    }

    fn examine(file: OwnedFd) -> Result<Self, RingError> {
        let stat =
            rustix::fs::fstat(&file).map_err(|e| punctual_linux::Error::from_errno("fstat", e.raw_os_error()))?;
        let found = u64::try_from(stat.st_size).unwrap_or(0);
        let least = DATA as u64 + LEAST;
        if found < least {
            return Err(if found == 0 { RingError::NotReady } else { RingError::Length { found, expected: least } });
        }
        if found > DATA as u64 + GREATEST {
            return Err(RingError::Length { found, expected: DATA as u64 + GREATEST });
        }
        let len = usize::try_from(found).map_err(|_| RingError::Capacity(found))?;
        let region = Arc::new(Region::map(file.as_fd(), len)?);
        let capacity = header(&region, found)?;
        Ok(Self { file, region, capacity })
    }
}

/// Reads the header of a file of `found` bytes: its capacity, or why it is no ring.
fn header(region: &Region, found: u64) -> Result<u64, RingError> {
    match region.u64(AT_MAGIC).load(Ordering::Acquire) {
        MAGIC => {}
        0 => return Err(RingError::NotReady),
        other => return Err(RingError::NotARing { found: other.to_ne_bytes() }),
    }
    match region.u32(AT_VERSION).load(Ordering::Relaxed) {
        VERSION => {}
        found => return Err(RingError::Version { found }),
    }
    if region.u32(AT_DATA).load(Ordering::Relaxed) != DATA as u32 {
        return Err(RingError::Damaged("the data do not begin where version 1 has them"));
    }
    let capacity = region.u64(AT_CAPACITY).load(Ordering::Relaxed);
    if !capacity.is_power_of_two() || !(LEAST..=GREATEST).contains(&capacity) {
        return Err(RingError::Damaged("its capacity is no power of two between 4 KiB and 4 GiB"));
    }
    let expected = DATA as u64 + capacity;
    if found == expected { Ok(capacity) } else { Err(RingError::Length { found, expected }) }
}

fn checked(capacity: u64) -> Result<u64, RingError> {
    let rounded = capacity.checked_next_power_of_two().filter(|c| (LEAST..=GREATEST).contains(c));
    rounded.filter(|_| capacity >= LEAST).ok_or(RingError::Capacity(capacity))
}

/// `shm_open(3)`: a slash at the beginning and nowhere else.
fn checked_name(name: &str) -> Result<&str, RingError> {
    let good = name.strip_prefix('/').is_some_and(|rest| {
        !rest.is_empty() && name.len() <= 255 && !rest.contains(['/', '\0']) && rest != "." && rest != ".."
    });
    if good { Ok(name) } else { Err(RingError::Name(name.escape_default().to_string())) }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
