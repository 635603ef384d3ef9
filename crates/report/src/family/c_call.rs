//! What a C programmer writes for a way of waiting, by its name in the record.

/// The line of C for a method; `None` for one that is not known here.
pub(super) fn c_call(subject: &str) -> Option<&'static str> {
    CALLS.iter().find(|(names, _)| names.contains(&subject)).map(|(_, call)| *call)
}

const CALLS: &[(&[&str], &str)] = &[
    (&["clock_nanosleep_abs"], "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL);"),
    (&["clock_nanosleep_rel", "clock_nanosleep"], "clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL);"),
    (
        &["clock_nanosleep_realtime", "clock_nanosleep_abs_realtime"],
        "clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &deadline, NULL);",
    ),
    (
        &["clock_nanosleep_boottime", "clock_nanosleep_abs_boottime"],
        "clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &deadline, NULL);",
    ),
    (
        &["clock_nanosleep_tai", "clock_nanosleep_abs_tai"],
        "clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &deadline, NULL);",
    ),
    (&["nanosleep"], "nanosleep(&duration, NULL);"),
    (&["usleep"], "usleep(microseconds);"),
    (&["select"], "select(0, NULL, NULL, NULL, &timeval);"),
    (&["pselect"], "pselect(0, NULL, NULL, NULL, &timespec, NULL);"),
    (&["ppoll"], "ppoll(NULL, 0, &timespec, NULL);"),
    (&["epoll_pwait2"], "epoll_pwait2(epoll, events, 1, &timespec, NULL);"),
    (
        &["timerfd", "timerfd_read"],
        "timerfd_settime(fd, TFD_TIMER_ABSTIME, &deadline, NULL); read(fd, &expirations, 8);",
    ),
    (&["timerfd_epoll"], "timerfd_settime(fd, TFD_TIMER_ABSTIME, &deadline, NULL); epoll_wait(epoll, events, 1, -1);"),
    (&["sigtimedwait"], "sigtimedwait(&signals, NULL, &timespec);"),
    (&["futex", "futex_rel"], "syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &duration, NULL, 0);"),
    (
        &["futex_abs", "futex_bitset"],
        "syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &deadline, NULL, FUTEX_BITSET_MATCH_ANY);",
    ),
    (
        &["spin_clock", "spin_clock_gettime", "spin"],
        "do clock_gettime(CLOCK_MONOTONIC, &now); while (before(&now, &deadline));",
    ),
    (&["spin_tsc", "spin_counter"], "while (__rdtsc() < deadline) ;"),
    (&["spin_pause"], "while (__rdtsc() < deadline) _mm_pause();"),
    (&["tpause"], "while (__rdtsc() < deadline) _tpause(0, deadline);"),
];
