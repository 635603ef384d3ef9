//! Toggles an output at 5 kHz and says how even the edges are.
//!
//! `cargo run --release --example gpio_toggle [FILE]`: FILE is a GPIO's `value` in /sys/class/gpio, or any file; without one the
//! edges go to /dev/null.
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::time::Duration;

use punctual::{Clock as _, MissedTickBehavior, Rate, Ticker};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/dev/null".into());
    let mut output = File::options().write(true).open(&path)?;
    let edges = Rate::per_second(10_000)?;
    // An edge that is not written is a wrong signal, so all of them are, late ones at once.
    let mut ticker = Ticker::options().rate(edges).missed_tick_behavior(MissedTickBehavior::Burst).build()?;
    let mut gaps = Vec::with_capacity(10_000);
    let mut before = None;
    for _ in 0..10_000 {
        let tick = ticker.tick();
        output.rewind()?;
        output.write_all(if tick.index % 2 == 0 { b"1" } else { b"0" })?;
        let now = ticker.sleeper().clock().now();
        if let Some(before) = before.replace(now) {
            gaps.push(now.since(before));
        }
    }
    gaps.sort_unstable();
    let at = |share: f64| gaps[((gaps.len() - 1) as f64 * share) as usize];
    println!("10 000 edges to {path}, nominal gap {:?}", Duration::from_nanos(edges.period_ns()));
    println!("gaps: p1 {:?}, p50 {:?}, p99 {:?}, longest {:?}", at(0.01), at(0.5), at(0.99), at(1.0));
    Ok(())
}
