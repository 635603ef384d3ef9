//! The names of call sites: `libfoo.so:poll_loop`, from the symbols of the file.
//!
//! A file without symbols has the place instead, `libfoo.so+0x12ab`. The paths come from another process.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use punctual_linux::call_table::Counted;
use punctual_record::sanitize;

/// What the kernel adds to the path of a file that was removed.
const DELETED: &str = " (deleted)";
/// Most characters of a name.
const LONGEST: usize = 120;

/// The name of each entry's call site, in the order of the entries.
pub(super) fn of_functions(entries: &[Counted]) -> Vec<String> {
    let mut files: BTreeMap<&[u8], Vec<u64>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.path.is_empty()) {
        files.entry(&entry.path).or_default().push(entry.offset);
    }
    let functions: BTreeMap<&[u8], BTreeMap<u64, String>> =
        files.into_iter().map(|(path, offsets)| (path, functions(path, &offsets))).collect();
    entries.iter().map(|entry| name(entry, functions.get(entry.path.as_slice()))).collect()
}

fn name(entry: &Counted, functions: Option<&BTreeMap<u64, String>>) -> String {
    let path = String::from_utf8_lossy(&entry.path);
    let file = path.strip_suffix(DELETED).unwrap_or(&path).rsplit('/').next().unwrap_or_default();
    let name = match functions.and_then(|functions| functions.get(&entry.offset)) {
        _ if file.is_empty() => "generated code".to_owned(),
        Some(function) => format!("{file}:{function}"),
        None => format!("{file}+{:#x}", entry.offset),
    };
    sanitize::line(&name, LONGEST)
}

/// The functions that these places are in, by place.
fn functions(path: &[u8], offsets: &[u64]) -> BTreeMap<u64, String> {
    // A call may be the last instruction of a function: the address behind it is another's.
    let addresses = offsets.iter().map(|offset| offset.wrapping_sub(1)).collect();
    let found = punctual_trace::functions_at(Path::new(OsStr::from_bytes(path)), &addresses);
    found.into_iter().map(|(address, name)| (address.wrapping_add(1), name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str, offset: u64) -> String {
        of_functions(&[Counted { path: path.into(), offset, ..Counted::default() }]).remove(0)
    }

    #[inline(never)]
    fn here() -> u64 {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let own = std::env::current_exe().unwrap();
        let first = maps.lines().find(|line| line.ends_with(&*own.to_string_lossy())).unwrap();
        let start = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
        // Some instructions into this function.
        here as *const () as u64 - start + 8
    }

    #[test]
    fn a_place_in_a_file_with_symbols_has_the_function() {
        let own = std::env::current_exe().unwrap();
        let name = named(own.to_str().unwrap(), here());
        let file = own.file_name().unwrap().to_str().unwrap();
        let function = name.strip_prefix(file).unwrap();
        assert!(function.starts_with(':') && function.contains("names") && function.contains("here"), "{name}");
    }

    #[test]
    fn without_symbols_it_is_the_place() {
        assert_eq!(named("/nowhere/libfoo.so.1", 0x12ab), "libfoo.so.1+0x12ab");
        assert_eq!(named("/nowhere/prog (deleted)", 16), "prog+0x10");
        assert_eq!(named("/etc/passwd", 16), "passwd+0x10", "no ELF file");
        assert_eq!(named("/dev/zero", 16), "zero+0x10", "no regular file");
        assert_eq!(named("", 0), "generated code");
        assert_eq!(named("/x/\u{1b}[31mred", 1), "?[31mred+0x1".replace('?', &sanitize::line("\u{1b}", 9)));
    }
}
