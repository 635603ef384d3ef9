//! A small program for a compiler: it sorts what it has drawn.
use std::collections::BTreeMap;

fn main() {
    let mut state = 1_u64;
    let drawn = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    });
    let counts = drawn.take(100_000).fold(BTreeMap::<u64, u64>::new(), |mut counts, value| {
        *counts.entry(value % 100).or_default() += 1;
        counts
    });
    println!("{counts:?}");
}
