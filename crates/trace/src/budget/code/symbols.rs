//! The symbols and lines of a file at some of its addresses (ELF: `.symtab`, else `.dynsym`), or those of its debug file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::time::Instant;

use object::read::ReadCache;
use object::{Object as _, ObjectSymbol as _, ObjectSymbolTable as _, Symbol, SymbolKind};
use punctual_record::SourceLine;

use super::object_file::{Bounded, Segments, debug_file, regular_file};
use super::{cpp, lines};

/// Letters of a name.
const LONG: usize = 200;

/// A function of a file, at one of its instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Where the function begins.
    pub(super) begin: u64,
    pub(super) function: String,
    /// Its line, where it is in the source file of the function. Code that the compiler put into the function has none.
    pub(super) line: Option<SourceLine>,
}

/// The functions of a program or library that these addresses are in, by address. Empty if the file is not regular or cannot be read.
///
/// Addresses are those of the file's own tables. Names are as in the source, without parameters.
#[must_use]
pub fn functions_at(path: &Path, addresses: &BTreeSet<u64>) -> BTreeMap<u64, String> {
    let Some(cache) = regular_file(path).map(ReadCache::new) else { return BTreeMap::new() };
    let Ok(object) = object::File::parse(Bounded(&cache)) else { return BTreeMap::new() };
    let found = at_addresses(&object, addresses, Instant::now());
    found.into_iter().map(|(address, instruction)| (address, instruction.function)).collect()
}

/// What is at these places of a file. Lines that are not found until then are left out.
pub(super) fn instructions(file: File, places: &BTreeSet<u64>, until: Instant) -> BTreeMap<u64, Instruction> {
    let cache = ReadCache::new(file);
    let Ok(object) = object::File::parse(Bounded(&cache)) else { return BTreeMap::new() };
    let segments = Segments::read(&object);
    let places: BTreeMap<u64, u64> =
        places.iter().filter_map(|place| Some((segments.address(*place)?, *place))).collect();
    let addresses = places.keys().copied().collect();
    let debug_cache = debug_file(&object).map(ReadCache::new);
    let debug = debug_cache.as_ref().and_then(|cache| object::File::parse(Bounded(cache)).ok());
    let found = debug.map(|debug| at_addresses(&debug, &addresses, until)).unwrap_or_default();
    let found = if found.is_empty() { at_addresses(&object, &addresses, until) } else { found };
    found.into_iter().map(|(address, instruction)| (places[&address], instruction)).collect()
}

fn at_addresses<'a>(
    object: &object::File<'a, Bounded<'a>>,
    addresses: &BTreeSet<u64>,
    until: Instant,
) -> BTreeMap<u64, Instruction> {
    let Some(table) = object.symbol_table().or_else(|| object.dynamic_symbol_table()) else { return BTreeMap::new() };
    // A label without a size would take all code after it that has no name.
    let is_function =
        |symbol: &Symbol<'_, '_, _>| symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() > 0;
    let symbols = table.symbols().filter(is_function);
    let mut symbols: Vec<_> = symbols.map(|symbol| (symbol.address(), symbol.size(), symbol.index())).collect();
    symbols.sort_unstable_by_key(|(address, _, index)| (*address, index.0));
    let at = |address: u64| {
        let after = symbols.partition_point(|(begin, _, _)| *begin <= address);
        let (begin, size, index) = symbols.get(after.checked_sub(1)?)?;
        (address - begin < *size).then_some((*begin, *index))
    };
    let inside: Vec<_> = addresses.iter().filter_map(|address| Some((*address, at(*address)?))).collect();
    let begins = inside.iter().map(|(_, (begin, _))| *begin).collect();
    let lines = lines::lines(object, addresses, &begins, until);
    let instruction = |(address, (begin, index))| {
        let function = readable(table.symbol_by_index(index).ok()?.name().ok()?);
        let own = lines.begin.get(&begin);
        let line = lines.at.get(&address).filter(|line| own.is_some_and(|own| own.file == line.file));
        Some((address, Instruction { begin, function, line: line.cloned() }))
    };
    inside.into_iter().filter_map(instruction).collect()
}

/// What compilers and linkers add to a name: for a copy or a part of a function (GCC), for a version of a library's function.
const ADDED: [&str; 6] = [".constprop.", ".isra.", ".part.", ".cold", ".lto_priv.", "@"];

/// A name as it is in the source, without the numbers and the parameters that compilers add.
fn readable(name: &str) -> String {
    let name = ADDED.iter().fold(name, |name, added| name.split_once(added).map_or(name, |(name, _)| name));
    let rust = rustc_demangle::try_demangle(name).ok().map(|name| without_parameters(&format!("{name:#}")));
    let readable = rust.or_else(|| cpp::path(name)).unwrap_or_else(|| name.to_owned());
    readable.chars().take(LONG).collect()
}

/// `Vec<T>::push` is `Vec::push`, and so is `<Vec<T> as Push>::push`.
fn without_parameters(name: &str) -> String {
    if let Some((of, method)) = name.strip_prefix('<').and_then(|rest| rest.rsplit_once(">::")) {
        let of = of.split_once(" as ").map_or(of, |(of, _)| of);
        return format!("{}::{method}", without_parameters(of));
    }
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
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use object::ObjectSection as _;

    use super::*;

    /// `work` begins with code of helper.h, and computes in its own lines 12 and 13.
    const SOURCE: &str = "#line 3 \"helper.h\"
static inline __attribute__((always_inline)) unsigned help(unsigned x) { return x * 2654435761u ^ x >> 7; }
#line 10 \"/srv/made/work.c\"
__attribute__((noinline)) unsigned work(unsigned x) {
    x = help(x);
    for (unsigned n = 0; n < 1000; n++)
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    return x;
}
int main(int count, char **words) { (void)words; return (int)work((unsigned)count); }
";

    fn compiled(folder: &Path, options: &[&str]) -> Option<std::path::PathBuf> {
        let (source, program) = (folder.join("source.c"), folder.join("program"));
        std::fs::write(&source, SOURCE).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(options).args(["-g", "-O2", "-o"]).arg(&program).arg(&source);
        match compiler.status() {
            Ok(status) => assert!(status.success(), "{options:?}"),
            Err(_) => return None,
        }
        Some(program)
    }

    #[test]
    fn a_line_is_of_the_function_and_not_of_code_that_was_put_into_it() {
        let folder = tempfile::tempdir().unwrap();
        for options in
            [&["-gdwarf-5"][..], &["-gdwarf-4"], &["-gdwarf-3", "-gstrict-dwarf"], &["-gdwarf-5", "-gz=zlib"]]
        {
            let Some(program) = compiled(folder.path(), options) else {
                punctual_testing::skip("lines of a C program: there is no compiler");
                return;
            };
            let file = std::fs::read(&program).unwrap();
            let object = object::File::parse(file.as_slice()).unwrap();
            let symbol = object.symbols().find(|symbol| symbol.name() == Ok("work")).unwrap();
            let section = object.section_by_name(".text").unwrap();
            let begin = symbol.address() - section.address() + section.file_range().unwrap().0;
            let places: BTreeSet<u64> = (begin..begin + symbol.size()).collect();
            let until = Instant::now() + Duration::from_secs(60);
            let found = instructions(File::open(&program).unwrap(), &places, until);
            assert_eq!(found.len() as u64, symbol.size(), "{options:?}");
            assert!(found.values().all(|at| at.function == "work" && at.begin == symbol.address()), "{found:?}");
            let lines: BTreeSet<_> = found.values().filter_map(|at| at.line.clone()).collect();
            assert!(lines.iter().all(|line| line.file == "work.c" && (10..=15).contains(&line.line)), "{lines:?}");
            assert!(lines.iter().any(|line| line.line == 13), "{options:?}: {lines:?}");
            assert!(found.values().any(|at| at.line.is_none()), "{options:?}: a part of it is of helper.h");
            let late = instructions(File::open(&program).unwrap(), &places, Instant::now() - Duration::from_secs(1));
            assert!(late.values().all(|at| at.line.is_none() && at.function == "work"), "there was no time for lines");
        }
    }

    #[test]
    fn names_are_those_of_the_source() {
        let names =
            ["sum_rows", "_ZN4core3fmt5write17h0123456789abcdefE", "_ZNSt6vectorIiSaIiEE9push_backERKi"].map(readable);
        assert_eq!(names, ["sum_rows", "core::fmt::write", "std::vector::push_back"]);
        assert_eq!(readable("runtime.gcDrain"), "runtime.gcDrain");
        assert_eq!(
            ["commit.constprop.0", "scan.isra.0.cold", "nanosleep@@GLIBC_2.17"].map(readable),
            ["commit", "scan", "nanosleep"]
        );
        assert_eq!(
            without_parameters("<alloc::vec::Vec<u8> as core::fmt::Write>::write_str"),
            "alloc::vec::Vec::write_str"
        );
        assert_eq!(without_parameters("<std::fs::File>::sync_data"), "std::fs::File::sync_data");
        assert_eq!(without_parameters("<a as b>"), "<a as b>");
    }
}
