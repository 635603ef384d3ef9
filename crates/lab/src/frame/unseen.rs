//! What a refusal of the kernel's events leaves unseen.

use punctual_record::Unseen;
use punctual_trace::Error;

/// In words, and the remedy.
#[must_use]
pub(crate) fn unseen(error: &Error) -> Unseen {
    let text = error.to_string();
    match text.split_once("; remedy: ") {
        Some((why, remedy)) => Unseen { what: format!("single wake-ups: {why}"), remedy: Some(remedy.to_owned()) },
        None => Unseen { what: format!("single wake-ups: {text}"), remedy: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_remedy_apart() {
        let refused = unseen(&Error::Tracefs(std::io::ErrorKind::PermissionDenied.into()));
        assert_eq!(refused.what, "single wake-ups: reading tracefs: permission denied");
        assert!(refused.remedy.unwrap().starts_with("run as root, or "));
        let missing = unseen(&Error::NoEvent("sched/sched_waking"));
        assert!(missing.remedy.is_none() && missing.what.contains("sched/sched_waking"));
    }
}
