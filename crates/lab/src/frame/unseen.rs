//! What a refusal of the kernel's events leaves unseen.

use punctual_record::Unseen;
use punctual_trace::Error;

/// In words, and the remedy.
#[must_use]
pub(crate) fn unseen(error: &Error) -> Unseen {
    without("single wake-ups: ", &error.to_string())
}

/// What is missing, why, and the remedy, from the text of an error.
pub(crate) fn without(what: &str, text: &str) -> Unseen {
    let (why, remedy) = text.split_once("; remedy: ").map_or((text, None), |(why, remedy)| (why, Some(remedy)));
    Unseen { what: format!("{what}{why}"), remedy: remedy.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_remedy_apart() {
        let refused = unseen(&Error::Tracefs(std::io::ErrorKind::PermissionDenied.into()));
        assert_eq!(refused.what, "single wake-ups: reading tracefs: permission denied");
        assert!(refused.remedy.unwrap().starts_with("run as root"));
        let missing = unseen(&Error::NoEvent("sched/sched_waking"));
        assert!(missing.remedy.is_none() && missing.what.contains("sched/sched_waking"));
    }
}
