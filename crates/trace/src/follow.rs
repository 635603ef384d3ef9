//! Follows CPUs and threads through the events, and gives the calls of the watched threads as they end.

use std::collections::{HashMap, HashSet};

use crate::clocks::Clocks;
use crate::event::{Event, Kind, Name};
use crate::history::{Doing, History};
use crate::thread::{By, Call, Fired, Link, Watched, Woken};
use crate::{Batch, Target};

/// Threads whose last wake-up is remembered; beyond, those not woken lately are forgotten.
const REMEMBERED: usize = 1 << 14;

/// Wakers of wakers, back to the first cause.
const LONGEST_CHAIN: usize = 4;

/// What is known of any thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known {
    pub(crate) name: Name,
    /// The kernel's priority: below 100 real-time.
    pub(crate) prio: i32,
    pub(crate) woken_ns: u64,
    pub(crate) woken_by: Option<By>,
    pub(crate) ran_ns: u64,
}

/// The state of the machine after the last event.
#[derive(Debug)]
pub(crate) struct Follower {
    cpus: Vec<History>,
    watched: HashMap<i32, Watched>,
    known: HashMap<i32, Known>,
    /// Which thread waits for a timer.
    timers: HashMap<u64, i32>,
    limited: HashSet<i32>,
    /// The address of `hrtimer_wakeup`, by which timers of sleeping threads are known from others.
    wakes: Option<u64>,
    with_children: bool,
    clocks: Clocks,
}

impl Follower {
    pub(crate) fn new(target: &Target, clocks: Clocks, wakes: Option<u64>) -> Self {
        let watched = target.tids.iter().map(|tid| (*tid, Watched::default())).collect();
        let (known, timers, limited) = (HashMap::new(), HashMap::new(), HashSet::new());
        Self { cpus: Vec::new(), watched, known, timers, limited, wakes, with_children: target.with_children, clocks }
    }

    /// Takes in what was read at once; `done` gets each call that ended.
    pub(crate) fn take(&mut self, batch: &Batch, done: &mut dyn FnMut(&Self, Call)) {
        let mut losses = batch.losses.iter().peekable();
        for event in &batch.events {
            while losses.next_if(|(time, ..)| *time <= event.time_ns).is_some() {
                self.lose();
            }
            self.event(event, done);
        }
        if losses.next().is_some() {
            self.lose();
        }
    }

    pub(crate) fn cpu(&self, cpu: u32) -> Option<&History> {
        self.cpus.get(cpu as usize)
    }

    pub(crate) fn cpus(&self) -> &[History] {
        &self.cpus
    }

    pub(crate) fn known(&self, tid: i32) -> Known {
        self.known.get(&tid).copied().unwrap_or_default()
    }

    /// Whether its cgroup limits its CPU time, or the kernel that of real-time threads.
    pub(crate) fn has_limit(&self, tid: i32) -> bool {
        self.known(tid).prio < 100 || self.limited.contains(&tid)
    }

    /// Its cgroup limits its CPU time.
    pub(crate) fn limit(&mut self, tid: i32) {
        self.limited.insert(tid);
    }

    /// How many threads are watched, or were.
    pub(crate) fn threads(&self) -> usize {
        self.watched.len()
    }

    fn event(&mut self, event: &Event, done: &mut dyn FnMut(&Self, Call)) {
        let cpu = event.cpu as usize;
        if self.cpus.len() <= cpu {
            self.cpus.resize_with(cpu + 1, History::default);
        }
        // What was served when it happened, before the event itself changes that.
        let serving = self.cpus[cpu].serving();
        self.cpus[cpu].take(event);
        self.remember(event, serving);
        let (time, tid) = (event.time_ns, event.tid);
        let mut woken = self.woken(event, serving);
        let mut about = |who: i32| {
            if let Some(thread) = self.watched.get_mut(&who) {
                thread.take(who, time, event.cpu, &event.kind, woken.take());
            }
        };
        match event.kind {
            Kind::Enter { number, .. } => {
                if let Some(thread) = self.watched.get_mut(&tid) {
                    thread.enter(tid, time, event.cpu, number);
                }
            }
            Kind::Leave { returned, .. } => {
                let call = self.watched.get_mut(&tid).and_then(|thread| thread.leave(time, returned));
                if let Some(call) = call {
                    done(self, call);
                }
            }
            // In an interrupt the timer is not the thread's.
            Kind::TimerStart { timer, function, .. }
                if serving.is_none() && self.wakes.is_none_or(|wakes| wakes == function) =>
            {
                about(tid);
                if self.watched.contains_key(&tid) {
                    self.timers.insert(timer, tid);
                }
            }
            Kind::Fault => about(tid),
            Kind::Waking { tid, .. } | Kind::Migrate { tid, .. } => about(tid),
            Kind::Switch { prev, next, .. } => {
                about(prev.tid);
                about(next.tid);
            }
            Kind::TimerExpire { timer, now_ns, .. } => self.fire(event, timer, now_ns),
            Kind::Fork { parent, child } if self.with_children && self.watched.contains_key(&parent) => {
                self.watched.insert(child, Watched::default());
            }
            _ => {}
        }
    }

    fn fire(&mut self, event: &Event, timer: u64, now_ns: i64) {
        let ahead = self.clocks.ahead_of(now_ns, event.time_ns);
        let here = |ns: i64| ns.saturating_sub(ahead).max(0).cast_unsigned();
        let waiting = self.timers.remove(&timer).and_then(|tid| self.watched.get_mut(&tid));
        if let Some(thread) = waiting {
            thread.fire(timer, |set| Fired {
                soft_ns: here(set.soft_ns),
                hard_ns: here(set.hard_ns.max(set.soft_ns)),
                interrupt_ns: here(now_ns),
                function_ns: event.time_ns,
                cpu: event.cpu,
            });
        }
    }

    /// The waker of a watched thread, and who woke that.
    fn woken(&self, event: &Event, serving: Option<Doing>) -> Option<Woken> {
        let Kind::Waking { tid, .. } = event.kind else { return None };
        self.watched.get(&tid)?;
        let by = serving.map_or(By::Thread(event.tid), By::Serving);
        let (mut chain, mut link, mut at) = (Vec::new(), by, event.time_ns);
        while let By::Thread(waker) = link
            && chain.len() < LONGEST_CHAIN
            && let Some(known) = self.known.get(&waker)
            // It has run again since: what it did before is forgotten.
            && (1..=at).contains(&known.ran_ns)
        {
            let call = self.watched.get(&waker).and_then(Watched::in_call);
            let delay_ns = if known.woken_ns > 0 { known.ran_ns.saturating_sub(known.woken_ns) } else { 0 };
            chain.push(Link { tid: waker, call, delay_ns, worked_ns: at - known.ran_ns });
            let Some(before) = known.woken_by.filter(|_| known.woken_ns < known.ran_ns) else { break };
            (link, at) = (before, known.woken_ns);
        }
        Some(Woken { at_ns: event.time_ns, by, cpu: event.cpu, chain })
    }

    fn remember(&mut self, event: &Event, serving: Option<Doing>) {
        match event.kind {
            Kind::Waking { tid, .. } => {
                if self.known.len() > REMEMBERED {
                    let old = event.time_ns.saturating_sub(1_000_000_000);
                    self.known.retain(|_, known| known.woken_ns.max(known.ran_ns) > old);
                }
                let known = self.known.entry(tid).or_default();
                known.woken_ns = event.time_ns;
                known.woken_by = Some(serving.map_or(By::Thread(event.tid), By::Serving));
            }
            Kind::Switch { prev, next, .. } => {
                for thread in [prev, next] {
                    let known = self.known.entry(thread.tid).or_default();
                    (known.name, known.prio) = (thread.name, thread.prio);
                }
                self.known.entry(next.tid).or_default().ran_ns = event.time_ns;
            }
            _ => {}
        }
    }

    /// Nothing is recorded for a while: calls that go on are not followed.
    pub(crate) fn suspend(&mut self) {
        self.cpus.iter_mut().for_each(History::forget);
        self.watched.values_mut().for_each(|thread| *thread = Watched::default());
    }

    /// Events are missing: what the CPUs did is unknown, and so is what the calls that go on went through.
    fn lose(&mut self) {
        self.cpus.iter_mut().for_each(History::forget);
        self.watched.values_mut().for_each(Watched::forget);
    }
}
