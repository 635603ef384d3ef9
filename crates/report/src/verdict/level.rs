//! How far to trust, in a word.

use serde::Serialize;

/// How far to trust figures, or an advice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Of figures: the machine was quiet and the rounds agree. Of an advice: its gain is known to within half, and no tail looks longer.
    Good,
    /// Of figures: something disturbed them, or the rounds differ. Of an advice: its gain is shown, and not how large it is.
    Fair,
    /// Of figures: another run may have quite different ones. Of an advice: its tail may be longer, or only its tail is shorter.
    Poor,
    /// The run does not tell.
    #[default]
    Unknown,
}

impl Level {
    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Fair => "fair",
            Self::Poor => "poor",
            Self::Unknown => "unknown",
        }
    }
}
