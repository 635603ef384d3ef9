//! The keeper: removes all IPC objects, however the measuring process ends.
//!
//! POSIX names (shared memory, queues, sockets, FIFOs) are removed as soon as both ends are open. System V queues and
//! semaphores have to stay until the end, and would remain for good if the process is killed in between. So every such object
//! has a number that determines its name and key, and is marked in shared memory before the object is made. A small process
//! sleeps until the measuring one is gone, and then removes all objects with marked numbers.

use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

use punctual_linux::child::Child;
use punctual_linux::ipc::{memory, queue, sysv};
use punctual_linux::memory::Shared;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, geteuid, getpid, getppid, pidfd_open, set_parent_process_death_signal, setsid};

use crate::frame::Unavailable;
use crate::frame::places::KEEPER;

/// Reserves numbers, and lets the keeper process remove their objects.
pub struct Keeper {
    marks: Shared<[AtomicU8]>,
    next: AtomicU32,
    /// Killed on drop, when this process has removed everything itself.
    _process: Child,
}

/// A number marked for one object. On drop, the process that made it removes the object and the mark.
#[derive(Debug)]
pub struct Leftover {
    /// Its name or key.
    pub name: Name,
    what: What,
    marks: Shared<[AtomicU8]>,
    made_by: Pid,
}

/// The name or key of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    owner: u32,
    number: u32,
}

/// Kinds of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A name in /dev/shm.
    Memory = 1,
    /// A name in /dev/mqueue.
    PosixQueue = 2,
    /// A path.
    Path = 3,
    /// A System V message queue.
    SysvQueue = 4,
    /// A set of System V semaphores.
    SysvSemaphores = 5,
}

/// Number of slots: more than any run has objects at a time.
const NUMBERS: u32 = 1 << 14;
/// The upper byte of the keys of System V objects, below the sign: "p". Process and number determine the other 24
/// bits. If a key is taken, the object gets another number.
const KEY: u32 = 0x7000_0000;
/// Interval of checks of the parent's process id, on kernels without pidfd (before 5.3).
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Keeper {
    /// Starts the process.
    pub fn start() -> Result<Self, Unavailable> {
        Self::started().map_err(|error| {
            Unavailable::because(format!(
                "starting the process that removes what is left behind: {error}; the limit may be RLIMIT_NPROC (ulimit -u) or the cgroup's pids.max"
            ))
        })
    }

    fn started() -> punctual_linux::Result<Self> {
        let marks = Shared::<[AtomicU8]>::slice(NUMBERS as usize)?;
        let ready = Shared::<AtomicU8>::new()?;
        let owner = getpid();
        let mut process = Child::spawn(KEEPER, {
            let (marks, ready) = (marks.clone(), ready.clone());
            move || keep(owner, &marks, &ready)
        })?;
        // Until it has detached itself it would die with this thread: nothing may be made before.
        while ready.load(Ordering::Acquire) == 0 {
            if let Some(ended) = process.ended()? {
                let error = punctual_linux::Error::from_errno("fork", punctual_linux::ESRCH);
                return Err(error.on(format!("the keeper, which {ended}")));
            }
            std::thread::yield_now();
        }
        Ok(Self { marks, next: AtomicU32::new(0), _process: process })
    }

    /// Marks a number for an object that is about to be created.
    pub(super) fn reserve(&self, what: What) -> Leftover {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed) % NUMBERS;
            let mark = &self.marks[number as usize];
            if mark.compare_exchange(0, what as u8, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                let name = Name { owner: std::process::id(), number };
                return Leftover { name, what, marks: self.marks.clone(), made_by: getpid() };
            }
        }
    }

    /// Creates an object, with further numbers while its name or key is taken. `make` only creates it, with O_EXCL or
    /// an equivalent: if it fails, nothing was created and nothing is removed.
    pub fn make<T>(
        &self,
        what: What,
        mut make: impl FnMut(Name) -> punctual_linux::Result<T>,
    ) -> punctual_linux::Result<(T, Leftover)> {
        // A taken name belongs to another program or to a run that could not clean up. Many in a row are no
        // accident.
        let mut tries = 100;
        loop {
            let reserved = self.reserve(what);
            match make(reserved.name) {
                Ok(made) => return Ok((made, reserved)),
                Err(e) => {
                    // An object of this name was not created here.
                    reserved.disown();
                    if e.errno() != rustix::io::Errno::EXIST.raw_os_error() || tries == 0 {
                        return Err(e);
                    }
                    tries -= 1;
                }
            }
        }
    }
}

impl Leftover {
    /// An object of this name existed before: it must not be removed.
    fn disown(mut self) {
        self.marks[self.name.number as usize].store(0, Ordering::Release);
        self.made_by = Pid::INIT;
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        // A forked process has a copy of this, without effect.
        if getpid() == self.made_by {
            self.name.remove(self.what);
            self.marks[self.name.number as usize].store(0, Ordering::Release);
        }
    }
}

impl Name {
    /// The name of a POSIX object: `/punctual-PID-N`.
    pub(super) fn posix(self) -> String {
        format!("/punctual-{}-{}", self.owner, self.number)
    }

    /// The path of a socket or FIFO.
    #[must_use]
    pub fn path(self) -> PathBuf {
        std::env::temp_dir().join(format!("punctual-{}-{}", self.owner, self.number))
    }

    /// The key of a System V object.
    pub(super) fn key(self) -> i32 {
        let mixed = u64::from(self.owner) << 32 | u64::from(self.number);
        // The golden ratio spreads neighbours. The upper bits are the well mixed ones.
        (KEY | (mixed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u32) as i32
    }

    /// Removes the object unless it belongs to another user: a number may be marked although its name was taken
    /// before.
    fn remove_if_own(self, what: What) {
        let of_file = |path: PathBuf| std::fs::symlink_metadata(path).ok().map(|facts| facts.uid());
        let owner = match what {
            What::Memory => of_file(Path::new("/dev/shm").join(self.posix().trim_start_matches('/'))),
            What::PosixQueue => queue::owner(&self.posix()).ok(),
            What::Path => of_file(self.path()),
            What::SysvQueue => sysv::creator_of_queue(self.key()),
            What::SysvSemaphores => sysv::creator_of_semaphores(self.key()),
        };
        // Without an answer the object does not exist, or the kernel decides.
        if owner.is_none_or(|owner| owner == geteuid().as_raw()) {
            self.remove(what);
        }
    }

    fn remove(self, what: What) {
        // Removed objects need no action, and there is no reader for other errors.
        match what {
            What::Memory => drop(memory::unlink_shm(&self.posix())),
            What::PosixQueue => drop(queue::unlink(&self.posix())),
            What::Path => drop(std::fs::remove_file(self.path())),
            What::SysvQueue => drop(sysv::remove_queue(self.key())),
            What::SysvSemaphores => drop(sysv::remove_semaphores(self.key())),
        }
    }
}

/// The keeper's main function: sleeps until the owner is gone, then removes the remaining objects.
fn keep(owner: Pid, marks: &[AtomicU8], ready: &AtomicU8) {
    // It must survive its parent, and a signal that kills its parent's process group.
    let loose = set_parent_process_death_signal(None).is_ok() && setsid().is_ok();
    ready.store(1, Ordering::Release);
    if loose {
        wait_for_the_end_of(owner);
        let owner = owner.as_raw_nonzero().get() as u32;
        for (number, mark) in (0..).zip(marks) {
            let name = Name { owner, number };
            for what in [What::Memory, What::PosixQueue, What::Path, What::SysvQueue, What::SysvSemaphores] {
                if mark.load(Ordering::Acquire) == what as u8 {
                    name.remove_if_own(what);
                }
            }
        }
    }
}

fn wait_for_the_end_of(owner: Pid) {
    let handle = pidfd_open(owner, PidfdFlags::empty());
    while getppid() == Some(owner) {
        match &handle {
            Ok(handle) => {
                let handle = handle.as_fd();
                // Interrupted or not: the loop checks the parent's process id.
                let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], None);
            }
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes every name that a keeper tries, and checks that they are still there afterwards.
    #[test]
    fn names_that_are_taken_are_left_alone() {
        let keeper = Keeper::start().unwrap();
        // Trips of other tests of this process have keepers too, which begin with the lowest numbers.
        keeper.next.store(NUMBERS / 2, Ordering::Relaxed);
        let first = keeper.reserve(What::Memory);
        let names: Vec<Name> = (1..=101).map(|n| Name { number: first.name.number + n, ..first.name }).collect();
        let planted: Vec<_> = names.iter().map(|name| memory::create_shm(&name.posix(), 4096).unwrap()).collect();
        let made = keeper.make(What::Memory, |name| memory::create_shm(&name.posix(), 4096)).map(drop);
        let left = names.iter().filter(|name| memory::unlink_shm(&name.posix()).is_ok()).count();
        assert_eq!(made.unwrap_err().errno(), rustix::io::Errno::EXIST.raw_os_error());
        assert_eq!(left, planted.len());
    }

    #[test]
    fn the_keeper_removes_no_name_of_another_user() {
        if !geteuid().is_root() {
            return punctual_testing::skip("only root can make a file of another user");
        }
        let name = Name { owner: std::process::id(), number: NUMBERS + 1 };
        let file = memory::create_shm(&name.posix(), 4096).unwrap();
        rustix::fs::fchown(&file, Some(rustix::process::Uid::from_raw(12_345)), None).unwrap();
        name.remove_if_own(What::Memory);
        memory::unlink_shm(&name.posix()).expect("it is still there");
        for what in [What::Memory, What::PosixQueue, What::Path, What::SysvQueue, What::SysvSemaphores] {
            name.remove_if_own(what);
        }
    }
}
