// std::sync::Mutex: one of four, drawn, is held by a thread that sleeps meanwhile.
#[path = "culprit.rs"]
mod culprit;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

fn main() {
    let mut draws = culprit::Draws::of_the_seed();
    let (bad, keep) = (draws.draw(0, 3) as usize, Duration::from_millis(draws.draw(12, 25)));
    let locks: Arc<Vec<Mutex<u64>>> = Arc::new((0..4).map(Mutex::new).collect());
    for number in 0..4_usize {
        let locks = Arc::clone(&locks);
        let turns = move || loop {
            let held = locks[number].lock();
            if number == bad {
                thread::sleep(keep);
            }
            drop(held);
            thread::sleep(if number == bad { keep / 2 } else { Duration::from_millis(5) });
        };
        thread::Builder::new().name(format!("keeper-{number}")).spawn(turns).expect("a thread");
    }
    let (begin, mut lost, mut times) = (Instant::now(), Duration::ZERO, 0);
    while begin.elapsed() < Duration::from_millis(2500) {
        for (number, lock) in locks.iter().enumerate() {
            let at = Instant::now();
            drop(lock.lock());
            if number == bad {
                lost += at.elapsed();
                times += u64::from(at.elapsed() > Duration::from_millis(1));
            }
        }
        thread::sleep(Duration::from_millis(3));
    }
    println!(
        r#"{{"ran_ns": {}, "lost_ns": {}, "times": {times}, "subject": "mutex", "lock": "{:p}", "holder": "keeper-{bad}"}}"#,
        begin.elapsed().as_nanos(),
        lost.as_nanos(),
        &locks[bad]
    );
}
