//! Why something could not be measured.

use punctual::conditions::Lost;

use crate::left_out::{NotKept, Spoilt};

/// Why a batch could not be performed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The run was asked to end.
    Stopped,
    /// The subject cannot be measured, and why; it is not tried again.
    Impossible {
        /// What was tried and what the kernel said.
        why: String,
        /// What would make it possible.
        remedy: Option<String>,
    },
    /// Conditions of another process that takes part were lost meanwhile: the batch does not count.
    Lost(Vec<Lost>),
}

impl Failure {
    /// Of what was measured and left out again and again, the last time for this reason.
    pub(crate) fn again_and_again(why: &Spoilt) -> Self {
        let (why, remedy) = match why {
            Spoilt::Lost(lost) => lost.first().map(NotKept::again_and_again).unwrap_or_default(),
            Spoilt::Broken(_) => (
                "the wall clock was set, or the measurement stood still, again and again".to_owned(),
                "repeat when neither happens, or give more time (--duration)".to_owned(),
            ),
        };
        Self::Impossible { why, remedy: Some(remedy) }
    }
}
