//! The C-state limit: a file that is held open.

use std::time::Duration;

use punctual::conditions::Value;
use punctual::{Applied, Condition, Conditions, Lost};
use punctual_testing::{Lack, alone_on_this_machine, lacks};

use crate::common::privileged;

fn open_requests() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.as_os_str() == "/dev/cpu_dma_latency")
        .count()
}

#[test]
fn dma_latency_is_held_open_and_released() {
    if !privileged() {
        return;
    }
    if !std::path::Path::new("/dev/cpu_dma_latency").exists() {
        lacks(Lack::File("/dev/cpu_dma_latency"));
        return;
    }
    let _alone = alone_on_this_machine();
    let before = Conditions::inspect().get_dma_latency().unwrap();
    let asked = |latency| Conditions::new().dma_latency(latency);
    // Rounded down: 7.9 µs tolerated are 7 µs held.
    let Applied { guard, refused } = asked(Duration::from_nanos(7900)).apply();
    assert_eq!(refused, []);
    assert_eq!(guard.applied().get_dma_latency(), Some(Duration::from_micros(7).min(before)));
    assert_eq!(open_requests(), 1);
    let inner = asked(Duration::from_nanos(999)).apply().guard;
    assert_eq!(inner.applied().get_dma_latency(), Some(Duration::ZERO));
    assert_eq!(open_requests(), 2);
    assert_eq!(inner.restore(), []);
    assert_eq!(Conditions::inspect().get_dma_latency(), Some(Duration::from_micros(7).min(before)));
    assert_eq!(guard.restore(), []);
    assert_eq!(open_requests(), 0);
    assert_eq!(Conditions::inspect().get_dma_latency(), Some(before));
}

#[test]
fn a_renewed_request_takes_the_place_of_the_former() {
    if !privileged() {
        return;
    }
    if !std::path::Path::new("/dev/cpu_dma_latency").exists() {
        lacks(Lack::File("/dev/cpu_dma_latency"));
        return;
    }
    let _alone = alone_on_this_machine();
    let Applied { mut guard, refused } = Conditions::new().dma_latency(Duration::ZERO).apply();
    assert_eq!((refused, guard.lost()), (Vec::new(), Vec::new()));
    let lost =
        Lost { condition: Condition::DMA_LATENCY, set: Value::DmaLatency(Duration::ZERO), found: "2000s".into() };
    assert_eq!(guard.renew(&[lost]), []);
    assert_eq!(open_requests(), 1);
    assert_eq!(guard.lost(), []);
    assert_eq!(guard.restore(), []);
    assert_eq!(open_requests(), 0);
}
