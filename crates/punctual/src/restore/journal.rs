//! The journal: the value before each change, so that any process can restore it.
//!
//! It has one line per setting, such as `policy0 scaling_governor ondemand`, below a line with the format's version and
//! its boot. A line is written before its setting is changed. Lines of any other form are not followed: a journal can
//! only set files of its [`Form`] to plain values.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::error::Error;
use super::form::{Form, Setting};
use super::left::Left;
use super::state::StateDir;

/// Longest journal read: five settings of every possible policy.
const LONGEST: u64 = 4 << 20;

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    form: &'static Form,
    state: StateDir,
    name: &'static str,
    file: File,
    noted: BTreeSet<(usize, &'static str)>,
}

/// The contents of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Contents {
    /// It is empty.
    Empty,
    /// Previous settings, of this boot.
    Settings(Vec<Setting>),
    /// Settings of another boot, which no longer exist.
    Stale,
    /// Invalid contents; the reason, with the line.
    Refused(String),
}

impl Journal {
    /// Opens the journal of this name and form; creates it if it does not exist.
    pub(crate) fn open(state: &StateDir, name: &'static str, form: &'static Form) -> Result<Self, Error> {
        Ok(Self { form, state: state.clone(), name, file: state.open(name)?, noted: BTreeSet::new() })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.state.path().join(self.name)
    }

    /// Reads its contents.
    pub(crate) fn read(&mut self) -> Result<Contents, Error> {
        let path = self.path();
        let failed = |source| Error::io("reading", path.clone(), source);
        let mut bytes = Vec::new();
        self.file.rewind().map_err(failed)?;
        (&self.file).take(LONGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > LONGEST {
            return Ok(Contents::Refused("it is too long".into()));
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) => understand(self.form, &text, &boot()),
            Err(_) => Contents::Refused("it is no text".into()),
        })
    }

    /// Starts a new journal with these settings.
    pub(crate) fn begin(&mut self, settings: &[Setting]) -> Result<(), Error> {
        self.clear()?;
        self.append(&format!("{} {}\n", self.form.magic, boot()))?;
        for setting in settings {
            self.note(setting)?;
        }
        Ok(())
    }

    /// Records the value of a setting, unless it is recorded already: restoring uses the first value.
    pub(crate) fn note(&mut self, setting: &Setting) -> Result<(), Error> {
        if self.noted.insert((setting.number, setting.file())) {
            self.append(&format!("{setting}\n"))?;
        }
        Ok(())
    }

    /// Keeps the failed settings for the next program; empties the journal if there are none.
    pub(crate) fn settle(&mut self, left: &[Left]) -> Result<(), Error> {
        let still: Vec<Setting> = left.iter().map(|left| left.setting.clone()).collect();
        if still.is_empty() { self.clear() } else { self.begin(&still) }
    }

    /// Empties the journal: nothing is left to restore.
    pub(crate) fn clear(&mut self) -> Result<(), Error> {
        self.noted.clear();
        self.file.set_len(0).map_err(|source| Error::io("emptying", self.path(), source))
    }

    /// Moves a refused journal aside for inspection, and starts an empty one.
    pub(crate) fn put_aside(&mut self) -> Result<PathBuf, Error> {
        let aside = self.path().with_extension("refused");
        let (folder, refused) = (self.state.folder()?, Path::new(self.name).with_extension("refused"));
        let renamed = rustix::fs::renameat(&folder, self.name, &folder, &refused);
        renamed.map_err(|errno| Error::io("renaming", self.path(), errno.into()))?;
        *self = Self::open(&self.state, self.name, self.form)?;
        Ok(aside)
    }

    /// Appends with one write, so that a reader sees whole lines.
    fn append(&mut self, line: &str) -> Result<(), Error> {
        let written = self.file.seek(SeekFrom::End(0)).and_then(|_| self.file.write_all(line.as_bytes()));
        written.map_err(|source| Error::io("writing", self.path(), source))
    }
}

/// The kernel's identifier of this boot.
pub(crate) fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let id = id.trim();
    if id.is_empty() { "unknown".into() } else { id.to_owned() }
}

fn understand(form: &'static Form, text: &str, boot: &str) -> Contents {
    let mut lines = text.lines().enumerate();
    let Some((_, first)) = lines.next() else { return Contents::Empty };
    match first.split_once(' ') {
        Some((magic, its)) if magic == form.magic && its == boot => {}
        Some((magic, _)) if magic == form.magic => return Contents::Stale,
        _ => return Contents::Refused(format!("line 1 is not \"{}\" and the number of a boot", form.magic)),
    }
    let mut settings = Vec::new();
    for (index, line) in lines {
        match Setting::parse(form, line) {
            Some(setting) => settings.push(setting),
            None => return Contents::Refused(format!("line {} names no setting of {}", index + 1, form.what)),
        }
    }
    if settings.is_empty() { Contents::Empty } else { Contents::Settings(settings) }
}
