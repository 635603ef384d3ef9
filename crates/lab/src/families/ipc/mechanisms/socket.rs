//! Sockets: three kinds of Unix sockets, as a pair and by path; TCP and UDP over loopback.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use punctual_linux as linux;
use punctual_linux::ipc::fd;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::super::keeper::{Keeper, What};
use super::super::mechanism::{
    Asked, End, Halt, Inlet, Kind, Limit, Link, Mechanism, Outlet, Unavailable, refused, whole,
};
use super::limits;

pub(super) fn all() -> Vec<Mechanism> {
    let kinds = [
        ("unix-stream", SocketType::STREAM, "a stream of bytes both ways", Limit::memory as fn() -> Limit),
        ("unix-dgram", SocketType::DGRAM, "whole messages, reliable and in order", limits::unix_datagram),
        ("unix-seqpacket", SocketType::SEQPACKET, "whole messages over a connection", limits::unix_datagram),
    ];
    let mut all = Vec::new();
    for (name, kind, about, largest) in kinds {
        let stream = kind == SocketType::STREAM;
        let pair = socket(name, &format!("Unix socket pair: {about}"), move |asked| {
            let flags = SocketFlags::CLOEXEC;
            let pair = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).map_err(failed("socketpair"));
            Ok(link(pair.map_err(|e| limits::no_file(&e))?, stream, asked))
        });
        all.push(Mechanism { usual: kind != SocketType::DGRAM, largest, ..pair });
        let path = format!("Unix socket found by its path: {about}");
        let path = socket(&format!("{name}-path"), &path, move |asked| {
            let pair = by_path(kind, asked.keeper)
                .map_err(|e| refused(&e, "a folder for temporary files that takes sockets (TMPDIR)"))?;
            Ok(link(pair, stream, asked))
        });
        all.push(Mechanism { usual: false, largest, ..path });
    }
    all.push(socket("tcp", "TCP over loopback, no delay: what also works between machines", |asked| {
        Ok(link(tcp_pair().map_err(|e| no_network("TCP over 127.0.0.1", e))?, true, asked))
    }));
    let udp = socket("udp", "UDP over loopback: whole messages, dropped when the receiver is slow", |asked| {
        Ok(link(udp_pair().map_err(|e| no_network("UDP over 127.0.0.1", e))?, false, asked))
    });
    all.push(Mechanism { reliable: false, largest: limits::udp, ..udp });
    all
}

fn socket(
    name: &str,
    about: &str,
    open: impl Fn(&Asked<'_>) -> Result<Link, Unavailable> + Send + Sync + 'static,
) -> Mechanism {
    Mechanism::of(Kind::Socket, [name, about, "send, recv"], open)
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
        let made = keeper.make(What::Path, |name| {
            let socket = new()?;
            let address = SocketAddrUnix::new(name.path()).map_err(failed("bind"))?;
            rustix::net::bind(&socket, &address).map_err(|e| match e {
                rustix::io::Errno::ADDRINUSE => failed("bind")(rustix::io::Errno::EXIST),
                e => failed("bind")(e).on(name.path().display().to_string()),
            })?;
            Ok((socket, address))
        })?;
        Ok::<_, linux::Error>(made)
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

fn link((here, there): (OwnedFd, OwnedFd), stream: bool, asked: &Asked<'_>) -> Link {
    let end = |socket: OwnedFd| {
        let end = Socket { socket: Arc::new(socket), stream, halt: asked.halt.clone() };
        End { outlet: Some(Box::new(end.clone())), inlet: Some(Box::new(end)) }
    };
    Link::new(end(here), end(there))
}

/// A connected socket.
#[derive(Clone)]
struct Socket {
    socket: Arc<OwnedFd>,
    /// Messages may arrive in parts.
    stream: bool,
    halt: Halt,
}

impl Outlet for Socket {
    fn send(&mut self, message: &[u8]) -> linux::Result<()> {
        let mut sent = 0;
        loop {
            match self.halt.persist(|| fd::send(self.socket.as_fd(), &message[sent..])) {
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
    fn rest(&mut self, into: &mut [u8], mut got: usize) -> linux::Result<()> {
        while got < into.len() {
            match self.halt.persist(|| fd::receive(self.socket.as_fd(), &mut into[got..], true))? {
                0 => return Err(linux::Error::from_errno("recv", linux::EPIPE).on("the other end is closed")),
                n if self.stream => got += n,
                n => return whole("recv", n, into.len()),
            }
        }
        Ok(())
    }
}

impl Inlet for Socket {
    fn receive(&mut self, into: &mut [u8]) -> linux::Result<()> {
        self.rest(into, 0)
    }

    fn poll(&mut self, into: &mut [u8]) -> linux::Result<bool> {
        match fd::receive(self.socket.as_fd(), into, false) {
            Ok(n) if n == into.len() => Ok(true),
            Ok(n) if n > 0 && self.stream => self.rest(into, n).map(|()| true),
            Ok(n) => whole("recv", n, into.len()).map(|()| true),
            Err(e) if e.errno() == linux::EAGAIN || e.errno() == linux::EINTR => Ok(false),
            Err(e) => Err(e),
        }
    }
}
