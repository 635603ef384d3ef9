//! Why a target cannot be written.

use std::ffi::OsStr;

use rustix::io::Errno;

use crate::refusal::BadUsage;
use crate::terminal::shown;

/// The reason why a target cannot be written.
#[derive(Debug)]
pub(super) struct Refusal {
    why: String,
    /// Whether another name would help: the name is at fault, not the machine.
    usage: bool,
}

impl Refusal {
    /// A fault of the name.
    pub(super) fn usage(why: impl Into<String>) -> Self {
        Self { why: why.into(), usage: true }
    }

    /// The kernel's error for `object`.
    pub(super) fn errno(errno: Errno, object: impl AsRef<OsStr>) -> Self {
        let machine = [Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::FBIG];
        let said = std::io::Error::from(errno);
        Self { why: format!("{} cannot be written: {said}", shown(object)), usage: !machine.contains(&errno) }
    }

    /// The error where no flag names the target.
    pub(super) fn plain(self) -> std::io::Error {
        std::io::Error::other(self.why)
    }

    /// The error for the flag of the target.
    pub(super) fn of(self, flag: &str, target: &super::Target) -> anyhow::Error {
        if self.usage {
            BadUsage::invalid(flag, target, self.why).into()
        } else {
            anyhow::anyhow!("{flag} {target}: {}", self.why)
        }
    }
}
