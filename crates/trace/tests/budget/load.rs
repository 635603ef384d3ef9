//! Many threads.

use std::time::Duration;

use crate::{assert_whole, ledger};

#[test]
fn thousands_of_threads_are_summed() {
    let _alone = punctual_testing::alone();
    let Some(mut ledger) = ledger() else { return };
    const THREADS: usize = 3000;
    for _ in 0..THREADS / 100 {
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| std::thread::sleep(Duration::from_micros(200)));
            }
        });
        ledger.look();
    }
    let budget = ledger.end().unwrap();
    assert_eq!(budget.threads.len(), 64);
    budget.threads.iter().for_each(assert_whole);
    let others = budget.others.unwrap();
    assert_whole(&others);
    // Each slept for 200 us at least.
    assert!(others.wall_ns > (THREADS as u64 - 64) * 200_000, "{}", others.wall_ns);
    assert_eq!(budget.dropped, 0);
}
