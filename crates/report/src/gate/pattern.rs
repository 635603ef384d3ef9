//! Which series a limit is about.

use punctual_record::Quantity;

/// Whether a limit with this subject is about a series. A name is that of the subject, or of the experiment and the
/// subject: `ramp performance`. Without a name, a limit is about lateness.
pub(crate) fn is_about(pattern: Option<&str>, experiment: &str, subject: &str, quantity: Quantity) -> bool {
    match pattern {
        None => quantity.is_lateness(),
        Some(pattern) => like(pattern, subject) || like(pattern, &format!("{experiment} {subject}")),
    }
}

/// Whether a name matches a pattern in which `*` stands for any letters.
fn like(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(place) = rest.find(part) else { return false };
        rest = &rest[place + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("*b", "abc", false),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abde", false),
            ("*", "", true),
            ("ab*b", "ab", false),
        ] {
            assert_eq!(like(pattern, name), fits, "{pattern} {name}");
        }
    }

    /// A work loop is not late: only a limit that names it is about it.
    #[test]
    fn without_a_name_a_limit_is_about_lateness() {
        let about = |pattern, quantity| is_about(pattern, "ramp", "performance", quantity);
        for late in [Quantity::Overshoot, Quantity::Lateness, Quantity::PeriodJitter, Quantity::OneWay] {
            assert!(about(None, late), "{late:?}");
        }
        assert!(about(None, Quantity::RoundTrip));
        for other in [Quantity::Loop, Quantity::CallCost, Quantity::Away, Quantity::Settling, Quantity::Response] {
            assert!(!about(None, other), "{other:?}");
            assert!(about(Some("perf*"), other) && about(Some("ramp *"), other) && about(Some("*"), other));
            assert!(!about(Some("powersave"), other));
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(name in "\\PC{0,10}", pattern in "[a*é]{0,6}") {
            let _ = like(&pattern, &name);
        }
    }
}
