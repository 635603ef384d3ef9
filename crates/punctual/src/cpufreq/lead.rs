//! How long before an activation the speed has to be raised, learned from what raising it took.

use std::time::Duration;

/// Longest lead that is believed: a governor that takes longer does not follow.
const LONGEST: Duration = Duration::from_millis(100);
/// Of every new observation below the lead, this part of the difference is taken over.
const SHARE_DOWN: u32 = 16;

/// The lead time. It goes up at once to whatever was needed, with a quarter to spare, and comes down slowly: being early costs a
/// little energy, being late a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lead(Duration);

impl Lead {
    pub(super) const fn new() -> Self {
        Self(Duration::ZERO)
    }

    /// The time to raise the speed before an activation.
    pub(super) const fn time(self) -> Duration {
        self.0
    }

    /// Takes in how long it took until the speed was there.
    pub(super) fn observe(&mut self, took: Duration) {
        let needed = took.saturating_add(took / 4).min(LONGEST);
        if needed >= self.0 {
            self.0 = needed;
        } else {
            self.0 -= (self.0 - needed) / SHARE_DOWN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_at_once_with_a_quarter_to_spare_and_down_slowly() {
        let mut lead = Lead::new();
        lead.observe(Duration::from_millis(8));
        assert_eq!(lead.time(), Duration::from_millis(10));
        lead.observe(Duration::from_millis(4));
        assert!(lead.time() < Duration::from_millis(10) && lead.time() > Duration::from_millis(9));
        for _ in 0..200 {
            lead.observe(Duration::from_millis(4));
        }
        assert!(lead.time() < Duration::from_micros(5_100), "{:?}", lead.time());
        lead.observe(Duration::from_secs(9));
        assert_eq!(lead.time(), LONGEST);
    }
}
