//! The commands that the documentation shows: each is one that the command line takes.

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

/// The words of a command line, as a shell splits it; quotes enclose whole words.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('\'').enumerate();
    let split = |(at, part): (usize, &str)| match at % 2 {
        1 => vec![part.to_owned()],
        _ => part.split_whitespace().map(str::to_owned).collect(),
    };
    parts.flat_map(split).collect()
}

#[test]
fn every_command_in_the_documentation_is_taken() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    for (page, least) in [("docs/guide.md", 20), ("README.md", 8)] {
        let text = std::fs::read_to_string(format!("{root}{page}")).unwrap();
        let commands = commands(&text);
        assert!(commands.len() >= least, "{page}: {commands:?}");
        for command in commands {
            // Whether a last run is kept depends on who runs the tests.
            let words = words(&command).into_iter().map(|word| if word == "last" { "./last".into() } else { word });
            let taken = punctual_cli::command().try_get_matches_from(words);
            if let Err(error) = taken {
                panic!("{page}: {command}\n{error}");
            }
        }
    }
}
