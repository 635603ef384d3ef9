//! The drawing in ARCHITECTURE.md: the block that begins with ```` ```drawing ````.
//!
//! Under `[crates]`, `a -> b c` is a crate and those of ours that it uses. `tests -> a b` is what the tests of each may use as well. Under
//! `[layers]`, `a: x y < z`: the top modules of a crate; each uses those of earlier layers only. `a: *`
//! says that no module of a folder uses another. An indented line continues the one before.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct Drawing {
    pub(crate) crates: BTreeMap<String, BTreeSet<String>>,
    pub(crate) layers: BTreeMap<String, Vec<Vec<String>>>,
}

impl Drawing {
    /// Reads it from the text of the document.
    pub(crate) fn read(document: &str) -> Result<Self, String> {
        let block = document.split("```drawing\n").nth(1).and_then(|rest| rest.split("```").next());
        let block = block.ok_or("no block that begins with ```drawing")?;
        let mut drawing = Self::default();
        let mut section = "";
        for line in block.replace("\n ", " ").lines().filter(|line| !line.trim().is_empty()) {
            let bad = || format!("the drawing's line `{line}` cannot be read");
            match (section, line) {
                (_, "[crates]" | "[layers]") => section = line,
                ("[crates]", _) => {
                    let (name, uses) = line.split_once("->").unwrap_or((line, ""));
                    drawing.crates.insert(name.trim().to_owned(), names(uses).collect());
                }
                ("[layers]", _) => {
                    let (name, layers) = line.split_once(':').ok_or_else(bad)?;
                    let layers = layers.split('<').map(|layer| names(layer).collect());
                    drawing.layers.insert(name.trim().to_owned(), layers.collect());
                }
                _ => return Err(bad()),
            }
        }
        Ok(drawing)
    }
}

fn names(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split_whitespace().map(str::to_owned)
}
