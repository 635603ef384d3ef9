//! The journal: the value before each change, so that any process can restore it.
//!
//! It has one line per setting, such as `policy0 scaling_governor ondemand`, below a line with the format's version and
//! its boot. A line is written before its setting is changed. Lines of any other form are not followed: a journal can
//! only set files of its [`Form`] to plain values.
//!
//! It lies in the folder of a [`StateDir`].

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::files::StateDir;
use super::{Error, Form, Left, NotRestored, Setting, files};

/// Longest journal read: five settings of every possible policy.
const LONGEST: u64 = 4 << 20;

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    form: &'static Form,
    state: StateDir,
    name: &'static str,
    file: File,
    /// The settings with a line, by number and file.
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
        Some((magic, written)) if magic == form.magic && written == boot => {}
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

/// Passes over settings that depend on each other. Each setting depends on at most two others: the preference on the governor, a lower limit
/// on the upper one. The last pass finds everything restored.
const PASSES: u32 = 4;

/// Writes the settings that differ until none does. Returns those that still differ at the end.
pub(crate) fn put_back(root: &Path, settings: &[Setting]) -> Vec<Left> {
    let mut left = Vec::new();
    for _ in 0..PASSES {
        let mut wrote = false;
        left.clear();
        for setting in settings {
            let path = setting.path(root);
            if files::read(&path).as_deref() == Some(&setting.value) {
                continue;
            }
            let written = files::write(&path, &setting.value);
            wrote |= written.is_ok();
            let now = match written {
                Ok(()) => files::read_back(setting.file_form, &path, &setting.value),
                Err(_) => files::must_read(&path),
            };
            let why = match (written, now) {
                (Err(error), _) | (Ok(()), Err(error)) => error.to_string(),
                (Ok(()), Ok(now)) if now == setting.value => continue,
                (Ok(()), Ok(now)) => format!("it reads {now}"),
            };
            left.push(Left { setting: setting.clone(), why });
        }
        if !wrote {
            break;
        }
    }
    left
}

/// Follows a journal of an earlier program. Returns the failures, and remarks for the user.
pub(crate) fn replay(root: &Path, journal: &mut Journal) -> Result<(Vec<Left>, Vec<String>), Error> {
    let mut remarks = Vec::new();
    let left = match journal.read()? {
        Contents::Empty | Contents::Stale => Vec::new(),
        Contents::Settings(settings) => {
            let left = put_back(root, &settings);
            let done = settings.iter().filter(|s| !left.iter().any(|not| not.setting == **s));
            remarks.extend(done.map(|s| format!("{s}: put back for a program that ended without doing so")));
            remarks.extend(left.iter().map(|left| NotRestored::from(left.clone()).to_string()));
            left
        }
        Contents::Refused(why) => {
            let at = journal.path().to_owned();
            let aside = journal.put_aside()?;
            remarks.push(format!(
                "the journal {} was not followed: {why}; it is kept as {}",
                at.display(),
                aside.display()
            ));
            Vec::new()
        }
    };
    Ok((left, remarks))
}
