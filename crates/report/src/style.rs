//! How text is to look: [`Style`]. It is given, never guessed: whoever prints knows the terminal.

use anstyle::{AnsiColor, Color, Style as Ansi};

/// The narrowest width that is honoured; anything smaller is treated as this many columns.
pub const NARROWEST: usize = 40;

/// Width, colour and characters of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal. Below [`NARROWEST`] it counts as that.
    pub width: usize,
    /// Escape sequences for bold, dim and coloured text.
    pub color: bool,
    /// Characters beyond ASCII (`µ`, `▁`, `–`).
    pub unicode: bool,
}

impl Default for Style {
    /// 80 columns, no colour, Unicode: what a pipe gets.
    fn default() -> Self {
        Self { width: 80, color: false, unicode: true }
    }
}

/// What a piece of text is, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Ordinary text.
    Plain,
    /// A heading.
    Heading,
    /// What matters less: legends, rows that do not do what was asked.
    Faint,
    /// A subject's name.
    Name,
    /// A warning.
    Warning,
    /// A failure.
    Failure,
}

impl Style {
    /// Columns to use.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.width.max(NARROWEST)
    }

    /// `text` in the colour of `paint`, or as it is when there is no colour.
    #[must_use]
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        if !self.color || text.is_empty() {
            return text.to_owned();
        }
        let ansi = match paint {
            Paint::Plain => return text.to_owned(),
            Paint::Heading => Ansi::new().bold(),
            Paint::Faint => Ansi::new().dimmed(),
            Paint::Name => Ansi::new().fg_color(Some(Color::Ansi(AnsiColor::Cyan))),
            Paint::Warning => Ansi::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow))),
            Paint::Failure => Ansi::new().bold().fg_color(Some(Color::Ansi(AnsiColor::Red))),
        };
        format!("{}{text}{}", ansi.render(), ansi.render_reset())
    }

    /// What stands where a figure is absent.
    #[must_use]
    pub fn absent(&self) -> &'static str {
        if self.unicode { "–" } else { "-" }
    }

    /// What stands where text was cut off.
    #[must_use]
    pub fn ellipsis(&self) -> &'static str {
        if self.unicode { "…" } else { "~" }
    }

    /// What opens an item of a list.
    #[must_use]
    pub fn bullet(&self) -> &'static str {
        if self.unicode { "• " } else { "* " }
    }
}
