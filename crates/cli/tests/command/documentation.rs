//! The commands that the documentation shows: each is one that the command line takes.

use std::path::{Path, PathBuf};

/// Commands in the indented lines and in the back ticks of a page.
fn commands(page: &str) -> Vec<String> {
    let indented = page.lines().filter_map(|line| line.strip_prefix("    ")).map(|line| line.trim().to_owned());
    let ticked = page.split('`').skip(1).step_by(2).map(|words| words.replace('\n', " "));
    let shown = indented.chain(ticked).map(|line| line.split('#').next().unwrap_or("").trim().to_owned());
    // `punctual = "0.1"` is a line of Cargo.toml.
    shown
        .filter(|line| line.starts_with("punctual ") && !line.starts_with("punctual =") && !line.contains("..."))
        .collect()
}

/// The words of a command line, as a shell splits it. Quotes enclose whole words, and a redirection or a pipe ends it.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('\'').enumerate();
    let split = |(at, part): (usize, &str)| match at % 2 {
        1 => vec![part.to_owned()],
        _ => part.split_whitespace().map(str::to_owned).collect(),
    };
    parts.flat_map(split).take_while(|word| ![">", "|", "&&", "&", ";"].contains(&word.as_str())).collect()
}

/// The pages for readers: README.md, those in docs/ and those of the crates.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = |name| std::fs::read_dir(root.join(name)).unwrap().map(|entry| entry.unwrap().path());
    let of_crates = folder("crates").map(|path| path.join("README.md")).filter(|path| path.exists());
    let docs = folder("docs").filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    docs.chain(of_crates).chain([root.join("README.md"), root.join("SECURITY.md"), root.join("vm/README.md")]).collect()
}

#[test]
fn every_command_in_the_documentation_is_taken() {
    let (mut taken, mut refused) = (0, Vec::new());
    for page in pages() {
        for command in commands(&std::fs::read_to_string(&page).unwrap()) {
            // Whether a last run is kept depends on who runs the tests.
            let words = words(&command).into_iter().map(|word| if word == "last" { "./last".into() } else { word });
            let mut words: Vec<String> = words.collect();
            // A sentence may name a command alone: `punctual report`.
            words.extend((words.len() == 2).then(|| "--help".to_owned()));
            match punctual_cli::command().try_get_matches_from(words) {
                Err(error) if error.use_stderr() => refused.push(format!("{}: {command}\n{error}", page.display())),
                _ => taken += 1,
            }
        }
    }
    assert_eq!(refused, Vec::<String>::new());
    assert!(taken > 80, "{taken} commands");
}
