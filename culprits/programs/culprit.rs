// What the Rust culprits have in common; they include it as a module.
#![allow(dead_code)]

use std::time::{Duration, Instant};

pub struct Draws(u64);

impl Draws {
    pub fn of_the_seed() -> Draws {
        Draws(std::env::var("CULPRIT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1))
    }

    /// The next draw, between both bounds (splitmix64).
    pub fn draw(&mut self, low: u64, high: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        low + (mixed ^ (mixed >> 31)) % (high - low + 1)
    }
}

/// The CPU time of the calling thread, and the time that it waited for a CPU.
pub fn schedstat() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("/proc/thread-self/schedstat");
    let mut words = text.split_whitespace().map(|word| word.parse().expect("a number"));
    (words.next().expect("ran"), words.next().expect("waited"))
}

/// Computes: some 20 us a step.
pub fn step() {
    let mut sum = 1_u64;
    for number in 0..20_000_u64 {
        sum = std::hint::black_box(sum.wrapping_mul(number) + 1);
    }
}

/// Computes for this long, by the wall clock.
pub fn work(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        step();
    }
}
