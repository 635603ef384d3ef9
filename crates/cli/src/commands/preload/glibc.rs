//! A library's path that glibc alone can open.
//!
//! musl ends a program if a library of LD_PRELOAD lacks what it needs. It passes over a path that does not exist. A script that is run may
//! start such programs.

use std::path::{Path, PathBuf};

/// glibc replaces `$LIB` by `lib`, `lib64` or `lib/ARCHITECTURE` (ld.so(8)). `..` of the root is the root.
const ROOT: &str = "/$LIB/../../../../../../../..";

/// The path for LD_PRELOAD, of an absolute one.
pub(crate) fn path(library: &Path) -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if !is_in_its_folder(&maps) {
        return library.to_owned();
    }
    let mut path = std::ffi::OsString::from(ROOT);
    path.push(library);
    path.into()
}

/// Whether the C library of this process is in the folder that glibc takes for `$LIB`. Then the folder exists.
fn is_in_its_folder(maps: &str) -> bool {
    let folder = maps.lines().find_map(|line| line[line.find('/')?..].strip_suffix("/libc.so.6"));
    folder.is_some_and(|folder| {
        let folder = folder.strip_prefix("/usr").unwrap_or(folder);
        let named = matches!(folder, "/lib" | "/lib64")
            || folder.strip_prefix("/lib/").is_some_and(|rest| rest.contains("-linux-") && !rest.contains('/'));
        named && Path::new(folder).is_dir()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_folder_is_not_trusted() {
        let maps = |path: &str| format!("7f00-7f01 r-xp 00000000 fe:00 5 {path}\n7f02-7f03 rw-p 00000000 00:00 0\n");
        assert!(!is_in_its_folder(&maps("/nix/store/x-glibc-2.40/lib/libc.so.6")));
        assert!(!is_in_its_folder(&maps("/lib/no-linux-here/libc.so.6")));
        assert!(!is_in_its_folder(&maps("/lib/ld-musl-x86_64.so.1")));
        assert!(!is_in_its_folder(""));
        assert_eq!(is_in_its_folder(&maps("/usr/lib/libc.so.6")), Path::new("/lib").is_dir());
    }

    #[test]
    fn the_path_is_the_librarys() {
        assert!(path(Path::new("/x/own.so")).ends_with("x/own.so"));
    }
}
