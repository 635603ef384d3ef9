//! The manual and the shell completions, generated from the definition of the command line and checked against `--help`.

mod sections;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::tools;

/// The shells, the name of the completions of each, and where it looks for them below /usr and /usr/local. That of bash is also found
/// beside a bin of PATH.
const SHELLS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "punctual", "share/bash-completion/completions"),
    (Shell::Zsh, "_punctual", "share/zsh/site-functions"),
    (Shell::Fish, "punctual.fish", "share/fish/vendor_completions.d"),
];

/// A page of the manual.
struct Page {
    /// `punctual-wait.1`.
    name: String,
    /// The text in roff.
    text: String,
    /// The command of the page.
    command: Command,
}

/// The command line, built as for parsing.
fn root() -> Command {
    let mut root = punctual_cli::command();
    root.build();
    root
}

/// Writes the manual, or checks it.
pub(crate) fn man(check: bool) -> anyhow::Result<()> {
    let pages = pages()?;
    for page in &pages {
        agrees_with_help(page)?;
    }
    if check {
        println!("{} pages agree with --help", pages.len());
        return Ok(());
    }
    write("man", pages.into_iter().map(|page| (page.name, page.text)))
}

/// Writes the completions, or checks them.
pub(crate) fn completions(check: bool) -> anyhow::Result<()> {
    for (shell, ..) in SHELLS {
        knows_every_flag(shell, &completion(shell)?)?;
    }
    if check {
        println!("the completions have every flag");
        return Ok(());
    }
    for (shell, name, _) in SHELLS {
        write("completions", [(name, completion(shell)?)])?;
    }
    Ok(())
}

/// The manual's pages and the completions, each with its path below a prefix.
pub(crate) fn installed() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let page = |page: Page| (Path::new("share/man/man1").join(page.name), page.text);
    let mut files: Vec<_> = pages()?.into_iter().map(page).collect();
    for (shell, name, folder) in SHELLS {
        files.push((Path::new(folder).join(name), completion(shell)?));
    }
    Ok(files)
}

/// Writes files into a folder of the target, and prints their names.
fn write(folder: &str, files: impl IntoIterator<Item = (impl AsRef<Path>, String)>) -> anyhow::Result<()> {
    let folder = tools::made(tools::target().join(folder))?;
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

fn completion(shell: Shell) -> anyhow::Result<String> {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut root(), "punctual", &mut out);
    String::from_utf8(out).context("completions are text")
}

/// The pages of all commands that help shows.
fn pages() -> anyhow::Result<Vec<Page>> {
    let mut pages = Vec::new();
    add_pages(&root(), "punctual", &mut pages)?;
    Ok(pages)
}

fn add_pages(command: &Command, name: &str, pages: &mut Vec<Page>) -> anyhow::Result<()> {
    let mut out = Vec::new();
    let titled = command.clone().display_name(name.to_owned());
    Man::new(titled).title(name.to_uppercase()).section("1").manual("punctual").render(&mut out)?;
    let mut text = String::from_utf8(out).context("a page is text")?;
    let more = sections::PAGES.iter().find(|page| page.page == name);
    text.push_str(&more.with_context(|| format!("{name} has no examples in manual/sections.rs"))?.roff());
    pages.push(Page { name: format!("{name}.1"), text, command: command.clone() });
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        add_pages(sub, &format!("{name}-{}", sub.get_name()), pages)?;
    }
    Ok(())
}

/// All long flags in the text.
fn flags(text: &str) -> BTreeSet<String> {
    let mut flags = BTreeSet::new();
    for (at, _) in text.match_indices("--") {
        let before = text[..at].chars().next_back();
        let name: String =
            text[at + 2..].chars().take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-').collect();
        let begins = before.is_none_or(|c| !c.is_alphanumeric() && c != '-');
        if begins && name.starts_with(|c: char| c.is_ascii_lowercase()) {
            flags.insert(name.trim_end_matches('-').to_owned());
        }
    }
    flags
}

/// Removes roff's escapes from flags.
fn plain(roff: &str) -> String {
    let mut text = roff.replace("\\-", "-");
    for font in ["\\fB", "\\fI", "\\fR", "\\&"] {
        text = text.replace(font, "");
    }
    text
}

/// Checks that the page and `--help` have the same flags.
fn agrees_with_help(page: &Page) -> anyhow::Result<()> {
    let help = page.command.clone().render_long_help().to_string();
    let (told, helped) = (flags(&plain(&page.text)), flags(&help));
    let missing: Vec<&String> = helped.difference(&told).collect();
    let extra: Vec<&String> = told.difference(&helped).collect();
    ensure!(missing.is_empty(), "{} lacks {missing:?} of --help", page.name);
    ensure!(extra.is_empty(), "{} has {extra:?}, which --help lacks", page.name);
    let defined = page.command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(|arg| arg.get_long());
    for flag in defined {
        ensure!(told.contains(flag), "{} lacks --{flag}", page.name);
    }
    Ok(())
}

fn knows_every_flag(shell: Shell, text: &str) -> anyhow::Result<()> {
    for page in pages()? {
        for flag in page.command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(|arg| arg.get_long()) {
            let spelled = if shell == Shell::Fish { format!("-l {flag}") } else { format!("--{flag}") };
            ensure!(text.contains(&spelled), "the {shell} completions lack --{flag} of {}", page.name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command as Process, Stdio};

    #[test]
    fn manual_and_help_agree() {
        let pages = pages().unwrap();
        assert!(pages.iter().any(|page| page.name == "punctual.1"));
        assert!(pages.iter().any(|page| page.name == "punctual-report.1"));
        pages.iter().try_for_each(agrees_with_help).unwrap();
    }

    #[test]
    fn every_page_has_examples_that_its_command_takes() {
        let pages = pages().unwrap();
        for sections in sections::PAGES {
            let page = pages.iter().find(|page| page.name == format!("{}.1", sections.page));
            let text = &page.unwrap_or_else(|| panic!("there is no command {}", sections.page)).text;
            for title in ["EXAMPLES", "EXIT STATUS", "FILES", "SEE ALSO"] {
                assert!(text.contains(&format!(".SH \"{title}\"")), "{}: {title}", sections.page);
            }
            for (line, _) in sections.examples {
                // Whether a last run is kept depends on who runs the tests.
                let words = line.split(' ').map(|word| if word == "last" { "./last" } else { word });
                let taken = root().try_get_matches_from(words);
                assert!(taken.is_ok(), "{line}: {}", taken.unwrap_err());
            }
        }
    }

    #[test]
    fn a_missing_flag_is_noticed() {
        let mut page = pages().unwrap().into_iter().find(|page| page.name == "punctual-report.1").unwrap();
        page.text = page.text.replace("\\-\\-openmetrics", "");
        assert!(agrees_with_help(&page).unwrap_err().to_string().contains("openmetrics"));
        page.text.push_str("\\fB\\-\\-nonsense\\fR");
        page.command = page.command.mut_arg("openmetrics", |arg| arg.hide(true));
        assert!(agrees_with_help(&page).unwrap_err().to_string().contains("nonsense"));
    }

    #[test]
    fn man_formats_every_page_without_a_warning() {
        for page in pages().unwrap() {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &page.text).unwrap();
            let groff = Process::new("groff")
                .args(["-man", "-ww", "-Tutf8", "-z"])
                .arg(file.path())
                .stdin(Stdio::null())
                .output();
            let Ok(output) = groff else {
                punctual_testing::skip("groff is not installed; Debian: apt-get install groff-base");
                return;
            };
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{}: {said}", page.name);
        }
    }

    #[test]
    fn shells_accept_their_completions() {
        for (shell, program) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
            let text = completion(shell).unwrap();
            knows_every_flag(shell, &text).unwrap();
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &text).unwrap();
            match Process::new(program).arg("-n").arg(file.path()).output() {
                Ok(output) => {
                    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr))
                }
                Err(_) => {
                    punctual_testing::skip(&format!("{program} is not installed; Debian: apt-get install {program}"));
                }
            }
        }
    }
}
