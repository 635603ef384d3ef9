//! System V message queues and semaphores: `sysvipc(7)`. They outlive the process until removed.

use crate::{Error, Result, check};

/// The ID of a message queue. Not removed on drop: see [`remove_queue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue(i32);

/// The ID of a set of semaphores. Not removed on drop: see [`remove_semaphores`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Semaphores(i32);

/// `msgget(2)` with IPC_CREAT and IPC_EXCL: a new queue under a key. EEXIST, ENOSPC (`/proc/sys/kernel/msgmni`), ENOSYS.
pub fn create_queue(key: i32) -> Result<Queue> {
    let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o600;
    // SAFETY: integers only.
    check("msgget", unsafe { libc::msgget(key, flags) }).map(Queue).map_err(|e| e.on(format!("key {key:#x}")))
}

/// `msgctl(IPC_RMID)` of the queue with this key; `false`: there is none.
pub fn remove_queue(key: i32) -> Result<bool> {
    // SAFETY: integers only.
    let id = unsafe { libc::msgget(key, 0) };
    if id == -1 {
        return absent(Error::last("msgget"));
    }
    // SAFETY: the command takes no buffer.
    check("msgctl(IPC_RMID)", unsafe { libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut()) }).map(|_| true)
}

/// Room for the result of IPC_STAT, larger than any structure of the kernel or a C library.
type Facts = [u64; 64];

/// `msgctl(IPC_STAT)`: the user ID of the queue's creator. `None`: no queue has this key, or it may not be read.
#[must_use]
pub fn creator_of_queue(key: i32) -> Option<u32> {
    let mut facts: Facts = [0; 64];
    // SAFETY: integers; then a buffer that is larger than the structure, and aligned for it.
    let told = unsafe { libc::msgctl(libc::msgget(key, 0), libc::IPC_STAT, facts.as_mut_ptr().cast()) };
    (told == 0).then(|| creator(&facts))
}

/// `semctl(IPC_STAT)`: the same for a set of semaphores.
#[must_use]
pub fn creator_of_semaphores(key: i32) -> Option<u32> {
    let mut facts: Facts = [0; 64];
    // SAFETY: integers; then a buffer that is larger than the structure, and aligned for it.
    let told = unsafe { libc::semctl(libc::semget(key, 0, 0), 0, libc::IPC_STAT, facts.as_mut_ptr()) };
    (told == 0).then(|| creator(&facts))
}

/// Every structure of IPC_STAT begins with its permissions.
fn creator(facts: &Facts) -> u32 {
    // SAFETY: the buffer is larger than the structure and aligned for it; all bytes are valid for its integers.
    unsafe { facts.as_ptr().cast::<libc::ipc_perm>().read() }.cuid
}

fn absent(error: Error) -> Result<bool> {
    if matches!(error.errno(), libc::ENOENT | libc::ENOSYS) { Ok(false) } else { Err(error) }
}

/// A message for `msgsnd(2)`: type, then text.
#[derive(Debug, Clone)]
pub struct Envelope {
    words: Vec<libc::c_long>,
    len: usize,
}

impl Envelope {
    /// An envelope with room for `len` bytes.
    #[must_use]
    pub fn new(len: usize) -> Self {
        let mut words = vec![0; 1 + len.div_ceil(size_of::<libc::c_long>())];
        words[0] = 1; // Any type above zero will do.
        Self { words, len }
    }
}

impl Queue {
    /// Copies the message into the envelope, then `msgsnd(2)`: waits while the queue is full. EIDRM: the queue was removed.
    #[inline]
    pub fn send(self, message: &[u8], envelope: &mut Envelope) -> Result<()> {
        let Envelope { words, len } = envelope;
        if message.len() > *len {
            return Err(Error::from_errno("msgsnd", libc::E2BIG));
        }
        // SAFETY: after the type there is room for `len` bytes, which is no less than the message. The two do not overlap.
        let sent = unsafe {
            let text = words.as_mut_ptr().add(1).cast::<u8>();
            std::ptr::copy_nonoverlapping(message.as_ptr(), text, message.len());
            libc::msgsnd(self.0, words.as_ptr().cast(), message.len(), 0)
        };
        check("msgsnd", sent).map(drop)
    }

    /// `msgrcv(2)`: returns the message's length; without `wait`, ENOMSG if there is none.
    #[inline]
    pub fn receive(self, into: &mut [u8], envelope: &mut Envelope, wait: bool) -> Result<usize> {
        let flags = if wait { 0 } else { libc::IPC_NOWAIT };
        let room = envelope.len.min(into.len());
        // SAFETY: after the type there is room for `room` bytes.
        let n = unsafe { libc::msgrcv(self.0, envelope.words.as_mut_ptr().cast(), room, 0, flags) };
        let n = usize::try_from(n).map_err(|_| Error::last("msgrcv"))?;
        // SAFETY: the kernel wrote `n`, at most `room`, bytes after the type. `into` has at least `room`, and does not overlap.
        unsafe {
            let text = envelope.words.as_ptr().add(1).cast::<u8>();
            std::ptr::copy_nonoverlapping(text, into.as_mut_ptr(), n);
        }
        Ok(n)
    }
}

/// `semget(2)` with IPC_CREAT and IPC_EXCL: a new set of semaphores, all zero, under a key. EEXIST, ENOSPC (`/proc/sys/kernel/sem`), ENOSYS.
pub fn create_semaphores(key: i32, count: i32) -> Result<Semaphores> {
    let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o600;
    // SAFETY: integers only.
    let id = unsafe { libc::semget(key, count, flags) };
    check("semget", id).map(Semaphores).map_err(|e| e.on(format!("key {key:#x}")))
}

/// `semctl(IPC_RMID)` of the set with this key; `false`: there is none.
pub fn remove_semaphores(key: i32) -> Result<bool> {
    // SAFETY: integers only.
    let id = unsafe { libc::semget(key, 0, 0) };
    if id == -1 {
        return absent(Error::last("semget"));
    }
    // SAFETY: the command takes no argument.
    check("semctl(IPC_RMID)", unsafe { libc::semctl(id, 0, libc::IPC_RMID) }).map(|_| true)
}

impl Semaphores {
    /// `semop(2)`: adds `by` to semaphore `which`. A negative number waits until that much can be taken; without `wait`, EAGAIN.
    #[inline]
    pub fn add(self, which: u16, by: i16, wait: bool) -> Result<()> {
        let flags = if wait { 0 } else { libc::IPC_NOWAIT as i16 };
        let mut operation = libc::sembuf { sem_num: which, sem_op: by, sem_flg: flags };
        // SAFETY: one valid operation.
        check("semop", unsafe { libc::semop(self.0, &raw mut operation, 1) }).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_made_is_its_own() {
        let key = 0x6f00_0000 | (std::process::id() as i32 & 0xff_ffff);
        let own = rustix::process::geteuid().as_raw();
        create_queue(key).unwrap();
        assert_eq!(creator_of_queue(key), Some(own));
        assert!(remove_queue(key).unwrap());
        assert_eq!(creator_of_queue(key), None);
        create_semaphores(key, 1).unwrap();
        assert_eq!(creator_of_semaphores(key), Some(own));
        assert!(remove_semaphores(key).unwrap());
    }
}
