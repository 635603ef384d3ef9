//! The outputs of a command. All are opened, checked and compared with each other and with the inputs before anything is measured. Each is
//! written even if another fails.
//!
//! [`Outputs::open`] takes flags and targets. An output is complete in memory before its first byte is written. If a run cannot be converted,
//! the old file stays unchanged.
//!
//! [`Growing`] is written as its contents come: a long trace does not fit into memory. A regular file grows without a name and gets it at the
//! end. Until then an old file of that name is unchanged. Only where that cannot be done are the contents kept in memory. A stream is written
//! at once.

mod place;
mod regular;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
pub(crate) use place::Target;
use place::{EXCHANGED, Named, Place, Refusal};
use punctual_linux::inherited::{self, duplicate_inherited};
use regular::{Regular, append, is_one};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fcntl_getfl, fstat, openat, statat};
use rustix::io::Errno;

use crate::refusal::BadUsage;
use crate::terminal;

/// Opens a folder of this user, and creates what is missing of its path with mode 0700. Only this user's links and root's are followed.
pub(crate) fn folder(path: &Path) -> std::io::Result<OwnedFd> {
    place::folder(path).map_err(place::Refusal::plain)
}

/// An open output.
#[derive(Debug)]
pub(crate) struct Output {
    /// The flag of the output.
    pub(crate) flag: &'static str,
    /// The target as typed.
    pub(crate) target: Target,
    sink: Sink,
    identity: Identity,
}

impl Output {
    /// Opens a single output.
    pub(crate) fn open(flag: &'static str, target: &Target) -> anyhow::Result<Self> {
        let (sink, identity) = Sink::open(target).map_err(|refusal| refusal.for_flag(flag, target))?;
        Ok(Self { flag, target: target.clone(), sink, identity })
    }

    /// Whether the written data can be read again by its name.
    pub(crate) fn stays(&self) -> bool {
        matches!(self.sink, Sink::Regular(_))
    }

    /// To be written as its contents come.
    pub(crate) fn grow(self) -> Growing {
        Growing { output: self, written: 0, kept: Vec::new() }
    }

    /// Writes everything that `fill` produces, or nothing.
    pub(crate) fn write(self, fill: impl FnOnce(&mut Vec<u8>) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        let name = format!("{} {}", self.flag, self.target);
        fill(&mut bytes).with_context(|| name.clone())?;
        self.sink.write(&bytes).with_context(|| format!("writing {name}"))
    }
}

/// All outputs of a command.
#[derive(Debug)]
pub(crate) struct Outputs {
    all: Vec<Output>,
    takes_stdout: bool,
}

impl Outputs {
    /// Opens all outputs. Refuses two outputs to one file, and an output that is also an input. `inputs`: the files read, `-` for stdin.
    pub(crate) fn open<'a>(
        wanted: impl IntoIterator<Item = (&'static str, &'a Target)>,
        inputs: &[PathBuf],
    ) -> anyhow::Result<Self> {
        let mut all: Vec<Output> = Vec::new();
        for (flag, target) in wanted {
            let output = Output::open(flag, target)?;
            refuse_second(all.iter().map(|before| (before.flag, &before.target, &before.identity)), &output)?;
            all.push(output);
        }
        all.iter().try_for_each(|output| refuse_input(output, inputs))?;
        let stdout = Identity::of_descriptor(1).ok();
        let takes_stdout = all.iter().any(|output| stdout.as_ref().is_some_and(|stdout| output.identity.is(stdout)));
        let outputs = Self { all, takes_stdout };
        outputs.refuse_a_file_of_its_own_words(stdout.as_ref())?;
        Ok(outputs)
    }

    /// Checks outputs one after the other, as [`Outputs::open`] does, for more than can be open at once.
    pub(crate) fn rehearse<'a>(wanted: impl IntoIterator<Item = (&'static str, &'a Target)>) -> anyhow::Result<()> {
        let mut seen: Vec<(&'static str, Target, Identity)> = Vec::new();
        for (flag, target) in wanted {
            let output = Output::open(flag, target)?;
            refuse_second(seen.iter().map(|(flag, target, identity)| (*flag, target, identity)), &output)?;
            seen.push((flag, output.target, output.identity));
        }
        Ok(())
    }

    /// Whether an output goes to stdout, so that nothing else may.
    pub(crate) fn takes_stdout(&self) -> bool {
        self.takes_stdout
    }

    /// All outputs; first those that never wait for a reader.
    pub(crate) fn into_all(mut self) -> Vec<Output> {
        self.all.sort_by_key(|output| !output.stays());
        self.all
    }

    /// Takes out the output of this flag.
    pub(crate) fn take(&mut self, flag: &str) -> Option<Output> {
        let at = self.all.iter().position(|output| output.flag == flag)?;
        Some(self.all.remove(at))
    }

    /// The output of a command with only one.
    pub(crate) fn into_only(self) -> anyhow::Result<Output> {
        self.all.into_iter().next().context("no output was opened")
    }

    /// A replaced file must not be the target of tables or notices.
    fn refuse_a_file_of_its_own_words(&self, stdout: Option<&Identity>) -> Result<(), BadUsage> {
        let stderr = Identity::of_descriptor(2).ok();
        for (name, words) in [("stdout", stdout), ("stderr", stderr.as_ref())] {
            let Some(words) = words else { continue };
            if let Some(output) = self.all.iter().find(|output| output.stays() && output.identity.is(words)) {
                let why = format!("{name} goes to this file as well; name another file");
                return Err(BadUsage::invalid(output.flag, &output.target, why));
            }
        }
        Ok(())
    }
}

fn refuse_second<'a>(
    mut before: impl Iterator<Item = (&'static str, &'a Target, &'a Identity)>,
    output: &Output,
) -> Result<(), BadUsage> {
    let Some((flag, target, _)) = before.find(|(_, _, identity)| identity.is(&output.identity)) else { return Ok(()) };
    let why = match (target, &output.target) {
        (Target::Stdout, Target::Stdout) => format!("{flag} {target} has stdout already; name a file"),
        _ => format!("{flag} {target} is the same place; name another file"),
    };
    Err(BadUsage::invalid(output.flag, &output.target, why))
}

fn refuse_input(output: &Output, inputs: &[PathBuf]) -> Result<(), BadUsage> {
    for input in inputs {
        let facts = if input == Path::new("-") {
            rustix::fs::fstat(std::io::stdin())
        } else {
            // Reading reports a missing file.
            statat(CWD, input, AtFlags::empty())
        };
        if facts.is_ok_and(|facts| output.identity.is_file(&facts)) {
            let (flag, target, name) = (output.flag, &output.target, crate::terminal::shown(input));
            return Err(BadUsage::invalid(flag, target, format!("{name} is read; name another file to write")));
        }
    }
    Ok(())
}

/// The output.
#[derive(Debug)]
pub(crate) struct Growing {
    output: Output,
    written: u64,
    /// What a file gets at the end that cannot grow unnamed.
    kept: Vec<u8>,
}

impl Growing {
    /// Gives the file its name, now that it is complete.
    pub(crate) fn finish(self) -> io::Result<()> {
        let Sink::Regular(file) = self.output.sink else { return Ok(()) };
        match file.growing() {
            Some(growing) => file.end_growth(growing, self.written),
            None => file.write(&self.kept),
        }
    }
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.output.sink {
            Sink::Stream(stream) => terminal::pour(stream, bytes)?,
            Sink::Regular(file) => match file.growing() {
                Some(growing) => append(growing, bytes, self.written)?,
                None => self.kept.extend(bytes),
            },
        }
        self.written = self.written.checked_add(bytes.len() as u64).ok_or(Errno::FBIG)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An open target.
#[derive(Debug)]
enum Sink {
    /// A regular file: replaced, or written in place from its start.
    Regular(Regular),
    /// A stream: written from its present position.
    Stream(OwnedFd),
}

/// The identity of a target.
#[derive(Debug)]
enum Identity {
    /// An existing file; with the number of an inherited descriptor.
    There(Box<Stat>, Option<RawFd>),
    /// A name in a folder (device, inode).
    New(u64, u64, OsString),
}

impl Sink {
    /// Opens the target. Writes nothing and waits for no reader.
    fn open(target: &Target) -> Result<(Self, Identity), Refusal> {
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

    fn write(self, bytes: &[u8]) -> io::Result<()> {
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
    fn of_descriptor(number: RawFd) -> Result<Self, Refusal> {
        descriptor(number).map(|(_, identity)| identity)
    }

    /// Whether two targets are the same.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::There(_, Some(a)), Self::There(_, Some(b))) if a == b => true,
            (Self::There(a, _), Self::There(b, _)) => is_one(a, b),
            (Self::New(device, folder, name), Self::New(d, f, n)) => (device, folder, name) == (d, f, n),
            _ => false,
        }
    }

    /// Whether it is this file.
    fn is_file(&self, facts: &Stat) -> bool {
        matches!(self, Self::There(there, _) if is_one(there, facts))
    }
}

#[cfg(test)]
mod tests;
