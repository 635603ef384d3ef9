//! What a programmer writes for a way of waiting, by its name in the record.

/// The line for a method on an architecture (`uname -m`), in C (`thread_sleep` and the library's own: Rust); `None` for a method that is not known here.
pub(super) fn line(subject: &str, architecture: Option<&str>) -> Option<&'static str> {
    let arm = architecture == Some("aarch64");
    match subject {
        "thread_sleep" => Some("std::thread::sleep(duration);"),
        "native" => Some("Sleeper::options().strategy(Strategy::Native).open().sleep_until(deadline);"),
        "compensated" => Some("Sleeper::options().strategy(Strategy::Compensated).open().sleep_until(deadline);"),
        "hybrid" => Some("let mut sleeper = punctual::Sleeper::new(); sleeper.sleep_until(deadline);"),
        "spin_counter" if arm => Some("while (__arm_rsr64(\"cntvct_el0\") < deadline_in_ticks) ;"),
        "spin_pause" if arm => {
            Some("do { __yield(); clock_gettime(CLOCK_MONOTONIC, &now); } while (before(&now, &deadline));")
        }
        _ => CALLS.iter().find(|(name, _)| *name == subject).map(|(_, line)| *line),
    }
}

const CALLS: &[(&str, &str)] = &[
    ("usleep", "usleep(microseconds);"),
    ("nanosleep", "nanosleep(&duration, &remaining);"),
    ("clock_nanosleep", "clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL);"),
    ("clock_nanosleep_realtime", "clock_nanosleep(CLOCK_REALTIME, 0, &duration, NULL);"),
    ("clock_nanosleep_boottime", "clock_nanosleep(CLOCK_BOOTTIME, 0, &duration, NULL);"),
    ("clock_nanosleep_tai", "clock_nanosleep(CLOCK_TAI, 0, &duration, NULL);"),
    ("clock_nanosleep_abs", "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL);"),
    ("clock_nanosleep_abs_realtime", "clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &deadline, NULL);"),
    ("clock_nanosleep_abs_boottime", "clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &deadline, NULL);"),
    ("clock_nanosleep_abs_tai", "clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &deadline, NULL);"),
    ("select", "select(0, NULL, NULL, NULL, &timeval);"),
    ("pselect", "pselect(0, NULL, NULL, NULL, &timespec, NULL);"),
    ("poll", "poll(NULL, 0, milliseconds);"),
    ("ppoll", "ppoll(NULL, 0, &timespec, NULL);"),
    ("epoll_wait", "epoll_wait(epfd, events, 1, milliseconds);"),
    ("epoll_pwait2", "epoll_pwait2(epfd, events, 1, &timespec, NULL);"),
    ("timerfd", "timerfd_settime(fd, 0, &duration, NULL); read(fd, &expirations, sizeof expirations);"),
    ("timerfd_epoll", "timerfd_settime(fd, 0, &duration, NULL); epoll_wait(epfd, events, 1, -1);"),
    ("timer_sigwaitinfo", "timer_settime(timer, 0, &duration, NULL); sigwaitinfo(&set, &info);"),
    ("timer_handler", "timer_settime(timer, 0, &duration, NULL); sigsuspend(&mask);"),
    ("setitimer_sigsuspend", "setitimer(ITIMER_REAL, &duration, NULL); sigsuspend(&mask);"),
    ("sigtimedwait", "sigtimedwait(&set, NULL, &timeout);"),
    ("futex", "syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &duration, NULL, 0);"),
    ("futex_abs", "syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &deadline, NULL, FUTEX_BITSET_MATCH_ANY);"),
    ("pthread_cond_timedwait", "pthread_cond_timedwait(&condition, &mutex, &deadline);"),
    ("sem_timedwait", "sem_timedwait(&semaphore, &deadline);"),
    ("mq_timedreceive", "mq_timedreceive(queue, message, size, NULL, &deadline);"),
    ("socket_timeout", "setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeval, sizeof timeval); recv(fd, buffer, size, 0);"),
    ("io_uring", "io_uring_prep_timeout(sqe, &duration, 0, 0); io_uring_submit_and_wait(&ring, 1);"),
    ("spin_clock", "do clock_gettime(CLOCK_MONOTONIC, &now); while (before(&now, &deadline));"),
    ("spin_counter", "while (__rdtsc() < deadline_in_ticks) ;"),
    ("spin_pause", "do { _mm_pause(); clock_gettime(CLOCK_MONOTONIC, &now); } while (before(&now, &deadline));"),
    ("spin_yield", "do { sched_yield(); clock_gettime(CLOCK_MONOTONIC, &now); } while (before(&now, &deadline));"),
    ("tpause", "_tpause(0, deadline_in_ticks);"),
    ("umwait", "_umonitor(line); _umwait(0, deadline_in_ticks);"),
    ("mwaitx", "_mm_monitorx(line, 0, 0); _mm_mwaitx(2, 0xf0, ticks);"),
];
