//! What the drawing says, held against what the files do. Each complaint names the place and what would be right.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::drawing::Drawing;
use crate::graph::{Folder, OWN_FILE, folders};
use crate::source::Source;
use crate::workspace::{Package, packages};

/// Stands for all modules of a folder, in one layer.
const ALL: &str = "*";

/// All that is wrong in a workspace with an ARCHITECTURE.md.
pub(crate) fn complaints(workspace: &Path) -> Vec<String> {
    let document = std::fs::read_to_string(workspace.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let drawing = match Drawing::read(&document) {
        Ok(drawing) => drawing,
        Err(why) => return vec![format!("ARCHITECTURE.md: {why}")],
    };
    let packages = packages(workspace);
    let mut wrong = crates(&drawing, &packages);
    for package in &packages {
        for (folder, graph) in folders(&Source::read(&package.root)) {
            let name = [std::slice::from_ref(&package.name), folder.as_slice()].concat().join("/");
            if folder.is_empty() || drawing.layers.contains_key(&name) {
                wrong.extend(layers(&drawing, &name, &graph));
            }
            wrong.extend(round(&name, &graph));
        }
    }
    let root = format!("{}/", workspace.display());
    wrong.into_iter().map(|text| text.replace(&root, "")).collect()
}

/// The arrows between crates are those of the manifests.
fn crates(drawing: &Drawing, packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    let none = BTreeSet::new();
    let for_tests = drawing.crates.get("tests").unwrap_or(&none);
    for Package { name, uses, tested_with, .. } in packages {
        let Some(drawn) = drawing.crates.get(name) else {
            wrong.push(format!("[crates] lacks {name}; its manifest says `{name} -> {}`", words(uses)));
            continue;
        };
        if drawn != uses {
            let (drawn, uses) = (words(drawn), words(uses));
            wrong.push(format!("[crates] has `{name} -> {drawn}`; its Cargo.toml has `{name} -> {uses}`"));
        }
        let more: Vec<_> =
            tested_with.iter().filter(|used| !drawn.contains(*used) && !for_tests.contains(*used)).collect();
        if !more.is_empty() {
            wrong.push(format!("the tests of {name} use {more:?}; [crates] allows them {for_tests:?}"));
        }
    }
    let known: BTreeSet<_> = packages.iter().map(|p| p.name.as_str()).chain(["tests"]).collect();
    let gone = drawing.crates.keys().filter(|name| !known.contains(name.as_str()));
    wrong.extend(gone.map(|name| format!("[crates] names {name}, and there is no such crate")));
    wrong
}

/// Top modules use those of earlier layers only.
fn layers(drawing: &Drawing, name: &str, graph: &Folder) -> Vec<String> {
    let real = || {
        let layers: Vec<String> = graph.layers().iter().map(|layer| layer.join(" ")).collect();
        format!("the files have\n{name}: {}", layers.join("\n  < "))
    };
    let Some(drawn) = drawing.layers.get(name) else {
        return vec![format!("[layers] lacks {name}; {}", real())];
    };
    let layer_of: BTreeMap<&str, usize> =
        (0..).zip(drawn).flat_map(|(layer, names)| names.iter().map(move |name| (name.as_str(), layer))).collect();
    let modules: BTreeSet<&str> = graph.uses.keys().map(String::as_str).filter(|name| *name != OWN_FILE).collect();
    let drawn: BTreeSet<&str> = layer_of.keys().copied().collect();
    let apart = drawn == BTreeSet::from([ALL]);
    if modules != drawn && !apart {
        let (lacks, gone) = (words(modules.difference(&drawn)), words(drawn.difference(&modules)));
        return vec![format!("[layers] of {name} lacks `{lacks}` and names `{gone}`, which is not there; {}", real())];
    }
    let mut wrong = Vec::new();
    for (user, used, place) in graph.arrows() {
        let layer = |module| if apart && module != OWN_FILE { Some(&0) } else { layer_of.get(module) };
        let (Some(above), Some(below)) = (layer(user), layer(used)) else { continue };
        if below >= above {
            let place_of_both = if above == below { "are in one layer" } else { "are the other way round" };
            wrong.push(format!("{place}: {user} uses {used}; in [layers] of {name} they {place_of_both}"));
        }
    }
    wrong
}

/// No files of a folder use each other.
fn round<'a>(folder: &'a str, graph: &'a Folder) -> impl Iterator<Item = String> + 'a {
    graph.circles().into_iter().map(move |circle| {
        let lines = graph.arrows().filter(|(user, used, _)| circle.contains(*user) && circle.contains(*used));
        let lines: Vec<String> = lines.map(|(user, used, place)| format!("  {place}: {user} uses {used}")).collect();
        format!("a circle among the files of {folder}: {}\n{}", words(&circle), lines.join("\n"))
    })
}

fn words(names: impl IntoIterator<Item = impl ToString>) -> String {
    names.into_iter().map(|name| name.to_string()).collect::<Vec<_>>().join(" ")
}
