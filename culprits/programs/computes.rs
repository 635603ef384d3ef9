// A program that computes, and nothing else: its time is its own.
#[path = "culprit.rs"]
mod culprit;

use std::time::{Duration, Instant};

fn main() {
    let mut draws = culprit::Draws::of_the_seed();
    let (begin, time) = (Instant::now(), Duration::from_millis(draws.draw(1500, 2500)));
    let before = culprit::schedstat();
    while culprit::schedstat().0 - before.0 < time.as_nanos() as u64 {
        for _ in 0..50 {
            culprit::step();
        }
    }
    let after = culprit::schedstat();
    println!(
        r#"{{"ran_ns": {}, "lost_ns": {}, "times": 1, "queued_ns": {}}}"#,
        begin.elapsed().as_nanos(),
        after.0 - before.0,
        after.1 - before.1
    );
}
