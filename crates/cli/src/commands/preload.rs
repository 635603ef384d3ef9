//! A library that is loaded into a program: where it is, and whether the program will see it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::Architecture;
use object::read::{Object as _, ObjectSection as _, ReadCache};
use rustix::fs::{StatVfsMountFlags, statvfs};

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
    command.env(LD_PRELOAD, before(&path(library), set(command, LD_PRELOAD)));
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

// A library's path that glibc alone can open.
//
// musl ends a program if a library of LD_PRELOAD lacks what it needs. It passes over a path that does not exist. A script that is run may
// start such programs.

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

// A library of this project: what it serves, where it is, and whether this file of it can be loaded.

/// A library that `run` loads into programs.
pub(super) struct Part {
    pub(crate) file: &'static str,
    /// The options that need it.
    pub(crate) serves: &'static str,
}

/// The library that takes the place of a program's waits, and counts them.
pub(super) const WAITS: Part = Part {
    file: "libpunctual_preload.so",
    serves: "--precise-sleep, --poll-first, --usleep0, --sched-yield, --rules, --observe",
};
/// The library for MPI programs.
pub(super) const MPI: Part = Part { file: "libpunctual_mpi.so", serves: "--mpi" };

/// The section in which a library has its version.
const VERSION: &str = ".punctual.version";

/// Finds a library: beside the command, or in the `lib` beside its `bin`. One that does not fit the command is passed over. The error says
/// why none can be loaded.
pub(super) fn find(part: &Part) -> Result<PathBuf, String> {
    let Part { file, serves } = part;
    let command = std::env::current_exe().and_then(|path| path.canonicalize());
    let Some(folder) = command.ok().and_then(|path| path.parent().map(Path::to_owned)) else {
        return Err(format!("{file} was not found: the folder of this command is unknown; is /proc mounted?"));
    };
    let prefix = folder.parent().unwrap_or(&folder);
    let lib = prefix.join("lib");
    let own = lib.join("punctual");
    let mut unfit = None;
    for place in [&folder, &lib, &own].map(|folder| folder.join(file)).iter().filter(|place| place.is_file()) {
        match check(place) {
            Ok(()) => return Ok(place.clone()),
            Err(why) => unfit = unfit.or(Some(format!("{} {why}", place.display()))),
        }
    }
    Err(unfit.unwrap_or_else(|| {
        format!(
            "{file} was not found in {}, {} or {}; without it there is no {serves}: the Debian package, the tarball and \
             the wheel have it, and in a clone cargo xtask install --prefix {} installs it (punctual about lists the parts)",
            folder.display(),
            lib.display(),
            own.display(),
            prefix.display()
        )
    }))
}

/// Whether ld.so(8) can load this file, and whether it belongs to this command. The error continues its name.
fn check(library: &Path) -> Result<(), String> {
    let own = env!("CARGO_PKG_VERSION");
    // The separators of LD_PRELOAD cannot be quoted.
    if library.to_string_lossy().contains([' ', ':']) {
        return Err("has a space or a colon in its path, which ld.so(8) cannot load; move it".into());
    }
    if statvfs(library).is_ok_and(|facts| facts.f_flag.contains(StatVfsMountFlags::NOEXEC)) {
        let text =
            "is on a file system that is mounted noexec, from which ld.so(8) loads nothing; install it elsewhere";
        return Err(text.into());
    }
    let (architecture, version) = facts(library).map_err(|why| format!("cannot be loaded: {why}; install it again"))?;
    if facts(Path::new("/proc/self/exe")).is_ok_and(|command| command.0 != architecture) {
        let arch = std::env::consts::ARCH;
        return Err(format!("is for another architecture than this command ({arch}); install both for one"));
    }
    if version.as_deref() == Some(own) {
        return Ok(());
    }
    let version = version.map_or_else(|| "an unknown version".to_owned(), |version| format!("version {version}"));
    Err(format!("is of {version}, and this command of version {own}; install both from one release"))
}

/// The architecture of an ELF file, with its word size, and the version in it.
fn facts(file: &Path) -> anyhow::Result<((Architecture, bool), Option<String>)> {
    let cache = ReadCache::new(File::open(file)?);
    let elf = object::File::parse(&cache)?;
    let version = elf.section_by_name(VERSION).and_then(|section| section.data().ok());
    let version = version.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Ok(((elf.architecture(), elf.is_64()), version))
}

// Whether a program loads a library of LD_PRELOAD.

/// Interpreters of interpreters: as many as the kernel follows (BINPRM_MAX_RECURSION is 4 or 5).
const DEPTH: u32 = 4;
/// The longest first line of a script that the kernel reads.
const LINE: u64 = 256;

/// Why the program will not see the library. None if it will, or if its file tells nothing.
pub(super) fn hidden(program: &OsStr) -> Option<String> {
    hidden_at(program, DEPTH)
}

fn hidden_at(program: &OsStr, depth: u32) -> Option<String> {
    let path = file_of(program)?;
    if let Some(interpreter) = interpreter(&path) {
        return (depth > 0).then(|| hidden_at(&interpreter, depth - 1)).flatten();
    }
    Some(format!("{} {}", path.display(), blindness(&path)?))
}

fn blindness(program: &Path) -> Option<String> {
    if let Some(mode) = gains_privileges(program) {
        return Some(format!("is {mode}, and ld.so(8) loads no foreign library into such a program"));
    }
    let cache = ReadCache::new(File::open(program).ok()?);
    let elf = object::File::parse(&cache).ok()?;
    let own = facts(Path::new("/proc/self/exe"));
    if own.is_ok_and(|(own, _)| own != (elf.architecture(), elf.is_64())) {
        return Some("is a program of another architecture".into());
    }
    let section = |section: &str| elf.section_by_name(section);
    if section(".go.buildinfo").is_some() {
        return Some("is a Go program, which makes its system calls without the C library".into());
    }
    let Some(loader) = section(".interp") else {
        let has_sections = elf.sections().next().is_some();
        return has_sections.then(|| "is linked statically: no library is loaded into it".into());
    };
    let loader = loader.data().ok().map(|text| String::from_utf8_lossy(text).into_owned())?;
    loader.contains("/ld-musl").then(|| "uses the C library musl, and the library needs glibc".into())
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
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

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

    #[test]
    fn a_missing_library_is_said_with_its_place_and_with_what_needs_it() {
        let said = find(&Part { file: "libnothing.so", serves: "--nothing" }).unwrap_err();
        assert!(said.starts_with("libnothing.so was not found in /"), "{said}");
        assert!(said.contains("there is no --nothing: ") && said.contains("punctual about"), "{said}");
    }

    #[test]
    fn a_file_that_does_not_fit_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("lib.so");
        let why = |place: &Path| check(place).unwrap_err();
        std::fs::write(&place, "no program").unwrap();
        assert!(why(&place).contains("cannot be loaded: "), "{}", why(&place));
        std::fs::copy(std::env::current_exe().unwrap(), &place).unwrap();
        assert!(why(&place).contains("is of an unknown version, and this command of version "), "{}", why(&place));
        // e_machine: s390x.
        let mut bytes = std::fs::read(&place).unwrap();
        bytes[18] = 22;
        std::fs::write(&place, bytes).unwrap();
        assert!(why(&place).contains("another architecture"), "{}", why(&place));
        let spaced = folder.path().join("two words");
        assert!(why(&spaced).contains("a space or a colon"), "{}", why(&spaced));
    }

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
            assert!(hidden(other.as_os_str()).unwrap().contains(" is set-user-ID, and "));
        }
    }
}
