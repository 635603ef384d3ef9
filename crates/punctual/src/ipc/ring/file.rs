//! A ring's file: creates, opens and examines it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_linux::ipc::{Region, memory};

use super::RingError;
use super::ends::{Receiver, Sender};
use super::layout::{
    AT_CAPACITY, AT_DATA, AT_MAGIC, AT_VERSION, DATA, GREATEST, LEAST, MAGIC, VERSION, largest_message,
};

/// A mapped ring. Its two ends are usually taken by two processes.
#[derive(Debug)]
pub struct Ring {
    file: Arc<OwnedFd>,
    region: Arc<Region>,
    capacity: u64,
}

impl Ring {
    /// Creates a ring in a sealed memfd. Another process inherits it ([`Ring::as_fd`]) or receives it over a Unix socket.
    ///
    /// `capacity` is 4 KiB to 4 GiB in bytes, rounded up to a power of two.
    pub fn anonymous(capacity: u64) -> Result<Self, RingError> {
        let capacity = checked(capacity)?;
        Self::make(memory::sealed_memfd(c"punctual-ring", DATA as u64 + capacity)?, capacity)
    }

    /// Creates a ring with a name in /dev/shm. `name` is a slash and 1 to 254 more bytes. A name in use is refused (EEXIST).
    ///
    /// The name stays until [`Ring::remove`], even after the process ends. Remove it when the other side has opened the ring. Before you
    /// create, remove the name that a killed run may have left:
    ///
    /// ```
    /// use punctual::ipc::{Ring, WaitStrategy};
    ///
    /// # let name = &format!("/punctual-example-{}", std::process::id());
    /// # for run in 0..2 {
    /// let _ = Ring::remove(name); // left by a run that was killed
    /// let mut sender = Ring::create(name, 1 << 20)?.sender()?;
    /// let mut receiver = Ring::open(name)?.receiver()?; // in the other process
    /// # if run == 1 {
    /// Ring::remove(name)?; // both have it open
    /// # }
    /// sender.try_send(b"hello")?;
    /// let mut message = [0; 100];
    /// assert_eq!(receiver.receive(&mut message, WaitStrategy::Sleep)?, 5);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(name: &str, capacity: u64) -> Result<Self, RingError> {
        let capacity = checked(capacity)?;
        let file = memory::create_shm(checked_name(name)?, DATA as u64 + capacity)?;
        Self::make(file, capacity).inspect_err(|_| {
            // The first error is the one to report.
            let _ = Self::remove(name);
        })
    }

    /// Opens a ring by name. Refused unless it belongs to this process's effective user or to root.
    ///
    /// Between users, pass the descriptor of a ring: [`Ring::anonymous`], [`Ring::from_fd`].
    ///
    /// A file in /dev/shm cannot be sealed. If a process of the same user truncates it, both sides end with SIGBUS.
    pub fn open(name: &str) -> Result<Self, RingError> {
        let file = memory::open_shm(checked_name(name)?)?;
        let found = stat(&file)?;
        if found.st_uid != 0 && found.st_uid != rustix::process::geteuid().as_raw() {
            return Err(RingError::NotYours { owner: found.st_uid });
        }
        Self::examine(file, &found)
    }

    /// Opens a ring in an inherited or received memfd. Refused unless sealed against shrinking.
    pub fn from_fd(file: OwnedFd) -> Result<Self, RingError> {
        if !memory::cannot_shrink(file.as_fd()) {
            return Err(RingError::NotSealed);
        }
        let found = stat(&file)?;
        Self::examine(file, &found)
    }

    /// Removes a name, as shm_unlink(3) does. Processes that have the ring open keep it.
    pub fn remove(name: &str) -> Result<(), RingError> {
        Ok(memory::unlink_shm(checked_name(name)?)?)
    }

    /// Takes the sending end. One process at a time has it; when that process ends, another can take over.
    ///
    /// A forked child does not get it, so a daemon must take its end after its last fork.
    pub fn sender(&self) -> Result<Sender, RingError> {
        Sender::take(Arc::clone(&self.file), Arc::clone(&self.region), self.capacity)
    }

    /// Takes the receiving end, with the same rules as [`Ring::sender`].
    pub fn receiver(&self) -> Result<Receiver, RingError> {
        Receiver::take(Arc::clone(&self.file), Arc::clone(&self.region), self.capacity)
    }

    /// Bytes for messages, including 8 bytes and padding per message.
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
        Ok(Self { file: Arc::new(file), region, capacity })
    }

    /// Maps the file, after all checks that need no mapping.
    fn examine(file: OwnedFd, stat: &rustix::fs::Stat) -> Result<Self, RingError> {
        let found = u64::try_from(stat.st_size).unwrap_or(0);
        let least = DATA as u64 + LEAST;
        if found < least {
            return Err(if found == 0 { RingError::NotReady } else { RingError::Length { found, expected: least } });
        }
        if found > DATA as u64 + GREATEST {
            return Err(RingError::Length { found, expected: DATA as u64 + GREATEST });
        }
        let capacity = header(&file, found)?;
        // Mapping fills holes: a planted sparse file would cost its opener up to 4 GiB.
        let allocated = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(BLOCK);
        if allocated < found {
            return Err(RingError::Holes { allocated, len: found });
        }
        let len = usize::try_from(found).map_err(|_| RingError::Capacity(found))?;
        let region = Arc::new(Region::map(file.as_fd(), len)?);
        Ok(Self { file: Arc::new(file), region, capacity })
    }
}

/// Unit of `st_blocks` on every file system (stat(3type)).
const BLOCK: u64 = 512;

fn stat(file: &OwnedFd) -> Result<rustix::fs::Stat, RingError> {
    rustix::fs::fstat(file).map_err(|e| punctual_linux::Error::from_errno("fstat", e.raw_os_error()).into())
}

/// Reads the header of a file of `found` bytes. Returns the capacity.
fn header(file: &OwnedFd, found: u64) -> Result<u64, RingError> {
    // The magic is written last, so it is read first.
    match u64::from_ne_bytes(read_at(file, AT_MAGIC)?) {
        MAGIC => {}
        0 => return Err(RingError::NotReady),
        other => return Err(RingError::NotARing { found: other.to_ne_bytes() }),
    }
    match u32::from_ne_bytes(read_at(file, AT_VERSION)?) {
        VERSION => {}
        found => return Err(RingError::Version { found }),
    }
    if u32::from_ne_bytes(read_at(file, AT_DATA)?) != DATA as u32 {
        return Err(RingError::Damaged("wrong offset of the data"));
    }
    let capacity = u64::from_ne_bytes(read_at(file, AT_CAPACITY)?);
    if !capacity.is_power_of_two() || !(LEAST..=GREATEST).contains(&capacity) {
        return Err(RingError::Damaged("the capacity is not a power of two from 4 KiB to 4 GiB"));
    }
    let expected = DATA as u64 + capacity;
    if found == expected { Ok(capacity) } else { Err(RingError::Length { found, expected }) }
}

/// The bytes at an offset; zeros beyond the end of the file.
fn read_at<const N: usize>(file: &OwnedFd, at: usize) -> Result<[u8; N], RingError> {
    let mut bytes = [0; N];
    rustix::io::pread(file, &mut bytes, at as u64)
        .map_err(|e| punctual_linux::Error::from_errno("pread", e.raw_os_error()))?;
    Ok(bytes)
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
