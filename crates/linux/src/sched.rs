//! Scheduling policy and nice value of one thread: `sched_setattr(2)`, `sched_getattr(2)`, `sched_setscheduler(2)`,
//! `getpriority(2)`, `setpriority(2)`.
//!
//! Thread ID 0 is the calling thread. The attribute calls are raw system calls, since the C library has no wrapper. If a kernel or a
//! seccomp filter answers ENOSYS, the older calls serve for every policy but SCHED_DEADLINE.
//!
//! And the timer slack of the calling thread: `prctl(PR_SET_TIMERSLACK)`, `prctl(PR_GET_TIMERSLACK)`. It is a raw system call too: the C
//! library's `prctl` returns an `int`, too small for a slack above 2.1 s.
//!
//! And its lower utilization clamp: `sched_setattr(2)` with SCHED_FLAG_UTIL_CLAMP_MIN (Linux 5.3, CONFIG_UCLAMP_TASK). The scheduler takes the thread for at least as busy as the lower clamp. The governor `schedutil` chooses the frequency accordingly. A
//! single thread can thus request speed while it runs. It needs no privilege up to the administrator's limit.
//!
//! [`free_thread`] frees one from a CPU that a thread of higher priority occupies. A thread that never gets its CPU can neither finish nor die: SIGKILL takes effect only when the thread runs. The kernel moves a
//! runnable thread as soon as its affinity excludes its CPU (`__set_cpus_allowed_ptr` in kernel/sched/core.c). So a thread on
//! another CPU can free it.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, getpriority_process, setpriority_process};

use crate::{Error, Result, check, failed};

/// `SCHED_FLAG_RESET_ON_FORK`: children start under SCHED_OTHER instead of a real-time policy.
pub const RESET_ON_FORK: u64 = 0x01;
/// `SCHED_FLAG_RECLAIM`: a SCHED_DEADLINE thread may use unused bandwidth.
pub const RECLAIM: u64 = 0x02;
/// `SCHED_FLAG_DL_OVERRUN`: SIGXCPU when a SCHED_DEADLINE thread overruns its runtime.
pub const DL_OVERRUN: u64 = 0x04;

/// `SCHED_OTHER`, the default policy.
pub const OTHER: u32 = 0;
/// `SCHED_FIFO`.
pub const FIFO: u32 = 1;
/// `SCHED_RR`.
pub const RR: u32 = 2;
/// `SCHED_BATCH`.
pub const BATCH: u32 = 3;
/// `SCHED_IDLE`.
pub const IDLE: u32 = 5;
/// `SCHED_DEADLINE`.
pub const DEADLINE: u32 = 6;

/// The kernel's `struct sched_attr`, first version (48 bytes, Linux 3.14).
///
/// Later versions add utilization clamps, which the shorter structure leaves unchanged (kernel/sched/syscalls.c,
/// `sched_copy_attr`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    /// Size of the structure; the functions here set it.
    pub size: u32,
    /// Policy: [`OTHER`], [`FIFO`], [`RR`], [`BATCH`], [`IDLE`], [`DEADLINE`].
    pub policy: u32,
    /// [`RESET_ON_FORK`], [`RECLAIM`], [`DL_OVERRUN`].
    pub flags: u64,
    /// Nice value, −20 to 19; for SCHED_OTHER and SCHED_BATCH.
    pub nice: i32,
    /// Static priority, 1 to 99; for SCHED_FIFO and SCHED_RR.
    pub priority: u32,
    /// Runtime per period in ns for SCHED_DEADLINE; since Linux 6.12 the time slice for SCHED_OTHER and SCHED_BATCH (0: default).
    pub runtime_ns: u64,
    /// Relative deadline in ns; for SCHED_DEADLINE.
    pub deadline_ns: u64,
    /// Period in ns; for SCHED_DEADLINE.
    pub period_ns: u64,
}

/// Size of [`Attributes`] as the kernel counts it (`SCHED_ATTR_SIZE_VER0`).
pub const SIZE: u32 = 48;
const _: () = assert!(size_of::<Attributes>() == SIZE as usize);

/// `sched_getattr(2)`: policy and parameters of thread `tid`; `sched_getscheduler(2)` if that call does not exist.
pub fn attributes(tid: i32) -> Result<Attributes> {
    let mut attributes = Attributes::default();
    // SAFETY: the pointer is valid for SIZE writable bytes, and the kernel writes at most SIZE.
    let returned = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attributes, SIZE, 0_u32) };
    match check("sched_getattr", returned as i32) {
        Ok(_) => Ok(attributes),
        Err(error) if error.errno() == libc::ENOSYS => attributes_without_attr(tid),
        Err(error) => Err(error.on(thread(tid))),
    }
}

/// `sched_setattr(2)`: puts thread `tid` under a policy; `sched_setscheduler(2)` if that call does not exist.
pub fn set_attributes(tid: i32, wanted: &Attributes) -> Result<()> {
    match sched_setattr(tid, wanted) {
        Ok(()) => Ok(()),
        Err(error) if error.errno() == libc::ENOSYS && wanted.policy != DEADLINE => set_without_attr(tid, wanted),
        Err(error) => Err(error.on(thread(tid))),
    }
}

/// The call itself; never allocates.
fn sched_setattr(tid: i32, wanted: &Attributes) -> Result<()> {
    let wanted = Attributes { size: SIZE, ..*wanted };
    // SAFETY: the pointer is valid for `size` readable bytes, and the kernel only reads it.
    let returned = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const wanted, 0_u32) };
    check("sched_setattr", returned as i32).map(drop)
}

/// As [`set_attributes`] on the calling thread, but the older call sets no nice value. For a process between fork and exec: never allocates.
pub(crate) fn set_own_attributes(wanted: &Attributes) -> Result<()> {
    match sched_setattr(0, wanted) {
        Err(error) if error.errno() == libc::ENOSYS && wanted.policy != DEADLINE => sched_setscheduler(0, wanted),
        done => done,
    }
}

/// A raw call: musl's `sched_setscheduler` always returns ENOSYS, because POSIX defines it for processes.
fn attributes_without_attr(tid: i32) -> Result<Attributes> {
    // SAFETY: takes a number and returns a number.
    let raw = unsafe { libc::syscall(libc::SYS_sched_getscheduler, tid) } as i32;
    let policy = check("sched_getscheduler", raw).map_err(|e| e.on(thread(tid)))?;
    let mut priority: libc::c_int = 0;
    // SAFETY: on Linux `struct sched_param` is one int, written by the kernel.
    let returned = unsafe { libc::syscall(libc::SYS_sched_getparam, tid, &raw mut priority) } as i32;
    check("sched_getparam", returned).map_err(|e| e.on(thread(tid)))?;
    let flags = if policy & libc::SCHED_RESET_ON_FORK != 0 { RESET_ON_FORK } else { 0 };
    Ok(Attributes {
        size: SIZE,
        policy: (policy & !libc::SCHED_RESET_ON_FORK) as u32,
        flags,
        nice: nice(tid)?,
        priority: priority as u32,
        ..Attributes::default()
    })
}

/// The older call for every policy but SCHED_DEADLINE; never allocates.
fn sched_setscheduler(tid: i32, wanted: &Attributes) -> Result<()> {
    let reset = if wanted.flags & RESET_ON_FORK != 0 { libc::SCHED_RESET_ON_FORK } else { 0 };
    let policy = wanted.policy as libc::c_int | reset;
    let priority = wanted.priority as libc::c_int;
    // SAFETY: on Linux `struct sched_param` is one int, only read by the kernel.
    let returned = unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, policy, &raw const priority) };
    check("sched_setscheduler", returned as i32).map(drop)
}

fn set_without_attr(tid: i32, wanted: &Attributes) -> Result<()> {
    sched_setscheduler(tid, wanted).map_err(|e| e.on(thread(tid)))?;
    if matches!(wanted.policy, OTHER | BATCH) && nice(tid)? != wanted.nice {
        set_nice(tid, wanted.nice)?;
    }
    Ok(())
}

/// The ID for rustix, which takes no negative one. `None`: the calling thread.
fn pid_of(tid: i32) -> std::result::Result<Option<Pid>, Errno> {
    if tid < 0 { Err(Errno::SRCH) } else { Ok(Pid::from_raw(tid)) }
}

/// `getpriority(2)`: the nice value of thread `tid`, −20 to 19. On Linux it belongs to the thread, not the process.
pub fn nice(tid: i32) -> Result<i32> {
    pid_of(tid).and_then(getpriority_process).map_err(|errno| failed("getpriority")(errno).on(thread(tid)))
}

/// `setpriority(2)`: sets the nice value of thread `tid`.
pub fn set_nice(tid: i32, nice: i32) -> Result<()> {
    let set = pid_of(tid).and_then(|pid| setpriority_process(pid, nice));
    set.map_err(|errno| failed("setpriority")(errno).on(thread(tid)))
}

/// `gettid(2)`: the kernel's ID of the calling thread.
#[must_use]
pub fn current_thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

fn thread(tid: i32) -> String {
    if tid == 0 { "the calling thread".to_owned() } else { format!("thread {tid}") }
}

// The CPUs that a thread may run on: `sched_setaffinity(2)`, `sched_getaffinity(2)`.
//
// CPUs are lists of numbers. The masks grow with the machine, beyond the 1024 CPUs of the C library's `cpu_set_t`.

const BITS: usize = libc::c_ulong::BITS as usize;
/// Most CPUs of a mask; the kernel's largest `CONFIG_NR_CPUS` is 8192 (arch/x86/Kconfig).
pub const MOST_CPUS: usize = 65_536;

/// `sched_getaffinity(2)`: the CPUs that thread `tid` (0: the calling thread) may run on, ascending.
///
/// The kernel leaves out CPUs that are offline.
pub fn affinity(tid: i32) -> Result<Vec<usize>> {
    let mut words = 1024 / BITS;
    loop {
        let mut mask: Vec<libc::c_ulong> = vec![0; words];
        let bytes = words * size_of::<libc::c_ulong>();
        // SAFETY: the mask has `bytes` writable bytes, and the kernel writes at most that many.
        let returned = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, bytes, mask.as_mut_ptr()) };
        if returned >= 0 {
            return Ok(numbers(&mask));
        }
        let error = Error::last("sched_getaffinity");
        // EINVAL: the mask is shorter than the kernel's.
        if error.errno() != libc::EINVAL || words * BITS >= MOST_CPUS {
            return Err(error);
        }
        words *= 2;
    }
}

/// `sched_setaffinity(2)`: lets thread `tid` (0: the calling thread) run on `cpus` only.
///
/// The kernel silently drops CPUs that are offline or outside the cpuset: read the result back with [`affinity`]. EINVAL: no CPU is
/// left, or a number is [`MOST_CPUS`] or more.
pub fn set_affinity(tid: i32, cpus: &[usize]) -> Result<()> {
    let last = cpus.iter().copied().max().unwrap_or(0);
    if last >= MOST_CPUS {
        return Err(Error::from_errno("sched_setaffinity", libc::EINVAL).on(format!("CPU {last}")));
    }
    let mut mask: Vec<libc::c_ulong> = vec![0; last / BITS + 1];
    for cpu in cpus {
        mask[cpu / BITS] |= 1 << (cpu % BITS);
    }
    let bytes = mask.len() * size_of::<libc::c_ulong>();
    // SAFETY: the mask has `bytes` readable bytes, and the kernel only reads it.
    let returned = unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid, bytes, mask.as_ptr()) };
    if returned == -1 { Err(Error::last("sched_setaffinity")) } else { Ok(()) }
}

/// `sched_setaffinity(2)`: lets thread `tid` (0: the calling thread) run on every CPU of its cpuset. The kernel drops CPUs that do not
/// exist; its largest `CONFIG_NR_CPUS` is 8192 (arch/x86/Kconfig).
pub fn allow_every_cpu(tid: i32) -> Result<()> {
    set_affinity(tid, &(0..8192).collect::<Vec<_>>())
}

fn numbers(mask: &[libc::c_ulong]) -> Vec<usize> {
    (0..mask.len() * BITS).filter(|cpu| mask[cpu / BITS] >> (cpu % BITS) & 1 == 1).collect()
}

/// `prctl(PR_GET_TIMERSLACK)`: timer slack of the calling thread in ns. 0 under a real-time policy since Linux 6.13.
pub fn timer_slack_ns() -> Result<u64> {
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: takes numbers and returns a number.
    let returned = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TIMERSLACK, UNUSED, UNUSED, UNUSED, UNUSED) };
    // The result is unsigned: only -1, which the C library makes from an error, is a failure. No slack is that long on a 64-bit
    // kernel; on a 32-bit one, it is the longest.
    if returned == -1 && cfg!(target_pointer_width = "64") {
        return Err(Error::last("prctl(PR_GET_TIMERSLACK)"));
    }
    Ok(returned as libc::c_ulong as u64)
}

/// `prctl(PR_SET_TIMERSLACK)`: sets the timer slack of the calling thread, in ns.
///
/// 0 would select the thread's default, so it becomes 1, the smallest slack. ERANGE: the value does not fit the kernel's
/// `unsigned long`. Silently ignored under a real-time policy since Linux 6.13.
pub fn set_timer_slack_ns(slack_ns: u64) -> Result<()> {
    const CALL: &str = "prctl(PR_SET_TIMERSLACK)";
    // The kernel compares it as a signed long and treats values below 1 as 0 (kernel/sys.c).
    let Ok(slack) = libc::c_long::try_from(slack_ns.max(1)) else {
        return Err(Error::from_errno(CALL, libc::ERANGE).on(format!("{slack_ns} ns")));
    };
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: takes numbers and returns a number.
    let returned = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_TIMERSLACK, slack, UNUSED, UNUSED, UNUSED) };
    if returned == -1 { Err(Error::last(CALL).on(format!("{slack_ns} ns"))) } else { Ok(()) }
}

/// The clamp for full speed (`SCHED_CAPACITY_SCALE`).
pub const FULL_CLAMP: u32 = 1024;

/// `SCHED_FLAG_KEEP_POLICY | SCHED_FLAG_KEEP_PARAMS`: change nothing else.
const KEEP_ALL: u64 = 0x08 | 0x10;
/// `SCHED_FLAG_UTIL_CLAMP_MIN`.
const CLAMP_MIN: u64 = 0x20;

/// The kernel's `struct sched_attr` with utilisation clamps (`SCHED_ATTR_SIZE_VER1`, 56 bytes).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Clamped {
    attributes: Attributes,
    min: u32,
    max: u32,
}

const CLAMPED_SIZE: u32 = 56;
const _: () = assert!(size_of::<Clamped>() == CLAMPED_SIZE as usize);

/// `sched_getattr(2)`: the lower clamp of thread `tid` (0: the calling one), 0 to [`FULL_CLAMP`]. 0 on a kernel without clamps.
pub fn lower_clamp(tid: i32) -> Result<u32> {
    let mut now = Clamped::default();
    // SAFETY: the pointer is valid for CLAMPED_SIZE writable bytes, and the kernel writes at most CLAMPED_SIZE.
    let returned = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut now, CLAMPED_SIZE, 0_u32) };
    check("sched_getattr", returned as i32)?;
    Ok(now.min)
}

/// `sched_setattr(2)`: sets the lower clamp of thread `tid` (0: the calling one), 0 to [`FULL_CLAMP`].
///
/// EOPNOTSUPP: the kernel was built without CONFIG_UCLAMP_TASK. E2BIG: it is older than 5.3. EPERM: the clamp exceeds
/// `/proc/sys/kernel/sched_util_clamp_min` or needs CAP_SYS_NICE.
pub fn set_lower_clamp(tid: i32, clamp: u32) -> Result<()> {
    let mut wanted = clamp_request(clamp);
    // SAFETY: the pointer is valid for `size` bytes. The kernel reads them, and on E2BIG writes the size it knows into `size`,
    // hence mut.
    let returned = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw mut wanted, 0_u32) };
    check("sched_setattr(UTIL_CLAMP_MIN)", returned as i32).map(drop)
}

/// A request that changes only the lower clamp.
fn clamp_request(min: u32) -> Clamped {
    let attributes = Attributes { size: CLAMPED_SIZE, flags: KEEP_ALL | CLAMP_MIN, ..Attributes::default() };
    Clamped { attributes, min, max: 0 }
}

/// Puts thread `tid` under SCHED_OTHER and lets it run on every CPU of its cpuset. For a thread that must end: nothing is restored.
///
/// Ignores refusals of the kernel, and threads that have ended.
pub fn free_thread(tid: i32) {
    if let Ok(now) = attributes(tid)
        && now.policy != OTHER
    {
        // Without the privilege to clear the flag, keep it.
        let flags = now.flags & RESET_ON_FORK;
        let nice = nice(tid).unwrap_or(0);
        let other = Attributes { policy: OTHER, flags, nice, ..Attributes::default() };
        drop(set_attributes(tid, &other));
    }
    drop(allow_every_cpu(tid));
}

/// How often this process called [`free_process`] for itself.
static TIMES_FREED: AtomicUsize = AtomicUsize::new(0);

/// How often this process has freed its own threads.
#[must_use]
pub fn times_freed() -> usize {
    TIMES_FREED.load(Ordering::Acquire)
}

/// [`free_thread`] for every thread of process `pid` except thread `but`.
pub fn free_process(pid: i32, but: Option<i32>) {
    if pid.unsigned_abs() == std::process::id() {
        TIMES_FREED.fetch_add(1, Ordering::AcqRel);
    }
    threads_of(pid).into_iter().filter(|tid| Some(*tid) != but).for_each(free_thread);
}

/// The threads of process `pid` that have not ended: `/proc/PID/task`. A zombie has none.
#[must_use]
pub fn threads_of(pid: i32) -> Vec<i32> {
    let lives = |tid: &i32| {
        state(&format!("/proc/{pid}/task/{tid}/stat")).is_some_and(|state| !matches!(state, 'Z' | 'X' | 'x'))
    };
    numbers_in(&format!("/proc/{pid}/task")).into_iter().filter(lives).collect()
}

/// The state of a thread or process, the third field of its `stat` file (proc(5)).
fn state(path: &str) -> Option<char> {
    let stat = std::fs::read_to_string(path).ok()?;
    // The name in parentheses may contain blanks and parentheses.
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

fn numbers_in(folder: &str) -> Vec<i32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Child;

    #[test]
    fn old_and_new_calls_agree() {
        let new = attributes(0).unwrap();
        let old = attributes_without_attr(0).unwrap();
        assert_eq!((new.policy, new.nice, new.priority), (old.policy, old.nice, old.priority));
    }

    #[test]
    fn a_thread_that_cannot_exist_is_refused() {
        assert_eq!([nice(-1).map(drop), set_nice(-1, 5)].map(|done| done.unwrap_err().errno()), [libc::ESRCH; 2]);
    }

    #[test]
    fn batch_and_back_by_either_call() {
        std::thread::spawn(|| {
            let before = attributes(0).unwrap();
            for set in [set_attributes, set_without_attr] {
                set(0, &Attributes { policy: BATCH, ..before }).unwrap();
                assert_eq!(attributes(0).unwrap().policy, BATCH);
                set(0, &before).unwrap();
                assert_eq!(attributes(0).unwrap().policy, OTHER);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn nice_belongs_to_the_thread() {
        let here = nice(0).unwrap();
        std::thread::spawn(move || {
            set_nice(0, 7).unwrap();
            assert_eq!(nice(current_thread_id()).unwrap(), 7);
        })
        .join()
        .unwrap();
        assert_eq!(nice(0).unwrap(), here);
    }

    #[test]
    fn a_thread_that_does_not_exist_is_named() {
        let error = attributes(i32::MAX).unwrap_err();
        assert_eq!(error.errno(), libc::ESRCH);
        assert!(error.to_string().contains("thread 2147483647"), "{error}");
    }

    #[test]
    fn one_cpu_and_back() {
        std::thread::spawn(|| {
            let before = affinity(0).unwrap();
            assert!(!before.is_empty());
            set_affinity(0, &before[..1]).unwrap();
            assert_eq!(affinity(0).unwrap(), before[..1]);
            set_affinity(0, &before).unwrap();
            assert_eq!(affinity(0).unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn cpus_that_cannot_exist_are_refused() {
        assert_eq!(set_affinity(0, &[]).unwrap_err().errno(), libc::EINVAL);
        assert_eq!(set_affinity(0, &[MOST_CPUS - 1]).unwrap_err().errno(), libc::EINVAL);
        assert_eq!(set_affinity(0, &[usize::MAX]).unwrap_err().errno(), libc::EINVAL);
    }

    #[test]
    fn slack_reads_back_also_above_an_int() {
        std::thread::spawn(|| {
            for slack in [1, 1234, 1_000_000_000, 2_147_483_647] {
                set_timer_slack_ns(slack).unwrap();
                assert_eq!(timer_slack_ns().unwrap(), slack);
            }
            #[cfg(target_pointer_width = "64")]
            for slack in [2_147_483_648, 5_000_000_000] {
                set_timer_slack_ns(slack).unwrap();
                assert_eq!(timer_slack_ns().unwrap(), slack);
            }
            set_timer_slack_ns(0).unwrap();
            assert_eq!(timer_slack_ns().unwrap(), 1);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn too_long_a_slack_is_refused() {
        assert_eq!(set_timer_slack_ns(u64::MAX).unwrap_err().errno(), libc::ERANGE);
    }

    #[test]
    fn the_bytes_are_those_of_the_kernels_structure() {
        let wanted = clamp_request(0x0102_0304);
        // SAFETY: the structure has no padding: its size is the sum of its fields', and every byte is initialised.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const wanted).cast::<u8>(), CLAMPED_SIZE as usize) };
        // include/uapi/linux/sched/types.h: size, policy, flags, nice, priority, runtime, deadline, period, util_min, util_max.
        let mut expected = [0_u8; 56];
        expected[0..4].copy_from_slice(&56_u32.to_ne_bytes());
        expected[8..16].copy_from_slice(&0x38_u64.to_ne_bytes());
        expected[48..52].copy_from_slice(&0x0102_0304_u32.to_ne_bytes());
        assert_eq!(bytes, expected);
    }

    /// Set: this is the traced process.
    const LOOKED_AT: &str = "PUNCTUAL_TEST_CLAMPS";

    #[test]
    fn strace_reads_what_was_meant() {
        if std::env::var_os(LOOKED_AT).is_some() {
            // The test checks the request, refused or not.
            drop(set_lower_clamp(0, 512));
            return;
        }
        let traced = std::process::Command::new("strace")
            .args(["-f", "-e", "trace=sched_setattr"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "sched::tests::strace_reads_what_was_meant"])
            .env(LOOKED_AT, "1")
            .output();
        let text = match &traced {
            Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stderr).into_owned(),
            // strace is missing, or tracing is forbidden.
            _ => return punctual_testing::skip("strace cannot trace here; Debian: apt-get install strace"),
        };
        let asked: Vec<&str> = text.lines().filter(|line| line.contains("sched_setattr(0, {size=56")).collect();
        assert_eq!(asked.len(), 1, "{text}");
        let flags = "SCHED_FLAG_KEEP_POLICY|SCHED_FLAG_KEEP_PARAMS|SCHED_FLAG_UTIL_CLAMP_MIN";
        assert!(asked.iter().all(|line| line.contains(flags)), "{text}");
        assert!(asked[0].contains("sched_util_min=512"), "{text}");
    }

    #[test]
    fn a_value_beyond_full_is_refused_and_changes_nothing() {
        std::thread::spawn(|| {
            let before = lower_clamp(0).unwrap();
            let error = set_lower_clamp(0, FULL_CLAMP + 1).unwrap_err();
            // EINVAL from a kernel with clamps, which checks the value; the others from one without, as in `a_clamp_is_kept`.
            let known = [libc::EINVAL, libc::EOPNOTSUPP, libc::E2BIG, libc::ENOSYS];
            assert!(known.contains(&error.errno()), "{error}");
            assert_eq!(lower_clamp(0).unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_clamp_is_kept_or_refused_with_a_reason() {
        std::thread::spawn(|| {
            let before = lower_clamp(0).unwrap();
            match set_lower_clamp(0, 512) {
                Ok(()) => {
                    assert_eq!(lower_clamp(0).unwrap(), 512);
                    set_lower_clamp(0, before).unwrap();
                    assert_eq!(lower_clamp(0).unwrap(), before);
                }
                Err(error) => {
                    let known = [libc::EOPNOTSUPP, libc::E2BIG, libc::EPERM, libc::ENOSYS];
                    assert!(known.contains(&error.errno()), "{error}");
                    assert_eq!(lower_clamp(0).unwrap(), 0);
                }
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn threads_are_found_until_they_end() {
        let child = Child::spawn("a ) b", || std::thread::sleep(std::time::Duration::from_secs(3600))).unwrap();
        let own = std::process::id() as i32;
        assert!(threads_of(own).contains(&current_thread_id()));
        assert!(threads_of(child.id()) == [child.id()]);
        let id = child.id();
        drop(child);
        assert!(threads_of(id).is_empty());
    }

    #[test]
    fn a_pinned_batch_thread_is_freed() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let before = affinity(0).unwrap();
        let thread = std::thread::spawn(move || {
            let first = affinity(0).unwrap()[0];
            set_affinity(0, &[first]).unwrap();
            set_attributes(0, &Attributes { policy: BATCH, ..Attributes::default() }).unwrap();
            tell.send(current_thread_id()).unwrap();
            let _ = ended.recv();
        });
        let tid = told.recv().unwrap();
        free_thread(tid);
        assert_eq!(attributes(tid).unwrap().policy, OTHER);
        assert!(affinity(tid).unwrap().len() >= before.len());
        drop(end);
        thread.join().unwrap();
        // Gone: nothing to free, and nothing goes wrong.
        free_thread(tid);
    }
}
