//! A library of this project: what it serves, where it is, and whether this file of it can be loaded.

use std::fs::File;
use std::path::{Path, PathBuf};

use object::Architecture;
use object::read::{Object as _, ObjectSection as _, ReadCache};
use rustix::fs::{StatVfsMountFlags, statvfs};

/// A library that `run` loads into programs.
pub(crate) struct Part {
    pub(crate) file: &'static str,
    /// The options that need it.
    pub(crate) serves: &'static str,
}

/// The library that takes the place of a program's waits, and counts them.
pub(crate) const WAITS: Part = Part {
    file: "libpunctual_preload.so",
    serves: "--precise-sleep, --poll-first, --usleep0, --sched-yield, --rules, --observe",
};
/// The library for MPI programs.
pub(crate) const MPI: Part = Part { file: "libpunctual_mpi.so", serves: "--mpi" };

/// The section in which a library has its version.
const VERSION: &str = ".punctual.version";

/// Finds a library: beside the command, or in the `lib` beside its `bin`. One that does not fit the command is passed over.
///
/// # Errors
/// The error names the places that were searched, or why the library there does not fit, and the command that installs it.
pub(crate) fn find(part: &Part) -> Result<PathBuf, String> {
    let file = part.file;
    let command = std::env::current_exe().and_then(|path| path.canonicalize());
    let Some(folder) = command.ok().and_then(|path| path.parent().map(Path::to_owned)) else {
        return Err(format!("{file} was not found: the folder of this command is unknown; is /proc mounted?"));
    };
    let lib = folder.parent().unwrap_or(&folder).join("lib");
    let own = lib.join("punctual");
    let mut unfit = None;
    for place in [&folder, &lib, &own].map(|folder| folder.join(file)).iter().filter(|place| place.is_file()) {
        match check(place) {
            Ok(()) => return Ok(place.clone()),
            Err(why) => unfit = unfit.or(Some(why)),
        }
    }
    Err(unfit.unwrap_or_else(|| {
        let prefix = lib.parent().unwrap_or(&lib).display();
        let [beside, lib, own] = [&folder, &lib, &own].map(|folder| folder.display());
        format!(
            "{file} was not found in {beside}, {lib} or {own}; without it there is no {}: the Debian package, the tarball and \
             the wheel have it, and in a clone cargo xtask install --prefix {prefix} installs it (punctual about lists the parts)",
            part.serves
        )
    }))
}

/// Whether ld.so(8) can load this file, and whether it belongs to this command.
fn check(place: &Path) -> Result<(), String> {
    let shown = place.display();
    // The separators of LD_PRELOAD cannot be quoted.
    if place.to_string_lossy().contains([' ', ':']) {
        return Err(format!("{shown} has a space or a colon in its path, which ld.so(8) cannot load; move it"));
    }
    if statvfs(place).is_ok_and(|facts| facts.f_flag.contains(StatVfsMountFlags::NOEXEC)) {
        return Err(format!(
            "{shown} is on a file system that is mounted noexec, from which ld.so(8) loads nothing; install it elsewhere"
        ));
    }
    let (architecture, version) =
        facts(place).map_err(|why| format!("{shown} cannot be loaded: {why}; install it again"))?;
    let own = std::env::consts::ARCH;
    if facts(Path::new("/proc/self/exe")).is_ok_and(|command| command.0 != architecture) {
        return Err(format!("{shown} is for another architecture than this command ({own}); install both for one"));
    }
    match version.as_deref() {
        Some(env!("CARGO_PKG_VERSION")) => Ok(()),
        version => Err(format!(
            "{shown} is of {}, and this command of version {}; install both from one release",
            version.map_or("an unknown version".to_owned(), |version| format!("version {version}")),
            env!("CARGO_PKG_VERSION")
        )),
    }
}

/// The architecture of an ELF file, with its word size, and the version in it.
fn facts(file: &Path) -> Result<((Architecture, bool), Option<String>), String> {
    let cache = ReadCache::new(File::open(file).map_err(|error| error.to_string())?);
    let elf = object::File::parse(&cache).map_err(|error| error.to_string())?;
    let version = elf.section_by_name(VERSION).and_then(|section| section.data().ok());
    let version = version.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Ok(((elf.architecture(), elf.is_64()), version))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
