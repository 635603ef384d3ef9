//! Names of functions in C++: `std::vector::push_back` of `_ZNSt6vectorIiSaIiEE9push_backERKi`.
//!
//! Source: the Itanium C++ ABI, section 5.1 (Mangling). Only paths of plain names are read, and template arguments are passed over. The crate
//! cpp_demangle reads all of it, and is 200 kB of a command of ten million.

/// Names of the standard library that have a letter of their own.
const STANDARD: [(char, &str); 7] = [
    ('t', "std"),
    ('a', "std::allocator"),
    ('b', "std::basic_string"),
    ('s', "std::basic_string"),
    ('i', "std::basic_istream"),
    ('o', "std::basic_ostream"),
    ('d', "std::basic_iostream"),
];

/// The name of a function with its namespaces and classes. `None` where it is no C++, or an operator, a local function, or anything else that
/// is not a path of names.
pub(super) fn path(mangled: &str) -> Option<String> {
    let rest = mangled.strip_prefix("_Z")?;
    let mut names: Vec<String> = Vec::new();
    let Some(mut rest) = rest.strip_prefix('N') else {
        let rest = rest.strip_prefix('L').unwrap_or(rest);
        let (standard, rest) = rest.strip_prefix("St").map_or((None, rest), |rest| (Some("std::"), rest));
        return Some(format!("{}{}", standard.unwrap_or_default(), name(rest)?.0));
    };
    rest = rest.trim_start_matches(['K', 'V', 'r', 'R', 'O']);
    loop {
        let first = rest.chars().next()?;
        rest = match first {
            'E' => break,
            'S' if names.is_empty() => {
                let letter = rest.chars().nth(1)?;
                names.push(STANDARD.iter().find(|(known, _)| *known == letter)?.1.to_owned());
                &rest[2..]
            }
            'I' => arguments(rest)?,
            'C' | 'D' => {
                let class = names.last()?.rsplit("::").next()?.to_owned();
                let kind = rest.chars().nth(1).filter(|kind| ('0'..='5').contains(kind))?;
                names.push(if first == 'C' { class } else { format!("~{class}") });
                rest.strip_prefix(first)?.strip_prefix(kind)?
            }
            'L' => &rest[1..],
            _ => {
                let (name, rest) = name(rest)?;
                names.push(name.to_owned());
                // ABI tags: B and a name.
                match rest.strip_prefix('B') {
                    Some(tag) => self::name(tag)?.1,
                    None => rest,
                }
            }
        };
    }
    (!names.is_empty()).then(|| names.join("::"))
}

/// A length and a name. Returns the name and the rest.
fn name(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = text[..digits].parse().ok()?;
    let (name, rest) = text[digits..].split_at_checked(length)?;
    Some((if name.starts_with("_GLOBAL__N") { "(anonymous namespace)" } else { name }, rest))
}

/// What follows template arguments.
fn arguments(text: &str) -> Option<&str> {
    let mut depth = 0_u32;
    let mut rest = text;
    loop {
        let first = rest.chars().next()?;
        rest = match first {
            '0'..='9' => name(rest)?.1,
            'I' | 'N' | 'X' | 'J' | 'F' => {
                depth += 1;
                &rest[1..]
            }
            // The value of a literal follows its type, and may have digits.
            'L' => {
                let (_, after) = rest.split_once('E')?;
                after
            }
            'E' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(&rest[1..]);
                }
                &rest[1..]
            }
            'S' | 'T' => match rest[1..].chars().next()? {
                'a' | 'b' | 's' | 'i' | 'o' | 'd' | 't' => &rest[2..],
                _ => rest.split_once('_')?.1,
            },
            _ => rest.get(first.len_utf8()..)?,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use object::{Object as _, ObjectSymbol as _, SymbolKind};

    use super::*;

    #[test]
    fn paths_are_read() {
        let names = [
            "_ZNSt6vectorIiSaIiEE9push_backERKi",
            "_Z8sum_rowsPKdi",
            "_ZL6helperi",
            "_ZN12_GLOBAL__N_14workEv",
            "_ZN6Filter4nextILi12EEEvv",
            "_ZN6FilterC2Ev",
            "_ZN6FilterD0Ev",
        ];
        let paths = ["std::vector::push_back", "sum_rows", "helper", "(anonymous namespace)::work", "Filter::next"];
        let paths: Vec<_> = paths.into_iter().chain(["Filter::Filter", "Filter::~Filter"]).map(Some).collect();
        assert_eq!(names.map(path).each_ref().map(Option::as_deref).to_vec(), paths);
        for other in
            ["", "_Z", "_ZN", "_ZNE", "main", "_ZN6Filter", "_ZN99a", "_ZplRK1aS1_", "_ZN1aIE", "_ZN1aC9Ev", "_ZNé"]
        {
            assert_eq!(path(other), None, "{other}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(name in "_Z(N|L|St)?([0-9A-Za-z_é]{0,30})", any in ".*") {
            let _ = (path(&name), path(&format!("_ZN{any}")));
        }
    }

    /// A name of c++filt without parameters, template arguments and the type that is returned.
    fn plain(name: &str) -> String {
        let mut depth = 0_u32;
        let mut short = String::new();
        for letter in name.replace("(anonymous namespace)", "{anonymous}").chars() {
            match letter {
                // Of tags of the ABI too: name[abi:cxx11].
                '<' | '[' => depth += 1,
                '>' | ']' => depth -= 1,
                '(' if depth == 0 => break,
                _ if depth == 0 => short.push(letter),
                _ => {}
            }
        }
        short.rsplit(' ').next().unwrap_or_default().replace("{anonymous}", "(anonymous namespace)")
    }

    #[test]
    fn names_of_the_standard_library_are_those_of_binutils() {
        let library = ["x86_64", "aarch64"].map(|cpu| format!("/usr/lib/{cpu}-linux-gnu/libstdc++.so.6"));
        let Some(library) = library.into_iter().find_map(|path| std::fs::read(path).ok()) else { return };
        let symbols = object::File::parse(library.as_slice()).unwrap();
        let functions = symbols.dynamic_symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        let names: BTreeSet<&str> = functions.filter_map(|symbol| symbol.name().ok()).collect();
        let read: Vec<(&str, String)> = names.iter().filter_map(|name| Some((*name, path(name)?))).collect();
        assert!(read.len() * 2 > names.len(), "{} of {}", read.len(), names.len());
        let filter = Command::new("c++filt").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut filter) = filter else { return };
        let mut asked = filter.stdin.take().unwrap();
        let text: String = read.iter().map(|(name, _)| format!("{name}\n")).collect();
        let asks = std::thread::spawn(move || asked.write_all(text.as_bytes()).unwrap());
        let answers = String::from_utf8(filter.wait_with_output().unwrap().stdout).unwrap();
        asks.join().unwrap();
        for ((mangled, own), theirs) in read.iter().zip(answers.lines()) {
            assert_eq!(*own, plain(theirs), "{mangled}: {theirs}");
        }
    }
}
