// Four threads meet at a barrier in each turn; one of them, drawn, has much more to do.
#[path = "culprit.rs"]
mod culprit;

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

fn main() {
    let mut draws = culprit::Draws::of_the_seed();
    let (bad, long) = (draws.draw(1, 3), Duration::from_millis(draws.draw(8, 15)));
    let barrier = Arc::new(Barrier::new(4));
    for number in 1..4 {
        let barrier = Arc::clone(&barrier);
        let turns = move || loop {
            culprit::work(if number == bad { long } else { Duration::from_micros(300) });
            barrier.wait();
        };
        thread::Builder::new().name(format!("member-{number}")).spawn(turns).expect("a thread");
    }
    let (begin, mut lost, mut times) = (Instant::now(), Duration::ZERO, 0);
    while begin.elapsed() < Duration::from_millis(2500) {
        culprit::work(Duration::from_micros(300));
        let at = Instant::now();
        barrier.wait();
        lost += at.elapsed();
        times += 1;
    }
    println!(
        r#"{{"ran_ns": {}, "lost_ns": {}, "times": {times}, "subject": "barrier", "culprit": "member-{bad}"}}"#,
        begin.elapsed().as_nanos(),
        lost.as_nanos()
    );
}
