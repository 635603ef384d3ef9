//! Recording allocates nothing.

use punctual_record::Recorder;

/// Samples as they come in practice, and the odd ones: negative, zero, beyond the histogram's range.
fn sample(number: u64) -> i64 {
    let scrambled = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    match scrambled >> 60 {
        0 => -((scrambled >> 40 & 0xffff) as i64),
        1 => scrambled as i64,
        _ => (scrambled >> (20 + (scrambled & 31)) & 0xff_ffff) as i64,
    }
}

#[test]
fn recording_allocates_nothing() {
    let mut recorder = Recorder::new();
    let other = {
        let mut other = Recorder::new();
        (0..1000).for_each(|number| other.record(sample(number)));
        other
    };
    let seen = allocation_counter::measure(|| {
        (0..100_000).for_each(|number| recorder.record(sample(number)));
        recorder.merge(&other);
        recorder.clear();
        recorder.record(1);
    });
    assert_eq!((seen.count_total, seen.bytes_total), (0, 0));
    // The counter itself counts.
    assert!(allocation_counter::measure(|| drop(Recorder::new())).count_total >= 2);
}
