//! The watchdog of a real-time variant ([`punctual::watchdog`]).

use std::time::Duration;

use punctual::Policy;
use punctual::watchdog::{Watchdog, WatchdogConfig};
use punctual_record::Notice;

use crate::frame::ledger::{Ledger, Shared};
use crate::frame::variant::Variant;

/// Interval of the watchdog's checks of a real-time thread. The watchdog preempts the thread it watches, so it
/// checks seldom: about once in ten thousand waits of 100 µs. The breaks between stretches keep a thread well
/// below these limits.
const WATCH: WatchdogConfig = WatchdogConfig {
    every: Duration::from_millis(800),
    window: Duration::from_millis(1600),
    busy_without_break: Duration::from_millis(1200),
    busy: Duration::from_millis(1580),
};

/// A watchdog for a variant under which the thread could monopolise a CPU. It starts before the variant is applied, so
/// that it does not inherit it.
pub(super) fn over(variant: &Variant) -> Option<Watchdog> {
    let policy = variant.conditions.get_policy().filter(Policy::is_real_time)?;
    Watchdog::over_this_thread(policy, WATCH).ok()
}

/// Ends it, and enters whether it stepped in.
pub(super) fn end(watchdog: Option<Watchdog>, variant: &Variant, ledger: &Shared<Ledger>) {
    if let Some(tripped) = watchdog.and_then(|watchdog| watchdog.tripped()) {
        let (conditions, busy_ns) = (variant.label.clone(), tripped.busy.as_nanos() as u64);
        ledger.open().notices.push(Notice::WatchdogTripped { conditions, busy_ns });
    }
}
