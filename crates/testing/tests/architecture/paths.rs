//! The files that ARCHITECTURE.md and CONTRIBUTING.md name, as `lab/frame/plan.rs` or `crates/lab/src/frame/plan.rs`, are there.

use std::path::Path;

/// Each path of these documents that leads nowhere.
pub(crate) fn complaints(workspace: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    for name in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let document = std::fs::read_to_string(workspace.join(name)).expect(name);
        let gone = paths(&document).filter(|path| !leads_somewhere(workspace, path));
        wrong.extend(gone.map(|path| format!("{name}: {path} is not there")));
    }
    wrong
}

/// The paths between backticks: files of source, and folders. One with NAME stands for a file to be made.
pub(crate) fn paths(document: &str) -> impl Iterator<Item = &str> {
    let quoted = document.split('`').skip(1).step_by(2);
    quoted
        .filter(|path| path.contains('/') && !path.contains("NAME") && !path.contains([' ', '\n', '<', ':']))
        .filter(|path| path.ends_with(".rs") || path.starts_with("crates/"))
}

/// From the workspace, or from the source of the crate that comes first.
fn leads_somewhere(workspace: &Path, path: &str) -> bool {
    let in_crate = |(package, rest)| workspace.join("crates").join(package).join("src").join::<&str>(rest);
    workspace.join(path).exists() || path.split_once('/').is_some_and(|parts: (&str, &str)| in_crate(parts).exists())
}
