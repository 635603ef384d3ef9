//! Recording allocates nothing and touches no page for the first time.

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

/// Minor page faults of this thread (proc_pid_stat(5), field 10).
fn page_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    after_name.split_whitespace().nth(7).unwrap().parse().unwrap()
}

#[test]
fn recording_faults_no_page_in() {
    let mut recorder = Recorder::new();
    page_faults();
    let before = page_faults();
    (0..37).flat_map(|power| (0..64).map(move |part| (1i64 << power) + ((part << power) >> 6))).for_each(|magnitude| {
        recorder.record(magnitude);
        recorder.record(-magnitude);
    });
    let faults = page_faults() - before;
    // Reading /proc costs a few itself; the histograms have more than 100 pages of 4 kB.
    assert!(faults < 20, "{faults} page faults");

    // The count does see pages come in, of 4 kB or of 2 MB. 64 MB is more than the allocator ever recycles.
    let before = page_faults();
    let mut untouched = vec![0u8; 64 << 20];
    untouched.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    assert!(std::hint::black_box(untouched).len() == 64 << 20 && page_faults() - before > 20);
}
