//! The kernel's own counters, beside the sums.

use punctual_record::{BudgetCheck, Counter, Quota};

use super::account::Found;
use super::raw::{By, Key, spent};

/// What sums and counters have of the same threads: those whose end was seen.
pub(super) fn checks(found: &Found<'_>, quotas: &[Quota]) -> Vec<BudgetCheck> {
    let kinds: [(Counter, &[u8]); 2] = [
        (Counter::Running, &[spent::RUNNING, spent::INTERRUPTED]),
        (Counter::Ready, &[spent::READY, spent::QUOTA, spent::REAL_TIME, spent::DEADLINE]),
    ];
    let watched = || found.infos.iter().filter(|(_, info)| !info.aside && info.end_ns != 0);
    let of_threads = kinds.into_iter().enumerate().map(|(at, (counter, kinds))| {
        let ended = |key: &Key| found.infos.get(&key.id).is_some_and(|info| !info.aside && info.end_ns != 0);
        let summed_ns = found.spent(kinds, ended);
        let counted_ns = watched().map(|(_, info)| info.counted_ns[at]).sum();
        let idle_ns = match counter {
            Counter::Ready => found.spent(&[spent::READY], |key| key.by == By::Nobody && ended(key)),
            _ => 0,
        };
        BudgetCheck { counter, summed_ns, counted_ns, idle_ns }
    });
    let mut checks: Vec<BudgetCheck> = of_threads.collect();
    // The kernel counts by CPU, so only that of a single thread can be compared.
    let counted_ns: u64 = quotas.iter().map(|quota| quota.throttled_ns).sum();
    if let [summed_ns] = found.each_spent(spent::QUOTA)[..]
        && counted_ns > 0
    {
        checks.push(BudgetCheck { counter: Counter::Throttled, summed_ns, counted_ns, idle_ns: 0 });
    }
    checks
}
