//! A lock by name that the kernel releases when its holder ends: a listening socket with an abstract name (`unix(7)`).
//!
//! [`try_take`] takes the lock of a name, or returns its holder. Nothing is written to disk, and all users of the machine share the
//! names. The names belong to the network namespace: a container with its own network does not see those of its host.
//!
//! A forked child shares the socket. The lock is held until both processes end, by the child alone if it survives its
//! parent. A program started with `exec(3)` does not.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};

use crate::{Error, Result, check};

/// Most processes that can wait for one lock; further ones poll.
const WAITERS: i32 = 128;
/// Interval of that polling.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// A lock, held until dropped, or until the process and its forked children ended.
#[derive(Debug)]
pub struct NamedLock {
    _socket: OwnedFd,
}

/// The result of an attempt.
#[derive(Debug)]
pub enum Attempt {
    /// This process holds the lock now.
    Taken(NamedLock),
    /// Another process holds it.
    Held(Holder),
}

/// The process that holds a lock.
#[derive(Debug)]
pub struct Holder {
    /// Hangs up when the lock is released. `None`: the holder accepts no connection at present.
    connection: Option<OwnedFd>,
    /// The process that took the lock. `None`: unknown, because it is in another PID namespace or accepts no connection.
    pub pid: Option<i32>,
    /// The user whose process took the lock. `None`: unknown, because it accepts no connection.
    pub user: Option<u32>,
}

/// Takes the lock `name`, of at most 107 bytes, unless another process holds it: `socket(2)`, `bind(2)`, `listen(2)`.
///
/// # Errors
/// ENAMETOOLONG. EMFILE and ENFILE at a limit of descriptors. EPERM or EACCES if a filter or a security module forbids the socket.
pub fn try_take(name: &str) -> Result<Attempt> {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(|errno| failed("bind", name, errno))?;
    let open = |flags| {
        socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | flags, None)
            .map_err(|errno| failed("socket", name, errno))
    };
    // A holder may end between the two calls, and a new one may not listen yet.
    for _ in 0..3 {
        let socket = open(SocketFlags::empty())?;
        match bind(&socket, &address) {
            Ok(()) => {
                listen(&socket, WAITERS).map_err(|errno| failed("listen", name, errno))?;
                return Ok(Attempt::Taken(NamedLock { _socket: socket }));
            }
            Err(Errno::ADDRINUSE) => {}
            Err(errno) => return Err(failed("bind", name, errno)),
        }
        let connection = open(SocketFlags::NONBLOCK)?;
        match connect(&connection, &address) {
            Ok(()) => {
                let listener = listener(&connection)?;
                let pid = (listener.pid > 0).then_some(listener.pid);
                return Ok(Attempt::Held(Holder { connection: Some(connection), pid, user: Some(listener.uid) }));
            }
            Err(Errno::CONNREFUSED) => std::thread::sleep(Duration::from_millis(1)),
            Err(Errno::AGAIN) => break,
            Err(errno) => return Err(failed("connect", name, errno)),
        }
    }
    Ok(Attempt::Held(Holder { connection: None, pid: None, user: None }))
}

impl Holder {
    /// `poll(2)`: waits until another attempt is worthwhile (`true`) or until `or` is readable (`false`).
    pub fn wait(&self, or: BorrowedFd<'_>) -> Result<bool> {
        let mut both = vec![PollFd::new(&or, PollFlags::IN)];
        both.extend(self.connection.as_ref().map(|connection| PollFd::new(connection, PollFlags::empty())));
        let timeout =
            self.connection.is_none().then(|| Timespec { tv_sec: 0, tv_nsec: ASK_AGAIN.subsec_nanos().into() });
        loop {
            match poll(&mut both, timeout.as_ref()) {
                Ok(_) => return Ok(both[0].revents().is_empty()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("poll", "a lock", errno)),
            }
        }
    }
}

/// `getsockopt(2)` with `SO_PEERCRED`: the process that listens at the other end. rustix cannot return process ID 0, which stands for
/// another PID namespace.
fn listener(connection: &OwnedFd) -> Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open; `peer` and `length` are writable, and the length is that of `peer`.
    let returned = unsafe {
        libc::getsockopt(
            connection.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    check("getsockopt", returned).map_err(|e| e.on("SO_PEERCRED"))?;
    Ok(peer)
}

fn failed(call: &'static str, name: &str, errno: Errno) -> Error {
    crate::failed(call)(errno).on(name)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use crate::child::Child;

    fn name(test: &str) -> String {
        format!("punctual/test-{}/{test}", std::process::id())
    }

    fn taken(name: &str) -> NamedLock {
        match try_take(name).unwrap() {
            Attempt::Taken(lock) => lock,
            Attempt::Held(holder) => panic!("{name} is held by {holder:?}"),
        }
    }

    fn held(name: &str) -> Holder {
        match try_take(name).unwrap() {
            Attempt::Taken(_) => panic!("{name} is free"),
            Attempt::Held(holder) => holder,
        }
    }

    #[test]
    fn one_holds_it_and_drop_releases_it() {
        let name = name("drop");
        let lock = taken(&name);
        let holder = held(&name);
        assert_eq!(holder.pid, Some(std::process::id() as i32));
        assert_eq!(holder.user, Some(rustix::process::geteuid().as_raw()));
        let waiting = std::thread::spawn(move || {
            let (silent, _bell) = std::io::pipe().unwrap();
            holder.wait(silent.as_fd()).unwrap()
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished(), "it is held");
        drop(lock);
        assert!(waiting.join().unwrap());
        drop(taken(&name));
    }

    #[test]
    fn the_death_of_the_holder_releases_it() {
        let name = name("death");
        let (theirs, (told, tell)) = (name.clone(), std::io::pipe().unwrap());
        let mut child = Child::spawn("holder", move || {
            let _lock = taken(&theirs);
            (&tell).write_all(b"!").unwrap();
            std::thread::sleep(Duration::from_secs(1000));
        })
        .unwrap();
        (&told).read_exact(&mut [0]).unwrap();
        let holder = held(&name);
        assert_eq!(holder.pid, Some(child.id()));
        child.kill().unwrap();
        let (silent, _bell) = std::io::pipe().unwrap();
        assert!(holder.wait(silent.as_fd()).unwrap());
        drop(taken(&name));
    }

    #[test]
    fn the_other_descriptor_ends_the_wait() {
        let name = name("other");
        let _lock = taken(&name);
        let (heard, bell) = std::io::pipe().unwrap();
        (&bell).write_all(b"!").unwrap();
        assert!(!held(&name).wait(heard.as_fd()).unwrap());
    }

    #[test]
    fn one_that_never_listens_is_asked_again() {
        let name = name("deaf");
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        let deaf = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&deaf, &address).unwrap();
        let holder = held(&name);
        assert_eq!((holder.pid, holder.user), (None, None));
        let (silent, _bell) = std::io::pipe().unwrap();
        assert!(holder.wait(silent.as_fd()).unwrap(), "it returns by itself");
        assert_eq!(try_take(&"x".repeat(200)).unwrap_err().errno(), libc::ENAMETOOLONG);
    }
}
