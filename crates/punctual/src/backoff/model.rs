//! The event count under the model checker loom: every interleaving, and every weak memory order that C11 allows:
//! `RUSTFLAGS="--cfg loom" cargo test -p punctual --lib --release backoff::model`.
//!
//! A lost wake-up shows as a deadlock, which loom reports.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::EventCount;

#[derive(Default)]
struct Shared {
    message: AtomicU32,
    event: AtomicU32,
}

/// Waits as `Backoff::wait_for` does with limits of zero.
fn wait_for(shared: &Shared, at_least: u32) {
    let event = EventCount::private(&shared.event);
    loop {
        if shared.message.load(Ordering::Acquire) >= at_least {
            return;
        }
        let key = event.prepare_wait();
        if shared.message.load(Ordering::Acquire) >= at_least {
            return;
        }
        event.wait(key, None);
    }
}

fn send(shared: &Shared) {
    shared.message.fetch_add(1, Ordering::Release);
    EventCount::private(&shared.event).notify();
}

#[test]
fn one_waiter_one_ringer() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let waiter = thread::spawn({
            let shared = Arc::clone(&shared);
            move || wait_for(&shared, 1)
        });
        send(&shared);
        waiter.join().unwrap();
    });
}

#[test]
fn one_waiter_waits_twice() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let waiter = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                wait_for(&shared, 1);
                wait_for(&shared, 2);
            }
        });
        send(&shared);
        send(&shared);
        waiter.join().unwrap();
    });
}

#[test]
fn two_waiters_one_ringer() {
    let mut model = loom::model::Builder::new();
    // Three preemptions at unlucky places find what more would find, in seconds instead of hours.
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Arc::new(Shared::default());
        let waiter = |shared: &Arc<Shared>| {
            let shared = Arc::clone(shared);
            thread::spawn(move || wait_for(&shared, 1))
        };
        let (one, two) = (waiter(&shared), waiter(&shared));
        send(&shared);
        one.join().unwrap();
        two.join().unwrap();
    });
}

#[test]
fn one_waiter_two_ringers() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Arc::new(Shared::default());
        let ringer = |shared: &Arc<Shared>| {
            let shared = Arc::clone(shared);
            thread::spawn(move || send(&shared))
        };
        let (one, two) = (ringer(&shared), ringer(&shared));
        wait_for(&shared, 2);
        one.join().unwrap();
        two.join().unwrap();
    });
}
