//! The names of call sites: `libfoo.so:poll_loop`, from the symbols of the file.
//!
//! A file without symbols has the place instead, `libfoo.so+0x12ab`. The paths come from another process: only regular files are read.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;

use object::read::{Object as _, ObjectSymbol as _, ReadCache};
use punctual_linux::call_table::Counted;
use punctual_record::sanitize;
use rustix::fs::OFlags;

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
        files.into_iter().map(|(path, offsets)| (path, functions(path, &offsets).unwrap_or_default())).collect();
    entries.iter().map(|entry| name(entry, functions.get(entry.path.as_slice()))).collect()
}

fn name(entry: &Counted, functions: Option<&BTreeMap<u64, String>>) -> String {
    let path = String::from_utf8_lossy(&entry.path);
    let file = path.strip_suffix(DELETED).unwrap_or(&path).rsplit('/').next().unwrap_or_default();
    let name = match functions.and_then(|functions| functions.get(&entry.offset)) {
        _ if file.is_empty() => "generated code".to_owned(),
        Some(function) => format!("{file}:{}", demangled(function)),
        None => format!("{file}+{:#x}", entry.offset),
    };
    sanitize::line(&name, LONGEST)
}

/// The functions that these places are in, by place. `None`: the file cannot be read.
fn functions(path: &[u8], offsets: &[u64]) -> Option<BTreeMap<u64, String>> {
    let cache = ReadCache::new(open(path)?);
    let elf = object::File::parse(&cache).ok()?;
    // A call may be the last instruction of a function: the address behind it is another's.
    let mut wanted: Vec<(u64, u64)> = offsets.iter().map(|offset| (offset.wrapping_sub(1), *offset)).collect();
    wanted.sort_unstable();
    let mut found: BTreeMap<u64, String> = BTreeMap::new();
    // A stripped file has the symbols that others link to.
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        let (begin, end) = (symbol.address(), symbol.address().saturating_add(symbol.size()));
        if !symbol.is_definition() || begin == end {
            continue;
        }
        let from = wanted.partition_point(|(address, _)| *address < begin);
        for (_, offset) in wanted[from..].iter().take_while(|(address, _)| *address < end) {
            if let Ok(name) = symbol.name() {
                found.entry(*offset).or_insert_with(|| name.to_owned());
            }
        }
    }
    Some(found)
}

fn open(path: &[u8]) -> Option<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(OsStr::from_bytes(path)).ok()?;
    file.metadata().is_ok_and(|facts| facts.is_file()).then_some(file)
}

// Names of functions as their language writes them, as far as that takes no grammar: `_ZN3foo3barEv` is `foo::bar`.
//
// Parameters go, and so does the hash that Rust adds, which changes from build to build. Other mangled names stay.

/// The name for people.
pub(super) fn demangled(name: &str) -> String {
    name.strip_prefix("_ZN")
        .and_then(nested)
        .or_else(|| name.strip_prefix("_Z").and_then(plain))
        .unwrap_or(name.to_owned())
}

/// `3foo3barE...`; qualifiers of a method precede it.
fn nested(text: &str) -> Option<String> {
    let mut rest = text.trim_start_matches(['r', 'V', 'K']);
    let mut parts = Vec::new();
    while !rest.starts_with('E') {
        let (part, after) = source_name(rest)?;
        parts.push(part);
        rest = after;
    }
    if parts.len() > 1 && parts.last().is_some_and(|last| is_hash(last)) {
        parts.pop();
    }
    (!parts.is_empty()).then(|| parts.iter().map(|part| unescaped(part)).collect::<Vec<_>>().join("::"))
}

/// `3foov`: a function outside of any namespace.
fn plain(text: &str) -> Option<String> {
    source_name(text).map(|(name, _)| name.to_owned())
}

/// A length and as many characters.
fn source_name(text: &str) -> Option<(&str, &str)> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let length: usize = text[..digits].parse().ok().filter(|length| *length > 0)?;
    text[digits..].split_at_checked(length)
}

/// `h` and 16 hexadecimal digits.
fn is_hash(part: &str) -> bool {
    part.len() == 17 && part.starts_with('h') && part[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Rust writes `<`, `>` and others in words between dollar signs.
fn unescaped(part: &str) -> String {
    let part = part.strip_prefix("_$").map_or(part.to_owned(), |rest| format!("${rest}"));
    let words =
        [("$LT$", "<"), ("$GT$", ">"), ("$RF$", "&"), ("$C$", ","), ("$u20$", " "), ("$u7b$", "{"), ("$u7d$", "}")];
    words.iter().fold(part.replace("..", "::"), |text, (word, sign)| text.replace(word, sign))
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

    #[test]
    fn names_of_c_cpp_and_rust() {
        for (name, shown) in [
            ("poll_loop", "poll_loop"),
            ("_Z4spinv", "spin"),
            ("_ZN3foo3barEv", "foo::bar"),
            ("_ZNK3foo3barEi", "foo::bar"),
            ("_ZN4prog4main17h0123456789abcdefE", "prog::main"),
            ("_ZN4prog4main28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE", "prog::main::{{closure}}"),
            ("_ZN3fooIiE3barEv", "_ZN3fooIiE3barEv"),
            ("_ZN9999999999999999999999fooE", "_ZN9999999999999999999999fooE"),
            ("_ZN3f", "_ZN3f"),
            ("_RNvCs1234_4prog4main", "_RNvCs1234_4prog4main"),
            ("_Z", "_Z"),
            ("", ""),
        ] {
            assert_eq!(demangled(name), shown);
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(name in "(_Z|_ZN)?[0-9a-zE$é.]{0,30}") {
            let _ = demangled(&name);
        }
    }
}
