//! What a refusal of the kernel's events leaves unseen.

use punctual_record::{Causes, Unseen};
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

/// Fewer wake-ups say nothing.
const FEW: u64 = 20;

/// What a CPU leaves unseen whose idle thread shows no events: a kernel may hide them since the CPU was offline once.
pub(crate) fn hidden(causes: &Causes) -> Option<Unseen> {
    (causes.wake_ups >= FEW && causes.split * 2 < causes.wake_ups).then(|| Unseen {
        what: format!(
            "{} of {} wake-ups: the kernel shows no switches of an idle CPU, as after it was offline",
            causes.wake_ups - causes.split,
            causes.wake_ups
        ),
        remedy: Some("choose another CPU, or restart the machine".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_hides_its_switches_is_named_and_a_few_losses_are_not() {
        let of = |wake_ups, split| hidden(&Causes { wake_ups, split, ..Causes::default() });
        assert!(of(1_000, 100).is_some_and(|unseen| unseen.what.starts_with("900 of 1000 wake-ups")));
        assert_eq!((of(1_000, 990), of(10, 0), of(0, 0)), (None, None, None));
    }

    #[test]
    fn a_refusal_keeps_its_remedy_apart() {
        let refused = unseen(&Error::Tracefs(std::io::ErrorKind::PermissionDenied.into()));
        assert_eq!(refused.what, "single wake-ups: reading tracefs: permission denied");
        assert!(refused.remedy.unwrap().starts_with("run as root, or "));
        let missing = unseen(&Error::NoEvent("sched/sched_waking"));
        assert!(missing.remedy.is_none() && missing.what.contains("sched/sched_waking"));
    }
}
