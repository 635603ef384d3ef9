//! Names of functions as their language writes them, as far as that takes no grammar: `_ZN3foo3barEv` is `foo::bar`.
//!
//! Parameters go, and so does the hash that Rust adds, which changes from build to build. Other mangled names stay.

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
