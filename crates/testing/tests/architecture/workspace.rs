//! The crates of the workspace, and which of them each one's `Cargo.toml` names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// One crate of ours. It is called as its folder is.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its `lib.rs`, or its `main.rs` where it has no library.
    pub(crate) root: PathBuf,
    pub(crate) uses: BTreeSet<String>,
    /// What only its tests use.
    pub(crate) tested_with: BTreeSet<String>,
}

/// All crates in `crates/` and the tools beside it.
pub(crate) fn packages(workspace: &Path) -> Vec<Package> {
    let inside = workspace.join("crates").read_dir().expect("crates/").map(|entry| entry.expect("crates/").path());
    let mut folders: Vec<PathBuf> = inside.chain(["xtask", "vm"].map(|name| workspace.join(name))).collect();
    folders.retain(|folder| folder.join("Cargo.toml").exists());
    folders.sort();
    let manifests: Vec<String> = folders.iter().map(|f| read(&f.join("Cargo.toml"))).collect();
    let folder_name = |folder: &Path| folder.file_name().expect("a name").to_string_lossy().into_owned();
    let ours: BTreeMap<String, String> =
        folders.iter().zip(&manifests).map(|(folder, text)| (package_name(text), folder_name(folder))).collect();
    let package = |(folder, text): (&PathBuf, &String)| {
        let (uses, tested_with) = dependencies(text, &ours);
        let library = folder.join("src/lib.rs");
        let root = if library.exists() { library } else { folder.join("src/main.rs") };
        Package { name: folder_name(folder), root, uses, tested_with }
    };
    folders.iter().zip(&manifests).map(package).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn package_name(manifest: &str) -> String {
    let line = manifest.lines().find_map(|line| line.strip_prefix("name = ")).expect("a package has a name");
    line.trim_matches('"').to_owned()
}

/// Those of `ours` that a manifest names: for the crate itself, and for its tests only.
fn dependencies(manifest: &str, ours: &BTreeMap<String, String>) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut uses, mut tested_with) = (BTreeSet::new(), BTreeSet::new());
    let mut section = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
        }
        let name = line.split(['=', '.']).next().unwrap_or_default().trim();
        let Some(folder) = ours.get(name) else { continue };
        if section.ends_with("dev-dependencies") {
            tested_with.insert(folder.clone());
        } else if section.ends_with("dependencies") {
            uses.insert(folder.clone());
        }
    }
    (uses, tested_with)
}
