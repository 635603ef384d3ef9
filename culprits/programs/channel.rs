// std::sync::mpsc: a thread receives from a worker that is slow, since it computes for each message.
#[path = "culprit.rs"]
mod culprit;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

fn main() {
    let mut draws = culprit::Draws::of_the_seed();
    let (long, named) = (Duration::from_millis(draws.draw(5, 12)), format!("worker-{}", draws.draw(10, 99)));
    let (sender, receiver) = mpsc::sync_channel(0);
    let worker = move || {
        loop {
            culprit::work(long);
            if sender.send(()).is_err() {
                break;
            }
        }
    };
    thread::Builder::new().name(named.clone()).spawn(worker).expect("a thread");
    let (begin, mut lost, mut times) = (Instant::now(), Duration::ZERO, 0);
    while begin.elapsed() < Duration::from_millis(2500) {
        let (at, queued) = (Instant::now(), culprit::schedstat().1);
        receiver.recv().expect("a message");
        lost += at.elapsed();
        // What it waits for its CPU once it has the message is no wait for the worker.
        lost = lost.saturating_sub(Duration::from_nanos(culprit::schedstat().1 - queued));
        times += 1;
        culprit::work(Duration::from_millis(1));
    }
    println!(
        r#"{{"ran_ns": {}, "lost_ns": {}, "times": {times}, "queued_ns": {}, "subject": "channel", "culprit": "{named}"}}"#,
        begin.elapsed().as_nanos(),
        lost.as_nanos(),
        culprit::schedstat().1
    );
}
