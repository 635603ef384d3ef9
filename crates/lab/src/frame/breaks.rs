//! Why a batch does not count ([`Spoilt`]): time broke during it ([`Break`]), or a condition was lost (`Hold`).
//!
//! Time breaks when the wall clock is set, or when the process or the machine does not run. A break needs evidence:
//! lateness alone is none. A late wake-up on a busy machine is a sample like any other.
//!
//! - *Stepped*: `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` changed. NTP slews both alike, so only a clock step changes
//!   it.
//! - *Suspended*: `CLOCK_BOOTTIME` minus `CLOCK_MONOTONIC` changed.
//! - *Stopped*: SIGCONT arrived, which ends a stop (SIGSTOP, Ctrl-Z). The program installs a handler that sets
//!   [`continued`].
//! - *Paused*: on a virtual machine, a sample of a second or more. For most of it the thread was not runnable and the
//!   CPUs were idle. A thread kept off its CPU by other threads, throttling or steal is runnable. If its timer is
//!   delayed, a CPU is busy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use punctual::CpuSet;
use punctual::conditions::{Applied, Condition, Guard, Lost, Refused, Value};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{Hint, PauseCause, remedy};

/// The smallest gap that can be a pause of the whole machine.
const LEAST_PAUSE_NS: i64 = 1_000_000_000;
/// A stretch that takes this much longer than expected may contain a stop. The SIGCONT handler, on another thread,
/// then gets time to run.
const SUSPECT_NS: i64 = 20_000_000;
/// The time given to the handler.
const GRACE: Duration = Duration::from_millis(10);
/// The rounding error between two clocks, ns.
const ROUNDING_NS: i64 = 1_000;
/// Pairs of readings of two clocks; the closest pair counts.
const TRIES: u32 = 3;

static CONTINUED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Set by the SIGCONT handler.
#[must_use]
pub fn continued() -> Arc<AtomicBool> {
    Arc::clone(&CONTINUED)
}

/// A break in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// The wall clock was stepped forward by this many ns, or back.
    Stepped {
        /// The step.
        by_ns: i64,
    },
    /// Something stood still.
    Paused {
        /// What stood still.
        cause: PauseCause,
        /// About how long it stood still.
        gap_ns: u64,
    },
}

/// The offset of a clock from `CLOCK_MONOTONIC`, between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// Lower bound.
    pub(crate) least_ns: i64,
    /// Upper bound.
    pub(crate) most_ns: i64,
}

impl Offset {
    /// Reads the offset from the closest of several pairs.
    #[must_use]
    pub fn read(clock: Clock) -> Self {
        let read = |_| {
            let before = now_ns(Clock::Monotonic);
            let reading = now_ns(clock);
            let after = now_ns(Clock::Monotonic);
            (after - before, Self { least_ns: reading - after, most_ns: reading - before })
        };
        let closest = (0..TRIES).map(read).min_by_key(|(wide, _)| *wide);
        closest.map_or(Self { least_ns: 0, most_ns: 0 }, |(_, offset)| offset)
    }

    /// The middle of the bounds.
    #[must_use]
    pub const fn ns(self) -> i64 {
        self.least_ns + (self.most_ns - self.least_ns) / 2
    }

    /// The change since another reading; `None` if it is within the uncertainty of both.
    #[must_use]
    pub const fn changed_to(self, now: Self) -> Option<i64> {
        let apart = now.least_ns > self.most_ns + ROUNDING_NS || now.most_ns < self.least_ns - ROUNDING_NS;
        if apart { Some(now.ns() - self.ns()) } else { None }
    }
}

/// One reading of all clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// `CLOCK_MONOTONIC`.
    pub at_ns: i64,
    /// The offset of `CLOCK_REALTIME`.
    pub realtime: Offset,
    /// The offset of `CLOCK_BOOTTIME`.
    pub boottime: Offset,
    /// SIGCONT arrived since the previous reading.
    pub continued: bool,
    /// Total idle time of all CPUs so far.
    pub(crate) idle_ns: Option<u64>,
    /// Time that this thread has been runnable without running so far.
    pub(crate) delayed_ns: Option<u64>,
}

impl Look {
    /// Reads the clocks now.
    pub(crate) fn now() -> Self {
        Self {
            continued: CONTINUED.swap(false, Ordering::Relaxed),
            idle_ns: idle_ns(),
            delayed_ns: linux::clock::thread_run_delay_ns(),
            boottime: Offset::read(Clock::Boottime),
            realtime: Offset::read(Clock::Realtime),
            at_ns: now_ns(Clock::Monotonic),
        }
    }

    /// Reads the clocks after a stretch that took `longer_ns` longer than expected. After a long delay, a pending SIGCONT
    /// handler gets time to run first.
    pub(crate) fn after(longer_ns: i64, look: fn() -> Self) -> Self {
        if longer_ns >= SUSPECT_NS {
            std::thread::sleep(GRACE);
        }
        look()
    }
}

/// The measurement between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Its expected duration.
    pub(crate) expected_ns: u64,
    /// The largest sample.
    pub(crate) largest_ns: i64,
    /// Number of CPUs on a virtual machine. Other machines are not paused.
    pub(crate) guest_cpus: Option<u32>,
}

impl Stretch {
    /// The break between two readings, if there was one.
    pub(crate) fn broken(&self, before: &Look, after: &Look) -> Option<Break> {
        let elapsed_ns = after.at_ns - before.at_ns;
        let asleep_ns = before.boottime.changed_to(after.boottime).unwrap_or(0);
        if asleep_ns != 0 {
            return Some(Break::Paused { cause: PauseCause::Suspended, gap_ns: asleep_ns.unsigned_abs() });
        }
        if after.continued {
            let gap_ns = elapsed_ns.unsigned_abs().saturating_sub(self.expected_ns);
            return Some(Break::Paused { cause: PauseCause::Stopped, gap_ns });
        }
        if let Some(by_ns) = before.realtime.changed_to(after.realtime) {
            return Some(Break::Stepped { by_ns });
        }
        let gap_ns = self.largest_ns.unsigned_abs();
        self.was_paused(before, after, elapsed_ns).then_some(Break::Paused { cause: PauseCause::Machine, gap_ns })
    }

    /// Implements the rule for *Paused* in the module documentation.
    fn was_paused(&self, before: &Look, after: &Look, elapsed_ns: i64) -> bool {
        let since = |pick: fn(&Look) -> Option<u64>| i64::try_from(pick(after)?.saturating_sub(pick(before)?)).ok();
        let known = self.guest_cpus.zip(since(|look| look.idle_ns)).zip(since(|look| look.delayed_ns));
        let Some(((cpus, idle_ns), delayed_ns)) = known else { return false };
        let busy_ns = elapsed_ns.saturating_mul(i64::from(cpus)).saturating_sub(idle_ns);
        let half = self.largest_ns / 2;
        self.largest_ns >= LEAST_PAUSE_NS && busy_ns < half && delayed_ns < half
    }
}

/// The second figure of /proc/uptime, which the kernel counts in hundredths of a second.
fn idle_ns() -> Option<u64> {
    let seconds: f64 = std::fs::read_to_string("/proc/uptime").ok()?.split_whitespace().nth(1)?.parse().ok()?;
    Some((seconds * 1e9) as u64)
}

/// A condition that was set and did not hold during a measurement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{condition} was set to {set}, and was found to be {found} while measuring; {remedy}")]
pub struct NotKept {
    /// Label of the condition set.
    pub conditions: String,
    /// The condition.
    pub condition: String,
    /// The value set.
    pub set: String,
    /// The value found.
    pub found: String,
    /// The remedy.
    pub remedy: Hint,
}

impl NotKept {
    /// A lost condition of the condition set `label`.
    #[must_use]
    pub fn new(conditions: &str, lost: &Lost) -> Self {
        Self {
            conditions: conditions.into(),
            condition: lost.condition.to_string(),
            set: lost.set.to_string(),
            found: lost.found.clone(),
            remedy: remedy::if_lost(&lost.set).into(),
        }
    }

    /// Whether both are the same setting of the same condition set.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        (&self.conditions, &self.condition, &self.set) == (&other.conditions, &other.condition, &other.set)
    }
}

/// Why a batch does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Spoilt {
    /// Conditions were lost; there is at least one.
    Lost(Vec<NotKept>),
    /// Time broke.
    Broken(Break),
}

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
    /// Why the measurement since `before` does not count, if it does not. `theirs`: lost by another process.
    /// `expected_ns`: its expected duration. `largest_ns`: the largest sample.
    pub(crate) fn spoilt(
        &self,
        (applied, base): (&Applied, &Guard),
        before: &Look,
        (expected_ns, largest_ns): (u64, i64),
        theirs: &[NotKept],
    ) -> Option<Spoilt> {
        let took_ns = now_ns(Clock::Monotonic) - before.at_ns;
        let after = Look::after(took_ns.saturating_sub_unsigned(expected_ns), self.look);
        let mut lost = self.lost(applied, base);
        lost.extend(theirs.iter().cloned());
        if !lost.is_empty() {
            return Some(Spoilt::Lost(lost));
        }
        let stretch = Stretch { expected_ns, largest_ns, guest_cpus: self.guest_cpus };
        stretch.broken(before, &after).map(Spoilt::Broken)
    }

    /// The conditions of the variant (`applied`) and of the run (`base`) that no longer hold.
    pub(crate) fn lost(&self, applied: &Applied, base: &Guard) -> Vec<NotKept> {
        let guard = &applied.guard;
        let mut lost = guard.lost();
        // The variant overrides this condition of the run.
        lost.extend(base.lost().into_iter().filter(|lost| !guard.grants(lost.condition)));
        let mut all: Vec<NotKept> = lost.iter().map(|lost| NotKept::new(&self.label, lost)).collect();
        all.extend(self.refused_again(&applied.refused));
        all
    }

    /// Sets lost conditions again, and returns those that still do not hold.
    pub(crate) fn renew(&self, applied: &mut Applied, base: &mut Guard) -> Vec<NotKept> {
        let lost = self.lost(applied, base);
        if lost.is_empty() {
            return lost;
        }
        let guard = &mut applied.guard;
        let own = guard.lost();
        let of_base: Vec<Lost> = base.lost().into_iter().filter(|lost| !guard.grants(lost.condition)).collect();
        // A refusal now leaves the condition lost, as the next check shows.
        let _ = base.renew(&of_base);
        let _ = guard.renew(&own);
        self.lost(applied, base)
    }

    /// Conditions granted at first and refused in this round.
    fn refused_again(&self, refused: &[Refused]) -> Vec<NotKept> {
        let known = |condition| self.refused.iter().any(|refused| refused.condition == condition);
        let fresh = refused.iter().filter(|refused| !known(refused.condition));
        let not_kept = |refused: &Refused| NotKept {
            conditions: self.label.clone(),
            condition: refused.condition.to_string(),
            set: refused.value(),
            found: format!("refused ({})", refused.why),
            remedy: remedy::of_refused(refused),
        };
        fresh.map(not_kept).collect()
    }
}

/// Which of these processes, each confined to `cpu`, left it while the condition set `label` was measured. They are
/// moved back if possible; if not, the next batch reports it again. Processes that have ended are ignored.
pub(crate) fn moved_away(label: &str, processes: &[i32], cpu: usize, whose: &str) -> Vec<NotKept> {
    let moved = |process: &i32| {
        let found = linux::sched::affinity(*process).ok().filter(|now| *now != [cpu])?;
        let _ = linux::sched::set_affinity(*process, &[cpu]);
        let found = format!("{} for {whose}", CpuSet::from_iter(found));
        let set = Value::Cpu(CpuSet::from_iter([cpu]));
        Some(NotKept::new(label, &Lost { condition: Condition::CPU, set, found }))
    };
    let mut lost: Vec<NotKept> = processes.iter().filter_map(moved).collect();
    lost.dedup();
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn look(at_ns: i64) -> Look {
        let near = |ns| Offset { least_ns: ns - 40, most_ns: ns + 40 };
        let (realtime, boottime) = (near(1_700_000_000 * SECOND), near(0));
        Look { at_ns, realtime, boottime, continued: false, idle_ns: Some(0), delayed_ns: Some(0) }
    }

    fn shifted(offset: Offset, by_ns: i64) -> Offset {
        Offset { least_ns: offset.least_ns + by_ns, most_ns: offset.most_ns + by_ns }
    }

    const STRETCH: Stretch = Stretch { expected_ns: 200_000_000, largest_ns: 60_000, guest_cpus: Some(2) };

    #[test]
    fn a_step_is_told_from_the_spread_of_the_readings() {
        let (before, after) = (look(0), look(SECOND));
        let stepped = |by_ns| Look { realtime: shifted(after.realtime, by_ns), ..after };
        assert_eq!(STRETCH.broken(&before, &after), None);
        assert_eq!(STRETCH.broken(&before, &stepped(1_000)), None, "within rounding");
        for by_ns in [-6 * SECOND, -2_000, 2_000, SECOND] {
            assert_eq!(STRETCH.broken(&before, &stepped(by_ns)), Some(Break::Stepped { by_ns }));
        }
        // An interrupted reading has wider bounds.
        let vague = Offset { least_ns: before.realtime.least_ns - 5_000_000, ..before.realtime };
        assert_eq!(STRETCH.broken(&Look { realtime: vague, ..before }, &stepped(-4_000_000)), None);
    }

    #[test]
    fn a_suspend_moves_both_clocks_and_is_no_step() {
        let (before, after) = (look(0), look(SECOND));
        let woke = Look {
            realtime: shifted(after.realtime, 90 * SECOND),
            boottime: shifted(after.boottime, 90 * SECOND),
            ..after
        };
        assert_eq!(
            STRETCH.broken(&before, &woke),
            Some(Break::Paused { cause: PauseCause::Suspended, gap_ns: 90_000_000_000 })
        );
    }

    #[test]
    fn a_stop_is_told_by_its_signal_and_lateness_alone_is_no_break() {
        let (before, after) = (look(0), Look { idle_ns: Some(1_500_000_000), ..look(3 * SECOND) });
        let late = Stretch { largest_ns: 2_800_000_000, ..STRETCH };
        let went_on = Look { continued: true, ..after };
        assert_eq!(
            late.broken(&before, &went_on),
            Some(Break::Paused { cause: PauseCause::Stopped, gap_ns: 2_800_000_000 })
        );
        assert_eq!(late.broken(&before, &after), None, "a CPU was busy: that is what kept it waiting");
    }

    #[test]
    fn a_pause_needs_an_idle_virtual_machine_and_a_thread_that_was_not_runnable() {
        let late = Stretch { largest_ns: 3 * SECOND, ..STRETCH };
        let idle = Look { idle_ns: Some(6_300_000_000), ..look(3_200_000_000) };
        assert_eq!(
            late.broken(&look(0), &idle),
            Some(Break::Paused { cause: PauseCause::Machine, gap_ns: 3_000_000_000 })
        );
        let throttled = Look { delayed_ns: Some(2_900_000_000), ..idle };
        let unknown = Look { delayed_ns: None, ..idle };
        let real_machine = Stretch { guest_cpus: None, ..late };
        let short = Stretch { largest_ns: 900_000_000, ..late };
        assert_eq!(late.broken(&look(0), &throttled), None);
        assert_eq!(late.broken(&look(0), &unknown), None);
        assert_eq!(real_machine.broken(&look(0), &idle), None);
        assert_eq!(short.broken(&look(0), &idle), None);
    }

    #[test]
    fn nothing_is_seen_where_nothing_happened() {
        // A machine that has just booted sets its clock, once.
        punctual_testing::undisturbed(|_| {
            let before = Look::now();
            std::thread::sleep(Duration::from_millis(2));
            let after = Look::after(0, Look::now);
            assert!(after.at_ns > before.at_ns);
            // Another test of this process may have set the flag.
            let quiet = Look { continued: false, ..after };
            let seen = STRETCH.broken(&before, &quiet);
            seen.map_or(Ok(()), |seen| Err(punctual_testing::Disturbed(format!("{seen:?}"))))
        });
    }
}
