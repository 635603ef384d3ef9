//! A late thread, what delays it, and the watch on it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::memory::Shared;
use punctual_linux::sched::{current_thread_id, set_nice};
use punctual_linux::sleep;
use punctual_record::{Causes, LateWake};
use punctual_testing::GIVE_UP;
use punctual_trace::{Level, Room, Target, Watch};

use crate::place;

/// The name of the late thread.
pub(crate) const VICTIM: &str = "victim";

/// What the threads of a play share.
#[derive(Default)]
pub(crate) struct Stage {
    pub(crate) cpu: usize,
    crew: bool,
    /// The injector acts.
    on: AtomicBool,
    /// The injector waits here.
    entry: (Mutex<bool>, Condvar),
    over: AtomicBool,
    /// When the victim wants to wake up next.
    pub(crate) deadline: AtomicU64,
    /// Waits of the victim so far.
    pub(crate) waits: AtomicUsize,
    /// Delays injected so far.
    pub(crate) hits: AtomicUsize,
    /// When delays were injected.
    windows: Mutex<Vec<(u64, u64)>>,
    pub(crate) host: Host,
}

/// What was seen without the injector and with it.
pub(crate) struct Seen {
    /// In the order of time; `at_ns` is on CLOCK_MONOTONIC.
    pub(crate) quiet: Vec<LateWake>,
    pub(crate) late: Vec<LateWake>,
    pub(crate) windows: Vec<(u64, u64)>,
    pub(crate) host: Host,
    /// Of both.
    pub(crate) causes: Causes,
}

impl Stage {
    pub(crate) fn on(cpu: usize) -> Self {
        Self { cpu, entry: (Mutex::new(true), Condvar::new()), ..Self::default() }
    }

    /// Threads cycle on all CPUs meanwhile, and are watched too.
    pub(crate) fn beside_a_crew(self) -> Self {
        Self { crew: true, ..self }
    }

    pub(crate) fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.enter();
    }

    /// A delay was injected between these times.
    pub(crate) fn injected(&self, from: u64, to: u64) {
        self.delayed(from, to);
        self.hit();
    }

    /// The same, where the victim counts the delays by [`Stage::hit`].
    pub(crate) fn delayed(&self, from: u64, to: u64) {
        self.windows.lock().unwrap().push((from, to));
    }

    pub(crate) fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// The injector waits for its part; false if the play is over.
    pub(crate) fn wait_for_part(&self) -> bool {
        let (waits, entry) = &self.entry;
        drop(entry.wait_while(waits.lock().unwrap(), |waits| *waits).unwrap());
        self.goes_on()
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Lets the injector begin.
    fn enter(&self) {
        self.on.store(true, Ordering::Relaxed);
        *self.entry.0.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.entry.1.notify_all();
    }

    /// The victim sleeps until a deadline that the injector knows.
    pub(crate) fn sleep(&self, ns: u64) {
        let deadline = now() + ns;
        self.deadline.store(deadline, Ordering::Relaxed);
        sleep_until(deadline);
        self.waited();
    }

    /// The victim has waited.
    pub(crate) fn waited(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// The injector waits until shortly before the next deadline of the victim, which it returns.
    pub(crate) fn next_deadline(&self, before_ns: u64) -> Option<u64> {
        while self.goes_on() {
            let deadline = self.deadline.load(Ordering::Relaxed);
            if deadline > now() + before_ns {
                sleep_until(deadline - before_ns);
                return Some(deadline);
            }
            pause(100_000);
        }
        None
    }

    /// Runs both threads, and watches the victim: `wanted` waits without the injector, then as many delays.
    pub(crate) fn play(&self, wanted: usize, victim: impl FnOnce() + Send, injector: impl FnOnce() + Send) -> Seen {
        let watcher = std::thread::scope(|scope| {
            let over = Over(self);
            let (tell, tid) = channel();
            let named = |name: &str| Builder::new().name(name.to_owned());
            let late = named(VICTIM).spawn_scoped(scope, move || {
                tell.send(current_thread_id()).unwrap();
                victim();
            });
            named("injector").spawn_scoped(scope, injector).unwrap();
            let tid = tid.recv().unwrap();
            let crew = if self.crew { self.cycle_on_all_cpus(scope) } else { Vec::new() };
            let late = late.unwrap();
            let waits = || self.waits.load(Ordering::Relaxed) + if late.is_finished() { usize::MAX / 2 } else { 0 };
            // It has prepared itself.
            punctual_testing::until("the victim waits", || waits() > 0);
            let mut watcher = Watcher::on(&[&[tid], &crew[..]].concat());
            watcher.watch(wanted, waits);
            self.enter();
            watcher.watch(wanted * 3 / 2, || self.hits.load(Ordering::Relaxed));
            drop(over);
            watcher
        });
        self.seen(watcher)
    }

    /// A thread on each CPU that wakes up every millisecond, below the injectors. Returns their numbers.
    fn cycle_on_all_cpus<'s>(&'s self, scope: &'s std::thread::Scope<'s, '_>) -> Vec<i32> {
        let cycling = place::all().into_iter().map(|cpu| {
            let (tell, tid) = channel();
            let cycle = move || {
                place::on(cpu);
                place::fifo(40);
                tell.send(current_thread_id()).unwrap();
                let mut next = now();
                while self.goes_on() {
                    next = (next + 1_000_000).max(now());
                    sleep_until(next);
                }
            };
            Builder::new().name(format!("cyclic/{cpu}")).spawn_scoped(scope, cycle).unwrap();
            tid.recv().unwrap()
        });
        cycling.collect()
    }

    pub(crate) fn seen(&self, mut watcher: Watcher) -> Seen {
        let origin = watcher.watch.origin_ns();
        let mut causes = watcher.watch.causes();
        let mut wakes = std::mem::take(&mut causes.worst);
        wakes.iter_mut().for_each(|wake| wake.at_ns += origin);
        wakes.retain(|wake| !self.crew || wake.thread == VICTIM);
        wakes.sort_by_key(|wake| wake.at_ns);
        let late = wakes.split_off(wakes.partition_point(|wake| wake.at_ns < watcher.begun[1]));
        let windows = std::mem::take(&mut *self.windows.lock().unwrap());
        Seen { quiet: wakes, late, windows, host: self.host.clone(), causes }
    }
}

/// The watch on the late thread, first without the injector, then with it.
pub(crate) struct Watcher {
    watch: Watch,
    /// When each time began.
    begun: Vec<u64>,
}

impl Watcher {
    /// As own waits are watched; the ring of the victim's CPU is large, because this thread keeps away from it.
    pub(crate) fn on(tids: &[i32]) -> Self {
        let mut watch =
            Watch::open(&Target { tids: tids.to_vec(), with_children: false }, Level::Causes, Room::Small).unwrap();
        watch.keep(usize::MAX);
        Self { watch, begun: Vec::new() }
    }

    /// Watches until the count has grown by `wanted`.
    pub(crate) fn watch(&mut self, wanted: usize, count: impl Fn() -> usize) {
        // Reads the events in time beside a compiler.
        set_nice(0, -20).unwrap();
        self.begun.push(now());
        self.watch.switch(true).unwrap();
        let (begin, counted) = (now(), count());
        while count() < counted + wanted {
            assert!(u128::from(now() - begin) < GIVE_UP.as_nanos(), "too few wake-ups");
            self.watch.pump(Duration::from_millis(10), &mut |_| {}).unwrap();
        }
        self.watch.switch(false).unwrap();
        set_nice(0, 0).unwrap();
    }
}

pub(crate) fn now() -> u64 {
    now_ns(Clock::Monotonic) as u64
}

pub(crate) fn sleep_until(time: u64) {
    let _ = sleep::clock_nanosleep_until(Clock::Monotonic, time as i64).unwrap();
}

pub(crate) fn pause(ns: u64) {
    let _ = sleep::clock_nanosleep(Clock::Monotonic, ns as i64).unwrap();
}

/// Runs until this time, whatever else wants the CPU.
pub(crate) fn spin_until(time: u64) {
    while now() < time {
        std::hint::spin_loop();
    }
}

/// The same of a thread above all others of its CPU: the times when it did not run were the host's, or an interrupt's.
pub(crate) fn spin_on_top_until(time: u64, host: &Host) {
    let mut last = now();
    while last < time {
        let at = now();
        if at - last > Host::SHORTEST_NS {
            host.took(last, at);
        }
        last = at;
    }
}

/// When the host had the victim's CPU, as threads that spin noticed. Child processes note it too.
#[derive(Clone)]
pub(crate) struct Host {
    /// From and to. The first pair counts the others.
    times: Shared<[AtomicU64]>,
}

impl Host {
    const SHORTEST_NS: u64 = 20_000;
    const MOST: usize = 10_000;

    fn took(&self, from: u64, to: u64) {
        let last = self.times[0].fetch_add(1, Ordering::Relaxed) as usize + 1;
        if let Some([begin, end]) = self.times.get(2 * last..2 * last + 2) {
            begin.store(from, Ordering::Relaxed);
            end.store(to, Ordering::Relaxed);
        }
    }

    /// The longest time between these that it had the CPU.
    pub(crate) fn longest_ns(&self, from: u64, to: u64) -> u64 {
        let (times, _) = self.times.as_chunks::<2>();
        let within = times[1..].iter().map(|[begin, end]| (begin.load(Ordering::Relaxed), end.load(Ordering::Relaxed)));
        within.filter(|(begin, end)| *begin < to && *end > from).map(|(begin, end)| end - begin).max().unwrap_or(0)
    }
}

impl Default for Host {
    fn default() -> Self {
        Self { times: Shared::slice(2 * Self::MOST).unwrap() }
    }
}

/// The play is over when this is dropped, after a panic too.
struct Over<'a>(&'a Stage);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
