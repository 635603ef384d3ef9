//! The parts of a run that a refusal of the kernel's events leaves out.

use punctual_record::Unseen;
use punctual_trace::Error;

use super::unavailable::Unavailable;

/// The missing part if single wake-ups were to be watched.
pub(crate) const WAKE_UPS: &str = "single wake-ups";

/// The missing part, the reason and the remedy.
pub(crate) fn without(what: &str, error: &Error) -> Unseen {
    Unseen { what: what.to_owned(), why: error.to_string(), remedy: error.remedy().map(str::to_owned) }
}

impl From<Unseen> for Unavailable {
    fn from(unseen: Unseen) -> Self {
        Self { why: unseen.text(), remedy: unseen.remedy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_remedy_apart() {
        let refused = without(WAKE_UPS, &Error::Tracefs(std::io::ErrorKind::PermissionDenied.into()));
        assert_eq!(refused.text(), "single wake-ups: reading tracefs: permission denied");
        assert!(refused.remedy.unwrap().starts_with("run as root"));
        let missing = without(WAKE_UPS, &Error::NoEvent("sched/sched_waking"));
        assert!(missing.remedy.is_none() && missing.why.contains("sched/sched_waking"));
    }
}
