//! The emulator that runs this program on a CPU of another architecture, such as QEMU's user mode.
//!
//! Takes the file that the kernel executes. Returns the emulator's name, or nothing where the kernel runs this program itself. QEMU
//! answers for `/proc/self/exe` with the emulated program, and for `/proc/self/...` alone (linux-user/syscall.c, `is_proc_myself`): the
//! kernel answers for `/proc/thread-self/exe`. Its header names the machine that its code is for (elf(5), e_machine).

use std::fs::File;
use std::io::Read as _;

use crate::tree::Tree;

/// The file that the kernel executes.
const EXECUTED: &str = "proc/thread-self/exe";
/// Bytes of an ELF header up to the machine.
const HEADER: usize = 20;

/// The machine of this program's own code.
const OWN: Option<u16> = if cfg!(target_arch = "x86_64") {
    Some(62)
} else if cfg!(target_arch = "aarch64") {
    Some(183)
} else if cfg!(target_arch = "arm") {
    Some(40)
} else if cfg!(target_arch = "riscv64") {
    Some(243)
} else {
    None
};

/// The file name of the emulator; `None`: there is none, or it cannot be told.
pub(crate) fn name(tree: &Tree) -> Option<String> {
    of_program(tree, OWN?)
}

/// The same for a program whose code is for this machine.
fn of_program(tree: &Tree, own: u16) -> Option<String> {
    let mut header = [0; HEADER];
    File::open(tree.place(EXECUTED)).ok()?.read_exact(&mut header).ok()?;
    if machine(&header)? == own {
        return None;
    }
    // Another name space may hide the file's name; that there is an emulator is known all the same.
    let path = std::fs::read_link(tree.place(EXECUTED)).ok();
    let name = path.as_deref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    Some(name.unwrap_or_else(|| "an emulator".to_owned()))
}

/// The machine of a header in its own byte order.
fn machine(header: &[u8; HEADER]) -> Option<u16> {
    let bytes = [header[18], header[19]];
    match (&header[..4], header[5]) {
        (b"\x7fELF", 1) => Some(u16::from_le_bytes(bytes)),
        (b"\x7fELF", 2) => Some(u16::from_be_bytes(bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A machine whose kernel executes a file with these bytes.
    fn executing(bytes: &[u8]) -> (tempfile::TempDir, Tree) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/thread-self")).unwrap();
        std::fs::write(root.path().join("qemu-aarch64-static"), bytes).unwrap();
        symlink("../../qemu-aarch64-static", root.path().join(EXECUTED)).unwrap();
        let tree = Tree::new(root.path());
        (root, tree)
    }

    fn header(order: u8, machine: [u8; 2]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[..4].copy_from_slice(b"\x7fELF");
        (bytes[5], bytes[18], bytes[19]) = (order, machine[0], machine[1]);
        bytes
    }

    #[test]
    fn code_for_another_machine_is_run_by_an_emulator() {
        let (_root, tree) = executing(&header(1, [62, 0]));
        assert_eq!(of_program(&tree, 183).as_deref(), Some("qemu-aarch64-static"));
        assert_eq!(of_program(&tree, 62), None, "the kernel runs it");
        let (_root, tree) = executing(&header(2, [0, 22]));
        assert_eq!(of_program(&tree, 22), None, "in the other byte order");
        assert_eq!(of_program(&tree, 62).as_deref(), Some("qemu-aarch64-static"));
    }

    #[test]
    fn what_cannot_be_told_is_no_emulator() {
        for bytes in [&b"#!/bin/sh\n# a script of some length"[..], b"\x7fELF", &header(7, [62, 0])] {
            let (_root, tree) = executing(bytes);
            assert_eq!(of_program(&tree, 183), None, "{bytes:?}");
        }
        assert_eq!(name(&Tree::new(std::path::Path::new("/nowhere"))), None);
    }

    #[test]
    fn the_kernel_of_this_machine_runs_this_program() {
        assert_eq!(name(&Tree::new(std::path::Path::new("/"))), None);
    }
}
