//! A thread of another program, with its start time: a later thread of the same number has another. The CPU time of a program's threads,
//! and the time that others took from them; which CPUs idle, and what the host took from all of them. The wake-ups of each block of
//! time without and with a remedy.
//!
//! A wake-up belongs to a block if its whole call does. The timer of a call that began earlier has the earlier setting.

use std::collections::HashMap;
use std::path::Path;
use std::{fmt, fs};

use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{Spread, TrialBlock};
use punctual_trace::WakeUp;

use crate::program::belongs_to_caller;
pub(super) use crate::program::{Family, Times};

/// `USER_HZ`, the unit of times in `/proc/PID/stat` (include/asm-generic/param.h).
const TICK_NS: i64 = 10_000_000;

/// A thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) process: i32,
    pub(super) tid: i32,
    /// When it started, in ticks since the boot.
    pub(super) started: u64,
}

impl Thread {
    /// A thread of this process, as it is now.
    pub(super) fn find(process: i32, tid: i32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{process}/task/{tid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name may hold spaces and parentheses.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        if matches!(fields.next()?, "Z" | "X" | "x") {
            return None;
        }
        Some(Self { process, tid, started: fields.nth(18)?.parse().ok()? })
    }

    /// Whether its number still belongs to it.
    pub(super) fn lives(&self) -> bool {
        Self::find(self.process, self.tid) == Some(*self)
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.tid)
    }
}

/// This moment in the unit of [`Thread::started`], rounded down.
pub(super) fn tick() -> u64 {
    (now_ns(Clock::Boottime) / TICK_NS).unsigned_abs()
}

impl Family {
    /// All threads now.
    pub(super) fn threads(&self) -> Vec<Thread> {
        let own = |process: i32| belongs_to_caller(Path::new(&format!("/proc/{process}")));
        let own = self.tids().into_iter().filter(|(process, _)| own(*process));
        own.filter_map(|(process, tid)| Thread::find(process, tid)).collect()
    }
}

/// At one moment.
#[derive(Debug, Default)]
pub(super) struct Usage {
    threads: HashMap<i32, (Thread, Times)>,
    stolen_ns: Option<u64>,
}

/// Between two moments. Absent: the kernel does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spent {
    cpu_ns: Option<u64>,
    run_delay_ns: Option<u64>,
    stolen_ns: Option<u64>,
}

impl Usage {
    /// Of these threads, now.
    pub(super) fn now(threads: Vec<Thread>) -> Self {
        let times = |thread: Thread| Some((thread.tid, (thread, Times::read(thread.tid)?)));
        Self { threads: threads.into_iter().filter_map(times).collect(), stolen_ns: stolen_ns() }
    }

    /// Since an earlier moment.
    pub(super) fn since(&self, before: &Self) -> Spent {
        let sum = |field: fn(&Times) -> u64| {
            let one = |(tid, now): (&i32, &(Thread, Times))| {
                field(&now.1).saturating_sub(before.times(*tid, &now.0).map_or(0, field))
            };
            (!self.threads.is_empty()).then(|| self.threads.iter().map(one).sum())
        };
        Spent {
            cpu_ns: sum(|times| times.cpu_ns),
            run_delay_ns: sum(|times| times.run_delay_ns),
            stolen_ns: self.stolen_ns.zip(before.stolen_ns).map(|(now, then)| now.saturating_sub(then)),
        }
    }

    /// The share of a CPU of each thread that lived at both moments, which are this far apart.
    pub(super) fn shares(&self, before: &Self, ns: u64) -> HashMap<i32, f64> {
        let one = |(tid, now): (&i32, &(Thread, Times))| {
            let then = before.times(*tid, &now.0)?;
            Some((*tid, now.1.cpu_ns.saturating_sub(then.cpu_ns) as f64 / ns.max(1) as f64))
        };
        self.threads.iter().filter_map(one).collect()
    }

    /// Of the same thread: a later one of its number is another.
    fn times(&self, tid: i32, thread: &Thread) -> Option<&Times> {
        self.threads.get(&tid).filter(|known| known.0 == *thread).map(|known| &known.1)
    }
}

/// Time that the host gave to others (`/proc/stat`, steal), of all CPUs, in ns.
fn stolen_ns() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: u64 = all.split_whitespace().nth(7)?.parse().ok()?;
    Some(ticks.saturating_mul(TICK_NS.unsigned_abs()))
}

/// Whether the kernel has idle states to leave out.
pub(super) fn has_idle_states() -> bool {
    let driver = fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver").unwrap_or_default();
    !matches!(driver.trim(), "" | "none")
}

/// Idle time of each CPU in ticks (`/proc/stat`).
pub(super) fn idle_times() -> HashMap<usize, u64> {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let idle = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_whitespace();
        let cpu: usize = fields.next()?.parse().ok()?;
        Some((cpu, fields.nth(3)?.parse().ok()?))
    };
    stat.lines().filter_map(idle).collect()
}

/// Fewer values do not support a 99th percentile.
const FOR_P99: usize = 100;
/// Most wake-ups of a block that count.
const MOST: usize = 1 << 18;
/// Events of a block are read within as many blocks after it.
const LATER: usize = 2;

/// A block.
#[derive(Debug, Default)]
struct Block {
    from_ns: u64,
    to_ns: u64,
    spent: Spent,
    /// By timers, and by others.
    late_ns: [Vec<u64>; 2],
    spreads: [Option<Spread>; 2],
}

/// All blocks in the order of time.
#[derive(Debug, Default)]
pub(super) struct Blocks(Vec<Block>);

impl Blocks {
    /// A block begins. Returns its number.
    pub(super) fn begin(&mut self, from_ns: u64) -> usize {
        let old = self.0.len().saturating_sub(LATER);
        // Small figures instead of all wake-ups.
        self.0[..old].iter_mut().rev().take_while(|block| block.spreads == [None; 2]).for_each(Block::close);
        self.0.push(Block { from_ns, to_ns: u64::MAX, ..Block::default() });
        self.0.len() - 1
    }

    /// It ends.
    pub(super) fn end(&mut self, to_ns: u64, spent: Spent) {
        if let Some(block) = self.0.last_mut() {
            (block.to_ns, block.spent) = (to_ns, spent);
        }
    }

    /// Takes wake-ups in; those between two blocks are dropped.
    pub(super) fn take(&mut self, wake_ups: &[WakeUp]) {
        for wake_up in wake_ups {
            let holds = |block: &&mut Block| block.from_ns <= wake_up.entered_ns && wake_up.returned_ns <= block.to_ns;
            if let Some(block) = self.0.iter_mut().rev().take(LATER + 1).find(holds) {
                let values = &mut block.late_ns[usize::from(!wake_up.timed)];
                if values.len() < MOST {
                    values.push(wake_up.late_ns);
                }
            }
        }
    }

    /// The results of a block.
    pub(super) fn block(&mut self, number: usize) -> TrialBlock {
        let block = &mut self.0[number];
        block.close();
        let [timer, other] = block.spreads;
        let Spent { cpu_ns, run_delay_ns, stolen_ns } = block.spent;
        TrialBlock { ns: block.to_ns.saturating_sub(block.from_ns), cpu_ns, run_delay_ns, stolen_ns, timer, other }
    }
}

impl Block {
    fn close(&mut self) {
        for (values, spread) in self.late_ns.iter_mut().zip(&mut self.spreads) {
            *spread = spread.take().or_else(|| spread_among(std::mem::take(values)));
        }
    }
}

fn spread_among(mut values: Vec<u64>) -> Option<Spread> {
    values.sort_unstable();
    let count = values.len();
    // The smallest value that this share of them does not exceed.
    let at = |percent: usize| values[(count * percent).div_ceil(100) - 1];
    Some(Spread {
        count: count as u64,
        total_ns: values.iter().fold(0, |sum, ns| u64::saturating_add(sum, *ns)),
        max_ns: *values.last()?,
        p50_ns: at(50),
        p99_ns: (count >= FOR_P99).then(|| at(99)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_itself_while_it_lives() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id().cast_signed();
        let thread = Thread::find(pid, pid).unwrap();
        assert!(thread.lives() && thread.started <= tick());
        assert!(!Thread { started: thread.started + 1, ..thread }.lives(), "another thread of its number");
        assert!(!Thread { process: 1, ..thread }.lives(), "a thread of another process");
        let family = Family::to_come(std::process::id().cast_signed());
        assert!(family.threads().iter().all(|other| other.process != pid), "an elder child");
        child.kill().unwrap();
        while thread.lives() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }

    fn usage(started: u64, cpu_ns: u64, run_delay_ns: u64, stolen_ns: Option<u64>) -> Usage {
        let thread = Thread { process: 1, tid: 7, started };
        Usage { threads: HashMap::from([(7, (thread, Times { cpu_ns, run_delay_ns }))]), stolen_ns }
    }

    #[test]
    fn a_later_thread_of_the_same_number_counts_from_its_start() {
        let before = usage(5, 100, 10, Some(1));
        let same = usage(5, 150, 30, Some(4));
        assert_eq!(same.since(&before), Spent { cpu_ns: Some(50), run_delay_ns: Some(20), stolen_ns: Some(3) });
        assert_eq!(same.shares(&before, 100), HashMap::from([(7, 0.5)]));
        let later = usage(6, 150, 30, None);
        assert_eq!(later.since(&before), Spent { cpu_ns: Some(150), run_delay_ns: Some(30), stolen_ns: None });
        assert!(later.shares(&before, 100).is_empty(), "its share is not known yet");
        assert_eq!(Usage::default().since(&before).cpu_ns, None);
    }

    #[test]
    fn own_time_grows() {
        let pid = std::process::id().cast_signed();
        let own = || Usage::now(Thread::find(pid, pid).into_iter().collect());
        let before = own();
        if before.threads.is_empty() {
            return punctual_testing::lacks(punctual_testing::Lack::File("/proc/self/schedstat"));
        }
        assert!(own().since(&before).stolen_ns.is_some());
    }

    fn wake_up(entered_ns: u64, returned_ns: u64, late_ns: u64, timed: bool) -> WakeUp {
        WakeUp { entered_ns, returned_ns, late_ns, timed }
    }

    #[test]
    fn a_call_counts_in_the_block_that_has_all_of_it() {
        let mut blocks = Blocks::default();
        let first = blocks.begin(1000);
        blocks.take(&[wake_up(990, 1100, 9, true), wake_up(1000, 1100, 1, true), wake_up(1010, 1100, 2, false)]);
        blocks.end(2000, Spent { cpu_ns: Some(5), ..Spent::default() });
        let second = blocks.begin(2100);
        // Read later, and across the boundary.
        blocks.take(&[wake_up(1500, 1600, 3, true), wake_up(1900, 2200, 8, true), wake_up(2100, 2200, 4, true)]);
        blocks.end(3000, Spent::default());
        let [one, two] = [first, second].map(|number| blocks.block(number));
        let figures = |block: &TrialBlock| {
            block.timer.map(|spread| (spread.count, spread.total_ns, spread.p50_ns, spread.max_ns))
        };
        assert_eq!(figures(&one), Some((2, 4, 1, 3)));
        assert_eq!(one.other.map(|spread| spread.count), Some(1));
        assert_eq!((figures(&two), two.other, two.ns), (Some((1, 4, 4, 4)), None, 900));
        assert_eq!((one.cpu_ns, two.cpu_ns), (Some(5), None));
    }

    #[test]
    fn percentiles_are_ranks_and_need_their_number() {
        let spread = spread_among((1..=100).rev().collect()).unwrap();
        assert_eq!((spread.p50_ns, spread.p99_ns, spread.max_ns), (50, Some(99), 100));
        assert_eq!(spread_among((1..=99).collect()).unwrap().p99_ns, None);
        assert_eq!(spread_among(Vec::new()), None);
    }

    #[test]
    fn what_is_over_is_kept_as_figures() {
        let mut blocks = Blocks::default();
        for number in 0..10 {
            let from = number * 1000;
            assert_eq!(blocks.begin(from), number as usize);
            blocks.take(&[wake_up(from, from + 10, number + 1, true)]);
            blocks.end(from + 900, Spent::default());
        }
        assert!(blocks.0[..7].iter().all(|block| block.late_ns[0].is_empty()));
        assert!((0..10).all(|number| blocks.block(number).timer.unwrap().max_ns == number as u64 + 1));
    }
}
