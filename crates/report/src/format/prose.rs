//! Words put together: lists, sentences, and what stays on one line.

/// `a`, `a and b`, `a, b and c`; more than `most` names end with `and N others`.
pub(crate) fn listed(names: &[String], most: usize) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        _ if names.len() > most => {
            format!("{} and {} others", names[..most - 1].join(", "), names.len() - most + 1)
        }
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// The text with a full stop, unless it is empty or ends a sentence already.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() || text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// Text whose words stay on one line: every space in it becomes a no-break space.
pub(crate) fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn lists_end_with_and() {
        let names: Vec<String> = ["a", "b", "c", "d"].map(String::from).to_vec();
        assert_eq!(listed(&names[..1], 3), "a");
        assert_eq!(listed(&names[..2], 3), "a and b");
        assert_eq!(listed(&names[..3], 3), "a, b and c");
        assert_eq!(listed(&names, 3), "a, b and 2 others");
    }
}
