//! The modules of a crate and the paths that its source names, read from the files.
//!
//! Code under `cfg(test)` is left out: a test may use everything. So is a module with a `path` attribute: its file is of another folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The path of a module from the crate's root; empty: the root.
pub(crate) type Module = Vec<String>;

/// A path in the source, from the root of the crate.
#[derive(Debug, Clone)]
pub(crate) struct Mention {
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
    /// `pub use` of an item of a module's own child. It is a name that the module passes on, and no use of its own.
    pub(crate) passed_on: bool,
}

/// One file.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) mentions: Vec<Mention>,
    /// Texts, with their lines; of the attributes those of errors.
    pub(crate) texts: Vec<(usize, String)>,
    /// Names that its `use` lines bind, with what they stand for.
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    /// Modules that are declared here and have a file of their own.
    children: Vec<String>,
    /// Modules that are written out here.
    inline: Vec<String>,
}

/// The files of a crate by the module that each holds.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) files: BTreeMap<Module, File>,
}

impl Source {
    /// Follows the `mod` lines from the root of a crate.
    pub(crate) fn read(root: &Path) -> Self {
        let mut source = Self::default();
        source.add(Vec::new(), root);
        source
    }

    fn add(&mut self, module: Module, path: &Path) {
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let tokens = TokenStream::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut file = File { path: path.to_owned(), ..File::default() };
        file.children = declared(&tokens);
        Reader { file: &mut file, module: module.clone() }.tokens(tokens, true);
        let is_root_of_folder = path.file_name().is_some_and(|n| n == "mod.rs" || n == "lib.rs" || n == "main.rs");
        let folder = if is_root_of_folder { path.with_file_name("") } else { path.with_extension("") };
        for child in file.children.clone() {
            let mut path = folder.join(&child).with_extension("rs");
            if !path.exists() {
                path = folder.join(&child).join("mod.rs");
            }
            let child = [module.as_slice(), &[child]].concat();
            self.add(child, &path);
        }
        self.files.insert(module, file);
    }

    /// The file in which the item at `path` is defined, through all names under which it is passed on.
    pub(crate) fn home(&self, path: &[String]) -> Module {
        self.follow(path, 0)
    }

    fn follow(&self, path: &[String], depth: usize) -> Module {
        let mut at = Vec::new();
        for (i, name) in path.iter().enumerate() {
            let file = &self.files[&at];
            let next = [at.as_slice(), std::slice::from_ref(name)].concat();
            if self.files.contains_key(&next) {
                at = next;
                continue;
            }
            // A name that is passed on in a circle is the compiler's to refuse.
            if depth > 20 || file.inline.contains(name) {
                return at;
            }
            let own = || std::iter::once(name.clone()).chain(path[i + 1..].iter().cloned());
            if let Some(stands_for) = file.imports.get(name) {
                let rest = own().skip(1);
                return self.follow(&stands_for.iter().cloned().chain(rest).collect::<Vec<_>>(), depth + 1);
            }
            let globbed = file.globs.iter().map(|glob| glob.iter().cloned().chain(own()).collect::<Vec<_>>());
            return globbed.map(|path| self.follow(&path, depth + 1)).next().unwrap_or(at);
        }
        at
    }
}

/// Reads one file.
struct Reader<'a> {
    file: &'a mut File,
    /// Where the reader is: the file's module, and those written out within it.
    module: Module,
}

impl Reader<'_> {
    /// `items`: these are the items of a module, and not the inside of one of them.
    fn tokens(&mut self, tokens: TokenStream, items: bool) {
        let mut rest: &[TokenTree] = &tokens.into_iter().collect::<Vec<_>>();
        let mut public = false;
        while let Some(first) = rest.first() {
            let line = first.span().start().line;
            match first {
                TokenTree::Punct(p) if p.as_char() == '#' => {
                    if let Some(TokenTree::Group(attribute)) = rest.get(1)
                        && attribute.stream().into_iter().next().is_some_and(|name| name.to_string() == "error")
                    {
                        self.tokens(attribute.stream(), false);
                    }
                    rest = after_attribute(rest);
                }
                TokenTree::Literal(text) => {
                    self.file.texts.push((line, text.to_string()));
                    rest = &rest[1..];
                }
                TokenTree::Ident(word) if *word == "pub" => {
                    public = true;
                    rest = &rest[1..];
                    if let Some(TokenTree::Group(g)) = rest.first()
                        && g.delimiter() == Delimiter::Parenthesis
                    {
                        rest = &rest[1..];
                    }
                    continue;
                }
                TokenTree::Ident(word) if *word == "use" => {
                    let end = rest.iter().position(|t| is_punct(t, ';')).unwrap_or(rest.len());
                    self.import(&rest[1..end], Vec::new(), items, public);
                    rest = &rest[end..];
                }
                TokenTree::Ident(word) if *word == "mod" && rest.len() > 2 => rest = self.declaration(rest),
                TokenTree::Ident(_) => {
                    let (path, length) = path_at(rest);
                    self.mention(&path, line, false);
                    rest = &rest[length..];
                }
                TokenTree::Group(group) => {
                    self.tokens(group.stream(), false);
                    rest = &rest[1..];
                }
                _ => rest = &rest[1..],
            }
            public = false;
        }
    }

    /// `mod name;` or `mod name { ... }`.
    fn declaration<'t>(&mut self, tokens: &'t [TokenTree]) -> &'t [TokenTree] {
        let name = tokens[1].to_string();
        if let TokenTree::Group(body) = &tokens[2] {
            self.file.inline.push(name.clone());
            self.module.push(name);
            self.tokens(body.stream(), false);
            self.module.pop();
        }
        &tokens[3..]
    }

    /// One branch of a `use` tree.
    fn import(&mut self, tokens: &[TokenTree], before: Vec<String>, items: bool, public: bool) {
        let (mut path, length) = path_at(tokens);
        path.splice(0..0, before);
        let rest = &tokens[length..];
        let line = tokens.first().map_or(0, |t| t.span().start().line);
        match rest.first() {
            Some(TokenTree::Group(group)) => {
                for branch in branches(group) {
                    self.import(&branch, path.clone(), items, public);
                }
                return;
            }
            Some(star) if is_punct(star, '*') => {
                if let Some(absolute) = self.absolute(&path).filter(|_| items) {
                    self.file.globs.push(absolute);
                }
            }
            _ => {
                if path.last().is_some_and(|last| last == "self") {
                    path.pop();
                }
                let renamed = rest.get(1).map(ToString::to_string);
                if let (Some(absolute), Some(name)) = (self.absolute(&path), renamed.or(path.last().cloned()))
                    && items
                {
                    self.file.imports.insert(name, absolute);
                }
            }
        }
        self.mention(&path, line, public);
    }

    fn mention(&mut self, path: &[String], line: usize, public: bool) {
        let Some(path) = self.absolute(path) else { return };
        let passed_on = public && path.starts_with(&self.module);
        self.file.mentions.push(Mention { path, line, passed_on });
    }

    /// A path as seen from the root; none: it leads to another crate or to a local name.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let mut base = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => self.module.clone(),
            child if path.len() > 1 && self.file.children.iter().any(|known| known == child) => {
                return Some([self.module.as_slice(), path].concat());
            }
            _ => return None,
        };
        let relative = path.iter().take_while(|word| ["crate", "self", "super"].contains(&word.as_str()));
        let ups = relative.clone().filter(|word| *word == "super").count();
        base.truncate(base.len().saturating_sub(ups));
        base.extend(path[relative.count()..].iter().cloned());
        Some(base)
    }
}

/// The modules that have files of their own, but for those of tests.
fn declared(tokens: &TokenStream) -> Vec<String> {
    let mut rest: &[TokenTree] = &tokens.clone().into_iter().collect::<Vec<_>>();
    let mut names = Vec::new();
    while let Some(first) = rest.first() {
        match (first, rest.get(1), rest.get(2)) {
            (first, ..) if is_punct(first, '#') => {
                rest = after_attribute(rest);
                continue;
            }
            (TokenTree::Ident(word), Some(name), Some(end)) if *word == "mod" && is_punct(end, ';') => {
                names.push(name.to_string());
            }
            _ => {}
        }
        rest = &rest[1..];
    }
    names
}

/// What follows an attribute, and what it takes away: an item that only tests have.
pub(crate) fn after_attribute(tokens: &[TokenTree]) -> &[TokenTree] {
    let inner = usize::from(tokens.get(1).is_some_and(|t| is_punct(t, '!')));
    let Some(TokenTree::Group(attribute)) = tokens.get(1 + inner) else { return &tokens[1..] };
    let mut rest = &tokens[2 + inner..];
    if inner == 0 && is_left_out(attribute) {
        while let Some(next) = rest.first() {
            rest = &rest[1..];
            let body = matches!(next, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace);
            if body || is_punct(next, ';') {
                break;
            }
        }
    }
    rest
}

/// `cfg(test)` and `cfg(all(test, ...))`; `path = "..."`, which makes a file of another folder a module.
fn is_left_out(attribute: &Group) -> bool {
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,") || text.starts_with("path=")
}

/// The names of `a::b::c` at the beginning. It also returns how many tokens they take, with the `::` before a `{` or `*`.
fn path_at(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    let mut length = 0;
    while let Some(TokenTree::Ident(name)) = tokens.get(length) {
        path.push(name.to_string());
        length += 1;
        let follows = tokens[length..].iter().take(2).filter(|t| is_punct(t, ':')).count() == 2;
        if !follows {
            break;
        }
        length += 2;
    }
    (path, length)
}

fn branches(group: &Group) -> Vec<Vec<TokenTree>> {
    let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
    tokens.split(|t| is_punct(t, ',')).filter(|branch| !branch.is_empty()).map(<[_]>::to_vec).collect()
}

fn is_punct(token: &TokenTree, c: char) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == c)
}
