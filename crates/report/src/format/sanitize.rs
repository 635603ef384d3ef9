//! Text from a run for a document: sanitized ([`punctual_record::sanitize`]) and cut to 1000 characters.

/// `text` on one line with everything that a terminal would obey replaced by `?`; cut after 1000 characters.
pub(crate) fn sanitize(text: &str) -> String {
    const LONGEST: usize = 1000;
    punctual_record::sanitize::line(text, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escape_sequences_lose_their_escape() {
        assert_eq!(sanitize("a\x1b[31mred\x07\u{9b}2J\u{202e}"), "a?[31mred??2J?");
    }

    proptest! {
        #[test]
        fn nothing_a_terminal_obeys_survives(text in any::<String>()) {
            prop_assert!(!sanitize(&text).chars().any(char::is_control));
        }
    }
}
