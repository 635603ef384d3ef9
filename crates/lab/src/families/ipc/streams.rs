//! Streams and sockets: pipe, FIFO, and a pipe that gets pages instead of copies; three kinds of Unix sockets, as a pair and
//! by path; TCP and UDP over loopback.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use punctual_linux as linux;
use punctual_linux::ipc::{self, Buffers};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::keeper::{Keeper, What};
use super::mechanism::{
    Asked, End, Halt, Inlet, Lane, Limit, Link, Mechanism, Outlet, Unavailable, if_any, lanes, no_file, open_files,
    refused, sysctl, whole,
};
use punctual_record::Ask;

pub(super) fn pipes() -> Vec<Mechanism> {
    vec![
        Mechanism {
            name: "pipe".into(),
            about: "pipe: a stream of bytes through the kernel, 64 KiB of buffer; for a parent and its children".into(),
            call: "write, read".into(),
            ..Mechanism::usual("stream", |asked| lanes(asked, pipe))
        },
        Mechanism {
            name: "fifo".into(),
            about: "named pipe: a pipe that any process opens by its path".into(),
            call: "write, read".into(),
            usual: false,
            ..Mechanism::usual("stream", |asked| lanes(asked, fifo))
        },
        Mechanism {
            name: "vmsplice".into(),
            about: "pipe given the sender's pages instead of a copy; a page per message at least, and the pages must wait to be read"
                .into(),
            call: "vmsplice, read".into(),
            usual: false,
            ..Mechanism::usual("stream", |asked| lanes(asked, spliced))
        },
    ]
}

/// The largest datagram of a Unix socket: limited by its send buffer, which also holds the kernel's overhead.
fn unix_datagram_limit() -> Limit {
    let from = "/proc/sys/net/core/wmem_default";
    // net/unix/af_unix.c: a datagram with its overhead must fit sk_sndbuf less 32 bytes.
    let bytes = sysctl(from).unwrap_or(212_992).saturating_sub(32);
    Limit { bytes: Some(bytes), from: from.into(), remedy: Some("as root: sysctl net.core.wmem_default=BYTES".into()) }
}

/// The largest UDP datagram over IPv4: 65 535 less the headers of IP and UDP.
fn udp_limit() -> Limit {
    Limit::fixed(65_507, "the length field of IPv4 and UDP (65 535 less 28)")
}

fn no_pipe(error: &linux::Error) -> Unavailable {
    refused(error, format!("too many open files or pipe pages? open files: {}", open_files()))
}

fn pair(asked: &Asked<'_>) -> Result<(OwnedFd, OwnedFd), Unavailable> {
    let failed = |source| no_pipe(&linux::Error { call: "pipe", object: None, source });
    let (reader, writer) = std::io::pipe().map_err(failed)?;
    let (reader, writer): (OwnedFd, OwnedFd) = (reader.into(), writer.into());
    if asked.polls() {
        set_blocking(&reader, false).map_err(|e| no_pipe(&e))?;
    }
    Ok((reader, writer))
}

fn set_blocking(file: &OwnedFd, blocking: bool) -> linux::Result<()> {
    let flags = if blocking { OFlags::empty() } else { OFlags::NONBLOCK };
    rustix::fs::fcntl_setfl(file, flags).map_err(failed("fcntl(F_SETFL)"))
}

fn pipe(asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let (reader, writer) = pair(asked)?;
    Ok(Lane::new(Stream(writer), Stream(reader)))
}

fn fifo(asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let no_fifo = |e: linux::Error| refused(&e, "a folder for temporary files that takes FIFOs (TMPDIR)");
    let made = asked.keeper.make(What::Path, |name| {
        let (path, mode) = (name.path(), Mode::RUSR | Mode::WUSR);
        rustix::fs::mkfifoat(CWD, &path, mode).map_err(|e| failed("mkfifo")(e).on(path.display().to_string()))
    });
    let ((), leftover) = made.map_err(no_fifo)?;
    let open = |flags: OFlags| {
        let opened = rustix::fs::open(leftover.name.path(), flags | OFlags::CLOEXEC, Mode::empty());
        opened.map_err(failed("open")).map_err(no_fifo)
    };
    // A non-blocking reader opens at once. A writer needs an open reader.
    let reader = open(OFlags::RDONLY | OFlags::NONBLOCK)?;
    let writer = open(OFlags::WRONLY)?;
    set_blocking(&reader, !asked.polls()).map_err(no_fifo)?;
    // Both ends are open: remove the path.
    drop(leftover);
    Ok(Lane::new(Stream(writer), Stream(reader)))
}

/// An end of a stream of messages of one length.
struct Stream(OwnedFd);

impl Outlet for Stream {
    fn send(&mut self, message: &[u8], halt: &Halt) -> linux::Result<()> {
        let mut sent = 0;
        while sent < message.len() {
            sent += halt.persist(|| ipc::write(self.0.as_fd(), &message[sent..]))?;
        }
        Ok(())
    }
}

impl Stream {
    /// Reads the rest of a message after its first `got` bytes.
    fn rest(&mut self, into: &mut [u8], mut got: usize, halt: &Halt) -> linux::Result<()> {
        while got < into.len() {
            let read = || ipc::read(self.0.as_fd(), &mut into[got..]);
            match halt.persist_or_wait(read, || ipc::wait_readable(self.0.as_fd(), -1))? {
                0 => return whole("read", 0, into.len()),
                n => got += n,
            }
        }
        Ok(())
    }
}

impl Inlet for Stream {
    fn receive(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        self.rest(into, 0, halt)
    }

    fn poll(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<bool> {
        match if_any(ipc::read(self.0.as_fd(), into))? {
            None => Ok(false),
            Some(0) => whole("read", 0, into.len()).map(|()| true),
            Some(n) => self.rest(into, n, halt).map(|()| true),
        }
    }
}

fn spliced(asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let (reader, writer) = pair(asked)?;
    let buffers = Buffers::new(writer.as_fd(), asked.size).map_err(|e| refused(&e, Ask::SmallerSize))?;
    Ok(Lane::new(Splicer { pipe: writer, buffers }, Stream(reader)))
}

struct Splicer {
    pipe: OwnedFd,
    buffers: Buffers,
}

impl Outlet for Splicer {
    fn send(&mut self, message: &[u8], halt: &Halt) -> linux::Result<()> {
        let Self { pipe, buffers } = self;
        buffers.fill(message);
        while !halt.persist(|| buffers.splice(pipe.as_fd(), message.len()))? {}
        Ok(())
    }
}

pub(super) fn sockets() -> Vec<Mechanism> {
    let kinds = [
        ("unix-stream", SocketType::STREAM, "a stream of bytes both ways", Limit::memory as fn() -> Limit),
        ("unix-dgram", SocketType::DGRAM, "whole messages, reliable and in order", unix_datagram_limit),
        ("unix-seqpacket", SocketType::SEQPACKET, "whole messages over a connection", unix_datagram_limit),
    ];
    let mut all = Vec::new();
    for (name, kind, about, largest) in kinds {
        let stream = kind == SocketType::STREAM;
        let pair = socket(name, &format!("Unix socket pair: {about}"), stream, move |_| {
            let flags = SocketFlags::CLOEXEC;
            let pair = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None);
            pair.map_err(|e| no_file(&failed("socketpair")(e)))
        });
        all.push(Mechanism { usual: kind != SocketType::DGRAM, largest, ..pair });
        let path = format!("Unix socket found by its path: {about}");
        let path = socket(&format!("{name}-path"), &path, stream, move |keeper| {
            by_path(kind, keeper).map_err(|e| refused(&e, "a folder for temporary files that takes sockets (TMPDIR)"))
        });
        all.push(Mechanism { usual: false, largest, ..path });
    }
    all.push(socket("tcp", "TCP over loopback, no delay: what also works between machines", true, |_| {
        tcp_pair().map_err(|e| no_network("TCP over 127.0.0.1", e))
    }));
    let udp = socket("udp", "UDP over loopback: whole messages, dropped when the receiver is slow", false, |_| {
        udp_pair().map_err(|e| no_network("UDP over 127.0.0.1", e))
    });
    all.push(Mechanism { reliable: false, largest: udp_limit, ..udp });
    all
}

/// `stream`: messages may arrive in parts. `pair`: opens two sockets that are connected to each other.
fn socket(
    name: &str,
    about: &str,
    stream: bool,
    pair: impl Fn(&Keeper) -> Result<(OwnedFd, OwnedFd), Unavailable> + Send + Sync + 'static,
) -> Mechanism {
    let [name, about, call] = [name, about, "send, recv"].map(str::to_owned);
    let open = move |asked: &Asked<'_>| {
        let (here, there) = pair(asked.keeper)?;
        let end = |socket: OwnedFd| {
            let end = Socket { socket: Arc::new(socket), stream };
            End { outlet: Some(Box::new(end.clone())), inlet: Some(Box::new(end)) }
        };
        Ok(Link { here: end(here), there: end(there) })
    };
    Mechanism { name, about, call, ..Mechanism::usual("socket", open) }
}

fn failed(call: &'static str) -> impl Fn(rustix::io::Errno) -> linux::Error {
    move |e| linux::Error::from_errno(call, e.raw_os_error())
}

fn no_network(what: &'static str, source: std::io::Error) -> Unavailable {
    let error = linux::Error { call: "socket", object: Some(what.into()), source };
    refused(&error, "the loopback interface must be up: ip link set lo up")
}

/// Two sockets connected by a path, which is removed at once.
fn by_path(kind: SocketType, keeper: &Keeper) -> linux::Result<(OwnedFd, OwnedFd)> {
    let new =
        || rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).map_err(failed("socket"));
    let bound = || {
        keeper.make(What::Path, |name| {
            let socket = new()?;
            let address = SocketAddrUnix::new(name.path()).map_err(failed("bind"))?;
            rustix::net::bind(&socket, &address).map_err(|e| match e {
                rustix::io::Errno::ADDRINUSE => failed("bind")(rustix::io::Errno::EXIST),
                e => failed("bind")(e).on(name.path().display().to_string()),
            })?;
            Ok((socket, address))
        })
    };
    let ((first, to_first), _name) = bound()?;
    if kind == SocketType::DGRAM {
        let ((second, to_second), _name) = bound()?;
        rustix::net::connect(&first, &to_second).map_err(failed("connect"))?;
        rustix::net::connect(&second, &to_first).map_err(failed("connect"))?;
        return Ok((first, second));
    }
    rustix::net::listen(&first, 1).map_err(failed("listen"))?;
    let second = new()?;
    rustix::net::connect(&second, &to_first).map_err(failed("connect"))?;
    let accepted = rustix::net::accept_with(&first, SocketFlags::CLOEXEC).map_err(failed("accept"))?;
    Ok((accepted, second))
}

fn tcp_pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one.into(), other.into()))
}

fn udp_pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let (one, other) = (UdpSocket::bind(("127.0.0.1", 0))?, UdpSocket::bind(("127.0.0.1", 0))?);
    one.connect(other.local_addr()?)?;
    other.connect(one.local_addr()?)?;
    Ok((one.into(), other.into()))
}

/// A connected socket.
#[derive(Clone)]
struct Socket {
    socket: Arc<OwnedFd>,
    /// Messages may arrive in parts.
    stream: bool,
}

impl Outlet for Socket {
    fn send(&mut self, message: &[u8], halt: &Halt) -> linux::Result<()> {
        let mut sent = 0;
        loop {
            match halt.persist(|| ipc::send(self.socket.as_fd(), &message[sent..])) {
                Ok(n) => sent += n,
                // Some kernels fail a datagram to a full queue of a socket by path: the receiver lags.
                Err(e) if e.errno() == linux::ENOBUFS => std::thread::yield_now(),
                Err(e) => return Err(e),
            }
            if sent >= message.len() {
                return Ok(());
            }
        }
    }
}

impl Socket {
    fn rest(&mut self, into: &mut [u8], mut got: usize, halt: &Halt) -> linux::Result<()> {
        while got < into.len() {
            match halt.persist(|| ipc::receive(self.socket.as_fd(), &mut into[got..], true))? {
                n if self.stream && n > 0 => got += n,
                n => return whole("recv", n, into.len()),
            }
        }
        Ok(())
    }
}

impl Inlet for Socket {
    fn receive(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        self.rest(into, 0, halt)
    }

    fn poll(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<bool> {
        match if_any(ipc::receive(self.socket.as_fd(), into, false))? {
            None => Ok(false),
            Some(n) if n > 0 && self.stream => self.rest(into, n, halt).map(|()| true),
            Some(n) => whole("recv", n, into.len()).map(|()| true),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_datagram_has_a_limit() {
        assert!(super::unix_datagram_limit().bytes.unwrap() >= 1024);
    }
}
