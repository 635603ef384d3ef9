//! Where results go: tables to stdout, notices to stderr, files whole or not at all.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use punctual_record::Run;
use punctual_report::Style;

use crate::args::{Color, OutputArgs};
use crate::exit::BadUsage;

/// Widest text that is made: beyond it a line is hard to follow.
const WIDEST: usize = 160;
/// Width where there is no terminal to ask.
const WIDTH_OF_A_FILE: usize = 140;

/// A place to write a result to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// `-`.
    Stdout,
    /// A file.
    File(PathBuf),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stdout => f.write_str("-"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("a file name, or - for stdout".into()),
            "-" => Ok(Self::Stdout),
            path => Ok(Self::File(path.into())),
        }
    }
}

impl Target {
    /// Refuses, before anything is measured, a place that cannot be written.
    pub(crate) fn check(&self, flag: &str) -> Result<(), BadUsage> {
        let Self::File(path) = self else { return Ok(()) };
        let refuse = |why: &str| Err(BadUsage(format!("{flag} {}: {why}", path.display())));
        if path.is_dir() {
            return refuse("is a folder; give the name of a file in it");
        }
        let folder = folder_of(path);
        match folder.try_exists() {
            Ok(true) if folder.is_dir() => {}
            Ok(true) => return refuse(&format!("{} is not a folder", folder.display())),
            Ok(false) => return refuse(&format!("there is no folder {}; create it first", folder.display())),
            Err(e) => return refuse(&e.to_string()),
        }
        let asked = if path.exists() { path.as_path() } else { folder };
        match rustix::fs::access(asked, rustix::fs::Access::WRITE_OK) {
            Ok(()) => Ok(()),
            Err(e) => refuse(&format!("{} cannot be written: {e}", asked.display())),
        }
    }

    /// Writes a whole result; a file that was there before stays as it was if the writing fails.
    pub(crate) fn write(&self, fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
        match self {
            Self::Stdout => {
                let mut out = io::BufWriter::new(io::stdout().lock());
                fill(&mut out)?;
                out.flush().context("writing to stdout")
            }
            Self::File(path) => write_file(path, fill).with_context(|| format!("writing {}", path.display())),
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn write_file(path: &Path, fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
    // A device or a pipe cannot be replaced: it is written as it is.
    if path.exists() && !path.is_file() {
        let mut out = io::BufWriter::new(File::options().write(true).open(path)?);
        fill(&mut out)?;
        return Ok(out.flush()?);
    }
    use std::os::unix::fs::PermissionsExt as _;
    let ordinary = std::fs::Permissions::from_mode(0o666);
    let file = tempfile::Builder::new().prefix(".punctual-").permissions(ordinary).tempfile_in(folder_of(path))?;
    let mut out = io::BufWriter::new(file);
    fill(&mut out)?;
    out.flush()?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// How text is drawn on stdout.
pub(crate) fn style(color: Color) -> Style {
    style_for(color, io::stdout().is_terminal())
}

/// How text is drawn in a file.
pub(crate) fn style_for_file(color: Color) -> Style {
    style_for(color, false)
}

/// How text is drawn on stderr.
pub(crate) fn style_for_notices(color: Color) -> Style {
    style_for(color, io::stderr().is_terminal())
}

fn style_for(color: Color, terminal: bool) -> Style {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
        || std::env::var_os("TERM").is_some_and(|v| v == "dumb");
    let color = match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => terminal && !plain,
    };
    let width = terminal_size::terminal_size().map(|(w, _)| usize::from(w.0));
    let width = width.filter(|_| terminal).map_or(WIDTH_OF_A_FILE, |w| w.clamp(40, WIDEST));
    Style { width, color, unicode: speaks_utf8() }
}

/// Whether the locale says UTF-8, by the rule of `setlocale(3)`: the first of these that is set decides. None: most files and
/// pipelines take UTF-8, and a terminal of today does.
fn speaks_utf8() -> bool {
    let set = |name| std::env::var(name).ok().filter(|v| !v.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
    locale.is_none_or(|l| {
        let l = l.to_ascii_lowercase();
        l.contains("utf-8") || l.contains("utf8")
    })
}

/// Says something on stderr; if even that is closed, nothing can be done.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "punctual: {}", text.trim_end());
}

/// Says something that is laid out already on stderr.
pub(crate) fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Prints text on stdout.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    Target::Stdout.write(|out| Ok(out.write_all(text.as_bytes())?))
}

/// Everything a measuring command has to say of its run, in the forms that were asked for.
pub(crate) fn deliver(run: &Run, wanted: &OutputArgs) -> anyhow::Result<()> {
    // Files first: what follows may end early at a closed pipe.
    if let Some(target) = &wanted.json {
        target.write(|out| Ok(run.to_json(out)?))?;
    }
    if let Some(target) = &wanted.html {
        target.write(|out| Ok(punctual_report::html::write(run, out)?))?;
    }
    if let Some(target) = &wanted.csv {
        target.write(|out| Ok(punctual_report::csv::write(run, out)?))?;
    }
    if !wanted.stdout_is_taken() && !wanted.without_tables {
        print(&punctual_report::text::render(run, &style(wanted.color)))?;
    }
    if !wanted.quiet {
        let notices = punctual_report::notices_text(run, &style_for_notices(wanted.color));
        say(&notices);
        if let Some(Target::File(path)) = &wanted.html {
            say(&format!("The page is {}; any browser shows it, offline.\n", path.display()));
        }
    }
    Ok(())
}
