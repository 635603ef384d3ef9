//! The target of an output, as typed.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::terminal::shown;

/// The target of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// `-`: stdout.
    Stdout,
    /// The name of a file, a device or a pipe.
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
