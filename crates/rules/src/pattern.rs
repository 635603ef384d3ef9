//! Patterns of names: `*` is any text, `?` any byte.

/// Whether the whole name is as the pattern says. It neither allocates nor recurses.
#[must_use]
pub fn matches(pattern: &str, name: &[u8]) -> bool {
    let pattern = pattern.as_bytes();
    // What is compared next: of the pattern, and of the name.
    let (mut at, mut next) = (0, 0);
    // Where both go on if the last star has to take one byte more.
    let mut again = None;
    while next < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                again = Some((at + 1, next + 1));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[next] => (at, next) = (at + 1, next + 1),
            _ => {
                let Some((after_star, resumed)) = again else { return false };
                (at, next, again) = (after_star, resumed, Some((after_star, resumed + 1)));
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name) in [
            ("", ""),
            ("*", ""),
            ("*", "x"),
            ("libfoo.so*", "libfoo.so.1"),
            ("*foo*", "libfoo.so"),
            ("a?c", "abc"),
            ("*aab", "aaaab"),
            ("a*b*c", "a-b-b-c"),
            ("**", "abc"),
        ] {
            assert!(matches(pattern, name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in
            [("", "x"), ("a", "A"), ("a?", "a"), ("libfoo.so", "libfoo.so.1"), ("*b", "abc"), ("a*b*c", "a-c-b")]
        {
            assert!(!matches(pattern, name.as_bytes()), "{pattern} {name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_name_is_its_own_pattern_and_a_part_of_a_starred_one(name in "[a-z.]{0,12}", more in "[a-z.]{0,6}") {
            proptest::prop_assert!(matches(&name, name.as_bytes()));
            let (starred, longer) = (format!("*{name}*"), format!("{more}{name}{more}"));
            proptest::prop_assert!(matches(&starred, longer.as_bytes()));
        }
    }
}
