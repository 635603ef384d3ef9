//! Why a place cannot be written.

use std::ffi::OsStr;

use rustix::io::Errno;

use crate::exit::BadUsage;
use crate::terminal::shown;

/// Why a place cannot be written.
#[derive(Debug)]
pub(super) struct Refusal {
    why: String,
    /// Whether another name would do: the machine itself is fine.
    usage: bool,
}

impl Refusal {
    /// The name is to blame.
    pub(super) fn usage(why: impl Into<String>) -> Self {
        Self { why: why.into(), usage: true }
    }

    /// What the kernel said of `object`.
    pub(super) fn errno(errno: Errno, object: impl AsRef<OsStr>) -> Self {
        let machine = [Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::FBIG];
        let said = std::io::Error::from(errno);
        Self { why: format!("{} cannot be written: {said}", shown(object)), usage: !machine.contains(&errno) }
    }

    /// As an error of the flag that named the place.
    pub(super) fn of(self, flag: &str, target: &super::Target) -> anyhow::Error {
        let text = format!("{flag} {target}: {}", self.why);
        if self.usage { BadUsage(text).into() } else { anyhow::anyhow!(text) }
    }
}
