//! Which file of a folder uses which: the circles among them, and an order that has none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::source::{Module, Source};

/// What a folder's own file (`mod.rs`, `lib.rs`) is called among the modules of the folder.
pub(crate) const OWN_FILE: &str = "mod";

/// A line that makes one module of a folder use another.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    pub(crate) path: String,
}

/// The modules of one folder, each with those that it uses and the first line that says so.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    pub(crate) uses: BTreeMap<String, BTreeMap<String, Place>>,
}

/// The folders of a crate; the first, with an empty path, holds its top modules.
pub(crate) fn folders(source: &Source) -> BTreeMap<Module, Folder> {
    let mut folders: BTreeMap<Module, Folder> = BTreeMap::new();
    for module in source.files.keys().filter(|module| !module.is_empty()) {
        let (name, folder) = module.split_last().expect("not the root");
        folders.entry(folder.to_vec()).or_default().uses.entry(name.clone()).or_default();
    }
    for (user, file) in &source.files {
        for mention in file.mentions.iter().filter(|mention| !mention.passed_on) {
            let used = source.home(&mention.path);
            let common = user.iter().zip(&used).take_while(|(a, b)| a == b).count();
            let folder = user[..common].to_vec();
            let name = |module: &Module| module.get(common).map_or(OWN_FILE, String::as_str).to_owned();
            let (user, used) = (name(user), name(&used));
            if user == used || !folders.contains_key(&folder) {
                continue;
            }
            let place = Place {
                file: file.path.clone(),
                line: mention.line,
                path: format!("crate::{}", mention.path.join("::")),
            };
            let uses = &mut folders.entry(folder).or_default().uses;
            uses.entry(user).or_default().entry(used).or_insert(place);
        }
    }
    folders
}

impl Folder {
    /// Everything that a module uses, itself or through others.
    fn reach<'a>(&'a self, from: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(uses) = open.pop().and_then(|name| self.uses.get(name)) {
            open.extend(uses.keys().map(String::as_str).filter(|name| reached.insert(*name)));
        }
        reached
    }

    /// Modules each of which uses all of them, itself or through others.
    pub(crate) fn circles(&self) -> Vec<BTreeSet<String>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.uses.keys().map(|name| (name.as_str(), self.reach(name))).collect();
        let mut circles: Vec<BTreeSet<String>> = Vec::new();
        for (name, reached) in reach.iter().filter(|(name, reached)| reached.contains(*name)) {
            let back = reached.iter().filter(|other| reach.get(*other).is_some_and(|all| all.contains(name)));
            let circle: BTreeSet<String> = back.map(ToString::to_string).collect();
            if !circles.contains(&circle) {
                circles.push(circle);
            }
        }
        circles
    }

    /// All arrows: who uses whom, and where.
    pub(crate) fn arrows(&self) -> impl Iterator<Item = (&str, &str, &Place)> {
        self.uses
            .iter()
            .flat_map(|(user, uses)| uses.iter().map(move |(used, place)| (user.as_str(), used.as_str(), place)))
    }

    /// Layers such that each uses only those before it, as far as there are no circles.
    pub(crate) fn layers(&self) -> Vec<Vec<String>> {
        let circles = self.circles();
        let mut layers: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for name in self.uses.keys().filter(|name| *name != OWN_FILE) {
            layers.entry(self.depth(name, &circles)).or_default().push(name.clone());
        }
        layers.into_values().collect()
    }

    fn depth(&self, name: &String, circles: &[BTreeSet<String>]) -> usize {
        let alone = BTreeSet::from([name.clone()]);
        let circle = circles.iter().find(|circle| circle.contains(name)).unwrap_or(&alone);
        let outside = circle.iter().filter_map(|member| self.uses.get(member)).flat_map(BTreeMap::keys);
        let below = outside.filter(|used| !circle.contains(*used) && *used != OWN_FILE);
        below.map(|used| 1 + self.depth(used, circles)).max().unwrap_or(0)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.path)
    }
}
