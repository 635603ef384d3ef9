//! A watchdog over a real-time thread. It demotes a busy loop under SCHED_FIFO or SCHED_RR before it locks up the machine.
//!
//! A [`Watchdog`] is a thread of higher priority. It reads the guarded thread's CPU clock ten times a second. If the thread was busy too
//! long without a break ([`WatchdogConfig`]), it puts it under SCHED_OTHER, and [`Watchdog::tripped`] reports that.
//! [`Watchdog::caveats`] reports a priority that the watchdog did not get.
//!
//! RLIMIT_RTTIME (getrlimit(2)) is the backstop: it limits the CPU time of a SCHED_FIFO or SCHED_RR thread without a blocking call. From
//! the soft limit on (2.5 windows: 4 s by default), the kernel sends SIGXCPU every second. That ends the process unless handled. At the
//! hard limit (1 s later) it sends SIGKILL. The watchdog trips well before. The limit belongs to the process and counts per thread. It is
//! set while any watchdog lives; the last one restores it. A lower limit stays. Without CAP_SYS_RESOURCE the hard limit is not touched,
//! since lowering it could not be undone.
//!
//! ```no_run
//! use punctual::{Applied, Conditions, Policy, Watchdog, WatchdogConfig};
//!
//! let policy = Policy::Fifo(40);
//! let watchdog = Watchdog::over_this_thread(policy, WatchdogConfig::default())?;
//! let Applied { guard, refused } = Conditions::new().policy(policy).apply();
//! assert!(refused.is_empty(), "{refused:?}");
//! // ... time-critical work ...
//! drop(guard);
//! if let Some(tripped) = watchdog.tripped() {
//!     eprintln!("busy for {:?} within {:?}, demoted to SCHED_OTHER", tripped.busy, tripped.within);
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use punctual_linux::clock;
use punctual_linux::sched::{self, Attributes};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::conditions::{Applied, Conditions, may_raise_limits};
use crate::policy::Policy;

/// When a watchdog trips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchdogConfig {
    /// Interval of the checks, at least 1 ms.
    pub every: Duration,
    /// The time judged by each check, rounded up to a multiple of `every`.
    pub window: Duration,
    /// CPU time within the window from which a thread without a single wait is too busy.
    pub busy_without_break: Duration,
    /// CPU time within the window from which any thread is too busy.
    pub busy: Duration,
}

impl Default for WatchdogConfig {
    /// Checks every 100 ms and judges 1.6 s. It allows 1.2 s without a break, since RT throttling (5 %) and a hypervisor take a share of the
    /// window. It allows 1.58 s with breaks; [`crate::RtThrottle`] stays well below.
    fn default() -> Self {
        Self {
            every: Duration::from_millis(100),
            window: Duration::from_millis(1600),
            busy_without_break: Duration::from_millis(1200),
            busy: Duration::from_millis(1580),
        }
    }
}

/// The measurement on which a watchdog tripped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tripped {
    /// CPU time of the guarded thread.
    pub busy: Duration,
    /// The time in which it was used.
    pub within: Duration,
}

/// Guards one thread until it is dropped.
#[derive(Debug)]
#[must_use = "the watchdog stops when it is dropped"]
pub struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    runs_under: Option<Policy>,
    caveats: Vec<String>,
    _limit: RtTimeLimit,
}

#[derive(Debug, Default)]
struct Shared {
    stop: Mutex<bool>,
    wake: Condvar,
    /// Busy and elapsed ns; elapsed is 0 until the watchdog trips.
    tripped_busy_ns: AtomicU64,
    tripped_within_ns: AtomicU64,
    demotion_failed: AtomicBool,
}

impl Watchdog {
    /// Guards the calling thread. Call it *before* the thread enters a real-time policy, with that policy.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn over_this_thread(policy: Policy, config: WatchdogConfig) -> std::io::Result<Self> {
        Self::over(sched::current_thread_id(), policy, config)
    }

    /// Guards thread `tid` of this process (`gettid(2)`), which is or will be under `policy`.
    ///
    /// # Errors
    /// No thread could be started, or this process has no thread `tid`.
    pub fn over(tid: i32, policy: Policy, config: WatchdogConfig) -> std::io::Result<Self> {
        clock::cpu_time_of_thread_ns(tid).map_err(|error| error.source)?;
        let guarded_cpus = sched::affinity(tid).unwrap_or_default();
        let shared = Arc::new(Shared::default());
        let (tell, told) = std::sync::mpsc::channel();
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("watchdog".into()).spawn(move || {
            let mut caveats = Vec::new();
            let under = take_position(policy, &guarded_cpus, &mut caveats);
            // The receiver waits for this, so the send succeeds.
            let _ = tell.send((under, caveats));
            watch(tid, config, &for_thread);
        })?;
        let (runs_under, mut caveats) = told.recv().unwrap_or_default();
        let limit = RtTimeLimit::hold(config.window.saturating_mul(5) / 2);
        caveats.extend(limit.caveat.clone());
        Ok(Self { shared, thread: Some(thread), runs_under, caveats, _limit: limit })
    }

    /// The measurement on which it put the guarded thread under SCHED_OTHER; `None` before.
    #[must_use]
    pub fn tripped(&self) -> Option<Tripped> {
        let within = self.shared.tripped_within_ns.load(Ordering::Acquire);
        let busy = self.shared.tripped_busy_ns.load(Ordering::Relaxed);
        (within > 0).then(|| Tripped { busy: Duration::from_nanos(busy), within: Duration::from_nanos(within) })
    }

    /// Whether it tripped but the kernel refused SCHED_OTHER: a seccomp filter, or another owner.
    #[must_use]
    pub fn demotion_failed(&self) -> bool {
        self.shared.demotion_failed.load(Ordering::Acquire)
    }

    /// The watchdog's own policy.
    #[must_use]
    pub const fn runs_under(&self) -> Option<Policy> {
        self.runs_under
    }

    /// Weaknesses: a priority that it did not get, a backstop that could not be set. Empty: none.
    #[must_use]
    pub fn caveats(&self) -> &[String] {
        &self.caveats
    }

    /// The soft limit of RLIMIT_RTTIME, after which the kernel sends SIGXCPU.
    #[must_use]
    pub fn backstop(&self) -> Option<Duration> {
        getrlimit(Resource::Rttime).current.map(Duration::from_micros)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *lock(&self.shared.stop) = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread never panics; if it did, there would be nothing left to stop.
            let _ = thread.join();
        }
    }
}

fn lock(stop: &Mutex<bool>) -> MutexGuard<'_, bool> {
    stop.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts the watchdog's thread above the guarded one, and on other CPUs if possible.
fn take_position(guarded: Policy, guarded_cpus: &[usize], caveats: &mut Vec<String>) -> Option<Policy> {
    // The watchdog inherited its creator's CPUs; on others it disturbs less. The kernel drops CPUs outside the cpuset, and
    // refuses an empty rest: the watchdog then stays.
    let elsewhere: Vec<usize> = (0..sched::MOST_CPUS.min(8192)).filter(|cpu| !guarded_cpus.contains(cpu)).collect();
    let _ = sched::set_affinity(0, &elsewhere);
    let priority = match guarded {
        Policy::Fifo(priority) | Policy::RoundRobin(priority) => priority.saturating_add(1).min(99),
        Policy::Deadline { .. } => 99,
        Policy::Other | Policy::Batch | Policy::Idle => return Conditions::inspect().get_policy(),
    };
    // The thread ends with the watchdog, so nothing is restored.
    let take = |policy| {
        let Applied { guard, refused } = Conditions::new().policy(policy).allow_irreversible().apply();
        guard.leave_in_force();
        refused.into_iter().next()
    };
    let equal = guarded.priority().unwrap_or(99).min(99);
    if let Some(refused) = take(Policy::Fifo(priority)) {
        if take(Policy::Fifo(equal)).is_none() {
            caveats.push(format!(
                "the watchdog runs under fifo:{equal} like the guarded thread and cannot preempt it on the same CPU: {refused}"
            ));
        } else {
            caveats.push(format!("the watchdog runs under SCHED_OTHER and may be too late: {refused}"));
        }
    } else if guarded.priority() == Some(priority) {
        caveats.push(format!(
            "the guarded thread has the highest priority, {priority}: the watchdog cannot preempt it on the same CPU"
        ));
    }
    Conditions::inspect().get_policy()
}

/// One reading of the guarded thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    /// Before and after the reading, which may be interrupted for long.
    at: [Instant; 2],
    cpu_ns: i64,
    /// Waits of the thread (`voluntary_ctxt_switches`); `None` if /proc is unreadable.
    waits: Option<u64>,
}

fn look(tid: i32) -> Option<Look> {
    let before = Instant::now();
    let cpu_ns = clock::cpu_time_of_thread_ns(tid).ok()?;
    let at = [before, Instant::now()];
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).ok();
    let waits = status.as_deref().and_then(|status| {
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
    });
    Some(Look { at, cpu_ns, waits })
}

/// Checks until stopped, until the guarded thread ends, or until it has tripped.
fn watch(tid: i32, config: WatchdogConfig, shared: &Shared) {
    let every = config.every.max(Duration::from_millis(1));
    let kept = config.window.as_nanos().div_ceil(every.as_nanos()).clamp(1, 10_000) as usize;
    let mut looks = std::collections::VecDeque::with_capacity(kept + 1);
    let mut next = Instant::now() + every;
    loop {
        if wait_until(next, shared) {
            return;
        }
        // Absolute, so that it does not drift; without a burst after a delay, such as suspend.
        next = (next + every).max(Instant::now());
        let Some(now) = look(tid) else { return };
        looks.push_back(now);
        if looks.len() <= kept {
            continue;
        }
        let Some(then) = looks.pop_front() else { continue };
        if let Some(tripped) = too_busy(then, now, config)
            && is_real_time(tid)
        {
            let failed = demote(tid).is_err();
            shared.demotion_failed.store(failed, Ordering::Release);
            shared.tripped_busy_ns.store(tripped.busy.as_nanos() as u64, Ordering::Relaxed);
            shared.tripped_within_ns.store(tripped.within.as_nanos() as u64, Ordering::Release);
            if !failed {
                return;
            }
        }
    }
}

/// Waits until `next`. True: the watchdog should stop.
fn wait_until(next: Instant, shared: &Shared) -> bool {
    let mut stop = lock(&shared.stop);
    while !*stop {
        let left = next.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        stop = shared.wake.wait_timeout(stop, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    true
}

/// Judges two readings a window apart.
fn too_busy(then: Look, now: Look, config: WatchdogConfig) -> Option<Tripped> {
    // The CPU time is of this long at most.
    let within = now.at[1].saturating_duration_since(then.at[0]);
    let busy = Duration::from_nanos(u64::try_from(now.cpu_ns - then.cpu_ns).unwrap_or(0));
    // A late reading covers more than the window, so the limits grow.
    let scaled = |limit: Duration| limit.mul_f64((within.as_secs_f64() / config.window.as_secs_f64()).max(1.0));
    let without_break = match (then.waits, now.waits) {
        (Some(then), Some(now)) => then == now,
        _ => false,
    };
    let limit = if without_break { config.busy_without_break.min(config.busy) } else { config.busy };
    (busy >= scaled(limit)).then_some(Tripped { busy, within })
}

fn is_real_time(tid: i32) -> bool {
    // If unreadable, assume real-time: a needless demotion harms less than a missing one.
    sched::attributes(tid)
        .map_or(true, |attributes| matches!(attributes.policy, sched::FIFO | sched::RR | sched::DEADLINE))
}

fn demote(tid: i32) -> punctual_linux::Result<()> {
    let nice = sched::nice(tid).unwrap_or(0);
    // SCHED_RESET_ON_FORK stays set: clearing it takes privilege.
    sched::set_attributes(
        tid,
        &Attributes { policy: sched::OTHER, nice, flags: sched::RESET_ON_FORK, ..Attributes::default() },
    )
}

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
    /// Why the limit could not be set.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn looks(busy_ms: u64, within_ms: u64, waits: (Option<u64>, Option<u64>)) -> (Look, Look) {
        let at = Instant::now();
        (
            Look { at: [at; 2], cpu_ns: 0, waits: waits.0 },
            Look { at: [at + Duration::from_millis(within_ms); 2], cpu_ns: busy_ms as i64 * 1_000_000, waits: waits.1 },
        )
    }

    fn trips(busy_ms: u64, within_ms: u64, waits: (Option<u64>, Option<u64>)) -> bool {
        let (then, now) = looks(busy_ms, within_ms, waits);
        too_busy(then, now, WatchdogConfig::default()).is_some()
    }

    #[test]
    fn judges_breaks_and_share() {
        assert!(trips(1200, 1600, (Some(7), Some(7))));
        assert!(!trips(1199, 1600, (Some(7), Some(7))));
        assert!(!trips(1530, 1600, (Some(7), Some(30))));
        assert!(trips(1590, 1600, (Some(7), Some(8))));
        // Unknown waits: judged by the limit with breaks.
        assert!(!trips(1200, 1600, (None, None)));
        assert!(trips(1590, 1600, (None, Some(3))));
        // A late reading: the limits grow.
        assert!(!trips(1600, 16_000, (Some(7), Some(7))));
        assert!(trips(16_000, 16_000, (Some(7), Some(7))));
    }

    #[test]
    fn a_reading_that_takes_long_is_not_taken_for_a_busy_thread() {
        let (mut then, mut now) = looks(1600, 1600, (Some(7), Some(30)));
        assert!(too_busy(then, now, WatchdogConfig::default()).is_some());
        // The watchdog had no CPU after the first reading, or before it noted the time of the second.
        then.at[0] -= Duration::from_millis(500);
        assert_eq!(too_busy(then, now, WatchdogConfig::default()), None);
        then.at[0] = then.at[1];
        now.at[1] += Duration::from_millis(500);
        assert_eq!(too_busy(then, now, WatchdogConfig::default()), None);
    }

    proptest! {
        #[test]
        fn who_breathes_as_advised_is_never_taken_for_busy(bursts in 20_u64..200) {
            let (busy, rest) = (bursts * 50_000, bursts * 2500);
            let within = (busy + rest) / 1000;
            prop_assert!(!trips(busy / 1000, within.max(1600), (Some(0), Some(bursts))));
        }
    }
}
