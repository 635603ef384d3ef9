//! What a remedy is to a program: what to write, and what it costs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::series::About;

/// What to write. Absent: there is nothing to write in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Code {
    /// In C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c: Option<String>,
    /// In Rust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rust: Option<String>,
    /// In Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// In a shell, for a program as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
}

impl Code {
    /// This text, in the language of its series.
    #[must_use]
    pub fn of_series(about: &About, text: Option<String>) -> Self {
        let (rust, c) = if about.is_rust() { (text, None) } else { (None, text) };
        Self { c, rust, ..Self::default() }
    }

    /// The languages that have something to write, with their names.
    pub fn languages(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [("C", &self.c), ("Rust", &self.rust), ("Python", &self.python), ("shell", &self.shell)];
        all.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?)))
    }
}

/// What a remedy costs. Empty: nothing known to be needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Price {
    /// The privilege that the program needs: `CAP_SYS_NICE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privilege: Option<String>,
    /// What it does to energy or heat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<String>,
    /// What it takes from other programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<String>,
    /// What it changes in the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}
