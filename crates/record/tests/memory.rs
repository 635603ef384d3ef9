//! Recording takes no memory, however many samples there are. Alone in its file: the resident size is the whole process's.

use punctual_record::Recorder;

/// Resident size in kB (`/proc/self/status`, `VmRSS`).
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Samples of all sizes and both signs, some beyond the histogram's range.
fn sample(number: u64) -> i64 {
    let scrambled = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (scrambled as i64) >> (scrambled & 63)
}

#[test]
fn a_hundred_million_samples_take_the_memory_of_a_thousand() {
    let mut recorder = Recorder::new();
    (0..1000).for_each(|number| recorder.record(sample(number)));
    let before = resident_kb();
    (1000..100_000_000).for_each(|number| recorder.record(sample(number)));
    let grown = resident_kb().saturating_sub(before);
    assert_eq!(recorder.count(), 100_000_000);
    assert!(grown < 1024, "grew by {grown} kB");
}
