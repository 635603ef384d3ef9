//! Restores settings that depend on each other.

use std::path::Path;

use super::error::Error;
use super::files;
use super::form::Setting;
use super::journal::{Contents, Journal};
use super::left::{Left, NotRestored};

/// Passes over the settings. Each setting depends on at most two others: the preference on the governor, a lower limit
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
                Ok(()) => files::read_back(setting.file, &path, &setting.value),
                Err(_) => files::must_read(&path),
            };
            let why = match (written, now) {
                (Err(error), _) | (Ok(()), Err(error)) => error.to_string(),
                (Ok(()), Ok(now)) if now == setting.value => continue,
                (Ok(()), Ok(now)) => format!("it reads {now}"),
            };
            left.push(Left::new(setting, why));
        }
        if !wrote {
            break;
        }
    }
    left
}

/// Follows a journal of an earlier program. Returns the failures, and remarks for the user.
pub(crate) fn replay(root: &Path, journal: &mut Journal) -> Result<(Vec<Left>, Vec<String>), Error> {
    let mut told = Vec::new();
    let left = match journal.read()? {
        Contents::Empty | Contents::Stale => Vec::new(),
        Contents::Settings(settings) => {
            let left = put_back(root, &settings);
            let done = settings.iter().filter(|s| !left.iter().any(|not| not.setting == **s));
            told.extend(done.map(|s| format!("{s}: put back for a program that ended without doing so")));
            told.extend(left.iter().map(|left| NotRestored::from(left.clone()).to_string()));
            left
        }
        Contents::Refused(why) => {
            let at = journal.path().to_owned();
            let aside = journal.put_aside()?;
            told.push(format!(
                "the journal {} was not followed: {why}; it is kept as {}",
                at.display(),
                aside.display()
            ));
            Vec::new()
        }
    };
    Ok((left, told))
}
