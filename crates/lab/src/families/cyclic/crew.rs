//! The threads that cycle: each has its conditions, and all start, run and end together.
//!
//! In go [`Orders`], out comes a running [`Crew`]. The kernel bounds its real-time threads (RLIMIT_RTTIME). A thread
//! whose conditions are refused still cycles: the caller decides what that means. A thread without its timer or its SMI
//! counter does not. Each starts when it is ready, or all at one time, when the last of them is ready ([`Start`]).

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use punctual::conditions::{Applied, Conditions, Lost, Refused};
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::signal::{self, Interrupter, Interruptible};
use punctual_linux::{memory, sched};
use punctual_record::Usage;

use super::gauge::{Bell, Gauge, Keep};
use super::turn::{Cycle, Kernel, Limits, SmiCounter, Turn, Waiting};
use crate::frame::figures::Meter;
use crate::frame::stage::limit_real_time;

/// Stack of a thread: four times what is touched beforehand.
const STACK: usize = 4 * memory::PREFAULTED_STACK_BYTES;
/// Time for interrupted threads to end before they are moved off their CPUs, and then before they are left behind.
const ENDS: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(350)];

/// One thread.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its policy and its CPU.
    pub conditions: Conditions,
    /// From one wake-up to the next.
    pub interval_ns: i64,
    /// The CPU whose SMIs it counts.
    pub smis_of: Option<usize>,
}

/// What a crew does.
#[derive(Debug)]
pub struct Orders {
    /// The threads.
    pub members: Vec<Member>,
    /// The measured clock.
    pub clock: Clock,
    /// How they wait.
    pub waiting: Waiting,
    /// When they start.
    pub start: Start,
    /// When they end by themselves.
    pub limits: Limits,
    /// What each keeps.
    pub keep: Keep,
    /// What they share.
    pub bell: Bell,
}

/// Why a crew did not start.
#[derive(Debug, thiserror::Error)]
#[error("thread {thread}: {why}")]
pub struct NotStarted {
    /// Its number.
    pub thread: usize,
    /// The call or file, and the kernel's reason.
    pub why: String,
}

/// Cycling threads. Dropping it ends them.
#[derive(Debug)]
pub struct Crew {
    bell: Arc<Bell>,
    gauges: Vec<Arc<Gauge>>,
    members: Vec<(String, Member)>,
    threads: Vec<JoinHandle<Left>>,
    interrupters: Vec<Option<Interrupter>>,
    refused: Vec<Vec<Refused>>,
    lost: Vec<Lost>,
}

/// What a thread used, and the conditions that it had no longer at its end.
type Left = (Usage, Vec<Lost>);

/// What a thread says before its first interval.
struct Ready {
    thread: usize,
    interrupter: Option<Interrupter>,
    refused: Vec<Refused>,
    failed: Option<String>,
}

impl Crew {
    /// Starts the threads and waits until each has its conditions.
    ///
    /// # Errors
    /// If a thread cannot be started, or has no timer or SMI counter. Then none runs.
    pub fn start(orders: Orders) -> Result<Self, NotStarted> {
        limit_real_time();
        let Orders { members, clock, waiting, start, limits, keep, bell } = orders;
        let bell = Arc::new(bell);
        let smi = members.iter().any(|member| member.smis_of.is_some());
        let gauges: Vec<_> = members.iter().map(|_| Arc::new(Gauge::new(keep, smi))).collect();
        let starter = Arc::new(Starter { start, clock, at_ns: OnceLock::new() });
        let (ready, told) = channel();
        let (mut threads, mut failed) = (Vec::new(), None);
        let members = named(members);
        for (thread, (name, member)) in members.iter().cloned().enumerate() {
            let (gauge, ready) = (gauges[thread].clone(), ready.clone());
            let (shared, met) = (Arc::clone(&bell), Arc::clone(&starter));
            let builder = std::thread::Builder::new().name(format!("cyclic/{name}")).stack_size(STACK);
            let cycles = move || cycle(thread, &member, (clock, waiting, limits), (&gauge, &shared, &met, ready));
            match builder.spawn(cycles) {
                Ok(handle) => threads.push(handle),
                Err(error) => {
                    failed = Some((thread, format!("pthread_create: {error}")));
                    bell.ring();
                    break;
                }
            }
        }
        drop(ready);
        let (interrupters, refused, lost) = (Vec::new(), Vec::new(), Vec::new());
        let mut crew = Self { bell, gauges, members, threads, interrupters, refused, lost };
        let mut all: Vec<Ready> = told.iter().take(crew.threads.len()).collect();
        starter.begin();
        all.sort_by_key(|ready| ready.thread);
        let failed = failed.or_else(|| all.iter_mut().find_map(|ready| Some((ready.thread, ready.failed.take()?))));
        for ready in all {
            crew.interrupters.push(ready.interrupter);
            crew.refused.push(ready.refused);
        }
        match failed {
            None => Ok(crew),
            Some((thread, why)) => Err(NotStarted { thread, why }),
        }
    }

    /// The figures of each thread.
    #[must_use]
    pub fn gauges(&self) -> &[Arc<Gauge>] {
        &self.gauges
    }

    /// The threads with their names: the CPU, and where several have it, the number of the thread after it (`0.2`).
    pub(crate) fn members(&self) -> &[(String, Member)] {
        &self.members
    }

    /// What the threads share.
    #[must_use]
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// The refused conditions of each thread.
    #[must_use]
    pub fn refused(&self) -> &[Vec<Refused>] {
        &self.refused
    }

    /// The conditions that threads had lost when they ended: their CPU went offline, or another program changed them. Each once.
    #[must_use]
    pub fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// Ends the threads, and returns what each used. A thread that another one keeps from its CPU is moved, and at last left behind
    /// (`None`).
    pub fn end(&mut self) -> Vec<Option<Usage>> {
        self.bell.ring();
        for (stage, patience) in ENDS.into_iter().enumerate() {
            if stage > 0 && !self.all_ended() {
                sched::free_process(std::process::id() as i32, Some(sched::current_thread_id()));
            }
            let until = Instant::now() + patience;
            while !self.all_ended() && Instant::now() < until {
                // A thread may be on its way into the wait: it is interrupted until it has ended.
                self.interrupters.iter().flatten().for_each(|interrupter| drop(interrupter.interrupt()));
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let joined = |thread: JoinHandle<Left>| thread.is_finished().then(|| thread.join().ok()).flatten();
        let mut usage = Vec::new();
        for left in std::mem::take(&mut self.threads).into_iter().map(joined) {
            let (used, lost) = left.unzip();
            usage.push(used);
            for lost in lost.into_iter().flatten() {
                if !self.lost.contains(&lost) {
                    self.lost.push(lost);
                }
            }
        }
        usage
    }

    fn all_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.end();
        }
    }
}

/// Names the threads. Causes are told apart by the names of threads.
fn named(members: Vec<Member>) -> Vec<(String, Member)> {
    let mut named: Vec<(String, Member)> = Vec::new();
    for (thread, member) in members.into_iter().enumerate() {
        let cpu = member.conditions.get_cpus().filter(|cpus| cpus.len() == 1);
        let name = cpu.and_then(|cpus| cpus.iter().next()).unwrap_or(thread).to_string();
        let is_taken = named.iter().any(|(known, _)| *known == name);
        named.push((if is_taken { format!("{name}.{thread}") } else { name }, member));
    }
    named
}

/// A thread from its conditions to its end.
fn cycle(
    thread: usize,
    member: &Member,
    (clock, waiting, limits): (Clock, Waiting, Limits),
    (gauge, bell, starter, ready): (&Gauge, &Bell, &Starter, Sender<Ready>),
) -> Left {
    let _signals = signal::block_all_signals_but(&[signal::for_interrupting()]);
    let interruptible = Interruptible::this_thread().ok();
    let freed = sched::times_freed();
    let Applied { guard, refused } = member.conditions.clone().allow_irreversible().apply();
    memory::prefault_stack();
    let tid = sched::current_thread_id();
    gauge.is_of(tid);
    let smis = member.smis_of.map(SmiCounter::open).transpose();
    let kernel = Kernel::new(clock, waiting, member.interval_ns).map_err(|error| error.to_string());
    let (prepared, failed) = match (smis, kernel) {
        (Ok(smis), Ok(kernel)) => (Some((smis, kernel)), None),
        (Err(why), _) | (_, Err(why)) => (None, Some(why)),
    };
    if failed.is_some() {
        bell.ring();
    }
    let interrupter = interruptible.as_ref().map(Interruptible::interrupter);
    let _ = ready.send(Ready { thread, interrupter, refused, failed });
    // The channel ends with its last sender.
    drop(ready);
    let began_ns = starter.began_ns(thread);
    let meter = Meter::start();
    if let Some((smis, mut kernel)) = prepared {
        let mut cycle = Cycle::new(began_ns, member.interval_ns);
        let mut turn = Turn { thread, tid, limits, gauge, bell, smis };
        // An error is one of the wait: the clock does not exist, or the timer is gone. All end.
        if kernel.start(&cycle).and_then(|()| turn.perform(&mut kernel, &mut cycle, began_ns)).is_err() {
            bell.ring();
        }
    }
    let used = meter.stop();
    // What this program freed to end it has not lost its CPU or its policy to another one. It is counted before it is freed.
    let lost = guard.lost();
    let lost = if sched::times_freed() == freed { lost } else { Vec::new() };
    let left = (used, lost);
    drop(guard);
    bell.one_ended();
    left
}

/// When the first interval begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// For each thread when it is ready.
    Ready,
    /// For all at the same time; each thread this much later than the one before.
    Together(i64),
    /// For all at a full second, this much later.
    FullSecond(i64),
}

/// What the threads agree on at the start.
struct Starter {
    start: Start,
    clock: Clock,
    /// When all had their conditions, or the full second after that.
    at_ns: OnceLock<i64>,
}

impl Starter {
    /// No more threads come: those that wait for each other begin.
    fn begin(&self) {
        let now_ns = now_ns(self.clock);
        let is_full = matches!(self.start, Start::FullSecond(_));
        self.at_ns.get_or_init(|| if is_full { full_second_after(now_ns) } else { now_ns });
    }

    /// When the first interval of this thread begins.
    fn began_ns(&self, thread: usize) -> i64 {
        let later_ns = match self.start {
            Start::Ready => return now_ns(self.clock),
            Start::Together(ns) => ns.saturating_mul(thread as i64),
            Start::FullSecond(ns) => ns,
        };
        self.at_ns.wait().saturating_add(later_ns)
    }
}

/// The next full second; the one after it if that is less than 0.1 s away.
fn full_second_after(now_ns: i64) -> i64 {
    const SECOND: i64 = 1_000_000_000;
    let part = now_ns % SECOND;
    now_ns - part + if part > 900_000_000 { 2 * SECOND } else { SECOND }
}

#[cfg(test)]
mod tests {
    use super::super::turn::Unit;
    use super::*;

    fn orders(members: usize, waiting: Waiting, start: Start, limits: Limits) -> Orders {
        let member = Member { conditions: Conditions::new(), interval_ns: 1_000_000, smis_of: None };
        let keep = Keep { units: 10, values: true, spread: true };
        let (members, bell) = (vec![member; members], Bell::default());
        Orders { members, clock: Clock::Monotonic, waiting, start, limits, keep, bell }
    }

    const LIMITS: Limits =
        Limits { unit: Unit::Nanoseconds, cycles: Some(5), lasts_ns: None, break_above: None, share: None };

    #[test]
    fn each_way_to_wait_cycles_and_is_never_early() {
        use Waiting::{Deadline, Interval, Nanosleep, Timer};
        for waiting in [Deadline, Interval, Nanosleep, Timer { absolute: true }, Timer { absolute: false }] {
            let begin = std::time::Instant::now();
            let mut crew = Crew::start(orders(2, waiting, Start::Together(0), LIMITS)).unwrap();
            while crew.bell().ended() < 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let used = crew.end();
            let took = begin.elapsed();
            assert_eq!(used.len(), 2);
            // A thread that begins late has less time of its own.
            assert!(took >= Duration::from_millis(4), "{waiting:?}: {took:?}");
            for (gauge, used) in crew.gauges().iter().zip(used) {
                assert_eq!(gauge.cycles(), 5, "{waiting:?}");
                let early_ns = gauge.extremes().unwrap().0;
                // The first expiry of a relative timer is counted from a moment after the start.
                assert!(early_ns >= 0, "{waiting:?}: {early_ns}");
                let elapsed_ns = used.unwrap().elapsed_ns;
                assert!(
                    (1..=took.as_nanos()).contains(&u128::from(elapsed_ns)),
                    "{waiting:?}: {elapsed_ns} of {took:?}"
                );
            }
        }
    }

    #[test]
    fn it_ends_in_the_middle_of_a_long_wait() {
        let mut long = orders(1, Waiting::Deadline, Start::Ready, Limits { cycles: None, ..LIMITS });
        long.members[0].interval_ns = 3_600_000_000_000;
        let mut crew = Crew::start(long).unwrap();
        assert!(crew.end()[0].is_some());
        assert_eq!((crew.gauges()[0].cycles(), crew.bell().ended()), (0, 1));
    }

    /// The limit is of a user, and root has none.
    #[test]
    fn a_thread_that_cannot_be_started_leaves_none_behind() {
        let name = "families::cyclic::crew::tests::a_thread_that_cannot_be_started_leaves_none_behind";
        if !punctual_testing::as_plain_user(name) {
            return;
        }
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let tasks = || std::fs::read_dir("/proc/self/task").unwrap().count();
        let before = tasks();
        setrlimit(Resource::Nproc, Rlimit { current: Some(100), ..getrlimit(Resource::Nproc) }).unwrap();
        for start in [Start::Ready, Start::Together(0), Start::FullSecond(0)] {
            let many = orders(200, Waiting::Deadline, start, Limits { cycles: None, ..LIMITS });
            let refused = Crew::start(Orders { keep: Keep::default(), ..many }).unwrap_err();
            assert!(refused.thread > 0 && refused.why.starts_with("pthread_create: "), "{refused}");
            assert_eq!(tasks(), before, "{start:?}");
        }
    }

    #[test]
    fn a_counter_that_is_not_there_ends_all() {
        let mut without = orders(2, Waiting::Deadline, Start::Together(0), LIMITS);
        without.members[1].smis_of = Some(99_999);
        let refused = Crew::start(without).unwrap_err();
        assert_eq!(refused.thread, 1);
        assert!(refused.why.starts_with("/dev/cpu/99999/msr: "), "{}", refused.why);
    }

    #[test]
    fn a_full_second_is_never_past() {
        let seconds = |s: f64| (s * 1e9) as i64;
        assert_eq!(full_second_after(seconds(7.25)), seconds(8.0));
        assert_eq!(full_second_after(seconds(7.95)), seconds(9.0));
    }
}
