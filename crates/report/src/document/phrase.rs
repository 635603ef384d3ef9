//! A notice in words.

use crate::format::sentence;

/// The severity of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Good to know; the figures stand.
    Note,
    /// The figures do not mean what was requested, or are less certain than they look.
    Warning,
    /// A limit could not be judged.
    Unjudged,
    /// Something failed and needs attention.
    Failure,
    /// A limit is exceeded.
    Exceeded,
}

impl Level {
    /// `note`, `warning`, `unjudged`, `failure` or `exceeded`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Unjudged => "unjudged",
            Self::Failure => "failure",
            Self::Exceeded => "exceeded",
        }
    }
}

/// A notice in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// How much it matters.
    pub level: Level,
    /// One or two sentences.
    pub text: String,
    /// The remedy, if there is one.
    pub remedy: Option<String>,
}

impl Phrase {
    /// A phrase without a remedy.
    pub(crate) fn new(level: Level, text: String) -> Self {
        Self { level, text, remedy: None }
    }

    /// Adds a remedy; an empty one is ignored.
    pub(crate) fn remedy(mut self, remedy: &str) -> Self {
        self.remedy = Some(sentence(remedy)).filter(|remedy| !remedy.is_empty());
        self
    }
}
