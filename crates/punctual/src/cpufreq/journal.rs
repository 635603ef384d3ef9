//! The journal: what was found before each change, so that anybody can put it back.
//!
//! One line per setting: `policy0 scaling_governor ondemand`, below a line with the format's version and the boot it
//! belongs to. A line is written before its setting is touched. What is not exactly of that form is not followed: a journal can name
//! nothing but the cpufreq files of [`Attribute`](super::Attribute), and give them nothing but plain values.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use super::attribute::{Attribute, Setting};
use super::error::Error;
use super::state::StateDir;

/// First word of a journal; a reader refuses any other.
const MAGIC: &str = "punctual-cpufreq-1";
/// Longest journal that is read: five settings of every policy there can be.
const LONGEST: u64 = 4 << 20;

/// A journal, open.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    noted: BTreeSet<(usize, Attribute)>,
}

/// What a journal said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Contents {
    /// Nothing.
    Empty,
    /// Settings as they were found, of this boot.
    Settings(Vec<Setting>),
    /// It is of another boot: the settings are gone with it.
    Stale,
    /// It is not what this program writes; the reason, with the line.
    Refused(String),
}

impl Journal {
    /// Opens a journal of this name; it is made when there is none.
    pub(super) fn open(state: &StateDir, name: &str) -> Result<Self, Error> {
        Ok(Self { file: state.open(name)?, path: state.path().join(name), noted: BTreeSet::new() })
    }

    pub(super) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// What is in it.
    pub(super) fn read(&mut self) -> Result<Contents, Error> {
        let failed = |source| Error::io("reading", &self.path, source);
        let mut bytes = Vec::new();
        self.file.rewind().map_err(failed)?;
        (&self.file).take(LONGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > LONGEST {
            return Ok(Contents::Refused("it is too long".into()));
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) => understand(&text, &boot()),
            Err(_) => Contents::Refused("it is no text".into()),
        })
    }

    /// Begins anew, with these settings in it.
    pub(super) fn begin(&mut self, settings: &[Setting]) -> Result<(), Error> {
        self.clear()?;
        self.append(&format!("{MAGIC} {}\n", boot()))?;
        for setting in settings {
            self.note(setting)?;
        }
        Ok(())
    }

    /// Notes what a setting was, unless it is noted already: what was found first is what is put back.
    pub(super) fn note(&mut self, setting: &Setting) -> Result<(), Error> {
        if self.noted.insert((setting.policy, setting.attribute)) {
            self.append(&format!("{setting}\n"))?;
        }
        Ok(())
    }

    /// Empties it: there is nothing to put back.
    pub(super) fn clear(&mut self) -> Result<(), Error> {
        self.noted.clear();
        self.file.set_len(0).map_err(|source| Error::io("emptying", &self.path, source))
    }

    /// Puts a journal that was refused aside, where it can be looked at, and begins an empty one.
    pub(super) fn put_aside(&mut self, state: &StateDir, name: &str) -> Result<PathBuf, Error> {
        let aside = self.path.with_extension("refused");
        std::fs::rename(&self.path, &aside).map_err(|source| Error::io("renaming", &self.path, source))?;
        *self = Self::open(state, name)?;
        Ok(aside)
    }

    /// One write at the end, so that a reader sees whole lines.
    fn append(&mut self, line: &str) -> Result<(), Error> {
        let written = self.file.seek(SeekFrom::End(0)).and_then(|_| self.file.write_all(line.as_bytes()));
        written.map_err(|source| Error::io("writing", &self.path, source))
    }
}

/// The kernel's number of this boot.
pub(super) fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let id = id.trim();
    if id.is_empty() { "unknown".into() } else { id.to_owned() }
}

pub(super) fn understand(text: &str, boot: &str) -> Contents {
    let mut lines = text.lines().enumerate();
    let Some((_, first)) = lines.next() else { return Contents::Empty };
    match first.split_once(' ') {
        Some((MAGIC, its)) if its == boot => {}
        Some((MAGIC, _)) => return Contents::Stale,
        _ => return Contents::Refused(format!("line 1 is not \"{MAGIC}\" and the number of a boot")),
    }
    let mut settings = Vec::new();
    for (index, line) in lines {
        match Setting::parse(line) {
            Some(setting) => settings.push(setting),
            None => return Contents::Refused(format!("line {} names no cpufreq setting", index + 1)),
        }
    }
    if settings.is_empty() { Contents::Empty } else { Contents::Settings(settings) }
}
