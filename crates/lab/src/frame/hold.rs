//! Checks whether all conditions hold: the variant's own, and those of the run.

use punctual::CpuSet;
use punctual::conditions::{Condition, Guard, Lost, Refused};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};

use super::breaks::{Look, Stretch};
use super::ledger::{Ledger, Shared};
use super::left_out::{NotKept, Spoilt};

/// The conditions that have to hold.
pub(crate) struct Hold {
    /// The variant's label.
    pub(crate) label: String,
    /// Conditions refused from the beginning: they are reported as refused, not as lost.
    pub(crate) refused: Vec<Refused>,
    /// Number of CPUs, on a virtual machine only.
    pub(crate) guest_cpus: Option<u32>,
    /// Reads the clocks.
    pub(crate) look: fn() -> Look,
}

impl Hold {
    /// For a variant of a run.
    pub(crate) fn of(ledger: &Shared<Ledger>, variant: usize, label: &str, look: fn() -> Look) -> Self {
        let ledger = ledger.open();
        let refused = ledger.held[variant].as_ref().map(|held| held.refused.clone()).unwrap_or_default();
        Self { label: label.to_owned(), refused, guest_cpus: ledger.guest_cpus, look }
    }

    /// Why the measurement since `before` does not count, if it does not. `theirs`: lost by another process.
    /// `expected_ns`: its expected duration. `largest_ns`: the largest sample.
    pub(crate) fn spoilt(
        &self,
        (guard, base): (&Guard, &Guard),
        before: &Look,
        (expected_ns, largest_ns): (u64, i64),
        theirs: &[NotKept],
    ) -> Option<Spoilt> {
        let took_ns = now_ns(Clock::Monotonic) - before.at_ns;
        let after = Look::after(took_ns.saturating_sub_unsigned(expected_ns), self.look);
        let mut lost = self.lost(guard, base);
        lost.extend(theirs.iter().cloned());
        if !lost.is_empty() {
            return Some(Spoilt::Lost(lost));
        }
        let stretch = Stretch { expected_ns, largest_ns, guest_cpus: self.guest_cpus };
        stretch.broken(before, &after).map(Spoilt::Broken)
    }

    /// The conditions of the variant (`guard`) and of the run (`base`) that no longer hold.
    pub(crate) fn lost(&self, guard: &Guard, base: &Guard) -> Vec<NotKept> {
        let mut lost = guard.lost();
        // The variant overrides this condition of the run.
        lost.extend(base.lost().into_iter().filter(|its| !guard.grants(its.condition)));
        let mut all = self.not_kept(&lost);
        all.extend(self.refused_again(guard));
        all
    }

    /// Sets lost conditions again, and returns those that still do not hold.
    pub(crate) fn renew(&self, guard: &mut Guard, base: &mut Guard) -> Vec<NotKept> {
        let lost = self.lost(guard, base);
        if lost.is_empty() {
            return lost;
        }
        let own = guard.lost();
        let of_base: Vec<Lost> = base.lost().into_iter().filter(|its| !guard.grants(its.condition)).collect();
        // A refusal now leaves the condition lost, as the next check shows.
        let _ = base.renew(&of_base);
        let _ = guard.renew(&own);
        self.lost(guard, base)
    }

    /// Lost conditions, under the variant's label.
    fn not_kept(&self, lost: &[Lost]) -> Vec<NotKept> {
        lost.iter().map(|its| NotKept::of(&self.label, its)).collect()
    }

    /// Conditions granted at first and refused in this round.
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

/// Which of these processes, each confined to `cpu`, left it while the condition set `label` was measured. They are
/// moved back if possible; if not, the next batch reports it again. Processes that have ended are ignored.
pub(crate) fn moved(label: &str, processes: &[i32], cpu: usize, whose: &str) -> Vec<NotKept> {
    let moved = |process: &i32| {
        let found = linux::affinity::affinity(*process).ok().filter(|now| *now != [cpu])?;
        let _ = linux::affinity::set_affinity(*process, &[cpu]);
        let found = format!("{} for {whose}", CpuSet::of(found));
        Some(NotKept::of(label, &Lost { condition: Condition::CPU, set: cpu.to_string(), found }))
    };
    let mut lost: Vec<NotKept> = processes.iter().filter_map(moved).collect();
    lost.dedup();
    lost
}
