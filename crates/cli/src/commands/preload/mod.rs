//! A library that is loaded into a program: where it is, and whether the program will see it.

mod glibc;
mod part;
mod program;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) use part::{MPI, Part, WAITS, find};
pub(super) use program::hidden;

/// The variable that ld.so(8) reads.
const LD_PRELOAD: &str = "LD_PRELOAD";
/// The variable that AddressSanitizer reads, and its option. The last of several values counts.
const ASAN_OPTIONS: &str = "ASAN_OPTIONS";
const ANY_ORDER: &str = "verify_asan_link_order=0";

/// Has the program load this library before others that it is to load.
///
/// A program with AddressSanitizer ends at once behind another library, unless it is asked not to insist. These libraries replace no
/// allocator, so they may come first. A child may be such a program too.
pub(super) fn into(command: &mut Command, library: &Path) {
    command.env(LD_PRELOAD, before(&glibc::path(library), set(command, LD_PRELOAD)));
    let options = set(command, ASAN_OPTIONS).filter(|options| !options.is_empty());
    let options = options.map_or_else(OsString::new, |mut options| {
        options.push(":");
        options
    });
    command.env(ASAN_OPTIONS, [options, ANY_ORDER.into()].into_iter().collect::<OsString>());
}

/// What the program would find in a variable.
fn set(command: &Command, variable: &str) -> Option<OsString> {
    let own = command.get_envs().find(|(name, _)| *name == variable).and_then(|(_, value)| value.map(OsString::from));
    own.or_else(|| std::env::var_os(variable))
}

fn before(library: &Path, others: Option<OsString>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// A program's file, as execvp(3) finds it.
fn file_of(program: &OsStr) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_libraries_stay() {
        let own = Path::new("/x/own.so");
        assert_eq!(before(own, None), "/x/own.so");
        assert_eq!(before(own, Some("".into())), "/x/own.so");
        assert_eq!(before(own, Some("a.so b.so".into())), "/x/own.so:a.so b.so");
    }

    #[test]
    fn options_of_the_sanitizer_stay() {
        let options = |given: &str| {
            let mut command = Command::new("true");
            command.env(ASAN_OPTIONS, given);
            into(&mut command, Path::new("/x/own.so"));
            set(&command, ASAN_OPTIONS).unwrap()
        };
        assert_eq!(options(""), "verify_asan_link_order=0");
        assert_eq!(
            options("verify_asan_link_order=1:log_path=x"),
            "verify_asan_link_order=1:log_path=x:verify_asan_link_order=0"
        );
    }
}
