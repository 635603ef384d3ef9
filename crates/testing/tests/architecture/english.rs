//! Knowledge travels as types: production code does not look for English in a text, does not cut a text at it, and does not compare with it.

use std::path::Path;
use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::source::{Source, after_attribute};
use crate::workspace::packages;

/// Methods that look for a text in another, or cut it there.
const SEARCHES: [&str; 9] = [
    "contains",
    "find",
    "rfind",
    "starts_with",
    "ends_with",
    "strip_prefix",
    "strip_suffix",
    "matches",
    "eq_ignore_ascii_case",
];

/// Files that read what the kernel and other programs write, and their texts.
const FOREIGN: [(&str, &str); 2] = [
    // /proc/PID/limits
    ("crates/lab/src/families/ipc/queues.rs", "Max msgqueue size"),
    // The maintainers' list of a Debian package.
    ("vm/src/kernel.rs", "Debian Debian "),
];

/// The places in production code, each with its English.
pub(crate) fn complaints(workspace: &Path) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in packages(workspace) {
        for file in Source::read(&package.root).files.values() {
            let path = file.path.strip_prefix(workspace).unwrap_or(&file.path).display().to_string();
            let text = std::fs::read_to_string(&file.path).expect("it was read before");
            let foreign = |english: &str| FOREIGN.iter().any(|(file, text)| path == *file && english == *text);
            let found = searched(&text).into_iter().filter(|(_, english)| !foreign(english));
            complaints.extend(found.map(|(line, english)| format!("{path}:{line}: {english:?}")));
        }
    }
    complaints
}

/// English that a source looks for, with its lines; what only tests have is left out.
pub(crate) fn searched(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    look(TokenStream::from_str(source).unwrap_or_default(), &mut found);
    found
}

fn look(tokens: TokenStream, found: &mut Vec<(usize, String)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut rest = &tokens[..];
    let mut before: [Option<&TokenTree>; 2] = [None, None];
    while let Some(token) = rest.first() {
        if is(Some(token), '#') {
            rest = after_attribute(rest);
            continue;
        }
        match token {
            TokenTree::Group(group) => {
                let is_search = before[1].is_some_and(is_search) && group.delimiter() == Delimiter::Parenthesis;
                if is_search {
                    add(group.stream(), found);
                }
                look(group.stream(), found);
            }
            // `== "..."`, `!= "..."`, and the same from the other side.
            TokenTree::Literal(_) => {
                let compared = is(before[1], '=') && (is(before[0], '=') || is(before[0], '!'));
                let compares = is(rest.get(2), '=') && (is(rest.get(1), '=') || is(rest.get(1), '!'));
                if compared || compares {
                    add(token.clone().into(), found);
                }
            }
            _ => {}
        }
        before = [before[1], Some(token)];
        rest = &rest[1..];
    }
}

fn is(token: Option<&TokenTree>, punctuation: char) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == punctuation)
}

fn is_search(token: &TokenTree) -> bool {
    let TokenTree::Ident(name) = token else { return false };
    let name = name.to_string();
    SEARCHES.contains(&name.as_str()) || ["split", "rsplit", "replace"].iter().any(|start| name.starts_with(start))
}

/// The texts among these tokens with two English words or more.
fn add(tokens: TokenStream, found: &mut Vec<(usize, String)>) {
    for token in tokens {
        match token {
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let text = text.trim_start_matches(['b', 'r', '#']).trim_matches(['"', '#']);
                let words =
                    text.split(' ').filter(|word| word.len() > 1 && word.bytes().all(|b| b.is_ascii_alphabetic()));
                if literal.to_string().contains('"') && words.count() > 1 {
                    found.push((literal.span().start().line, text.to_owned()));
                }
            }
            TokenTree::Group(group) => add(group.stream(), found),
            _ => {}
        }
    }
}
