//! A control loop at 1 kHz: reads a value, steers towards a target, and accounts for every tick.
//!
//! `cargo run --release --example control_loop`
use std::time::Duration;

use punctual::{Applied, Conditions, Policy, Ticker};

/// Something to control: a tank that drains and is filled.
struct Tank {
    level: f64,
    valve: f64,
}

impl Tank {
    fn step(&mut self, seconds: f64) {
        self.level += (self.valve - 0.3 * self.level) * seconds;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Real time where the system lets us. Where not, it says how to get it, and the loop runs all the same.
    let conditions = Conditions::new().policy(Policy::Fifo(40)).lock_memory();
    let Applied { guard: _guard, refused } = conditions.apply();
    for refused in refused {
        eprintln!("{refused}");
    }
    let period = Duration::from_millis(1);
    let mut ticker = Ticker::options().every(period).build()?;
    let (mut tank, target) = (Tank { level: 0.0, valve: 0.0 }, 2.0);
    let (mut worst, mut late) = (Duration::ZERO, 0);
    for _ in 0..2_000 {
        let tick = ticker.tick();
        // Ticks that were missed are time that passed all the same.
        let periods = 1 + tick.missed;
        tank.step(period.as_secs_f64() * periods as f64);
        tank.valve = (0.6 + 4.0 * (target - tank.level)).clamp(0.0, 5.0);
        worst = worst.max(tick.lateness());
        late += u32::from(tick.lateness() > Duration::from_micros(10));
    }
    println!("level {:.3} for a target of {target}", tank.level);
    println!("2000 ticks: {} missed, {late} later than 10 us, worst {worst:?}", ticker.missed());
    Ok(())
}
