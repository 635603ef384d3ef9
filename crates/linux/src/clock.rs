//! The kernel's clocks in nanoseconds (`clock_gettime(2)`), those of CPU time too, and the other resources that a thread, this process or
//! its children have used (`getrusage(2)`).

use std::io::Read as _;

use crate::{Result, check};

/// A clock of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Clock {
    /// Time since an unspecified start; never steps, is slewed by NTP, stops in suspend.
    Monotonic,
    /// The wall clock; steps when it is set.
    Realtime,
    /// Monotonic, and continues in suspend.
    Boottime,
    /// The wall clock without leap seconds.
    Tai,
    /// CPU time of the calling thread.
    ThreadCpu,
    /// CPU time of the calling process.
    ProcessCpu,
}

impl Clock {
    #[inline]
    const fn id_and_name(self) -> (libc::clockid_t, &'static str) {
        match self {
            Self::Monotonic => (libc::CLOCK_MONOTONIC, "CLOCK_MONOTONIC"),
            Self::Realtime => (libc::CLOCK_REALTIME, "CLOCK_REALTIME"),
            Self::Boottime => (libc::CLOCK_BOOTTIME, "CLOCK_BOOTTIME"),
            Self::Tai => (libc::CLOCK_TAI, "CLOCK_TAI"),
            Self::ThreadCpu => (libc::CLOCK_THREAD_CPUTIME_ID, "CLOCK_THREAD_CPUTIME_ID"),
            Self::ProcessCpu => (libc::CLOCK_PROCESS_CPUTIME_ID, "CLOCK_PROCESS_CPUTIME_ID"),
        }
    }

    /// The kernel's number of this clock.
    #[inline]
    #[must_use]
    pub const fn id(self) -> libc::clockid_t {
        self.id_and_name().0
    }

    /// The name in C.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.id_and_name().1
    }
}

/// `clock_gettime(2)`: nanoseconds on `clock`. Cannot fail for the clocks of [`Clock`] on Linux 3.10 and later.
#[inline]
#[must_use]
pub fn now_ns(clock: Clock) -> i64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid, writable timespec for the duration of the call.
    unsafe { libc::clock_gettime(clock.id(), &raw mut ts) };
    ns_of(ts)
}

/// `clock_getres(2)`: the claimed resolution of `clock` in nanoseconds.
pub fn resolution_ns(clock: Clock) -> Result<i64> {
    resolution_of(clock.id())
}

fn resolution_of(clock: libc::clockid_t) -> Result<i64> {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid, writable timespec for the duration of the call.
    check("clock_getres", unsafe { libc::clock_getres(clock, &raw mut ts) })?;
    Ok(ns_of(ts))
}

/// Nanoseconds of a `timespec`.
#[inline]
pub(crate) const fn ns_of(ts: libc::timespec) -> i64 {
    ts.tv_sec as i64 * 1_000_000_000 + ts.tv_nsec as i64
}

/// The `timespec` of a number of nanoseconds; negative numbers become zero, since no call takes them.
#[inline]
pub(crate) const fn timespec_of(ns: i64) -> libc::timespec {
    let ns = if ns < 0 { 0 } else { ns };
    libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as libc::c_long }
}

/// The kernel's timespec of 64 bits, which newer calls take on every architecture.
#[repr(C)]
pub(crate) struct KernelTimespec {
    seconds: i64,
    nanoseconds: i64,
}

impl KernelTimespec {
    /// A number of nanoseconds; negative numbers become zero.
    #[inline]
    pub(crate) const fn of(ns: i64) -> Self {
        let ns = if ns < 0 { 0 } else { ns };
        Self { seconds: ns / 1_000_000_000, nanoseconds: ns % 1_000_000_000 }
    }
}

/// Resource usage since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// CPU time in user mode, ns (kept by the kernel in µs).
    pub user_ns: i64,
    /// CPU time in the kernel, ns (kept by the kernel in µs).
    pub system_ns: i64,
    /// Voluntary context switches: the thread waited.
    pub voluntary_switches: i64,
    /// Involuntary context switches: another thread was due, or the thread yielded.
    pub involuntary_switches: i64,
    /// Minor page faults, served from memory.
    pub minor_faults: i64,
    /// Major page faults, read from disk.
    pub major_faults: i64,
}

/// `getrusage(RUSAGE_THREAD)`: usage of the calling thread.
pub fn thread_usage() -> Result<Usage> {
    usage_of("getrusage(RUSAGE_THREAD)", libc::RUSAGE_THREAD)
}

/// Time for which the calling thread was ready to run while others ran, ns: the second figure of `/proc/thread-self/schedstat`. `None` without
/// /proc, or if the kernel does not count it. Never allocates memory.
#[must_use]
pub fn thread_run_delay_ns() -> Option<u64> {
    let mut line = [0; 80];
    let length = std::fs::File::open("/proc/thread-self/schedstat").ok()?.read(&mut line).ok()?;
    std::str::from_utf8(&line[..length]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// `getrusage(RUSAGE_SELF)`: usage of the process, all threads together.
pub fn process_usage() -> Result<Usage> {
    usage_of("getrusage(RUSAGE_SELF)", libc::RUSAGE_SELF)
}

/// `getrusage(RUSAGE_CHILDREN)`: usage of reaped children and their descendants.
pub fn children_usage() -> Result<Usage> {
    usage_of("getrusage(RUSAGE_CHILDREN)", libc::RUSAGE_CHILDREN)
}

fn usage_of(call: &'static str, who: libc::c_int) -> Result<Usage> {
    let mut raw = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `raw` is a valid, writable rusage for the duration of the call.
    check(call, unsafe { libc::getrusage(who, raw.as_mut_ptr()) })?;
    // SAFETY: zeroed is a valid rusage already, and the call filled it.
    let raw = unsafe { raw.assume_init() };
    // The field types differ between architectures.
    Ok(Usage {
        user_ns: raw.ru_utime.tv_sec as i64 * 1_000_000_000 + raw.ru_utime.tv_usec as i64 * 1000,
        system_ns: raw.ru_stime.tv_sec as i64 * 1_000_000_000 + raw.ru_stime.tv_usec as i64 * 1000,
        voluntary_switches: raw.ru_nvcsw as i64,
        involuntary_switches: raw.ru_nivcsw as i64,
        minor_faults: raw.ru_minflt as i64,
        major_faults: raw.ru_majflt as i64,
    })
}

/// CPU time of the calling thread by its three CPU clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuClocks {
    /// The scheduler's count, current to the ns.
    pub exact_ns: i64,
    /// The part of `sampled_ns` in user mode.
    pub user_ns: i64,
    /// The ticks that found the thread running, as time. Kernels with full dynticks count it exactly.
    pub sampled_ns: i64,
}

/// `clock_gettime` on the three CPU clocks of the calling thread.
///
/// `getrusage` scales its division into user and system time by the thread's whole history. While the thread runs, it
/// also lags up to a tick behind. These clocks do neither.
pub fn thread_cpu_clocks() -> Result<CpuClocks> {
    Ok(CpuClocks {
        exact_ns: cpu_clock_ns(0, CPUCLOCK_SCHED)?,
        user_ns: cpu_clock_ns(0, CPUCLOCK_VIRT)?,
        sampled_ns: cpu_clock_ns(0, CPUCLOCK_PROF)?,
    })
}

/// `clock_gettime` on the CPU clock of thread `tid` of this process: its CPU time in ns. EINVAL once that thread has ended.
pub fn cpu_time_of_thread_ns(tid: i32) -> Result<i64> {
    cpu_clock_ns(tid, CPUCLOCK_SCHED)
}

/// include/linux/posix-timers_types.h: user and system time, user time, and the scheduler's count.
const CPUCLOCK_PROF: libc::clockid_t = 0;
const CPUCLOCK_VIRT: libc::clockid_t = 1;
const CPUCLOCK_SCHED: libc::clockid_t = 2;

/// One CPU clock of a thread; 0 is the calling one.
fn cpu_clock_ns(tid: i32, which: libc::clockid_t) -> Result<i64> {
    // The complement of the id in the upper bits, then CPUCLOCK_PERTHREAD_MASK (4). pthread_getcpuclockid makes the same
    // number from a pthread_t.
    read((!tid << 3) | 4 | which).map_err(|e| e.on(format!("CPU clock of thread {tid}")))
}

/// `clock_gettime` on the CPU clock of process `pid`: the CPU time of all its threads in ns. EINVAL once it is reaped.
pub(crate) fn cpu_time_of_process_ns(pid: i32) -> Result<i64> {
    // Likewise, without the mask.
    read((!pid << 3) | CPUCLOCK_SCHED).map_err(|e| e.on(format!("CPU clock of process {pid}")))
}

fn read(clock: libc::clockid_t) -> Result<i64> {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid, writable timespec for the duration of the call.
    check("clock_gettime", unsafe { libc::clock_gettime(clock, &raw mut ts) })?;
    Ok(ns_of(ts))
}

/// The period of the kernel's tick, ns: the step of its coarse clocks.
pub fn tick_ns() -> Result<i64> {
    resolution_of(libc::CLOCK_MONOTONIC_COARSE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::current_thread_id;

    #[test]
    fn monotonic_never_goes_back() {
        let mut last = now_ns(Clock::Monotonic);
        for _ in 0..100_000 {
            let now = now_ns(Clock::Monotonic);
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn timespec_round_trip() {
        for ns in [0, 1, 999_999_999, 1_000_000_000, 123_456_789_012_345] {
            assert_eq!(ns_of(timespec_of(ns)), ns);
        }
        assert_eq!(ns_of(timespec_of(-5)), 0);
    }

    #[test]
    fn sleeping_counts_as_voluntary_switches() {
        let switches = || thread_usage().unwrap().voluntary_switches;
        let before = switches();
        // A sleep whose time is over before the thread is off its CPU is none.
        punctual_testing::until("ten switches", || {
            std::thread::sleep(std::time::Duration::from_millis(1));
            switches() >= before + 10
        });
    }

    #[test]
    fn run_delay_is_the_time_that_others_took() {
        if thread_run_delay_ns().is_none() {
            return punctual_testing::lacks(punctual_testing::Lack::File("/proc/self/schedstat"));
        }
        let cpu = crate::sched::affinity(0).unwrap()[0];
        let run = || {
            crate::sched::set_affinity(0, &[cpu]).unwrap();
            let (delay, own, from) =
                (thread_run_delay_ns().unwrap(), now_ns(Clock::ThreadCpu), now_ns(Clock::Monotonic));
            while now_ns(Clock::ThreadCpu) - own < 50_000_000 {
                std::hint::spin_loop();
            }
            (thread_run_delay_ns().unwrap() - delay, now_ns(Clock::Monotonic) - from)
        };
        let both =
            std::thread::scope(|scope| [scope.spawn(run), scope.spawn(run)].map(|thread| thread.join().unwrap()));
        // Two threads that compute for 50 ms each on one CPU: one at least waits for most of the other's time.
        let most = both.iter().map(|(delay, _)| *delay).max().unwrap();
        assert!(most >= 20_000_000, "{both:?}");
        assert!(both.iter().all(|(delay, wall)| delay.cast_signed() <= *wall), "{both:?}");
    }

    #[test]
    fn cpu_clocks_of_this_thread() {
        let before = thread_cpu_clocks().unwrap();
        // Some of 100 ms is sampled, even at 100 Hz; but a virtual machine that stood still has few samples.
        let after = punctual_testing::eventually("a sample", || {
            let own = now_ns(Clock::ThreadCpu);
            while now_ns(Clock::ThreadCpu) - own < 100_000_000 {
                std::hint::spin_loop();
            }
            Some(thread_cpu_clocks().unwrap()).filter(|after| after.sampled_ns > before.sampled_ns)
        });
        assert!(after.exact_ns - before.exact_ns >= 100_000_000);
        // No more of it is in user mode than in all.
        let (user, all) = (after.user_ns - before.user_ns, after.sampled_ns - before.sampled_ns);
        assert!((0..=all).contains(&user), "{user} of {all}");
        assert!((500_000..=20_000_000).contains(&tick_ns().unwrap()));
    }

    #[test]
    fn cpu_clock_of_another_thread() {
        let (send, receive) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let busy = std::thread::spawn(move || {
            while now_ns(Clock::ThreadCpu) < 20_000_000 {}
            send.send((current_thread_id(), now_ns(Clock::ThreadCpu))).unwrap();
            let _ = ended.recv();
        });
        let (tid, used) = receive.recv().unwrap();
        assert!(cpu_time_of_thread_ns(tid).unwrap() >= used);
        drop(end);
        busy.join().unwrap();
        let error = cpu_time_of_thread_ns(i32::MAX >> 4).unwrap_err();
        assert_eq!(error.errno(), libc::EINVAL);
    }
}
