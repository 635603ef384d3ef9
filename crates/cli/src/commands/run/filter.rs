//! A seccomp filter that the program inherits, and the system calls that the loaded library makes instead of the program's own.

use super::args::RunArgs;

/// Calls of each flag.
const OF_PRECISE: &str = "ppoll, futex and prctl(PR_SET_TIMERSLACK)";
const OF_POLL_FIRST: &str = "rt_sigprocmask, ppoll and futex";
const OF_RULES: &str =
    "openat, read, fstat, mmap, munmap, close, prctl, sched_getattr, sched_setattr, sched_setaffinity and prlimit64";
const OF_OBSERVE: &str = "openat, fstat, mmap, clock_gettime and getrusage";

/// What the flags make the program call, where a filter is on.
pub(super) fn notice(args: &RunArgs) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let calls = calls(args);
    (is_filtered(&status) && !calls.is_empty()).then(|| {
        format!(
            "the program inherits a seccomp filter (Seccomp in /proc/self/status). A filter that answers with an error is heeded; one that kills ends \
             the program at a call that it does not allow: {}",
            calls.join("; ")
        )
    })
}

fn is_filtered(status: &str) -> bool {
    status.lines().find_map(|line| line.strip_prefix("Seccomp:")).is_some_and(|mode| mode.trim() != "0")
}

fn calls(args: &RunArgs) -> Vec<String> {
    let remedies = &args.remedies;
    let flags = [
        ("--precise-sleep", OF_PRECISE, remedies.precise_sleep.is_some()),
        ("--poll-first", OF_POLL_FIRST, remedies.poll_first.is_some()),
        ("--usleep0", "sched_yield", remedies.usleep0.is_some()),
        ("--sched-yield", "sched_yield and nanosleep", remedies.sched_yield.is_some()),
        ("--rules", OF_RULES, remedies.rules.is_some()),
        ("--observe", OF_OBSERVE, args.observe.observe),
    ];
    flags.into_iter().filter(|(.., given)| *given).map(|(flag, calls, _)| format!("{flag} makes {calls}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_other_than_0_is_a_filter() {
        assert!(is_filtered("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!is_filtered("Seccomp:\t0\nSeccomp_filters:\t2\n"));
        assert!(!is_filtered("Name:\tSeccomp:\t2\n"), "a kernel without CONFIG_SECCOMP");
    }
}
