//! The sums are the wall time, and agree with the kernel's own counters.

use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use punctual_record::{Counter, SourceLine, Spent, TimePart};
use punctual_trace::{Ledger, Target};

use crate::{assert_whole, compute, ledger, ns, spent, watched};

#[test]
fn parts_are_the_wall_time_beside_forks_short_threads_and_migrations() {
    let Some((_, budget)) = watched("makes", || {
        let allowed = punctual_linux::sched::affinity(punctual_linux::sched::current_thread_id()).unwrap();
        for round in 0..40_usize {
            let cpu = allowed[round % allowed.len()];
            let own = punctual_linux::sched::current_thread_id();
            punctual_linux::sched::set_affinity(own, &[cpu]).unwrap();
            compute(Duration::from_micros(300));
            std::thread::spawn(|| compute(Duration::from_micros(200))).join().unwrap();
            if round % 8 == 0 {
                assert!(Command::new("sh").args(["-c", "true | true; (true)"]).status().unwrap().success());
            }
        }
    }) else {
        return;
    };
    assert!(budget.threads.len() > 40, "{}", budget.threads.len());
    // Beside others there are more turns, and now and then the kernel has no memory for a detail in the midst of a switch.
    let all = budget.threads.iter().chain(&budget.others).flat_map(|thread| &thread.parts);
    let stretches: u64 = all.map(|part| part.times).sum();
    assert!(budget.dropped * 20 < stretches, "{} of {stretches}", budget.dropped);
    budget.threads.iter().for_each(assert_whole);
    // The counters are brought up to date at each switch, those of running threads at each tick.
    for check in &budget.checks {
        let tolerance = 0.05 * check.counted_ns as f64 + 10e6;
        if check.counter == Counter::Running {
            assert!((check.summed_ns as f64 - check.counted_ns as f64).abs() < tolerance, "{:?}", budget.checks);
        }
    }
}

#[test]
fn threads_that_exist_already_have_the_state_that_they_are_in() {
    let _alone = punctual_testing::alone();
    let (end, ended) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let waits = std::thread::Builder::new().name("blocked".into()).spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        let _ = ended.recv();
    });
    let tid = told.recv().unwrap();
    punctual_testing::until("it sleeps", || {
        std::fs::read_to_string(format!("/proc/{tid}/stat")).is_ok_and(|stat| stat.contains(") S "))
    });
    if ledger().is_none() {
        return;
    }
    let ledger = Ledger::begin(&Target { tids: vec![tid], with_children: false }).unwrap();
    std::thread::sleep(Duration::from_millis(30));
    // Its wait goes on.
    let budget = ledger.end().unwrap();
    drop(end);
    let _ = waits.unwrap().join();
    let thread = &budget.threads[0];
    assert_eq!((budget.threads.len(), thread.thread.as_str(), thread.tid), (1, "blocked", tid.cast_unsigned()));
    assert_whole(thread);
    assert!(ns(thread, Spent::Condition) >= 30_000_000, "{thread:?}");
    assert_eq!(ns(thread, Spent::Condition), thread.wall_ns, "{thread:?}");
}

#[test]
fn deadlines_that_were_over_at_the_call_are_counted() {
    use punctual_linux::clock::Clock;
    use punctual_linux::sleep::clock_nanosleep_until;
    let Some((thread, _)) = watched("late", || {
        let mut deadline = punctual_linux::clock::now_ns(Clock::Monotonic);
        for _ in 0..20 {
            deadline += 1_000_000;
            compute(Duration::from_millis(2));
            let _ = clock_nanosleep_until(Clock::Monotonic, deadline);
        }
    }) else {
        return;
    };
    assert_whole(&thread);
    let turns = thread.turns.unwrap();
    assert_eq!(
        (turns.call.as_str(), turns.turns, turns.missed, turns.period_ns),
        ("clock_nanosleep", 20, 20, 1_000_000)
    );
    // A turn of 2 ms each falls behind by 1 ms more.
    assert!(turns.behind_ns >= 19_000_000 && turns.most_behind_ns >= turns.behind_ns, "{turns:?}");
}

#[test]
fn deadlines_some_time_after_now_make_no_turns_and_regular_ones_do() {
    use punctual_linux::clock::{Clock, now_ns};
    use punctual_linux::sleep::clock_nanosleep_until;
    let turns_of = |next: fn(i64) -> i64| {
        let work = || {
            let mut deadline = now_ns(Clock::Monotonic);
            for _ in 0..100 {
                deadline = next(deadline);
                let _ = clock_nanosleep_until(Clock::Monotonic, deadline);
            }
        };
        watched("sleeps", work).map(|(thread, _)| thread.turns)
    };
    // As time.sleep() of Python does.
    let Some(after_now) = turns_of(|_| now_ns(Clock::Monotonic) + 1_000_000) else { return };
    assert_eq!(after_now, None);
    let regular = turns_of(|last| last + 1_000_000).flatten();
    assert_eq!(regular.map(|turns| (turns.turns, turns.period_ns)), Some((100, 1_000_000)));
}

#[test]
fn turns_of_a_timerfd_are_its_expirations_and_the_overslept_ones_are_missed() {
    use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
    const PERIOD: i64 = 5_000_000;
    let (mut expired, mut overslept) = (0, 0);
    let Some((thread, _)) = watched("turns", || {
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty()).unwrap();
        let period = Timespec { tv_sec: 0, tv_nsec: PERIOD };
        let setting = Itimerspec { it_interval: period, it_value: period };
        rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting).unwrap();
        for turn in 0..40 {
            let mut value = [0; 8];
            rustix::io::read(&timer, &mut value).unwrap();
            let value = u64::from_ne_bytes(value);
            expired += value;
            // What the first read finds is not known from the timer's start.
            overslept += if turn == 0 { 0 } else { value - 1 };
            expired -= if turn == 0 { value - 1 } else { 0 };
            if turn % 10 == 5 {
                std::thread::sleep(Duration::from_millis(22));
            }
        }
    }) else {
        return;
    };
    assert_whole(&thread);
    let turns = thread.turns.unwrap();
    assert_eq!((turns.call.as_str(), turns.turns, turns.missed), ("read", expired, overslept), "{turns:?}");
    assert!(overslept >= 12 && turns.period_ns.abs_diff(PERIOD as u64) < 1000, "{turns:?}");
    assert_eq!(turns.most_behind_ns % PERIOD as u64, 0, "{turns:?}");
}

#[test]
fn a_timerfd_without_a_period_makes_no_turns() {
    use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
    let Some((thread, _)) = watched("once", || {
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty()).unwrap();
        for _ in 0..20 {
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            let setting = Itimerspec { it_interval: none, it_value: Timespec { tv_sec: 0, tv_nsec: 2_000_000 } };
            rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting).unwrap();
            rustix::io::read(&timer, &mut [0; 8]).unwrap();
        }
    }) else {
        return;
    };
    assert!(thread.turns.is_none(), "{:?}", thread.turns);
}

const MIXES: u32 = line!();
/// Has no end that a compiler could compute, and calls nothing.
#[inline(never)]
fn mixes(mut value: u64, times: u64) -> u64 {
    let mut done = 0;
    while done < times {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        done += 1;
    }
    value
}
const MIXED: u32 = line!();

fn is_line_between(line: Option<&SourceLine>, begin: u32, end: u32) -> bool {
    line.is_some_and(|line| line.file == "sums.rs" && (begin..end).contains(&line.line))
}

#[test]
fn time_on_a_cpu_is_that_of_functions() {
    let Some((thread, _)) = watched("mixes", || {
        let mut value = 88_172_645_463_325_252;
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(600) {
            value = std::hint::black_box(mixes(value, 100_000));
        }
    }) else {
        return;
    };
    assert_whole(&thread);
    let (running, own) = (ns(&thread, Spent::Running), std::env::current_exe().unwrap());
    let is_it = |part: &&TimePart| {
        let function = part.thing.function.as_deref();
        function.is_some_and(|name| name.ends_with("::mixes")) && part.thing.file.as_deref() == own.to_str()
    };
    let in_it: u64 = spent(&thread, Spent::Running).into_iter().filter(is_it).map(|part| part.ns).sum();
    assert!(in_it > running / 10 * 8 && in_it <= running, "{in_it} of {running}: {thread:?}");
    let part = spent(&thread, Spent::Running).into_iter().find(is_it).unwrap();
    assert!(is_line_between(part.thing.line.as_ref(), MIXES, MIXED), "{part:?}");
}

const READS: u32 = line!();
#[inline(never)]
fn reads_what_comes_late(mut pipe: std::io::PipeReader) -> u8 {
    let mut byte = [0];
    std::io::Read::read_exact(&mut pipe, &mut byte).unwrap();
    byte[0]
}
const HAS_READ: u32 = line!();

#[test]
fn a_long_wait_has_the_line_that_called() {
    if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) {
        return;
    }
    let Some((thread, _)) = watched("reads", || {
        for byte in 0..5 {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let late = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                std::io::Write::write_all(&mut writer, &[byte]).unwrap();
            });
            assert_eq!(reads_what_comes_late(reader), byte);
            late.join().unwrap();
        }
    }) else {
        return;
    };
    let waits = spent(&thread, Spent::Pipe);
    let callers: Vec<_> = waits.iter().filter_map(|part| Some((part, part.caller.as_ref()?))).collect();
    assert!(!callers.is_empty(), "{thread:?}");
    for (part, caller) in callers {
        assert!(caller.ns > 10_000_000 && caller.ns <= part.longest_ns, "{part:?}");
        let own = caller.own().next().unwrap();
        assert!(own.function.ends_with("::reads_what_comes_late"), "{caller:?}");
        assert!(is_line_between(own.line.as_ref(), READS, HAS_READ), "{own:?}");
    }
}
