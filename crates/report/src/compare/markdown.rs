//! A comparison as Markdown for a pull request: what differs on top, the rest folded away.
//!
//! Names may come from anywhere: everything that Markdown or HTML would obey is escaped.

use crate::style::Style;
use crate::units;

use super::limit::Judgement;
use super::words::{self, MOST};
use super::{Comparison, SeriesComparison, Verdict};

/// The comparison as GitHub-flavoured Markdown; with what became of limits, where there are some.
#[must_use]
pub fn render(comparison: &Comparison, judgement: Option<&Judgement>) -> String {
    let style = Style { width: usize::MAX, color: false, unicode: true };
    let mut out = String::from("### punctual compare\n\n");
    for sentence in words::summary(comparison, &style) {
        out.push_str(&format!("{}\n\n", escaped(&sentence)));
    }
    if let Some(judgement) = judgement {
        out.push_str(&limits(judgement, comparison, &style));
    }
    let different = words::rows(comparison, words::differs);
    if !different.is_empty() {
        out.push_str(&table(comparison, &different, &style));
    }
    let same = words::rows(comparison, |verdict| verdict == Verdict::NoDifference);
    if !same.is_empty() {
        let heading = format!("No difference that this data can show: {} figures", same.len());
        let mut body = table(comparison, &same, &style);
        if let Some(sight) = words::sight(comparison) {
            body.push_str(&format!("{}\n\n", escaped(&sight)));
        }
        out.push_str(&folded(&heading, &body));
    }
    out.push_str(&list("Not comparable", &words::missing(comparison, &style)));
    out.push_str(&list("What changed around it", &words::changes(comparison, &style)));
    let note = "Intervals hold the true change with 95 % confidence, each for itself; verdicts are corrected for";
    out.push_str(&format!("<sub>{note} {} comparisons. {}</sub>\n", comparison.compared, words::FINDS));
    out
}

fn limits(judgement: &Judgement, comparison: &Comparison, style: &Style) -> String {
    let lines = words::judged(judgement, comparison, style);
    if lines.is_empty() {
        return format!("**Limits: all {} judged figures keep them.**\n\n", judgement.kept);
    }
    let mut out = format!(
        "**Limits: {} failed, {} could not be judged, {} kept.**\n\n",
        judgement.failed.len(),
        judgement.unjudged.len(),
        judgement.kept
    );
    for (_, line) in lines.iter().take(MOST) {
        out.push_str(&format!("- {}\n", escaped(line)));
    }
    if lines.len() > MOST {
        out.push_str(&format!("- and {} more\n", lines.len() - MOST));
    }
    out + "\n"
}

fn list(heading: &str, items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let body: String = items.iter().map(|item| format!("- {}\n", escaped(item))).collect();
    folded(heading, &(body + "\n"))
}

fn folded(heading: &str, body: &str) -> String {
    format!("<details><summary>{heading}</summary>\n\n{body}</details>\n\n")
}

fn table(comparison: &Comparison, rows: &[words::Row<'_>], style: &Style) -> String {
    let mut out = String::from("| series | figure | old | new | change | 95 % | finds | verdict |\n");
    out.push_str("|:--|:--|--:|--:|--:|:--|--:|:--|\n");
    let mut before: Option<&SeriesComparison> = None;
    for (series, figure) in rows.iter().take(MOST) {
        let again = before.is_some_and(|before| std::ptr::eq(before, *series));
        let name = if again { String::new() } else { words::name(comparison, series, style) };
        before = Some(series);
        let Some(difference) = &figure.difference else { continue };
        let cells = [
            name,
            figure.figure.name().to_owned(),
            units::duration_fine(difference.old_ns, style),
            units::duration_fine(difference.new_ns, style),
            words::change(difference, style),
            words::interval(difference, style),
            words::finds(difference, style),
            figure.verdict.word(figure.figure, series.quantity).to_owned(),
        ];
        let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    if rows.len() > MOST {
        out.push_str(&format!("\nand {} more; `--format json` has them all\n", rows.len() - MOST));
    }
    out + "\n"
}

/// Text of which Markdown and HTML obey nothing.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // An at sign would call a person by that name.
            '@' => out.push_str("&#64;"),
            '\u{a0}' => out.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    // A link needs no brackets: the colon is what makes one.
    out.replace("://", ":&#47;&#47;").replace("www.", "www&#46;")
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn nothing_is_obeyed() {
        assert_eq!(escaped("<b>|`x`* @me https://a.b"), "&lt;b&gt;\\|\\`x\\`\\* &#64;me https:&#47;&#47;a.b");
    }
}
