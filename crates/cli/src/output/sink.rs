//! An open target: a regular file, or a stream (a device, a pipe, an inherited descriptor).

use std::ffi::OsString;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

use punctual_linux::inherited;
use punctual_linux::inherited::duplicate_inherited;
use rustix::fs::{FileType, Mode, OFlags, Stat, fcntl_getfl, fstat, openat};
use rustix::io::Errno;

use super::Target;
use super::place::Refusal;
use super::place::{self, EXCHANGED, Named, Place};
use super::regular::{Regular, is_one};
use crate::terminal;

/// An open target.
#[derive(Debug)]
pub(super) enum Sink {
    /// A regular file: replaced, or written in place from its start.
    Regular(Regular),
    /// A stream: written from its present position.
    Stream(OwnedFd),
}

/// The identity of a target.
#[derive(Debug)]
pub(super) enum Identity {
    /// An existing file; with the number of an inherited descriptor.
    There(Box<Stat>, Option<RawFd>),
    /// A name in a folder (device, inode).
    New(u64, u64, OsString),
}

impl Sink {
    /// Opens the target. Writes nothing and waits for no reader.
    pub(super) fn open(target: &Target) -> Result<(Self, Identity), Refusal> {
        let path = match target {
            Target::Stdout => return descriptor(1),
            Target::File(path) => path,
        };
        match place::find(path)? {
            Place::Descriptor(number) => descriptor(number),
            Place::Named(named) => match named.there {
                Some(there) if FileType::from_raw_mode(there.st_mode) != FileType::RegularFile => {
                    let stream = stream(&named, &there)?;
                    Ok((Self::Stream(stream), Identity::There(Box::new(there), None)))
                }
                _ => {
                    let identity = identity(&named)?;
                    Ok((Self::Regular(Regular::open(named)?), identity))
                }
            },
        }
    }

    pub(super) fn write(self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Regular(file) => file.write(bytes),
            Self::Stream(stream) => terminal::pour(&stream, bytes),
        }
    }
}

fn identity(named: &Named) -> Result<Identity, Refusal> {
    match named.there {
        Some(there) => Ok(Identity::There(Box::new(there), None)),
        None => {
            let folder = fstat(&named.folder).map_err(|e| Refusal::errno(e, &named.name))?;
            Ok(Identity::New(folder.st_dev as u64, folder.st_ino as u64, named.name.clone()))
        }
    }
}

fn descriptor(number: RawFd) -> Result<(Sink, Identity), Refusal> {
    let closed = || {
        let text = match number {
            1 => "stdout is closed; name a file".to_owned(),
            _ => format!("descriptor {number} is not open; name a file, or open it in the shell ({number}>FILE)"),
        };
        Refusal::usage(text)
    };
    if inherited::was_closed(number) {
        return Err(closed());
    }
    let copy = duplicate_inherited(number).map_err(|error| match error.errno() {
        punctual_linux::EMFILE => Refusal::errno(Errno::MFILE, "it"),
        _ => closed(),
    })?;
    let flags = fcntl_getfl(&copy).map_err(|e| Refusal::errno(e, "it"))?;
    if flags & OFlags::RWMODE == OFlags::RDONLY {
        return Err(Refusal::usage(format!("descriptor {number} is open for reading only")));
    }
    let facts = fstat(&copy).map_err(|e| Refusal::errno(e, "it"))?;
    Ok((Sink::Stream(copy), Identity::There(Box::new(facts), Some(number))))
}

/// Opens a device or a pipe without waiting for its other end.
fn stream(named: &Named, there: &Stat) -> Result<OwnedFd, Refusal> {
    match FileType::from_raw_mode(there.st_mode) {
        FileType::BlockDevice => {
            return Err(Refusal::usage("is a block device, and would be overwritten; name a file"));
        }
        FileType::Socket => return Err(Refusal::usage("is a socket; name a file or a pipe")),
        _ => {}
    }
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let stream = openat(&named.folder, &named.name, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NXIO => Refusal::usage("nothing reads this pipe; start the reader first"),
        errno => Refusal::errno(errno, "it"),
    })?;
    let facts = fstat(&stream).map_err(|e| Refusal::errno(e, "it"))?;
    match (facts.st_dev, facts.st_ino) == (there.st_dev, there.st_ino) {
        true => Ok(stream),
        false => Err(Refusal::usage(EXCHANGED)),
    }
}

impl Identity {
    /// The file of an inherited descriptor.
    pub(super) fn of_descriptor(number: RawFd) -> Result<Self, Refusal> {
        descriptor(number).map(|(_, identity)| identity)
    }

    /// Whether two targets are the same.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::There(_, Some(a)), Self::There(_, Some(b))) if a == b => true,
            (Self::There(a, _), Self::There(b, _)) => is_one(a, b),
            (Self::New(device, folder, name), Self::New(d, f, n)) => (device, folder, name) == (d, f, n),
            _ => false,
        }
    }

    /// Whether it is this file.
    pub(super) fn is_file(&self, facts: &Stat) -> bool {
        matches!(self, Self::There(there, _) if is_one(there, facts))
    }
}
