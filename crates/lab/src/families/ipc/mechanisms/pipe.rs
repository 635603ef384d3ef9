//! Streams of bytes: pipe, FIFO, and a pipe that gets pages instead of copies.

use std::os::fd::{AsFd as _, OwnedFd};

use punctual_linux as linux;
use punctual_linux::ipc::fd::{self, Buffers};
use rustix::fs::{CWD, Mode, OFlags};

use super::super::keeper::What;
use super::super::mechanism::{Asked, Halt, Inlet, Kind, Lane, Mechanism, Outlet, Unavailable, lanes, refused};
use super::limits;

pub(super) fn all() -> Vec<Mechanism> {
    let pipe = Mechanism::of(
        Kind::Stream,
        [
            "pipe",
            "pipe: a stream of bytes through the kernel, 64 KiB of buffer; for a parent and its children",
            "write, read",
        ],
        |asked| lanes(asked, pipe),
    );
    let fifo = Mechanism::of(
        Kind::Stream,
        ["fifo", "named pipe: a pipe that any process opens by its path", "write, read"],
        |asked| lanes(asked, fifo),
    );
    let vmsplice = Mechanism::of(
        Kind::Stream,
        [
            "vmsplice",
            "pipe given the sender's pages instead of a copy; a page per message at least, and the pages must wait to be read",
            "vmsplice, read",
        ],
        |asked| lanes(asked, spliced),
    );
    vec![pipe, Mechanism { usual: false, ..fifo }, Mechanism { usual: false, ..vmsplice }]
}

fn no_pipe(error: &linux::Error) -> Unavailable {
    refused(error, &format!("too many open files or pipe pages? open files: {}", limits::open_files()))
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
    rustix::fs::fcntl_setfl(file, flags).map_err(|e| linux::Error::from_errno("fcntl(F_SETFL)", e.raw_os_error()))
}

fn pipe(asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let (reader, writer) = pair(asked)?;
    Ok(stream(reader, writer, asked))
}

fn fifo(asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let failed = |call: &'static str| move |e: rustix::io::Errno| linux::Error::from_errno(call, e.raw_os_error());
    let no_fifo = |e: linux::Error| refused(&e, "a folder for temporary files that takes FIFOs (TMPDIR)");
    let made = asked.keeper.make(What::Path, |name| {
        let (path, mode) = (name.path(), Mode::RUSR | Mode::WUSR);
        rustix::fs::mkfifoat(CWD, &path, mode).map_err(|e| failed("mkfifo")(e).on(path.display().to_string()))
    });
    let ((), name) = made.map_err(no_fifo)?;
    let open = |flags: OFlags| {
        let opened = rustix::fs::open(name.path(), flags | OFlags::CLOEXEC, Mode::empty());
        opened.map_err(failed("open")).map_err(no_fifo)
    };
    // A non-blocking reader opens at once. A writer needs an open reader.
    let reader = open(OFlags::RDONLY | OFlags::NONBLOCK)?;
    let writer = open(OFlags::WRONLY)?;
    set_blocking(&reader, !asked.polls()).map_err(no_fifo)?;
    // Both ends are open: remove the path.
    drop(name);
    Ok(stream(reader, writer, asked))
}

fn stream(reader: OwnedFd, writer: OwnedFd, asked: &Asked<'_>) -> Lane {
    let halt = asked.halt.clone();
    Lane::of(Writer { file: writer, halt: halt.clone() }, Reader { file: reader, halt })
}

struct Writer {
    file: OwnedFd,
    halt: Halt,
}

impl Outlet for Writer {
    fn send(&mut self, message: &[u8]) -> linux::Result<()> {
        let mut sent = 0;
        while sent < message.len() {
            sent += self.halt.persist(|| fd::write(self.file.as_fd(), &message[sent..]))?;
        }
        Ok(())
    }
}

/// The reading end of a stream of messages of one length.
struct Reader {
    file: OwnedFd,
    halt: Halt,
}

impl Reader {
    /// Reads the rest of a message after its first `got` bytes.
    fn rest(&mut self, into: &mut [u8], mut got: usize) -> linux::Result<()> {
        while got < into.len() {
            match self.halt.persist(|| fd::read(self.file.as_fd(), &mut into[got..])) {
                Ok(0) => return Err(linux::Error::from_errno("read", linux::EPIPE).on("the other end is closed")),
                Ok(n) => got += n,
                // Opened for polling, but this call has to block.
                Err(e) if e.errno() == linux::EAGAIN => {
                    self.halt.persist(|| fd::wait_readable(self.file.as_fd(), -1))?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl Inlet for Reader {
    fn receive(&mut self, into: &mut [u8]) -> linux::Result<()> {
        self.rest(into, 0)
    }

    fn poll(&mut self, into: &mut [u8]) -> linux::Result<bool> {
        match fd::read(self.file.as_fd(), into) {
            Ok(n) if n == into.len() => Ok(true),
            Ok(0) => Err(linux::Error::from_errno("read", linux::EPIPE).on("the other end is closed")),
            Ok(n) => self.rest(into, n).map(|()| true),
            Err(e) if e.errno() == linux::EAGAIN || e.errno() == linux::EINTR => Ok(false),
            Err(e) => Err(e),
        }
    }
}

fn spliced(asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let (reader, writer) = pair(asked)?;
    let buffers = Buffers::new(writer.as_fd(), asked.size).map_err(|e| refused(&e, "a smaller size"))?;
    let halt = asked.halt.clone();
    let outlet = Splicer { pipe: writer, buffers, halt: halt.clone() };
    Ok(Lane::of(outlet, Reader { file: reader, halt }))
}

struct Splicer {
    pipe: OwnedFd,
    buffers: Buffers,
    halt: Halt,
}

impl Outlet for Splicer {
    fn send(&mut self, message: &[u8]) -> linux::Result<()> {
        let Self { pipe, buffers, halt } = self;
        buffers.fill(message);
        while !halt.persist(|| buffers.splice(pipe.as_fd(), message.len()))? {}
        Ok(())
    }
}
