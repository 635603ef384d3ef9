//! Words for people: on stdout, on stderr, and how they are drawn there.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;
use clap::ValueEnum;
use punctual_linux::inherited;
use punctual_record::plain;
use punctual_report::Style;

use crate::stream;

/// Widest text that is made: beyond it a line is hard to follow.
const WIDEST: usize = 160;
/// Width where there is no terminal to ask.
const WIDTH_OF_A_FILE: usize = 140;
/// Characters of a message: twenty lines and more. What a file or an argument says must not fill the screen.
pub(crate) const LONGEST_MESSAGE: usize = 4000;
/// Longest name that is shown whole.
const LONGEST_NAME: usize = 300;

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Even into a file or a pipe
    Always,
    /// Not at all
    Never,
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

/// A file's name as it may be shown: whatever it holds, a terminal obeys none of it.
pub(crate) fn shown(name: impl AsRef<OsStr>) -> String {
    plain::line(&name.as_ref().to_string_lossy(), LONGEST_NAME)
}

/// Says something on stderr, made harmless for a terminal; if even that is closed, nothing can be done.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "punctual: {}", plain::lines(text.trim_end(), LONGEST_MESSAGE));
}

/// Says what the parser of the command line has to say, with its colours where stderr takes them.
pub(crate) fn say_drawn(text: &clap::builder::StyledStr) {
    let plain = anstream::AutoStream::choice(&io::stderr()) == anstream::ColorChoice::Never;
    say(&if plain { text.to_string() } else { text.ansi().to_string() });
}

/// Says something that is laid out already on stderr.
pub(crate) fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Prints text on stdout.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    if inherited::was_closed(1) {
        anyhow::bail!("stdout is closed: nothing can be printed");
    }
    // What was printed before, line by line, comes first.
    let stdout = io::stdout().lock();
    stream::pour(&stdout, text.as_bytes()).context("writing to stdout")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn a_name_is_shown_without_what_a_terminal_obeys() {
        assert_eq!(shown("a b.json"), "a b.json");
        assert_eq!(shown(OsStr::from_bytes(b"a\x1b[31m\n\xff")), "a?[31m \u{fffd}");
        assert!(shown("x".repeat(5000)).ends_with("x…"));
    }
}
