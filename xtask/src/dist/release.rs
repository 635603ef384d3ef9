//! What was built for an architecture, and which glibc it needs.

use anyhow::{Context as _, ensure};

use super::glibc::{self, Version};
use super::target::Architecture;
use crate::install::Item;

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// That of Ubuntu 22.04. Debian 12 has 2.36.
const NEWEST_GLIBC: Version = (2, 35);

/// What was built for an architecture.
pub(super) struct Release {
    pub(super) architecture: Architecture,
    pub(super) items: Vec<Item>,
    /// What the newest of them needs.
    pub(super) glibc: Version,
}

impl Release {
    /// With the glibc that the parts need.
    ///
    /// # Errors
    /// If a part needs a newer one than allowed.
    pub(super) fn from_items(architecture: Architecture, items: Vec<Item>) -> anyhow::Result<Self> {
        let mut glibc = (0, 0);
        for item in items.iter().filter(|item| item.bytes.starts_with(b"\x7fELF")) {
            let needed = glibc::newest(&item.bytes).with_context(|| format!("reading {}", item.path.display()))?;
            let (major, minor) = needed;
            ensure!(needed <= NEWEST_GLIBC, "{} needs glibc {major}.{minor}", item.path.display());
            glibc = glibc.max(needed);
        }
        Ok(Self { architecture, items, glibc })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_needs_what_the_newest_of_its_programs_needs() {
        let item = |bytes: Vec<u8>| Item { path: "bin/x".into(), bytes, mode: 0o755 };
        let text = item(b"#!/bin/sh".to_vec());
        assert_eq!(Release::from_items(Architecture::Amd64, vec![text]).unwrap().glibc, (0, 0));
        let own = item(std::fs::read(std::env::current_exe().unwrap()).unwrap());
        let needed = glibc::newest(&own.bytes).unwrap();
        match Release::from_items(Architecture::Amd64, vec![own]) {
            Ok(release) => assert_eq!(release.glibc, needed),
            Err(refused) => assert!(needed > NEWEST_GLIBC && refused.to_string().contains("bin/x needs glibc ")),
        }
    }
}
