//! Idle states of the CPU.

use std::io::Write as _;

use punctual_record::Cause;
use punctual_testing::Lack;

use crate::judge::Injector;
use crate::place;
use crate::play::{Seen, Stage};

/// Any state that the kernel chooses, against the loop that polls.
pub(crate) const IDLE_STATES: Injector = Injector {
    name: "idle states",
    cause: Cause::IdleState,
    exact: false,
    idle: true,
    least_ns: 5_000,
    play: idle_states,
    ..Injector::SLEEP
};

fn idle_states(stage: &Stage, wanted: usize) -> Option<Seen> {
    const STATE: &str = "/sys/devices/system/cpu/cpu0/cpuidle/state1";
    if !std::path::Path::new(STATE).exists() {
        punctual_testing::lacks(Lack::File(STATE));
        return None;
    }
    // Closed, it has no effect.
    let mut latency = std::fs::File::options().write(true).open("/dev/cpu_dma_latency").unwrap();
    latency.write_all(&0_i32.to_ne_bytes()).unwrap();
    let victim = || {
        place::on(stage.cpu);
        place::fifo(50);
        while stage.goes_on() {
            let on = stage.is_on();
            stage.sleep(1_000_000);
            if on {
                stage.hit();
            }
        }
    };
    let injector = || {
        if stage.wait_for_part() {
            drop(latency);
        }
    };
    Some(stage.play(wanted, victim, injector))
}
