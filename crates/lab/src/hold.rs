//! Whether all conditions of a variant hold: its own, those of the run, and the governor that was set for it.

use std::sync::Arc;

use punctual::conditions::{Condition, CpuSet, Guard, Lost, Refused};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};

use crate::breaks::{Look, Stretch};
use crate::governor::SetGovernor;
use crate::ledger::{SharedLedger, open};
use crate::left_out::{NotKept, Spoilt};

/// What has to hold.
pub(crate) struct Hold {
    /// The variant's label.
    pub(crate) label: String,
    /// What was refused from the beginning: it is reported as that, and not lost.
    pub(crate) refused: Vec<Refused>,
    /// The governor that was set.
    pub(crate) governor: Option<Arc<SetGovernor>>,
    /// CPUs of the machine, where it is a virtual one.
    pub(crate) guest_cpus: Option<u32>,
    /// How the clocks are looked at.
    pub(crate) look: fn() -> Look,
}

impl Hold {
    /// For a variant of a run.
    pub(crate) fn of(ledger: &SharedLedger, variant: usize, label: &str, look: fn() -> Look) -> Self {
        let ledger = open(ledger);
        let refused = ledger.held[variant].as_ref().map(|held| held.refused.clone()).unwrap_or_default();
        let (governor, guest_cpus) = (ledger.governor.clone(), ledger.guest_cpus);
        Self { label: label.to_owned(), refused, governor, guest_cpus, look }
    }

    /// Why what was measured since `before` does not count, if it does not: `theirs` was lost by another process. `expected_ns`: how
    /// long it should have taken; `largest_ns`: the largest sample.
    pub(crate) fn spoilt(
        &self,
        (guard, base): (&Guard, &Guard),
        before: &Look,
        (expected_ns, largest_ns): (u64, i64),
        theirs: &[Lost],
    ) -> Option<Spoilt> {
        let took_ns = now_ns(Clock::Monotonic) - before.at_ns;
        let after = Look::after(took_ns.saturating_sub_unsigned(expected_ns), self.look);
        let mut lost = self.lost(guard, base);
        lost.extend(self.not_kept(theirs));
        if !lost.is_empty() {
            return Some(Spoilt::Lost(lost));
        }
        let stretch = Stretch { expected_ns, largest_ns, guest_cpus: self.guest_cpus };
        stretch.broken(before, &after).map(Spoilt::Broken)
    }

    /// What does not hold any more of the variant's conditions (`guard`) and the run's (`base`).
    pub(crate) fn lost(&self, guard: &Guard, base: &Guard) -> Vec<NotKept> {
        let mut lost = guard.lost();
        // What the variant sets to something else is not the run's any more.
        lost.extend(base.lost().into_iter().filter(|its| !guard.grants(its.condition)));
        let mut all = self.not_kept(&lost);
        all.extend(self.refused_again(guard));
        all.extend(self.governor.as_ref().and_then(|governor| governor.lost(&self.label)));
        all
    }

    /// Sets again what was lost; what still does not hold.
    pub(crate) fn renew(&self, guard: &mut Guard, base: &mut Guard) -> Vec<NotKept> {
        let lost = self.lost(guard, base);
        if lost.is_empty() {
            return lost;
        }
        let own = guard.lost();
        let of_base: Vec<Lost> = base.lost().into_iter().filter(|its| !guard.grants(its.condition)).collect();
        // What is refused now is still lost: the next look tells.
        let _ = base.renew(&of_base);
        let _ = guard.renew(&own);
        if let Some(governor) = &self.governor {
            governor.renew();
        }
        self.lost(guard, base)
    }

    /// Lost conditions, under the variant's label.
    fn not_kept(&self, lost: &[Lost]) -> Vec<NotKept> {
        lost.iter().map(|its| NotKept::of(&self.label, its)).collect()
    }

    /// What was granted at first and is refused in this round.
    fn refused_again(&self, guard: &Guard) -> Vec<NotKept> {
        let known = |condition| self.refused.iter().any(|its| its.condition == condition);
        let fresh = guard.refused().iter().filter(|its| !known(its.condition));
        let not_kept = |its: &Refused| NotKept {
            conditions: self.label.clone(),
            condition: its.condition.to_string(),
            set: its.asked.clone(),
            found: format!("refused ({})", its.why),
            remedy: its.remedy.clone(),
        };
        fresh.map(not_kept).collect()
    }
}

/// Which of these processes, each confined to `cpu`, are not any more. They are moved back where that can be; where it cannot, the next
/// batch tells again. A process that has ended is not told of here.
pub(crate) fn moved(processes: &[i32], cpu: usize, whose: &str) -> Vec<Lost> {
    let moved = |process: &i32| {
        let found = linux::affinity::affinity(*process).ok().filter(|now| *now != [cpu])?;
        let _ = linux::affinity::set_affinity(*process, &[cpu]);
        let found = format!("{} for {whose}", CpuSet::of(found));
        Some(Lost { condition: Condition::Cpus, set: cpu.to_string(), found })
    };
    let mut lost: Vec<Lost> = processes.iter().filter_map(moved).collect();
    lost.dedup();
    lost
}
