//! Calls back for blocks of 64 samples at 44 100 Hz, without drift. The period is 1451.247... us, which no count of nanoseconds
//! is.
//!
//! `cargo run --release --example audio_callback`
use std::time::Duration;

use punctual::{MissedTickBehavior, Rate, Ticker};

const SAMPLES: u64 = 64;
const SAMPLE_RATE: u64 = 44_100;

/// Fills a block with a sine wave, as a synthesiser would.
fn fill(block: &mut [f32], first: u64) {
    for (n, sample) in block.iter_mut().enumerate() {
        let seconds = (first + n as u64) as f64 / SAMPLE_RATE as f64;
        *sample = (seconds * 440.0 * std::f64::consts::TAU).sin() as f32;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // 44 100 blocks in 64 seconds, exactly.
    let blocks = Rate::new(SAMPLE_RATE, Duration::from_secs(SAMPLES))?;
    let mut ticker = Ticker::options().rate(blocks).missed_tick_behavior(MissedTickBehavior::Skip).build()?;
    let start = ticker.next_deadline();
    let (mut block, mut underruns, mut worst) = ([0.0; SAMPLES as usize], 0, Duration::ZERO);
    let last = loop {
        let tick = ticker.tick();
        underruns += tick.missed;
        worst = worst.max(tick.lateness());
        fill(&mut block, tick.index * SAMPLES);
        if tick.index >= 1_378 {
            break tick;
        }
    };
    let ideal = (last.index * SAMPLES) as f64 / SAMPLE_RATE as f64;
    println!("{} blocks in {:.9} s, ideally {ideal:.9} s", last.index, last.deadline.since(start).as_secs_f64());
    println!("{underruns} underruns, worst {worst:?} late, last sample {:.3}", block[SAMPLES as usize - 1]);
    Ok(())
}
