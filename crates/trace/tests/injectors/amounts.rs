//! Many wake-ups, many threads, and a watcher that is killed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use punctual_linux::child::Child;
use punctual_linux::sched::set_timer_slack_ns;
use punctual_linux::sched::{current_thread_id, set_nice};
use punctual_record::Causes;
use punctual_testing::alone_on_this_machine;
use punctual_trace::{Level, Room, Target, Watch};
use rustix::process::{Pid, Signal, kill_process};

use crate::place;
use crate::play::{now, pause};

/// Resident memory of this process, KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// What was found out so far, after so much more time.
fn watch_for(watch: &mut Watch, ns: u64) -> Causes {
    watch.switch(true).unwrap();
    let begin = now();
    while now() - begin < ns {
        watch.pump(Duration::from_millis(10), &mut |_| {}).unwrap();
    }
    watch.switch(false).unwrap();
    watch.causes()
}

/// Four threads sleep for 100 us each until a million wake-ups were seen.
#[test]
#[ignore = "a million wake-ups"]
fn a_million_wake_ups_fit_into_bounded_memory() {
    if place::cpu().is_none() {
        return;
    }
    let _alone = alone_on_this_machine();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        for _ in 0..4 {
            let (tell, over) = (tell.clone(), &over);
            scope.spawn(move || {
                set_timer_slack_ns(1).unwrap();
                tell.send(current_thread_id()).unwrap();
                while !over.load(Ordering::Relaxed) {
                    pause(100_000);
                }
            });
        }
        let tids: Vec<i32> = told.iter().take(4).collect();
        let mut watch = Watch::open(&Target { tids, with_children: false }, Level::Causes, Room::Large).unwrap();
        set_nice(0, -20).unwrap();
        let mut sizes = Vec::new();
        let causes = loop {
            let causes = watch_for(&mut watch, 2_000_000_000);
            sizes.push(resident_kib());
            if causes.wake_ups >= 1_000_000 {
                break causes;
            }
        };
        over.store(true, Ordering::Relaxed);
        let cut = causes.split as f64 * 100.0 / causes.wake_ups as f64;
        let line = format!("{} wake-ups, {cut:.3} % cut, {:?}", causes.wake_ups, causes.unsplit);
        println!("{line}, {} lost; resident {sizes:?} KiB", causes.lost_events);
        // What is kept for each CPU and call fills up at the beginning.
        let (early, last) = (sizes[sizes.len() / 4], sizes[sizes.len() - 1]);
        assert!(last < early + 16 * 1024, "{sizes:?}");
    });
}

#[test]
#[ignore = "10000 threads"]
fn ten_thousand_threads_are_watched() {
    if place::cpu().is_none() {
        return;
    }
    let _alone = alone_on_this_machine();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        for _ in 0..10_000 {
            let (tell, over) = (tell.clone(), &over);
            let small = std::thread::Builder::new().stack_size(32 * 1024);
            let spawned = small.spawn_scoped(scope, move || {
                tell.send(current_thread_id()).unwrap();
                while !over.load(Ordering::Relaxed) {
                    pause(1_000_000_000);
                }
            });
            spawned.unwrap();
        }
        let tids: Vec<i32> = told.iter().take(10_000).collect();
        let mut watch = Watch::open(&Target { tids, with_children: false }, Level::Causes, Room::Large).unwrap();
        let begin = now();
        let causes = loop {
            let causes = watch_for(&mut watch, 5_000_000_000);
            if causes.wake_ups >= 10_000 || now() - begin > 60_000_000_000 {
                break causes;
            }
        };
        over.store(true, Ordering::Relaxed);
        println!("10000 threads: {} wake-ups, {} cut, {} lost", causes.wake_ups, causes.split, causes.lost_events);
        assert_eq!(watch.threads(), 10_000);
        assert!(causes.wake_ups >= 10_000, "{}", causes.wake_ups);
    });
}

/// What is mounted.
fn mounts() -> String {
    std::fs::read_to_string("/proc/self/mounts").unwrap()
}

#[test]
fn a_killed_watcher_leaves_nothing() {
    if place::cpu().is_none() {
        return;
    }
    let _alone = alone_on_this_machine();
    let own = current_thread_id();
    let before = mounts();
    let mut watcher = Child::spawn("watcher", move || {
        let mut watch =
            Watch::open(&Target { tids: vec![own], with_children: true }, Level::Causes, Room::Large).unwrap();
        watch.switch(true).unwrap();
        loop {
            watch.pump(Duration::from_millis(10), &mut |_| {}).unwrap();
        }
    })
    .unwrap();
    let id = watcher.id();
    let pid = Pid::from_raw(id).unwrap();
    let open = || {
        let descriptors = std::fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
        descriptors
            .filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|file| file.to_string_lossy().contains("perf_event")))
            .count()
    };
    // One of each tracepoint, or one on each CPU.
    punctual_testing::until("the watcher has events", || open() > 15);
    assert_eq!(mounts(), before, "a mount was seen while it watched");
    kill_process(pid, Signal::KILL).unwrap();
    watcher.wait().unwrap();
    assert_eq!(open(), 0);
    assert_eq!(mounts(), before);
    // tracefs is where it was before, or nowhere.
    let seen = std::path::Path::new("/sys/kernel/tracing/events").exists();
    assert_eq!(seen, before.contains("/sys/kernel/tracing "));
}
