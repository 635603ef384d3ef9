//! Watches threads, and says why they woke up late.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_record::{CauseSource, Causes, Unseen, Unsplit};

use crate::clocks::Clocks;
use crate::follow::Follower;
use crate::limits::Limits;
use crate::split::{Uncut, split};
use crate::tally::Tally;
use crate::thread::Call;
use crate::worst::Worst;
use crate::{Batch, Error, Level, Result, Room, Tap, Target, Threads, names, tap};

/// Watching.
#[derive(Debug)]
pub struct Watch {
    tap: Tap,
    follower: Follower,
    found: Found,
    origin_ns: u64,
    on_since_ns: Option<u64>,
    watched_ns: u64,
    /// The kernel shows the events of these threads.
    threads: Threads,
}

/// A wake-up whose lateness is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeUp {
    /// When its call began, CLOCK_MONOTONIC, ns.
    pub entered_ns: u64,
    /// When the call returned.
    pub returned_ns: u64,
    /// How late, ns.
    pub late_ns: u64,
    /// Whether the thread's own timer ended the wait.
    pub timed: bool,
}

/// Most wake-ups that wait to be taken.
const MOST_APART: usize = 1 << 20;

/// What was found out.
#[derive(Debug, Default)]
struct Found {
    /// Wake-ups that are not counted, but handed on.
    apart: Option<Vec<WakeUp>>,
    tally: Tally,
    worst: Worst,
    wake_ups: u64,
    split: u64,
    uncut: BTreeMap<Uncut, u64>,
}

impl Watch {
    /// Opens the events. Nothing is recorded before [`Watch::switch`].
    ///
    /// # Errors
    /// As [`Tap::open`] says.
    pub fn open(target: &Target, level: Level, room: Room) -> Result<Self> {
        if !names::numbers_are_the_machines() {
            return Err(Error::Namespace);
        }
        let mut threads = Threads::near(target.tids.iter().copied());
        if target.with_children {
            threads = threads.and_from(names::next_thread());
        }
        let tap = Tap::open(&threads, level, room)?;
        let follower = Follower::new(target, Clocks::read(), names::address_of("hrtimer_wakeup"));
        let (found, origin_ns) = (Found::default(), tap::now_ns());
        let mut watch = Self { tap, follower, found, origin_ns, on_since_ns: None, watched_ns: 0, threads };
        watch.also(&target.tids);
        watch.follower.know(Limits::new(&target.tids, tap::now_ns()), names::idle_state_0_polls());
        Ok(watch)
    }

    /// Watches these threads too. False if the kernel does not show the events of one. It was neither among the threads at the
    /// opening, nor among their later ones.
    pub fn also(&mut self, tids: &[i32]) -> bool {
        for tid in tids {
            self.follower.watch(*tid);
            names::thread(*tid).into_iter().for_each(|(name, prio)| self.follower.meet(*tid, name, prio));
        }
        tids.iter().all(|tid| self.threads.hold(*tid))
    }

    /// Begins recording, or suspends it. Nothing is watched in between, and calls that go on then are not counted.
    ///
    /// # Errors
    /// As ioctl(2) says.
    pub fn switch(&mut self, on: bool) -> Result<()> {
        self.switch_and(on, &mut |_| {})
    }

    /// The same; `each` sees the last events too.
    ///
    /// # Errors
    /// As ioctl(2) says.
    pub fn switch_and(&mut self, on: bool, each: &mut dyn FnMut(&Batch)) -> Result<()> {
        // Events go on and off one after another: only what all of them saw counts.
        let before = tap::now_ns();
        self.tap.switch(on)?;
        let now = tap::now_ns();
        if let Some(since) = self.on_since_ns.take() {
            self.watched_ns += if self.found.apart.is_none() { before.saturating_sub(since) } else { 0 };
            let mut batch = self.tap.read_all();
            batch.events.retain(|event| event.time_ns < before);
            each(&batch);
            self.take(&batch);
            let (found, origin) = (&mut self.found, self.origin_ns);
            self.follower.suspend(&mut |machine, call| found.take(&call, machine, origin));
        }
        self.follower.begin(now);
        self.on_since_ns = on.then_some(now);
        Ok(())
    }

    /// This thread has yet to execute its program: its calls until then are not counted. Call it after [`Watch::switch`].
    pub fn executes(&mut self, tid: i32) {
        self.follower.executes(tid);
    }

    /// Calls from now on are counted apart, as waits of this nominal time. Call it when recording is off.
    pub fn mark(&mut self, nominal_ns: Option<u64>) {
        self.found.tally.mark(nominal_ns);
    }

    /// How many of the worst wake-ups [`Causes::worst`] keeps: ten, unless asked otherwise.
    pub fn keep(&mut self, most: usize) {
        self.found.worst.keep(most);
    }

    /// When watching began, CLOCK_MONOTONIC: [`punctual_record::LateWake::at_ns`] counts from it.
    #[must_use]
    pub fn origin_ns(&self) -> u64 {
        self.origin_ns
    }

    /// Wake-ups from now on are not counted, but handed on by [`Watch::wake_ups`]; or they are counted again. Calls that go on at this
    /// moment are neither.
    ///
    /// # Errors
    /// As ioctl(2) says.
    pub fn set_apart(&mut self, apart: bool) -> Result<()> {
        let on = self.on_since_ns.is_some();
        self.switch(false)?;
        self.found.apart = apart.then(Vec::new);
        self.switch(on)
    }

    /// The wake-ups since the last call of this function, where they are not counted ([`Watch::set_apart`]).
    pub fn wake_ups(&mut self) -> Vec<WakeUp> {
        self.found.apart.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Waits for events, at most this long, and takes them in. `each` sees them too.
    ///
    /// # Errors
    /// As poll(2) says.
    pub fn pump(&mut self, timeout: Duration, each: &mut dyn FnMut(&Batch)) -> Result<()> {
        self.tap.wait(timeout)?;
        let batch = self.tap.read();
        each(&batch);
        self.take(&batch);
        Ok(())
    }

    /// What was found out so far. Call it when recording is off.
    pub fn causes(&mut self) -> Causes {
        let batch = self.tap.read_all();
        self.take(&batch);
        self.causes_so_far()
    }

    /// The same while recording goes on: without the newest events, which may not be complete.
    #[must_use]
    pub fn causes_so_far(&self) -> Causes {
        let unsplit = self.found.uncut.iter().map(|(why, count)| Unsplit { why: why.to_string(), count: *count });
        let missing = self
            .tap
            .missing()
            .iter()
            .map(|event| Unseen { what: format!("this kernel has no event {event}"), ..Unseen::default() });
        let silent = self.follower.silent_when_idle().map(|cpu| Unseen {
            what: format!("CPU {cpu} shows no events of its idle thread, as after it was taken offline"),
            remedy: Some("restart the machine, or watch threads on another CPU".to_owned()),
            ..Unseen::default()
        });
        Causes {
            source: CauseSource::Tracepoints,
            watched_ns: self.watched_ns
                + self.on_since_ns.filter(|_| self.found.apart.is_none()).map_or(0, |since| tap::now_ns() - since),
            wake_ups: self.found.wake_ups,
            split: self.found.split,
            unsplit: unsplit.collect(),
            lost_events: self.tap.lost(),
            missing: missing.chain(silent).collect(),
            calls: self.found.tally.calls(),
            worst: self.found.worst.wakes(),
            ..Causes::default()
        }
    }

    /// Closes the events, and does not wait for that. At each tracepoint in turn, the kernel waits some 30 ms until all CPUs have
    /// left it (`tracepoint_synchronize_unregister`). The process ends only when they are closed.
    pub fn close_meanwhile(self) {
        // Where no thread can be started, they are closed here.
        let _ = std::thread::Builder::new().name("close".into()).spawn(move || drop(self));
    }

    /// Whether this CPU shows the events of its idle thread; `None`: it seldom idled so far.
    #[must_use]
    pub fn shows_idle(&self, cpu: usize) -> Option<bool> {
        self.follower.shows_idle(cpu)
    }

    /// Threads watched so far.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.follower.threads()
    }

    fn take(&mut self, batch: &Batch) {
        let (found, origin) = (&mut self.found, self.origin_ns);
        self.follower.take(batch, &mut |machine, call| found.take(&call, machine, origin));
    }
}

impl Found {
    fn take(&mut self, call: &Call, machine: &Follower, origin_ns: u64) {
        if let Some(apart) = &mut self.apart {
            if call.blocked()
                && apart.len() < MOST_APART
                && let Ok(split) = split(call, machine)
            {
                let (late_ns, timed) = (split.late_ns(), split.timed);
                apart.push(WakeUp { entered_ns: call.entered_ns, returned_ns: call.returned_ns, late_ns, timed });
            }
            return;
        }
        if !call.blocked() {
            return self.tally.at_once(call, machine);
        }
        self.wake_ups += 1;
        match split(call, machine) {
            Ok(split) => {
                self.split += 1;
                self.tally.cut(call, &split, machine);
                self.worst.take(call, &split, machine, origin_ns);
            }
            Err(why) => {
                *self.uncut.entry(why).or_default() += 1;
                self.tally.uncut(call, machine);
            }
        }
    }
}

impl std::fmt::Display for Uncut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoWaking => "the kernel showed no wake-up",
            Self::NoSwitch => "the kernel did not show all switches, or events were lost",
            Self::Order => "the times of its events contradict each other",
        })
    }
}
