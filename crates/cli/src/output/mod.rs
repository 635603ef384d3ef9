//! The outputs of a command. All are opened, checked and compared with each other and with the inputs before anything is measured. Each is
//! written even if another fails.
//!
//! [`Outputs::open`] takes flags and targets. An output is complete in memory before its first byte is written. If a run cannot be
//! converted, the old file stays unchanged.
//!
//! [`Growing`] is written as its contents come: a long trace does not fit into memory. A regular file grows without a name and gets it at the end. Until then an old file of that name is unchanged. Only where that cannot be
//! done are the contents kept in memory. A stream is written at once.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{AtFlags, CWD, statat};
use rustix::io::Errno;
use sink::{Identity, Sink};

use crate::refusal::BadUsage;
use crate::terminal;

mod place;
mod regular;
mod sink;

/// Opens a folder of this user, and creates what is missing of its path with mode 0700. Only this user's links and root's are followed.
pub(crate) fn folder(path: &Path) -> std::io::Result<OwnedFd> {
    place::folder(path).map_err(place::Refusal::plain)
}

pub(crate) use place::Target;

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
        let Self { output, written, kept } = self;
        match output.sink {
            Sink::Stream(_) => Ok(()),
            Sink::Regular(file) if file.can_grow() => file.end_growth(written),
            Sink::Regular(file) => file.write(&kept),
        }
    }
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.output.sink {
            Sink::Stream(stream) => terminal::pour(stream, bytes)?,
            Sink::Regular(file) if file.can_grow() => file.grow(bytes, self.written)?,
            Sink::Regular(_) => self.kept.extend(bytes),
        }
        self.written = self.written.checked_add(bytes.len() as u64).ok_or(Errno::FBIG)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
