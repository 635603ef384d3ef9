//! The same without programs in the kernel: `/proc/TID/schedstat` counts the time on a CPU and that of waiting for one. What a thread does
//! otherwise is looked at now and then. Nobody's name is known, nor how often (`times` is 0), and threads that live between two looks are not
//! seen.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::time::Instant;

use punctual_linux::syscall_name::name_of;
use punctual_record::{Budget, BudgetSource, Spent, Thing, ThreadBudget, ThreadPolicy, TimePart};

use super::groups::Groups;
use super::kind::of_state;
use crate::names;

/// Threads that are looked at.
const MOST: usize = 256;

/// What the files have shown so far.
#[derive(Debug)]
pub struct Counted {
    threads: BTreeMap<i32, Thread>,
    groups: Groups,
}

/// A thread.
#[derive(Debug)]
struct Thread {
    name: String,
    pid: u32,
    prio: i32,
    seen: Instant,
    last: Instant,
    before: [u64; 2],
    now: [u64; 2],
    /// How often it was seen in this state.
    states: BTreeMap<(Spent, Option<String>), u64>,
}

impl Counted {
    /// Begins with these threads.
    #[must_use]
    pub fn begin(tids: &[i32]) -> Self {
        let mut counted = Self { threads: BTreeMap::new(), groups: Groups::new() };
        counted.look(tids);
        counted
    }

    /// Looks at these threads. One that was not seen before began since.
    pub fn look(&mut self, tids: &[i32]) {
        let first = self.threads.is_empty();
        for tid in tids {
            let Some(counters) = counters(*tid) else { continue };
            if !self.threads.contains_key(tid) {
                let Some(new) =
                    Thread::new(*tid, if first { counters } else { [0; 2] }).filter(|_| self.threads.len() < MOST)
                else {
                    continue;
                };
                self.threads.insert(*tid, new);
            }
            if let Some(thread) = self.threads.get_mut(tid) {
                thread.now = counters;
                thread.last = Instant::now();
                // It may have executed another program.
                thread.name = names::thread(*tid).map_or_else(|| thread.name.clone(), |(name, _)| name.to_string());
                thread.see(*tid);
            }
        }
        self.groups.look(
            self.threads.values().map(|thread| thread.pid).collect::<std::collections::BTreeSet<_>>().into_iter(),
        );
    }

    /// Where the time went, as far as the files say.
    #[must_use]
    pub fn end(self) -> Budget {
        let of_pid = |pid| self.threads.values().filter(|thread| thread.pid == pid).count() as u64;
        let quotas = self.groups.quotas(of_pid);
        let mut threads: Vec<ThreadBudget> =
            self.threads.iter().map(|(tid, thread)| thread.budget(*tid, &self.groups)).collect();
        threads.sort_by_key(|thread| {
            std::cmp::Reverse(
                thread.parts.iter().filter(|part| part.spent != Spent::Asleep).map(|part| part.ns).sum::<u64>(),
            )
        });
        threads.truncate(64);
        Budget { source: BudgetSource::Files, threads, quotas, ..Budget::default() }
    }
}

impl Thread {
    fn new(tid: i32, before: [u64; 2]) -> Option<Self> {
        let (name, prio) = names::thread(tid)?;
        let pid = names::process_of(tid)?;
        let now = Instant::now();
        Some(Self {
            name: name.to_string(),
            pid,
            prio,
            seen: now,
            last: now,
            before,
            now: before,
            states: BTreeMap::new(),
        })
    }

    /// What it does at this moment, where it does not run.
    fn see(&mut self, tid: i32) {
        let stat = read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('R');
        if matches!(state, 'R' | 'Z' | 'X') {
            return;
        }
        let text = read_to_string(format!("/proc/{tid}/syscall")).unwrap_or_default();
        let number =
            text.split_whitespace().next().and_then(|number| number.parse::<i64>().ok()).filter(|number| *number >= 0);
        let call = number.map(name_of);
        let function = read_to_string(format!("/proc/{tid}/wchan")).unwrap_or_default();
        let kind = of_state(state, call.as_deref(), function.trim());
        *self.states.entry((kind, call)).or_default() += 1;
    }

    fn budget(&self, tid: i32, groups: &Groups) -> ThreadBudget {
        let [running, ready] = [0, 1].map(|at| self.now[at].saturating_sub(self.before[at]));
        let wall_ns = (self.last.duration_since(self.seen).as_nanos() as u64).max(running + ready);
        let throttled = groups.throttled_ns(self.pid).min(ready);
        let part = |spent, ns| TimePart { spent, ns, ..TimePart::default() };
        let cgroup = groups.limiting(self.pid).map(str::to_owned);
        let mut parts = vec![part(Spent::Running, running), part(Spent::Ready, ready - throttled)];
        parts
            .push(TimePart { thing: Thing { cgroup, ..Thing::default() }, ..part(Spent::ThrottledByQuota, throttled) });
        let rest = wall_ns - running - ready;
        let looks: u64 = self.states.values().sum();
        let mut left = rest;
        for ((spent, call), times) in &self.states {
            let ns = (u128::from(rest) * u128::from(*times) / u128::from(looks.max(1))) as u64;
            left -= ns;
            parts.push(TimePart { call: call.clone(), ..part(*spent, ns) });
        }
        parts.push(part(Spent::Unknown, left));
        parts.retain(|part| part.ns > 0);
        parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
        let policy = match self.prio {
            ..0 => ThreadPolicy::Deadline,
            0..100 => ThreadPolicy::RealTime((99 - self.prio).unsigned_abs() as u8),
            fair => ThreadPolicy::Fair((fair - 120).clamp(-20, 19) as i8),
        };
        let process = read_to_string(format!("/proc/{}/comm", self.pid))
            .map_or_else(|_| self.name.clone(), |name| name.trim_end().to_owned());
        let (thread, tid) = (self.name.clone(), tid.cast_unsigned());
        ThreadBudget { thread, tid, process, pid: self.pid, policy, wall_ns, parts, ..ThreadBudget::default() }
    }
}

/// Time on a CPU, and waiting for one, ns.
fn counters(tid: i32) -> Option<[u64; 2]> {
    let text = read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    let mut fields = text.split_whitespace().map(str::parse);
    Some([fields.next()?.ok()?, fields.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_sleeper_sleeps_and_parts_are_the_wall_time() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let tid = child.id().cast_signed();
        punctual_testing::until("it sleeps", || {
            read_to_string(format!("/proc/{tid}/wchan")).is_ok_and(|text| text.contains("nanosleep"))
        });
        let mut counted = Counted::begin(&[tid]);
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(10));
            counted.look(&[tid]);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let budget = counted.end();
        let thread = &budget.threads[0];
        assert_eq!((budget.source, thread.thread.as_str()), (BudgetSource::Files, "sleep"));
        assert_eq!(thread.parts.iter().map(|part| part.ns).sum::<u64>(), thread.wall_ns);
        assert!(thread.parts.iter().any(|part| part.spent == Spent::Asleep && part.ns >= 40_000_000), "{thread:?}");
    }
}
