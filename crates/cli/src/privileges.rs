//! Privileges that the file of the command has (setcap(8)): what a plain user may do with them.
//!
//! The capabilities of [`KEPT`] change how the own threads run, and show the kernel's events. What shows or changes other processes, or
//! opens files of others, is given up before anything else happens. A set-user-ID or set-group-ID command has the rights of another
//! user in every file, so it is refused.

use rustix::process::{getegid, geteuid, getgid, getuid};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// What the command makes use of.
pub(crate) const KEPT: [(CapabilitySet, &str); 4] = [
    (CapabilitySet::SYS_NICE, "CAP_SYS_NICE"),
    (CapabilitySet::PERFMON, "CAP_PERFMON"),
    (CapabilitySet::BPF, "CAP_BPF"),
    (CapabilitySet::IPC_LOCK, "CAP_IPC_LOCK"),
];

/// Gives up what the command does not need. Nothing changes for root, for a plain user, and for capabilities that the caller had already.
///
/// # Errors
/// If the command is set-user-ID or set-group-ID, or if the kernel refuses.
pub(crate) fn limit() -> anyhow::Result<()> {
    if !punctual_linux::inherited::gained_privileges() {
        return Ok(());
    }
    anyhow::ensure!(
        geteuid() == getuid() && getegid() == getgid(),
        "the command is set-user-ID or set-group-ID, which would give every user the files of another; remove the bits (chmod ug-s) and use setcap cap_sys_nice,cap_perfmon,cap_bpf,cap_ipc_lock=ep instead"
    );
    let held = capabilities(None)?;
    let kept = KEPT.iter().fold(CapabilitySet::empty(), |all, (one, _)| all | *one);
    let sets = CapabilitySets {
        effective: held.effective & kept,
        permitted: held.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets)?;
    Ok(())
}

/// The names of those that the process has.
pub(crate) fn held() -> Vec<&'static str> {
    let effective = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    KEPT.iter().filter(|(one, _)| effective.contains(*one)).map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_ask_for_all_that_is_kept() {
        let documents = [include_str!("../../../README.md"), include_str!("../../../docs/results/install.md")];
        for text in documents.into_iter().chain([include_str!("commands/mod.rs"), include_str!("privileges.rs")]) {
            let mut lines = text.split("setcap ").filter_map(|after| after.split_once("=ep")).map(|(names, _)| names);
            let whole =
                |names: &str| KEPT.iter().all(|(_, name)| names.split(',').any(|one| one == name.to_lowercase()));
            assert!(lines.any(whole), "{}", &text[..60]);
        }
    }
}
