//! A place to write to, as it was typed.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::terminal::shown;

/// A place to write a result to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// `-`.
    Stdout,
    /// A name: of a file, a device, a pipe.
    File(PathBuf),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stdout => f.write_str("-"),
            Self::File(path) => f.write_str(&shown(path)),
        }
    }
}

impl From<OsString> for Target {
    fn from(text: OsString) -> Self {
        if text == OsStr::new("-") { Self::Stdout } else { Self::File(text.into()) }
    }
}
