//! How soon a waiting loop sees a message, and what it leaves to others. `punctual::Backoff` stands beside crossbeam-utils'
//! `Backoff`, parking_lot's `SpinWait`, and naive loops.
//!
//! `cargo bench -p punctual --bench backoff [-- --quick]`. Not a criterion benchmark. What counts here are percentiles of a latency that
//! begins in another process, and shares of a CPU. The contestants alternate.
//!
//! Three cases. Soon: the next message comes 1 to 3 µs after the last was answered. Late: after 0.5 to 3 ms. Silence: none comes, and a program that
//! never waits is on the waiter's CPU. Waiter and sender are pinned to two CPUs; with one CPU there is nothing to compare.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use punctual::backoff::{Backoff, EventCount, Limits};
use punctual_linux::child::Child;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::memory::{CacheLine, Shared};
use punctual_linux::sched::{affinity, set_affinity};

/// Message number and time; the event; number of the last answer; the pause before the next message.
type Table =
    (CacheLine<(AtomicU64, AtomicI64)>, CacheLine<AtomicU32>, CacheLine<AtomicU64>, CacheLine<(AtomicU64, AtomicU64)>);

const ROUNDS: usize = 5;

/// One way of waiting until `poll` says yes.
struct Contestant {
    name: &'static str,
    /// Waits; gives up at the deadline.
    wait: fn(&Table, u64, i64) -> Option<i64>,
}

fn arrived(table: &Table, number: u64) -> bool {
    table.0.0.0.load(Ordering::Acquire) >= number
}

fn until(table: &Table, number: u64, deadline: i64, mut step: impl FnMut()) -> Option<i64> {
    loop {
        for _ in 0..16 {
            if arrived(table, number) {
                return Some(now());
            }
            step();
        }
        if now() > deadline {
            return None;
        }
    }
}

fn with_backoff(mut backoff: Backoff, table: &Table, number: u64, deadline: i64) -> Option<i64> {
    let left = Duration::from_nanos((deadline - now()).max(0).unsigned_abs());
    backoff.wait_for_at_most(EventCount::shared(&table.1), left, || arrived(table, number).then(now))
}

const CONTESTANTS: &[Contestant] = &[
    Contestant { name: "punctual::Backoff, tuned", wait: |t, n, d| with_backoff(Backoff::tuned(), t, n, d) },
    Contestant {
        name: "punctual::Backoff, parks at once",
        wait: |t, n, d| with_backoff(Backoff::new(Limits::PARK), t, n, d),
    },
    Contestant {
        name: "crossbeam Backoff, snooze",
        wait: |t, n, d| {
            let backoff = crossbeam_utils::Backoff::new();
            until(t, n, d, || backoff.snooze())
        },
    },
    Contestant {
        name: "crossbeam Backoff, then park 1 ms",
        // What its documentation advises once `is_completed`: block. It has nothing to be woken by from another process, so it naps.
        wait: |t, n, d| {
            let backoff = crossbeam_utils::Backoff::new();
            until(t, n, d, || match backoff.is_completed() {
                true => std::thread::park_timeout(Duration::from_millis(1)),
                false => backoff.snooze(),
            })
        },
    },
    Contestant {
        name: "parking_lot SpinWait, again and again",
        wait: |t, n, d| {
            let mut spin = parking_lot_core::SpinWait::new();
            until(t, n, d, || {
                if !spin.spin() {
                    spin.reset();
                }
            })
        },
    },
    Contestant { name: "spin with pause", wait: |t, n, d| until(t, n, d, std::hint::spin_loop) },
    Contestant { name: "sched_yield in a loop", wait: |t, n, d| until(t, n, d, std::thread::yield_now) },
    Contestant {
        name: "sleep(0) in a loop",
        wait: |t, n, d| until(t, n, d, || drop(punctual_linux::sleep::usleep(0))),
    },
    Contestant {
        name: "sleep 1 ms in a loop",
        wait: |t, n, d| until(t, n, d, || std::thread::sleep(Duration::from_millis(1))),
    },
];

fn now() -> i64 {
    now_ns(Clock::Monotonic)
}

/// The sender: after each answer a pause, drawn anew from what the table says, then the next message.
fn send_without_end(table: &Table) {
    let mut number = 0;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    loop {
        while table.2.load(Ordering::Acquire) < number {
            std::hint::spin_loop();
        }
        let (least, most) = (table.3.0.0.load(Ordering::Relaxed), table.3.0.1.load(Ordering::Relaxed));
        if most == 0 {
            std::thread::yield_now();
            continue;
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let until = now() + (least + random % (most - least + 1)) as i64;
        while now() < until {
            std::hint::spin_loop();
        }
        number += 1;
        table.0.0.1.store(now(), Ordering::Relaxed);
        table.0.0.0.store(number, Ordering::Release);
        EventCount::shared(&table.1).notify();
    }
}

struct Latency {
    p50: i64,
    p99: i64,
    cpu_share: f64,
}

/// Lets `count` messages come and sees how late each is seen.
fn receive(table: &Table, contestant: &Contestant, next: &mut u64, count: usize, pause: (u64, u64)) -> Latency {
    let mut latencies = Vec::with_capacity(count);
    table.3.0.0.store(pause.0, Ordering::Relaxed);
    table.3.0.1.store(pause.1, Ordering::Relaxed);
    let (begin, cpu) = (now(), now_ns(Clock::ThreadCpu));
    for i in 0..count {
        let seen = (contestant.wait)(table, *next, now() + 10_000_000_000).expect("the sender sends");
        latencies.push(seen - table.0.0.1.load(Ordering::Relaxed));
        if i + 1 == count {
            table.3.0.1.store(0, Ordering::Relaxed);
        }
        table.2.store(*next, Ordering::Release);
        *next += 1;
    }
    let cpu_share = (now_ns(Clock::ThreadCpu) - cpu) as f64 / (now() - begin) as f64;
    latencies.sort_unstable();
    Latency { p50: latencies[count / 2], p99: latencies[count * 99 / 100], cpu_share }
}

/// The share of the CPU that the busy program gets while nothing comes.
fn silence(table: &Table, contestant: &Contestant, next: u64, busy: &Child, time: Duration) -> f64 {
    let (begin, theirs) = (now(), busy.cpu_ns().expect("it lives"));
    let nothing = (contestant.wait)(table, next, begin + time.as_nanos() as i64);
    assert_eq!(nothing, None, "nothing was sent");
    (busy.cpu_ns().expect("it lives") - theirs) as f64 / (now() - begin) as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test --benches` runs this too: nothing to test here.
    if arguments.iter().any(|a| a == "--test") {
        return;
    }
    let quick = arguments.iter().any(|a| a == "--quick");
    let cpus = affinity(0).expect("the CPUs of this process");
    let [.., other, mine] = cpus.as_slice() else {
        eprintln!("this process may run on one CPU only: nothing to compare");
        return;
    };
    let (mine, other) = (*mine, *other);
    let table = Shared::<Table>::new().expect("shared memory");
    let theirs = table.clone();
    let _sender = Child::spawn("bench-send", move || {
        set_affinity(0, &[other]).expect("pinning the sender");
        send_without_end(&theirs);
    })
    .expect("the sender");
    let stopped = Shared::<AtomicBool>::new().expect("shared memory");
    stopped.store(true, Ordering::Release);
    let flag = stopped.clone();
    let busy = Child::spawn("bench-busy", move || {
        set_affinity(0, &[mine]).expect("pinning the busy program");
        loop {
            match flag.load(Ordering::Relaxed) {
                true => std::thread::sleep(Duration::from_millis(1)),
                false => std::hint::spin_loop(),
            }
        }
    })
    .expect("the busy program");
    set_affinity(0, &[mine]).expect("pinning the waiter");
    println!("{}", punctual::backoff::Profile::of_this_machine());
    let scale = if quick { 10 } else { 1 };
    let mut next = 1;
    let mut results: Vec<[Vec<f64>; 6]> = CONTESTANTS.iter().map(|_| Default::default()).collect();
    for round in 0..ROUNDS {
        for turn in 0..CONTESTANTS.len() {
            let place = (turn + round) % CONTESTANTS.len();
            let contestant = &CONTESTANTS[place];
            let soon = receive(&table, contestant, &mut next, 2000 / scale, (1_000, 3_000));
            let late = receive(&table, contestant, &mut next, 400 / scale, (500_000, 3_000_000));
            stopped.store(false, Ordering::Release);
            std::thread::sleep(Duration::from_millis(5));
            let share = silence(&table, contestant, next, &busy, Duration::from_millis(300 / scale as u64));
            stopped.store(true, Ordering::Release);
            std::thread::sleep(Duration::from_millis(5));
            let row = [
                soon.p50 as f64,
                soon.p99 as f64,
                late.p50 as f64,
                late.p99 as f64,
                late.cpu_share * 100.0,
                share * 100.0,
            ];
            results[place].iter_mut().zip(row).for_each(|(all, figure)| all.push(figure));
        }
    }
    println!("medians of {ROUNDS} rounds; one-way latency in ns");
    println!("| contestant | soon p50 | soon p99 | late p50 | late p99 | own CPU, late | left to a busy program |");
    println!("|---|---|---|---|---|---|---|");
    for (contestant, row) in CONTESTANTS.iter().zip(results) {
        let [soon50, soon99, late50, late99, own, left] = row.map(median);
        println!(
            "| {} | {soon50:.0} | {soon99:.0} | {late50:.0} | {late99:.0} | {own:.0} % | {left:.0} % |",
            contestant.name
        );
    }
}
