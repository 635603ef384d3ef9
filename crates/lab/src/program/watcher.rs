//! Watches a program until the caller ends it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use punctual_record::{CauseSource, Causes, Program, Unseen};
use punctual_trace::{Batch, Counted, Error, Ledger, Level, Room, Target, WakeUp, Watch};

use crate::frame::error::{BUDGET, WAKE_UPS, without};
use crate::frame::places::Nice;
use crate::program::losses::losses;
use crate::program::process::{Family, Times};

/// Long enough for an event of each busy CPU.
const LAST: Duration = Duration::from_millis(10);

/// The lowest nice value: the thread runs at once, and a real-time thread goes before it still.
const LOWEST: i32 = -20;

/// Most listings of the threads until all are watched.
const LISTS: u32 = 5;

/// What is to be known of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Where its time went. Single wake-ups are read only where the kernel refuses to sum.
    Sums,
    /// Single wake-ups too: each event is read, which slows a program down that switches often.
    WakeUps,
}

/// The watch over a program, and the account of its threads.
#[derive(Debug)]
pub struct Watcher {
    ledger: Result<Ledger, (Error, Counted)>,
    /// None: only sums are wanted, and the kernel makes them.
    watch: Option<Result<Watch, Error>>,
    account: Account,
    since: Instant,
    /// CPU time and run delay that are not part of what was found, so far and since.
    aside: [u64; 2],
    aside_since: Option<[u64; 2]>,
    /// The process that executes the program; none where it runs already.
    executes: Option<u32>,
    /// Beside compilers, a reader of the usual nice value gets its CPU too late, and the rings overflow.
    _nice: Option<Nice>,
}

impl Watcher {
    /// Begins: this thread reads from now on. Where the kernel refuses its events, only the account is kept.
    #[must_use]
    pub fn begin(target: &Target, account: Account, depth: Depth) -> Self {
        Self::open(
            Ledger::begin(target).map_err(|error| (error, Counted::begin(&account.tids()))),
            target,
            account,
            depth,
        )
    }

    /// Begins before this process executes the program: what it does until then is not the program's.
    #[must_use]
    pub fn begin_before(pid: i32, target: &Target, account: Account, depth: Depth) -> Self {
        let ledger = Ledger::begin_at_exec(pid).map_err(|error| (error, Counted::begin_at_exec(pid)));
        let mut watcher = Self::open(ledger, target, account, depth);
        if let Some(Ok(watch)) = &mut watcher.watch {
            watch.executes(pid);
        }
        watcher.executes = Some(pid.cast_unsigned());
        watcher
    }

    fn open(ledger: Result<Ledger, (Error, Counted)>, target: &Target, mut account: Account, depth: Depth) -> Self {
        let reads = depth == Depth::WakeUps || ledger.is_err();
        let watch = reads.then(|| open(target.clone(), &account));
        let _nice = matches!(watch, Some(Ok(_))).then(|| Nice::lowered_to(LOWEST)).flatten();
        // The program ran while the kernel checked what watches it.
        account.reopen();
        Self { ledger, watch, account, since: Instant::now(), aside: [0; 2], aside_since: None, executes: None, _nice }
    }

    /// Takes in what happened, and waits for more at most this long. `each` sees the events.
    pub fn step(&mut self, timeout: Duration, each: &mut dyn FnMut(&Batch)) {
        let until_next = self.ledger.as_ref().map_or_else(|_| self.account.until_next_look(), Ledger::until_next_look);
        let timeout = timeout.min(until_next);
        match &mut self.watch {
            Some(Ok(watch)) => {
                if let Err(error) = watch.pump(timeout, each) {
                    self.watch = Some(Err(error));
                }
            }
            // Whoever ends it unparks the thread.
            Some(Err(_)) | None => std::thread::park_timeout(timeout),
        }
        if let Ok(ledger) = &mut self.ledger {
            ledger.look();
        }
        if self.account.look_now_and_then()
            && let Err((_, counted)) = &mut self.ledger
        {
            counted.look(&self.account.tids());
        }
    }

    /// From now on wake-ups are handed on by [`Watcher::wake_ups`] and count in no cause; or they count again.
    pub(crate) fn set_apart(&mut self, apart: bool) {
        if let Some(Ok(watch)) = &mut self.watch
            && let Err(error) = watch.set_apart(apart)
        {
            self.watch = Some(Err(error));
        }
        self.account.look();
        let now = self.used();
        if let Some(since) = self.aside_since.take() {
            (0..2).for_each(|at| self.aside[at] += now[at].saturating_sub(since[at]));
        }
        self.aside_since = apart.then_some(now);
    }

    /// The wake-ups since the last call. If the kernel refuses its events, the missing part.
    pub(crate) fn wake_ups(&mut self) -> Result<Vec<WakeUp>, Unseen> {
        match &mut self.watch {
            Some(watch) => watch.as_mut().map(Watch::wake_ups).map_err(|error| without(WAKE_UPS, error)),
            None => Ok(Vec::new()),
        }
    }

    fn used(&self) -> [u64; 2] {
        [self.account.cpu_ns(), self.account.run_delay_ns()].map(Option::unwrap_or_default)
    }

    /// Ends, and says what was found out about the program. `each` sees the last events.
    #[must_use]
    pub fn end(mut self, program: Program, each: &mut dyn FnMut(&Batch)) -> Causes {
        if self.aside_since.is_some() {
            self.set_apart(false);
        }
        self.account.look();
        let watched_ns = self.since.elapsed().as_nanos() as u64;
        let left_out = self.ledger.as_ref().map_or(0, Ledger::left_out);
        let watched = self.ledger.as_ref().map_or(0, Ledger::threads) as u64;
        let hidden = self.ledger.as_ref().is_ok_and(Ledger::is_without_functions);
        let budget = match self.ledger {
            Ok(ledger) => ledger.end().map_err(|error| (error, None)),
            Err((error, mut counted)) => {
                counted.look(&self.account.tids());
                Err((error, Some(counted.end())))
            }
        };
        let mut causes = self.watch.map_or_else(Causes::default, |watch| end_of(watch, each));
        causes.watched_ns = if causes.watched_ns == 0 { watched_ns } else { causes.watched_ns };
        match budget {
            Ok(budget) => causes.budget = Some(budget),
            Err((error, counted)) => {
                causes.budget = counted;
                // First: a screen has room for few, and this is what was asked for.
                causes.missing.insert(0, without(BUDGET, &error));
            }
        }
        causes.missing.extend((left_out > 0).then(|| Unseen {
            what: format!("{left_out} of the threads"),
            why: "the kernel has no room for more at a time".to_owned(),
            remedy: Some("watch some of its threads by name".to_owned()),
        }));
        causes.missing.extend(hidden.then(without_functions));
        // The account sees those that live while it looks.
        let threads = self.account.threads().max(watched);
        let less = |used: Option<u64>, at: usize| Some(used?.saturating_sub(self.aside[at]));
        let (cpu_ns, run_delay_ns) = (less(self.account.cpu_ns(), 0), less(self.account.run_delay_ns(), 1));
        causes.losses =
            causes.budget.as_ref().map_or(Vec::new(), |budget| losses(budget, self.executes.unwrap_or(program.pid)));
        causes.program = Some(Program { threads, cpu_ns, run_delay_ns, ..program });
        causes
    }
}

/// What is missing where /proc/kallsyms has no addresses.
fn without_functions() -> Unseen {
    Unseen {
        what: "waits for memory, for the address space and for a supervisor of calls".to_owned(),
        why: "the kernel hides its functions, so these are blocked or in page faults for an unknown cause".to_owned(),
        remedy: Some("sysctl kernel.kptr_restrict=1, as root".to_owned()),
    }
}

/// What single wake-ups were.
fn end_of(watch: Result<Watch, Error>, each: &mut dyn FnMut(&Batch)) -> Causes {
    let found = watch.and_then(|mut watch| {
        // The kernel says what a full ring dropped with the next event that fits.
        watch.pump(Duration::ZERO, each)?;
        watch.pump(LAST, each)?;
        watch.switch_and(false, each)?;
        let causes = watch.causes();
        watch.close_meanwhile();
        Ok(causes)
    });
    found.unwrap_or_else(|error| {
        let missing = vec![without(WAKE_UPS, &error)];
        Causes { source: CauseSource::RunDelay, missing, ..Causes::default() }
    })
}

/// Opens the events, and lists the threads again: some may begin between the listing for the target and the opening.
fn open(mut target: Target, account: &Account) -> Result<Watch, Error> {
    let mut lists = 0;
    loop {
        let mut watch = Watch::open(&target, Level::Causes, Room::Large)?;
        watch.switch(true)?;
        let new: Vec<i32> = account.tids().into_iter().filter(|tid| !target.tids.contains(tid)).collect();
        lists += 1;
        if !target.with_children || watch.also(&new) || lists == LISTS {
            return Ok(watch);
        }
        target.tids.extend(new);
    }
}

// The scheduler's account of a program's threads: `/proc/TID/schedstat` (`Documentation/scheduler/sched-stats.rst`).
//
// Threads come and go, so it is read again and again. A thread that lives only between two readings is not in it.

/// Shortest time from one reading to the next.
const BETWEEN: Duration = Duration::from_millis(100);
/// The time until the second reading. It doubles up to [`BETWEEN`], since a program may end soon.
const FIRST: Duration = Duration::from_millis(5);
/// Readings take at most one part of this many: 2 %.
const SHARE: u32 = 50;

/// The threads that an account is about.
#[derive(Debug, Clone)]
enum Whose {
    /// All threads of the process, and those of the processes that it creates from now on.
    Process(Family),
    /// These threads, and no others.
    Threads(Vec<i32>),
}

/// The account of some threads since it was opened.
#[derive(Debug)]
pub struct Account {
    whose: Whose,
    before: BTreeMap<i32, Times>,
    latest: BTreeMap<i32, Times>,
    next: Instant,
    between: Duration,
}

impl Account {
    /// Opens the account of a process and of its children to come.
    #[must_use]
    pub fn of_process(pid: i32) -> Self {
        Self::open(Whose::Process(Family::to_come(pid)))
    }

    /// Opens the account of these threads.
    #[must_use]
    pub fn of_threads(tids: &[i32]) -> Self {
        Self::open(Whose::Threads(tids.to_vec()))
    }

    fn open(whose: Whose) -> Self {
        let (before, latest) = (BTreeMap::new(), BTreeMap::new());
        let mut account = Self { whose, before, latest, next: Instant::now(), between: FIRST };
        account.reopen();
        account
    }

    /// Counts from now on.
    fn reopen(&mut self) {
        self.look();
        self.before = self.latest.clone();
        self.between = FIRST;
    }

    fn until_next_look(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Reads it again, if it is time, and returns whether it was.
    pub fn look_now_and_then(&mut self) -> bool {
        let time = Instant::now() >= self.next;
        if time {
            self.look();
        }
        time
    }

    /// Reads it again.
    pub fn look(&mut self) {
        let begin = Instant::now();
        for tid in self.tids() {
            if let Some(times) = Times::read(tid) {
                self.latest.insert(tid, times);
            }
        }
        self.next = Instant::now() + self.between.max(begin.elapsed() * SHARE);
        self.between = BETWEEN.min(2 * self.between);
    }

    /// The threads that it is about, as of now.
    pub(super) fn tids(&self) -> Vec<i32> {
        match &self.whose {
            Whose::Threads(tids) => tids.clone(),
            Whose::Process(family) => family.tids().into_iter().map(|(_, tid)| tid).collect(),
        }
    }

    /// Number of threads seen.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.latest.len() as u64
    }

    /// CPU time since it was opened, ns. `None`: the kernel keeps no account.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<u64> {
        self.sum(|times| times.cpu_ns)
    }

    /// Time that the threads waited for a CPU, summed, ns.
    #[must_use]
    pub fn run_delay_ns(&self) -> Option<u64> {
        self.sum(|times| times.run_delay_ns)
    }

    fn sum(&self, field: fn(&Times) -> u64) -> Option<u64> {
        let since = |(tid, now): (&i32, &Times)| field(now).saturating_sub(self.before.get(tid).map_or(0, field));
        (!self.latest.is_empty()).then(|| self.latest.iter().map(since).sum())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::{RecvTimeoutError, channel};

    use super::*;

    static WAITS: AtomicU32 = AtomicU32::new(0);

    #[test]
    fn threads_that_the_listing_missed_are_watched() {
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let missed = std::thread::Builder::new().name("missed".into()).spawn(move || {
            tell.send(()).unwrap();
            while ended.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
                WAITS.fetch_add(1, Ordering::SeqCst);
            }
        });
        told.recv().unwrap();
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let target = Target { tids: vec![own], with_children: true };
        let mut watcher =
            Watcher::begin(&target, Account::of_process(std::process::id().cast_signed()), Depth::WakeUps);
        let begin = WAITS.load(Ordering::SeqCst);
        punctual_testing::until("100 waits", || {
            watcher.step(Duration::from_millis(10), &mut |_| {});
            WAITS.load(Ordering::SeqCst) >= begin + 100
        });
        let causes = watcher.end(Program::default(), &mut |_| {});
        drop(end);
        missed.unwrap().join().unwrap();
        if causes.source == CauseSource::RunDelay {
            return punctual_testing::lacks(punctual_testing::Lack::Events);
        }
        let waits = causes.calls.iter().filter(|call| call.thread == "missed").map(|call| call.blocked).sum::<u64>();
        assert!(waits > 0, "{:?}", causes.calls);
    }

    #[test]
    fn cpu_time_counts_from_the_opening_on() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        // Reading this clock brings the account up to date.
        let spent = || punctual_linux::clock::now_ns(punctual_linux::clock::Clock::ThreadCpu).unsigned_abs();
        let spin = |ms: u64| {
            let begin = spent();
            while spent() - begin < ms * 1_000_000 {}
        };
        spin(20);
        let mut account = Account::of_threads(&[own]);
        spin(10);
        account.look();
        let Some(cpu_ns) = account.cpu_ns() else {
            return punctual_testing::lacks(punctual_testing::Lack::File("/proc/self/schedstat"));
        };
        assert!(cpu_ns >= 10_000_000, "{cpu_ns}");
        assert_eq!((account.threads(), account.run_delay_ns().is_some()), (1, true));
        let before = spent();
        let mut again = Account::of_threads(&[own]);
        again.look();
        assert!(again.cpu_ns().unwrap() <= spent() - before);
        spin(300);
        let before = spent();
        let target = Target { tids: vec![own], with_children: false };
        let causes = Watcher::begin(&target, again, Depth::Sums).end(Program::default(), &mut |_| {});
        assert!(causes.program.unwrap().cpu_ns.unwrap() <= spent() - before, "of the watch, not of the time before");
    }

    #[test]
    fn children_to_come_belong_to_it_and_elder_ones_do_not() {
        let mut elder = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let mut account = Account::of_process(std::process::id().cast_signed());
        let before = account.threads();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        account.look();
        let seen = |process: &std::process::Child| account.latest.contains_key(&process.id().cast_signed());
        assert!(!seen(&elder) && account.threads() >= before);
        if std::path::Path::new("/proc/self/task").join(own()).join("children").exists() {
            assert!(seen(&child));
        }
        for process in [&mut elder, &mut child] {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    fn own() -> String {
        rustix::thread::gettid().as_raw_nonzero().get().to_string()
    }
}
