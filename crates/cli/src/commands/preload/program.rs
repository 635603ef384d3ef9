//! Whether a program loads a library of LD_PRELOAD.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use object::read::{Object as _, ObjectSection as _, ReadCache};

use super::file_of;

/// Interpreters of interpreters: as many as the kernel follows (BINPRM_MAX_RECURSION is 4 or 5).
const DEPTH: u32 = 4;
/// The longest first line of a script that the kernel reads.
const LINE: u64 = 256;

/// Why the program will not see the library. None if it will, or if its file tells nothing.
pub(crate) fn hidden(program: &OsStr) -> Option<String> {
    hidden_at(program, DEPTH)
}

fn hidden_at(program: &OsStr, depth: u32) -> Option<String> {
    let path = file_of(program)?;
    if let Some(interpreter) = interpreter(&path) {
        return (depth > 0).then(|| hidden_at(&interpreter, depth - 1)).flatten();
    }
    let name = path.display();
    if let Some(mode) = gains_privileges(&path) {
        return Some(format!("{name} is {mode}, and ld.so(8) loads no foreign library into such a program"));
    }
    let cache = ReadCache::new(File::open(&path).ok()?);
    let elf = object::File::parse(&cache).ok()?;
    let own = object::File::parse(&ReadCache::new(File::open("/proc/self/exe").ok()?))
        .ok()
        .map(|own| (own.architecture(), own.is_64()));
    if own.is_some_and(|own| own != (elf.architecture(), elf.is_64())) {
        return Some(format!("{name} is a program of another architecture"));
    }
    let section = |section: &str| elf.section_by_name(section);
    if section(".go.buildinfo").is_some() {
        return Some(format!("{name} is a Go program, which makes its system calls without the C library"));
    }
    let Some(loader) = section(".interp") else {
        let has_sections = elf.sections().next().is_some();
        return has_sections.then(|| format!("{name} is linked statically: no library is loaded into it"));
    };
    let loader = loader.data().ok().map(|text| String::from_utf8_lossy(text).into_owned())?;
    loader.contains("/ld-musl").then(|| format!("{name} uses the C library musl, and the library needs glibc"))
}

/// What a script's first line names: the program to look at instead. `env` is followed to the program behind it.
fn interpreter(path: &Path) -> Option<OsString> {
    let mut line = Vec::new();
    File::open(path).ok()?.take(LINE).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first = words.next()?;
    let behind_env = first.ends_with(b"/env").then(|| words.find(|word| !word.starts_with(b"-"))).flatten();
    Some(OsString::from_vec(behind_env.unwrap_or(first).to_vec()))
}

/// Whether the program runs with other privileges than this process, which makes the loader careful.
fn gains_privileges(path: &Path) -> Option<&'static str> {
    let file = path.metadata().ok()?;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if file.mode() & 0o4000 != 0 && file.uid() != user {
        return Some("set-user-ID");
    }
    if file.mode() & 0o2010 == 0o2010 && file.gid() != group {
        return Some("set-group-ID");
    }
    let mut value = [0_u8; 64];
    let capable = user != 0 && rustix::fs::getxattr(path, "security.capability", &mut value[..]).is_ok();
    capable.then_some("a program with file capabilities")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn script(folder: &Path, text: &str) -> OsString {
        let path = folder.join("script");
        std::fs::write(&path, text).unwrap();
        path.into_os_string()
    }

    #[test]
    fn a_dynamic_program_sees_it() {
        assert_eq!(hidden(OsStr::new("sh")), None);
        assert_eq!(hidden(OsStr::new("no-such-program-anywhere")), None, "running it reports that");
        assert_eq!(hidden(OsStr::new("/etc/passwd")), None);
    }

    #[test]
    fn scripts_are_judged_by_their_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let at = |text: &str| interpreter(Path::new(&script(folder.path(), text)));
        assert_eq!(at("#!/usr/bin/env -S python3 -u\n").unwrap(), "python3");
        assert_eq!(at("#! /bin/sh -e\necho").unwrap(), "/bin/sh");
        assert_eq!(at("#!\n"), None);
        assert_eq!(at("echo"), None);
        let around = script(folder.path(), "");
        std::fs::write(&around, [b"#!", around.as_encoded_bytes()].concat()).unwrap();
        assert_eq!(hidden(&around), None, "a script that names itself ends");
    }

    #[test]
    fn a_static_program_and_one_of_another_user_do_not() {
        let folder = tempfile::tempdir().unwrap();
        // A shared library has no interpreter either.
        let own = std::env::current_exe().unwrap();
        assert_eq!(hidden(own.as_os_str()), None);
        let other = folder.path().join("other");
        std::fs::copy(&own, &other).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&other, Some(12_345), None).unwrap();
            std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o4755)).unwrap();
            assert!(hidden(other.as_os_str()).unwrap().contains("is set-user-ID"));
        }
    }
}
