//! The step of the clock (`-R`): what the kernel says, and what readings show.

use punctual_linux::clock::{Clock, now_ns, resolution_ns};

use super::options::Options;

/// Readings: some milliseconds.
const READINGS: usize = 100_000;

/// What is to be said: with `-v` always, else if the clock is coarser than the kernel says. With `--dbg_cyclictest` each reading.
pub(super) fn resolution(options: &Options) -> Vec<String> {
    let clock = if options.realtime_clock { Clock::Realtime } else { Clock::Monotonic };
    let readings: Vec<i64> = (0..READINGS).map(|_| now_ns(clock)).collect();
    let steps = || readings.windows(2).map(|two| two[1] - two[0]);
    let mut said = Vec::new();
    if options.debug {
        said.push(format!("{READINGS} readings of the clock: time, step in ns"));
        let one = |(at, step): (&i64, i64)| format!("{}.{:09} {step:5}", at / 1_000_000_000, at % 1_000_000_000);
        said.extend(readings[1..].iter().zip(steps()).map(one));
    }
    let reported = resolution_ns(clock).unwrap_or(0);
    let measured = steps().filter(|step| *step > 0).min();
    if options.verbose || measured.is_none_or(|measured| measured > reported) {
        said.push(format!("reported clock resolution: {reported} nsec"));
        let measured = measured.map_or_else(|| "the clock stood still".into(), |ns| format!("{ns} nsec"));
        said.push(format!("measured clock resolution approximately: {measured}"));
    }
    said
}
