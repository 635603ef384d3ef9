//! The methods of a family for `--list`: description, call, requirements, availability.

use crate::document::Paint;
use crate::format::{sanitize, sentence};

use super::style::{Style, cut};
use crate::export::text::style::paragraph;

/// One method.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListRow {
    /// Its name on the command line.
    pub name: String,
    /// One line on it.
    pub about: String,
    /// The call as a C programmer writes it.
    pub call: String,
    /// Its kind; rows of one kind that follow each other share a heading.
    pub kind: String,
    /// What it needs, or empty.
    pub needs: String,
    /// Why it cannot be used here, with the remedy.
    pub unavailable: Option<String>,
    /// The system calls that were seen when it waited, where that was looked at; empty: it makes none.
    pub observed: Option<Vec<String>>,
}

/// The list as text. Each kind has a heading, each method its name and line. Below stands what else there is to say.
#[must_use]
pub fn render(rows: &[ListRow], style: &Style) -> String {
    let names = rows.iter().map(|row| clean(&row.name, style));
    // A name longer than this would push every description to the edge: its own moves to the next column instead.
    let widest = names.map(|name| textwrap::core::display_width(&name)).filter(|&width| width <= 28).max().unwrap_or(0);
    let of_kind = |rows: &[ListRow]| {
        let heading = cut(&clean(&rows[0].kind, style), style.columns(), style);
        let heading = Some(style.paint(Paint::Heading, &heading) + "\n").filter(|_| !rows[0].kind.is_empty());
        heading.into_iter().chain(rows.iter().map(|row| one(row, widest, style))).collect::<String>()
    };
    rows.chunk_by(|one, next| one.kind == next.kind).map(of_kind).collect::<Vec<_>>().join("\n")
}

fn clean(text: &str, style: &Style) -> String {
    style.spelled(&sanitize(text)).into_owned()
}

fn one(row: &ListRow, widest: usize, style: &Style) -> String {
    let name = cut(&clean(&row.name, style), style.columns().saturating_sub(2), style);
    let width = textwrap::core::display_width(&name);
    let margin = " ".repeat(widest + 4);
    let about = paragraph(&sentence(&clean(&row.about, style)), &margin, &margin, Paint::Plain, style);
    let painted = style.paint(Paint::Name, &name);
    let mut out = if width <= widest {
        let padding = " ".repeat(widest - width);
        format!("  {painted}{padding}{}", about.get(widest + 2..).unwrap_or("\n"))
    } else {
        format!("  {painted}\n{about}")
    };
    let mut more = |label: &str, text: &str, paint: Paint| {
        let text = clean(text, style);
        let first = format!("{margin}{label}: ");
        let rest = " ".repeat(margin.len() + 2);
        out.push_str(&paragraph(&text, &first, &rest, paint, style));
    };
    more("call", &row.call, Paint::Faint);
    more("needs", &row.needs, Paint::Faint);
    if let Some(observed) = &row.observed {
        let calls = if observed.is_empty() { "no system call".to_owned() } else { observed.join(", ") };
        more("seen here", &calls, Paint::Faint);
    }
    if let Some(why) = &row.unavailable {
        more("not here", why, Paint::Warning);
    }
    out
}
