//! Follows CPUs and threads through the events, and gives the calls of the watched threads as they end.

use std::collections::HashMap;

use crate::clocks::Clocks;
use crate::event::{Event, Kind, Name, REAL_TIME, sleeps};
use crate::history::{Doing, History};
use crate::limits::Limits;
use crate::thread::{By, Call, Fired, Link, Watched, Woken};
use crate::{Batch, Target, tap};

/// Threads whose last wake-up is remembered; beyond, those not woken lately are forgotten.
const REMEMBERED: usize = 1 << 14;

/// Switches to an idle thread that must show one from it.
const ENOUGH: u64 = 10;

/// A busy CPU does some hundred things in this time.
const LOOK_BACK_NS: u64 = 50_000_000;

/// Wakers of wakers, back to the first cause.
const LONGEST_CHAIN: usize = 4;

/// A thread that waits for a CPU longer than this is kept from it.
const KEPT_NS: u64 = 30_000;

/// What is known of any thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known {
    pub(crate) name: Name,
    /// The kernel's priority: below 100 real-time.
    pub(crate) prio: i32,
    last_ns: u64,
    /// It runs since then.
    runs_since_ns: Option<u64>,
    /// It waits for a CPU since then.
    ready_since_ns: Option<u64>,
    /// The last time that it waited for one: begin and end.
    queued_ns: (u64, u64),
    /// When a mutex lent it a higher priority.
    lent_ns: Option<u64>,
    /// Since its last wake-up.
    delay_ns: u64,
    worked_ns: u64,
    woken_by: Chain,
}

impl Known {
    /// What it did meanwhile was not seen.
    fn forget(&mut self) {
        *self = Self { name: self.name, prio: self.prio, last_ns: self.last_ns, ..Self::default() };
    }
}

/// Who woke a thread, who woke that, and so on, as it was then.
#[derive(Debug, Clone, Copy, Default)]
struct Chain {
    links: [Link; LONGEST_CHAIN],
    length: usize,
}

impl Chain {
    /// The waker before its own wakers.
    fn led_by(waker: Link, its_wakers: &Self) -> Self {
        let length = LONGEST_CHAIN.min(its_wakers.length + 1);
        let mut links = [waker; LONGEST_CHAIN];
        links[1..length].copy_from_slice(&its_wakers.links[..length - 1]);
        Self { links, length }
    }
}

/// The state of the machine after the last event.
#[derive(Debug)]
pub(crate) struct Follower {
    cpus: Vec<History>,
    watched: HashMap<i32, Watched>,
    known: HashMap<i32, Known>,
    /// Switches to the idle thread of each CPU, and from it.
    idle: Vec<(u64, u64)>,
    /// Which thread waits for a timer.
    timers: HashMap<u64, i32>,
    limits: Limits,
    /// Idle state 0 is a loop that polls.
    polls: bool,
    /// The address of `hrtimer_wakeup`, by which timers of sleeping threads are known from others.
    wakes: Option<u64>,
    with_children: bool,
    clocks: Clocks,
    /// All events are recorded since then.
    begun_ns: u64,
}

impl Follower {
    pub(crate) fn new(target: &Target, clocks: Clocks, wakes: Option<u64>) -> Self {
        let watched = target.tids.iter().map(|tid| (*tid, Watched::default())).collect();
        let (known, timers, limits) = (HashMap::new(), HashMap::new(), Limits::default());
        let (cpus, idle) = (Vec::new(), Vec::new());
        Self {
            cpus,
            idle,
            watched,
            known,
            timers,
            limits,
            polls: false,
            wakes,
            with_children: target.with_children,
            clocks,
            begun_ns: 0,
        }
    }

    /// Takes in what was read at once; `done` gets each call that ended.
    pub(crate) fn take(&mut self, batch: &Batch, done: &mut dyn FnMut(&Self, Call)) {
        self.limits.read(tap::now_ns);
        let mut losses = batch.losses.iter().peekable();
        for event in &batch.events {
            let mut lost = false;
            while losses.next_if(|(time, ..)| *time <= event.time_ns).is_some() {
                lost = true;
            }
            if lost {
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

    /// The CPUs whose idle thread shows no events: each was left for it, and never by it.
    pub(crate) fn silent_when_idle(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.idle.len()).filter(|cpu| self.shows_idle(*cpu) == Some(false))
    }

    /// Whether this CPU shows events of its idle thread; `None`: it was seldom left for it.
    pub(crate) fn shows_idle(&self, cpu: usize) -> Option<bool> {
        self.idle.get(cpu).filter(|(to, _)| *to >= ENOUGH).map(|(_, from)| *from > 0)
    }

    pub(crate) fn known(&self, tid: i32) -> Known {
        self.known.get(&tid).copied().unwrap_or_default()
    }

    /// How long a waker waited for a CPU, and ran, within a wait that it ended.
    pub(crate) fn meanwhile(&self, waker: &Link, from_ns: u64, to_ns: u64) -> (u64, u64) {
        let window = to_ns.saturating_sub(from_ns);
        if waker.delay_ns.saturating_add(waker.worked_ns) <= window {
            return (waker.delay_ns, waker.worked_ns);
        }
        // It did not sleep meanwhile. A long look back, for each of many threads, would take too long.
        let ran = if window > LOOK_BACK_NS {
            waker.worked_ns.min(window)
        } else {
            let spans = self.cpus.iter().flat_map(|history| history.between(from_ns, to_ns));
            spans.filter(|span| span.doing == Doing::Thread(waker.tid)).map(|span| span.to_ns - span.from_ns).sum()
        };
        (waker.delay_ns.min(window.saturating_sub(ran)), ran)
    }

    /// A thread has this name and priority.
    pub(crate) fn meet(&mut self, tid: i32, name: Name, prio: i32) {
        let known = self.known.entry(tid).or_default();
        (known.name, known.prio) = (name, prio);
    }

    /// This thread is watched too.
    pub(crate) fn watch(&mut self, tid: i32) {
        self.watched.entry(tid).or_default();
    }

    /// This thread has yet to execute its program: until then its calls are not the program's.
    pub(crate) fn executes(&mut self, tid: i32) {
        self.watched.entry(tid).or_default().execute_later();
    }

    /// Limits that are known, and whether idle state 0 is a loop that polls.
    pub(crate) fn know(&mut self, limits: Limits, polls: bool) {
        (self.limits, self.polls) = (limits, polls);
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn polls(&self, state: u32) -> bool {
        state == 0 && self.polls
    }

    /// How many threads are watched, or were.
    pub(crate) fn threads(&self) -> usize {
        self.watched.len()
    }

    fn event(&mut self, event: &Event, done: &mut dyn FnMut(&Self, Call)) {
        let cpu = event.cpu as usize;
        if self.cpus.len() <= cpu {
            self.cpus.resize_with(cpu + 1, History::default);
            self.idle.resize(cpu + 1, (0, 0));
        }
        // What was served when it happened, before the event itself changes that.
        let serving = self.cpus[cpu].serving();
        self.cpus[cpu].take(event);
        let chain = self.chain(event, serving);
        self.remember(event, chain);
        let (time, tid) = (event.time_ns, event.tid);
        let by = serving.map_or(By::Thread(tid), By::Serving);
        let mut woken = matches!(event.kind, Kind::Waking { .. }).then(|| {
            let chain = chain.links[..chain.length].to_vec();
            Woken { at_ns: time, by, cpu: event.cpu, chain }
        });
        let mut about = |who: i32| {
            if let Some(thread) = self.watched.get_mut(&who) {
                thread.take(who, time, event.cpu, &event.kind, woken.take());
            }
        };
        match event.kind {
            Kind::Enter { number, args } if time >= self.begun_ns => {
                if let Some(thread) = self.watched.get_mut(&tid).filter(|thread| !thread.is_yet_to_execute()) {
                    let left = thread.left_at_last();
                    thread.enter(tid, time, event.cpu, (number, args[0]));
                    left.into_iter().for_each(|call| done(self, call));
                }
            }
            Kind::Leave { number, returned } => {
                if let Some(thread) = self.watched.get_mut(&tid) {
                    thread.leave(time, number, returned);
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
            Kind::Switch { prev, next, .. } => self.switch(event, prev.tid, next.tid, done),
            Kind::TimerExpire { timer, now_ns, .. } => self.fire(event, timer, now_ns),
            Kind::Fork { parent, child } if self.with_children && self.watched.contains_key(&parent) => {
                self.watched.insert(child, Watched::default());
                self.limits.fork(parent, child);
            }
            _ => {}
        }
    }

    fn switch(&mut self, event: &Event, prev: i32, next: i32, done: &mut dyn FnMut(&Self, Call)) {
        let idle = &mut self.idle[event.cpu as usize];
        *idle = (idle.0 + u64::from(next == 0), idle.1 + u64::from(prev == 0));
        let left = self.watched.get_mut(&prev).and_then(|thread| thread.left(event.time_ns));
        left.into_iter().for_each(|call| done(self, call));
        for tid in [prev, next] {
            if let Some(thread) = self.watched.get_mut(&tid) {
                thread.take(tid, event.time_ns, event.cpu, &event.kind, None);
            }
        }
    }

    /// A timer's time on CLOCK_MONOTONIC; the timer was set at about `near_ns`.
    pub(crate) fn monotonic(&self, ns: i64, near_ns: u64) -> u64 {
        ns.saturating_sub(self.clocks.ahead_of(ns, near_ns)).max(0).cast_unsigned()
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

    /// The waker, where it is a thread, and who woke that.
    fn chain(&self, event: &Event, serving: Option<Doing>) -> Chain {
        let waker = self.known.get(&event.tid).filter(|_| serving.is_none());
        let (Kind::Waking { tid: woken, .. }, Some(known)) = (event.kind, waker) else { return Chain::default() };
        let Some(since) = known.runs_since_ns else { return Chain::default() };
        let call = self.watched.get(&event.tid).and_then(Watched::in_call);
        let worked_ns = known.worked_ns + event.time_ns.saturating_sub(since);
        let inherited = self.inherited(known, woken);
        Chain::led_by(Link { tid: event.tid, call, delay_ns: known.delay_ns, worked_ns, inherited }, &known.woken_by)
    }

    /// As in [`Link`].
    fn inherited(&self, waker: &Known, woken: i32) -> Option<bool> {
        let since = self.watched.get(&woken)?.entered_ns()?;
        let prio = self.known.get(&woken)?.prio;
        if prio >= REAL_TIME || prio >= waker.prio {
            return None;
        }
        if waker.lent_ns.is_some_and(|lent| lent >= since) {
            return Some(true);
        }
        let (from, to) = waker.queued_ns;
        (to.saturating_sub(from.max(since)) > KEPT_NS).then_some(false)
    }

    fn remember(&mut self, event: &Event, chain: Chain) {
        let now = event.time_ns;
        match event.kind {
            Kind::Waking { tid, .. } => {
                if self.known.len() > REMEMBERED {
                    let old = now.saturating_sub(1_000_000_000);
                    self.known.retain(|_, known| known.last_ns > old || known.runs_since_ns.is_some());
                }
                let known = self.known.entry(tid).or_default();
                known.last_ns = now;
                // One that runs, or waits to, goes on with what it does.
                if known.runs_since_ns.is_none() && known.ready_since_ns.is_none() {
                    (known.delay_ns, known.worked_ns) = (0, 0);
                    (known.ready_since_ns, known.woken_by) = (Some(now), chain);
                }
            }
            Kind::Switch { prev, prev_state, next } => {
                for thread in [prev, next] {
                    let known = self.known.entry(thread.tid).or_default();
                    (known.name, known.prio, known.last_ns) = (thread.name, thread.prio, now);
                }
                let before = self.known.entry(prev.tid).or_default();
                before.worked_ns += before.runs_since_ns.take().map_or(0, |since| now.saturating_sub(since));
                before.ready_since_ns = (!sleeps(prev_state)).then_some(now);
                let after = self.known.entry(next.tid).or_default();
                if let Some(since) = after.ready_since_ns.take() {
                    after.delay_ns += now.saturating_sub(since);
                    after.queued_ns = (since, now);
                }
                after.runs_since_ns = Some(now);
            }
            Kind::Fork { parent, child } => {
                if let Some(Known { name, prio, .. }) = self.known.get(&parent).copied() {
                    self.meet(child, name, prio);
                }
            }
            Kind::Rename { tid, name } => {
                if let Some(known) = self.known.get_mut(&tid) {
                    known.name = name;
                }
            }
            Kind::Inherit { tid, old, new } => {
                let known = self.known.entry(tid).or_default();
                (known.prio, known.last_ns) = (new, now);
                known.lent_ns = if new < old { Some(now) } else { known.lent_ns };
            }
            _ => {}
        }
    }

    /// Calls count that begin from now on.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.begun_ns = now_ns;
    }

    /// Nothing is recorded for a while: calls that go on are not followed. `done` gets those that ended.
    pub(crate) fn suspend(&mut self, done: &mut dyn FnMut(&Self, Call)) {
        let left: Vec<Call> = self.watched.values_mut().filter_map(Watched::left_at_last).collect();
        left.into_iter().for_each(|call| done(self, call));
        self.cpus.iter_mut().for_each(History::forget);
        self.watched.values_mut().for_each(|thread| *thread = Watched::default());
        self.known.values_mut().for_each(Known::forget);
    }

    /// Events are missing: what the CPUs did is unknown, and so is what the calls that go on went through.
    fn lose(&mut self) {
        self.cpus.iter_mut().for_each(History::forget);
        self.watched.values_mut().for_each(Watched::forget);
        self.known.values_mut().for_each(Known::forget);
    }
}

#[cfg(test)]
mod tests;
