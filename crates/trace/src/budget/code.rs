//! Which functions of a program ran: by the addresses of samples, the mappings of its processes and the symbols of its files.
//!
//! Input: /proc/PID/maps, now and then while the processes live, and the symbol tables of the files (ELF: `.symtab`, else `.dynsym`).

mod cpp;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, read_to_string};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;

use object::read::{ReadCache, ReadRef};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, ObjectSymbolTable as _, Symbol, SymbolKind};

/// The mappings of a process are read at its first looks, then ever more rarely.
const FIRST: u32 = 3;
/// Processes whose mappings are kept.
const PROCESSES: usize = 512;

/// Bytes of a table of symbols: nearly three million of them.
const LARGEST: u64 = 64 << 20;
/// Letters of a name.
const LONG: usize = 200;

/// An address in a process.
pub(super) type At = (u32, u64);

/// Where a thread ran.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Code {
    /// Absent where the file has no symbol for it.
    pub(super) function: Option<String>,
    /// The program or library.
    pub(super) file: String,
}

/// The mappings of processes that contain code.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    of: BTreeMap<u32, (u32, Vec<Mapping>)>,
}

/// A line of /proc/PID/maps (proc_pid_maps(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    from: u64,
    to: u64,
    offset: u64,
    file: MappedFile,
}

/// A file of which code is mapped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct MappedFile {
    /// As the kernel writes it: it tells files apart, but stat(2) may name another one.
    device: String,
    inode: u64,
    path: String,
}

impl Mappings {
    /// Looks at these processes, if it is time.
    pub(super) fn look(&mut self, pids: &[u32]) {
        for pid in pids {
            if self.of.len() >= PROCESSES && !self.of.contains_key(pid) {
                continue;
            }
            let (looks, known) = self.of.entry(*pid).or_default();
            *looks = looks.saturating_add(1);
            if (*looks <= FIRST || looks.is_power_of_two())
                && let Ok(maps) = read_to_string(format!("/proc/{pid}/maps"))
            {
                let now: Vec<Mapping> = maps.lines().filter_map(Mapping::read).collect();
                // What was unloaded since is kept: samples may be in it.
                let is_gone = |old: &Mapping| !now.iter().any(|new| new.from < old.to && old.from < new.to);
                known.retain(is_gone);
                known.extend(now);
            }
        }
    }

    /// The functions at these addresses of processes.
    pub(super) fn functions(&self, at: &BTreeSet<At>) -> BTreeMap<At, Code> {
        let mut by_file: BTreeMap<&MappedFile, Vec<(At, u64)>> = BTreeMap::new();
        for &(pid, address) in at {
            let mappings = self.of.get(&pid).map(|(_, mappings)| mappings.as_slice()).unwrap_or_default();
            let holds = |mapping: &&Mapping| (mapping.from..mapping.to).contains(&address);
            let Some(mapping) = mappings.iter().find(holds) else { continue };
            let place = address - mapping.from + mapping.offset;
            by_file.entry(&mapping.file).or_default().push(((pid, address), place));
        }
        let mut found = BTreeMap::new();
        for (mapped, places) in by_file {
            let own = places.first().map_or(0, |((pid, _), _)| *pid);
            let functions = mapped.open(own).map(|file| functions(file, places.iter().map(|(_, place)| *place)));
            for (at, place) in places {
                let function = functions.as_ref().and_then(|functions| functions.get(&place).cloned());
                found.insert(at, Code { function, file: mapped.path.clone() });
            }
        }
        found
    }
}

impl Mapping {
    /// `None` where it is no code of a file.
    fn read(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (from, to) = fields.next()?.split_once('-')?;
        let rights = fields.next()?;
        let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        let device = fields.next()?.to_owned();
        let inode = fields.next()?.parse().ok()?;
        let path = fields.next()?.trim_start();
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let is_code = rights.contains('x') && path.starts_with('/');
        let file = MappedFile { device, inode, path: path.to_owned() };
        is_code.then_some(Self { from: hex(from)?, to: hex(to)?, offset, file })
    }
}

/// A file of which no piece is read that takes much memory: a program may say of its tables what it likes, and who watches is root.
#[derive(Clone, Copy)]
struct Bounded<'a>(&'a ReadCache<File>);

impl<'a> ReadRef<'a> for Bounded<'a> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size > LARGEST { Err(()) } else { self.0.read_bytes_at(offset, size) }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

impl MappedFile {
    /// Opens it as this process sees it, or as this one does. `None` where it is another file by now.
    fn open(&self, pid: u32) -> Option<File> {
        let is_it = |file: &File| file.metadata().is_ok_and(|metadata| metadata.ino() == self.inode);
        let open = |path: String| File::open(path).ok().filter(is_it);
        open(format!("/proc/{pid}/root{}", self.path)).or_else(|| open(self.path.clone()))
    }
}

/// The functions at these places of a file, for people.
fn functions(file: File, places: impl Iterator<Item = u64>) -> BTreeMap<u64, String> {
    let cache = ReadCache::new(file);
    let Ok(object) = object::File::parse(Bounded(&cache)) else { return BTreeMap::new() };
    let segments: Vec<_> = object.segments().map(|segment| (segment.file_range(), segment.address())).collect();
    let address_of = |place: u64| {
        let holds = |((offset, size), _): &&((u64, u64), u64)| (*offset..offset.saturating_add(*size)).contains(&place);
        let ((offset, _), address) = segments.iter().find(holds)?;
        address.checked_add(place - offset)
    };
    let Some(table) = object.symbol_table().or_else(|| object.dynamic_symbol_table()) else { return BTreeMap::new() };
    // A label without a size would take all code after it that has no name.
    let is_function =
        |symbol: &Symbol<'_, '_, _>| symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() > 0;
    let symbols = table.symbols().filter(is_function);
    let mut symbols: Vec<_> = symbols.map(|symbol| (symbol.address(), symbol.size(), symbol.index())).collect();
    symbols.sort_unstable_by_key(|(address, _, index)| (*address, index.0));
    let name_at = |address: u64| {
        let after = symbols.partition_point(|(begin, _, _)| *begin <= address);
        let (begin, size, index) = symbols.get(after.checked_sub(1)?)?;
        let holds = address - begin < *size;
        table.symbol_by_index(*index).ok().filter(|_| holds)?.name().ok().map(readable)
    };
    places.filter_map(|place| Some((place, name_at(address_of(place)?)?))).collect()
}

/// A name as it is in the source, without the numbers and the parameters that compilers add.
fn readable(name: &str) -> String {
    let rust = rustc_demangle::try_demangle(name).ok().map(|name| without_parameters(&format!("{name:#}")));
    let readable = rust.or_else(|| cpp::path(name)).unwrap_or_else(|| name.to_owned());
    readable.chars().take(LONG).collect()
}

/// `Vec<T>::push` is `Vec::push`.
fn without_parameters(name: &str) -> String {
    let mut depth = 0_u32;
    let mut short = String::new();
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => short.push(letter),
            _ => {}
        }
    }
    let short = short.trim_start_matches(':');
    if short.is_empty() { name.to_owned() } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn a_line_of_maps_is_read() {
        let line = "55d0-55f0 r-xp 00002000 fd:01 4711                       /usr/lib/a library.so";
        let read = Mapping::read(line).unwrap();
        let file = MappedFile { device: "fd:01".into(), inode: 4711, path: "/usr/lib/a library.so".into() };
        let mapping = Mapping { from: 0x55d0, to: 0x55f0, offset: 0x2000, file };
        assert_eq!(read, mapping);
        for other in
            ["55d0-55f0 rw-p 0 fd:01 4711 /usr/lib/a.so", "1-2 r-xp 0 00:00 0 [vdso]", "1-2 r-xp 0 00:00 0", "", "x"]
        {
            assert_eq!(Mapping::read(other), None, "{other}");
        }
    }

    #[test]
    fn names_are_those_of_the_source() {
        let names =
            ["sum_rows", "_ZN4core3fmt5write17h0123456789abcdefE", "_ZNSt6vectorIiSaIiEE9push_backERKi"].map(readable);
        assert_eq!(names, ["sum_rows", "core::fmt::write", "std::vector::push_back"]);
        assert_eq!(readable("runtime.gcDrain"), "runtime.gcDrain");
        assert_eq!(without_parameters("<alloc::vec::Vec<u8> as core::fmt::Write>::write_str"), "write_str");
        assert_eq!(without_parameters("<a as b>"), "<a as b>");
    }

    #[test]
    fn a_table_that_would_take_all_memory_is_not_read() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        let cache = ReadCache::new(file);
        assert!(Bounded(&cache).read_bytes_at(0, 1 << 39).is_err());
        assert_eq!(Bounded(&cache).read_bytes_at(9, 2), Ok([0; 2].as_slice()));
    }

    #[inline(never)]
    fn known_function() -> u64 {
        black_box(7)
    }

    #[test]
    fn the_functions_of_this_program_are_found() {
        let own = std::process::id();
        let mut mappings = Mappings::default();
        mappings.look(&[own]);
        let at = known_function as fn() -> u64 as usize as u64;
        assert_eq!(known_function(), 7);
        // The byte before its first belongs to another function, or to none; data are no code.
        let data = std::ptr::from_ref(&own) as u64;
        let found = mappings.functions(&BTreeSet::from([(own, at), (own, at - 1), (own, data), (own + 1, at)]));
        let (code, before) = (&found[&(own, at)], &found[&(own, at - 1)]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_ne!(before.function, code.function);
        assert!(code.function.as_ref().unwrap().ends_with("::known_function"), "{code:?}");
        assert_eq!(code.file, std::env::current_exe().unwrap().to_str().unwrap());
    }
}
