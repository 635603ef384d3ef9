//! The places that a command writes to: all are opened, compared with each other and with what is read, and tried before anything is measured;
//! each is written whole, although another failed.
//!
//! In go flags and targets; out comes an [`Outputs`], or the reason why one cannot be written. What is to be written is complete in memory before
//! the first byte is: a run that cannot be put into a form leaves the old file as it was.

mod place;
mod refusal;
mod regular;
mod sink;
mod taking;
mod target;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{AtFlags, CWD, statat};

use crate::exit::BadUsage;
use sink::{Identity, Sink};

pub(crate) use target::Target;

/// A place that is open for writing.
#[derive(Debug)]
pub(crate) struct Output {
    /// The flag that named it.
    pub(crate) flag: &'static str,
    /// As it was typed.
    pub(crate) target: Target,
    sink: Sink,
    identity: Identity,
}

impl Output {
    /// Opens one place by itself.
    pub(crate) fn open(flag: &'static str, target: &Target) -> anyhow::Result<Self> {
        let (sink, identity) = Sink::open(target).map_err(|refusal| refusal.of(flag, target))?;
        Ok(Self { flag, target: target.clone(), sink, identity })
    }

    /// Whether what is written can be read again afterwards, by its name.
    pub(crate) fn stays(&self) -> bool {
        matches!(self.sink, Sink::Regular(_))
    }

    /// Writes all that `fill` makes, or nothing.
    pub(crate) fn write(self, fill: impl FnOnce(&mut Vec<u8>) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        let name = format!("{} {}", self.flag, self.target);
        fill(&mut bytes).with_context(|| name.clone())?;
        self.sink.write(&bytes).with_context(|| format!("writing {name}"))
    }
}

/// All the places that a command writes to.
#[derive(Debug)]
pub(crate) struct Outputs {
    all: Vec<Output>,
    takes_stdout: bool,
}

impl Outputs {
    /// Opens all, and refuses two that are one, and one that is also read. `inputs`: what the command reads, `-` for stdin.
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

    /// Tries places one after the other, as [`Outputs::open`] would, for more of them than can be open at once.
    pub(crate) fn rehearse<'a>(wanted: impl IntoIterator<Item = (&'static str, &'a Target)>) -> anyhow::Result<()> {
        let mut seen: Vec<(&'static str, Target, Identity)> = Vec::new();
        for (flag, target) in wanted {
            let output = Output::open(flag, target)?;
            refuse_second(seen.iter().map(|(flag, target, identity)| (*flag, target, identity)), &output)?;
            seen.push((flag, output.target, output.identity));
        }
        Ok(())
    }

    /// Whether one of them is where stdout goes, so that nothing else may.
    pub(crate) fn takes_stdout(&self) -> bool {
        self.takes_stdout
    }

    /// All of them: first those that never wait for a reader.
    pub(crate) fn into_all(mut self) -> Vec<Output> {
        self.all.sort_by_key(|output| !output.stays());
        self.all
    }

    /// The only one, for a command that writes one.
    pub(crate) fn into_only(self) -> anyhow::Result<Output> {
        self.all.into_iter().next().context("no output was opened")
    }

    /// A file that is replaced must not be the one that tables or notices go to.
    fn refuse_a_file_of_its_own_words(&self, stdout: Option<&Identity>) -> Result<(), BadUsage> {
        let stderr = Identity::of_descriptor(2).ok();
        for (name, words) in [("stdout", stdout), ("stderr", stderr.as_ref())] {
            let Some(words) = words else { continue };
            if let Some(output) = self.all.iter().find(|output| output.stays() && output.identity.is(words)) {
                let text = format!("{} {}: {name} goes to this file as well; name another", output.flag, output.target);
                return Err(BadUsage(text));
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
    let (one, other) = (format!("{flag} {target}"), format!("{} {}", output.flag, output.target));
    Err(BadUsage(match (target, &output.target) {
        (Target::Stdout, Target::Stdout) => {
            format!("{one} and {other} cannot both have stdout; name a file for one of them")
        }
        _ => format!("{one} and {other} are the same place; name another for one of them"),
    }))
}

fn refuse_input(output: &Output, inputs: &[PathBuf]) -> Result<(), BadUsage> {
    for input in inputs {
        let facts = if input == Path::new("-") {
            rustix::fs::fstat(std::io::stdin())
        } else {
            // What cannot be found says so when it is read.
            statat(CWD, input, AtFlags::empty())
        };
        if facts.is_ok_and(|facts| output.identity.is_file(&facts)) {
            let (flag, target, name) = (output.flag, &output.target, crate::terminal::shown(input));
            return Err(BadUsage(format!("{flag} {target}: {name} is read; name another file to write")));
        }
    }
    Ok(())
}
