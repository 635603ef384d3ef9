//! tracefs, unseen by others.
//!
//! A mount of its own (`fsopen(2)`, `fsmount(2)`, Linux 5.2) is attached nowhere and ends with its descriptor. Where this is
//! refused, a mount that exists already is read.

use std::io::{Error as IoError, Read as _, Result as IoResult};
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::{Error, Result};

/// Where distributions mount it.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The root of a tracefs.
#[derive(Debug)]
pub struct Tracefs {
    root: OwnedFd,
}

impl Tracefs {
    /// Opens it.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN and without a readable mount.
    pub fn open() -> Result<Self> {
        let refused = match detached(MountAttrFlags::MOUNT_ATTR_RDONLY) {
            Ok(root) => return Ok(Self { root }),
            Err(e) => e,
        };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mounted = PLACES.iter().filter_map(|place| openat(CWD, *place, flags, Mode::empty()).ok());
        let mut readable =
            mounted.map(|root| Self { root }).filter(|tracefs| tracefs.read("events/header_page").is_ok());
        readable.next().ok_or(Error::Tracefs(refused.into()))
    }

    /// The root of a tracefs that can be written to.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN.
    pub(crate) fn writable() -> Result<OwnedFd> {
        detached(MountAttrFlags::empty()).map_err(|e| Error::Tracefs(e.into()))
    }

    /// The text of a file.
    ///
    /// # Errors
    /// As openat(2) and read(2) say.
    pub fn read(&self, path: &str) -> IoResult<String> {
        let file = openat(&self.root, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(IoError::from)?;
        let mut text = String::new();
        std::fs::File::from(file).read_to_string(&mut text)?;
        Ok(text)
    }
}

fn detached(access: MountAttrFlags) -> rustix::io::Result<OwnedFd> {
    let filesystem = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&filesystem)?;
    let attributes = access | MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&filesystem, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}
