//! Settings that could not be restored.

use super::form::Setting;

/// A setting that could not be restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} could not be put back: it was {was}; {why}")]
pub struct NotRestored {
    /// The name of a condition, or the file of a setting (`policy0 scaling_governor`).
    pub what: String,
    /// The previous value.
    pub was: String,
    /// The kernel's message, and the current value.
    pub why: String,
    /// The remedy.
    pub remedy: String,
}

/// A setting that could not be restored, to keep in a journal.
#[derive(Debug, Clone)]
pub(crate) struct Left {
    pub(crate) setting: Setting,
    why: String,
}

impl Left {
    pub(crate) fn new(setting: &Setting, why: String) -> Self {
        Self { setting: setting.clone(), why }
    }
}

impl From<Left> for NotRestored {
    fn from(left: Left) -> Self {
        let Setting { form, file, number, value } = left.setting;
        let (item, file) = (format!("{}{number}", form.item), file.name);
        let remedy = format!(
            "when the CPU is online again, run `punctual governor restore`, or write {value} to /{}/{item}/{file}",
            form.folder
        );
        Self { what: format!("{item} {file}"), was: value, why: left.why, remedy }
    }
}
