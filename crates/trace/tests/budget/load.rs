//! Many threads.

use std::time::Duration;

use punctual_record::ThreadBudget;
use punctual_trace::{Ledger, Target};

use crate::{assert_whole, ledger};

#[test]
fn thousands_of_threads_are_summed() {
    let _alone = punctual_testing::alone();
    let Some(mut ledger) = ledger() else { return };
    const THREADS: usize = 3000;
    for _ in 0..THREADS / 20 {
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| std::thread::sleep(Duration::from_micros(200)));
            }
        });
        ledger.look();
    }
    let threads = ledger.threads();
    assert!((THREADS..THREADS + 64).contains(&threads), "{threads}");
    let budget = ledger.end().unwrap();
    assert_eq!(budget.threads.len(), 64);
    let others = budget.others.unwrap();
    let all: Vec<&ThreadBudget> = budget.threads.iter().chain([&others]).collect();
    // Where a table is full, details are lost and no time.
    all.into_iter().for_each(assert_whole);
    // Each slept for 200 us at least.
    assert!(others.wall_ns > (THREADS as u64 - 64) * 200_000, "{}", others.wall_ns);
}

#[test]
fn thousands_of_threads_at_once_lose_nothing() {
    let _alone = punctual_testing::alone();
    let Some(ledger) = ledger() else { return };
    const THREADS: usize = 2000;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let small = std::thread::Builder::new().stack_size(64 << 10).name("many".to_owned());
            let work = || (0..30).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
            small.spawn_scoped(scope, work).unwrap();
        }
    });
    let budget = ledger.end().unwrap();
    // Each of them had the CPU of each other, but they all have one name. In the midst of a switch the kernel may have no memory for a
    // link of a chain.
    assert!(budget.dropped < 100, "{}", budget.dropped);
    let others = budget.others.unwrap();
    budget.threads.iter().chain([&others]).for_each(assert_whole);
    let many = budget.threads.iter().filter(|thread| thread.thread == "many");
    let beside = many.flat_map(|thread| &thread.parts).filter_map(|part| part.who.as_ref());
    assert!(beside.clone().any(|who| who.thread == "many" && who.pid == std::process::id()), "{:?}", budget.threads[0]);
}

#[test]
fn more_threads_than_there_is_room_for_are_counted_and_refuse_nothing() {
    let _alone = punctual_testing::alone();
    if ledger().is_none() {
        return;
    }
    // No thread has such a number (PID_MAX_LIMIT).
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let tids: Vec<i32> = std::iter::once(own).chain(5_000_000..5_070_000).collect();
    let ledger = Ledger::begin(&Target { tids, with_children: false }).unwrap();
    assert_eq!(ledger.left_out(), 70_001 - 65_536);
    assert_eq!(ledger.end().unwrap().threads.len(), 1);
}
