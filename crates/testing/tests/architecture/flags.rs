//! No text of the crates below the command names one of its flags: the command adds them (`cli/args/flags.rs`).

use std::path::Path;

use crate::source::Source;

/// The crates.
const BELOW: [&str; 4] = ["lab", "punctual", "record", "trace"];

/// Other programs, as a text with their flags names them, and these flags.
const OTHERS: [(&str, &[&str]); 5] = [
    ("chrt", &["--other", "--fifo", "--pid"]),
    ("sched", &["--sched-runtime", "--sched-deadline", "--sched-period"]),
    ("container", &["--cap-add", "--ulimit", "--device", "--cpuset-cpus"]),
    ("docker", &["--cpuset-cpus"]),
    ("capsh", &["--print"]),
];

/// The texts with a flag.
pub(crate) fn complaints(workspace: &Path) -> Vec<String> {
    let mut complaints = Vec::new();
    for name in BELOW {
        for file in Source::read(&workspace.join("crates").join(name).join("src/lib.rs")).files.values() {
            for (line, text) in &file.texts {
                let path = file.path.strip_prefix(workspace).unwrap_or(&file.path).display();
                complaints.extend(flags(text).map(|flag| format!("{path}:{line}: {flag}")));
            }
        }
    }
    complaints
}

/// The flags in a text, but for those of other programs.
pub(crate) fn flags(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '-');
    let is_flag = |word: &&str| word.strip_prefix("--").is_some_and(|name| name.starts_with(|c: char| c != '-'));
    let is_of_another = |flag: &str| OTHERS.iter().any(|(of, flags)| text.contains(of) && flags.contains(&flag));
    words.filter(is_flag).filter(move |flag| !is_of_another(flag))
}
