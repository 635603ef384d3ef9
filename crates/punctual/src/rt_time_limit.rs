//! RLIMIT_RTTIME of the process, lowered while a guard lives: the backstop of the watchdog.
//!
//! The last guard dropped restores the limit that the first one found.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::conditions::may_raise_limits;

/// Lowest soft limit, in µs.
const LEAST_SOFT_US: u64 = 4_000_000;
/// From the soft limit to the hard limit, in µs: one SIGXCPU later.
const GRACE_US: u64 = 1_000_000;

#[derive(Debug)]
struct Holders {
    count: usize,
    before: Option<(Option<u64>, Option<u64>)>,
}

static HOLDERS: Mutex<Holders> = Mutex::new(Holders { count: 0, before: None });

/// Holds the limit lowered.
#[derive(Debug)]
pub(crate) struct RtTimeLimit {
    caveat: Option<String>,
}

impl RtTimeLimit {
    /// Lowers the soft limit to `soft` (at least 4 s), unless it is as low already. Of several guards, the longest limit counts.
    pub(crate) fn hold(soft: Duration) -> Self {
        let soft_us = u64::try_from(soft.as_micros()).unwrap_or(u64::MAX).max(LEAST_SOFT_US);
        let mut holders = HOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        holders.count += 1;
        let Rlimit { current, maximum } = getrlimit(Resource::Rttime);
        let (before_soft, before_hard) = *holders.before.get_or_insert((current, maximum));
        // A limit lowered by an earlier guard may be raised again, up to the original.
        let held_us = if holders.count > 1 { current.unwrap_or(0) } else { 0 };
        let soft_us = soft_us.max(held_us);
        let hard_us = soft_us.saturating_add(GRACE_US);
        let lowered = Rlimit {
            current: Some(before_soft.map_or(soft_us, |us| us.min(soft_us))),
            maximum: if may_raise_limits() { Some(before_hard.map_or(hard_us, |us| us.min(hard_us))) } else { maximum },
        };
        let caveat = setrlimit(Resource::Rttime, lowered)
            .err()
            .map(|errno| format!("the watchdog has no backstop: setrlimit(RLIMIT_RTTIME): {errno}"));
        Self { caveat }
    }

    /// Why the limit could not be set.
    pub(crate) fn caveat(&self) -> Option<&str> {
        self.caveat.as_deref()
    }

    /// The soft limit in force.
    pub(crate) fn soft(&self) -> Option<Duration> {
        getrlimit(Resource::Rttime).current.map(Duration::from_micros)
    }
}

impl Drop for RtTimeLimit {
    fn drop(&mut self) {
        let mut holders = HOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        holders.count = holders.count.saturating_sub(1);
        if holders.count == 0
            && let Some((current, maximum)) = holders.before.take()
        {
            // Fails only if the privilege to raise the hard limit was dropped meanwhile; the soft limit can still be raised.
            if setrlimit(Resource::Rttime, Rlimit { current, maximum }).is_err() {
                let maximum = getrlimit(Resource::Rttime).maximum;
                let _ = setrlimit(Resource::Rttime, Rlimit { current: maximum, maximum });
            }
        }
    }
}
