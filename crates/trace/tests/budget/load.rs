//! Many threads.

use std::time::Duration;

use punctual_record::ThreadBudget;

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
    let budget = ledger.end().unwrap();
    assert_eq!(budget.threads.len(), 64);
    let others = budget.others.unwrap();
    let all: Vec<&ThreadBudget> = budget.threads.iter().chain([&others]).collect();
    // Each pair of a thread and one that had its CPU has a sum. On a busy machine there may be more pairs than room.
    match budget.dropped {
        0 => all.into_iter().for_each(assert_whole),
        _ => all
            .iter()
            .for_each(|thread| assert_eq!(thread.parts.iter().map(|part| part.ns).sum::<u64>(), thread.wall_ns)),
    }
    // Each slept for 200 us at least.
    assert!(others.wall_ns > (THREADS as u64 - 64) * 200_000, "{}", others.wall_ns);
}
