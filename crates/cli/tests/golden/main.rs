//! What the command says about real records and about command lines is what it said before.
//!
//! Input: the records of `records/` and of `crates/report/tests/records`, the comparisons of `compare.txt`, the lines after `$` in `said/lines`.
//! Output: the files of `said/`; of forms for programs, their checksums. `INSTA_UPDATE=always` writes them. `between` shows what two
//! builds say differently. All of it comes from the built command, so the test knows nothing of the code behind it.

mod tell;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[test]
fn what_is_said_is_what_was_said() {
    let written = folder().join("said");
    let command = std::env::var_os("PUNCTUAL_GOLDEN_COMMAND").unwrap_or_else(|| env!("CARGO_BIN_EXE_punctual").into());
    let told = tempfile::tempdir().unwrap();
    tell::everything(Path::new(&command), &folder(), told.path());
    if let Some(into) = std::env::var_os("PUNCTUAL_GOLDEN_INTO") {
        return Said::read(told.path()).write(Path::new(&into));
    }
    let told = Said::read(told.path()).with_checksums();
    for (name, text) in told.0.iter().filter(|(name, _)| name.ends_with("first-screen.txt")) {
        let text = String::from_utf8_lossy(text);
        // A terminal of 24 lines has the prompt on one.
        let (lines, widest) = (text.lines().count(), text.lines().map(|line| line.chars().count()).max());
        assert!(lines < 24 && widest <= Some(80), "{name}: {lines} lines, {widest:?} columns");
    }
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::remove_dir_all(&written).unwrap();
        return told.write(&written);
    }
    if let Some(difference) = told.difference_from(&Said::read(&written)) {
        panic!(
            "{difference}\nIf it should be so: INSTA_UPDATE=always cargo test -p punctual-cli --test golden; git diff"
        );
    }
}

/// The file of the checksums.
const CHECKSUMS: &str = "SHA256SUMS";
/// The forms for programs and browsers. They are large, so only their checksums are kept.
const CHECKED_BY_SUM: [&str; 4] = [".html", ".json", ".openmetrics", ".hgrm"];

/// What was said: the contents of each file, by its path.
struct Said(BTreeMap<String, Vec<u8>>);

impl Said {
    /// Reads all files of a folder, and those in its folders.
    fn read(root: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                    files.insert(name, fs::read(&path).unwrap());
                }
            }
        }
        Self(files)
    }

    /// The same with one file of checksums in the place of the forms for programs.
    fn with_checksums(mut self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        self.write(folder.path());
        let (sums, texts): (BTreeMap<_, _>, BTreeMap<_, _>) =
            self.0.into_iter().partition(|(name, _)| CHECKED_BY_SUM.iter().any(|form| name.ends_with(form)));
        let done = Command::new("sha256sum").args(sums.keys()).current_dir(folder.path()).output().unwrap();
        assert!(done.status.success(), "sha256sum: {}", String::from_utf8_lossy(&done.stderr));
        self.0 = texts;
        self.0.insert(CHECKSUMS.into(), done.stdout);
        self
    }

    /// Writes the files into the folder.
    fn write(&self, folder: &Path) {
        for (name, contents) in &self.0 {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
    }

    /// The names of all files that differ, and how the first one does.
    fn difference_from(&self, before: &Self) -> Option<String> {
        let mut names: Vec<&String> = before.0.keys().chain(self.0.keys()).collect();
        names.sort();
        names.dedup();
        names.retain(|name| before.0.get(*name) != self.0.get(*name));
        let first = names.first()?;
        let folder = tempfile::tempdir().unwrap();
        for (side, said) in [("before", before), ("now", self)] {
            fs::write(folder.path().join(side), said.0.get(*first).map_or(&[][..], Vec::as_slice)).unwrap();
        }
        let done = Command::new("diff").args(["-u", "before", "now"]).current_dir(folder.path()).output().unwrap();
        let list = names.iter().map(|name| format!("  {name}\n")).collect::<String>();
        Some(format!("{first}:\n{}\n{} files differ:\n{list}", String::from_utf8_lossy(&done.stdout), names.len()))
    }
}
