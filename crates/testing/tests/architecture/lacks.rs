//! No test says that the machine lacks a program: a package brings it, so the test must fail where the gate runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use proc_macro2::{TokenStream, TokenTree};

/// The programs that tests start and say that the machine lacks.
pub(crate) fn complaints(workspace: &Path) -> Vec<String> {
    let mut files = Vec::new();
    ["crates", "vm", "xtask"].iter().for_each(|folder| add_sources(&workspace.join(folder), &mut files));
    let sources: Vec<(PathBuf, String)> =
        files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect();
    let programs =
        sources.iter().flat_map(|(_, text)| texts_of_call(text, "new")).filter(|text| !text.starts_with('/')).collect();
    let lacked = |(path, text): &(PathBuf, String)| -> Vec<String> {
        let path = path.strip_prefix(workspace).unwrap_or(path).display();
        programs_lacked(text, &programs).iter().map(|program| format!("{path}: {program}")).collect()
    };
    // This test has examples.
    sources.iter().filter(|(path, _)| !path.ends_with("architecture/main.rs")).flat_map(lacked).collect()
}

/// The texts in calls of `lacks` that name a program.
pub(crate) fn programs_lacked(text: &str, programs: &BTreeSet<String>) -> Vec<String> {
    texts_of_call(text, "lacks").into_iter().filter(|text| programs.contains(text)).collect()
}

fn add_sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The texts in the arguments of each call of a function of this name.
fn texts_of_call(source: &str, function: &str) -> Vec<String> {
    let mut texts = Vec::new();
    if source.contains(&format!("{function}(")) {
        // A file that a test uses as data may be no Rust.
        collect(TokenStream::from_str(source).unwrap_or_default(), function, false, &mut texts);
    }
    texts
}

fn collect(tokens: TokenStream, function: &str, is_argument: bool, texts: &mut Vec<String>) {
    let mut is_call = false;
    for token in tokens {
        match &token {
            TokenTree::Literal(literal) if is_argument => {
                texts.extend(literal.to_string().strip_prefix('"').map(|text| text.trim_end_matches('"').to_owned()));
            }
            TokenTree::Group(group) => collect(group.stream(), function, is_argument || is_call, texts),
            _ => {}
        }
        is_call = matches!(&token, TokenTree::Ident(name) if name == function);
    }
}
