//! The variable `PUNCTUAL_PRELOAD`: [`Settings`].

use crate::waits::{BadWord, Waits};

/// What the variable says.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Settings<'a> {
    /// For every call.
    pub waits: Waits,
    /// The file of rules.
    pub rules: Option<&'a str>,
}

impl<'a> Settings<'a> {
    /// Reads `usleep0=yield,precise-sleep=5us,rules=FILE`. `rules` comes last: its file may have commas in its name.
    ///
    /// # Errors
    /// An unknown name, or a value that its name does not take.
    pub fn parse(text: &'a str) -> Result<Self, BadWord> {
        let mut settings = Self::default();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(file) = rest.strip_prefix("rules=") {
                settings.rules = Some(file);
                break;
            }
            let (word, more) = rest.split_once(',').unwrap_or((rest, ""));
            if !word.is_empty() && !settings.waits.add(word)? {
                return Err(BadWord::Unknown(word.to_owned()));
            }
            rest = more;
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Zero;

    #[test]
    fn words_and_a_file() {
        assert_eq!(Settings::parse("").unwrap(), Settings::default());
        let settings = Settings::parse("usleep0=yield,,precise-sleep,rules=/a,b=c").unwrap();
        assert_eq!((settings.waits.usleep0, settings.rules), (Some(Zero::Yield), Some("/a,b=c")));
    }

    #[test]
    fn unknown_words_are_refused() {
        for bad in ["usleep0", "more=1", "usleep0=yield,more=1", "thread=x", "policy=fifo:1", "rules"] {
            assert!(Settings::parse(bad).is_err(), "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in "[a-z0-9_=,:.%-]{0,60}") {
            let _ = Settings::parse(&text);
        }
    }
}
