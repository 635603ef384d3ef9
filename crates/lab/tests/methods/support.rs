//! Helpers that these tests share.

use punctual_lab::wait::methods;
use punctual_lab::ways::wait::{Method, Unit, Waiter};
use punctual_linux::clock::{Clock, now_ns};
use punctual_testing::{Lack, lacks, skip};

/// Opens a method. Where it is unavailable, checks that the reason says something, and that hardware lacks what it needs.
pub(crate) fn open(method: &Method) -> Option<Box<dyn Waiter>> {
    match (method.open)() {
        Ok(waiter) => Some(waiter),
        Err(unavailable) => {
            assert!(unavailable.why.len() > 10, "{}: {unavailable}", method.name);
            match method.name {
                "spin_counter" => lacks(Lack::Counter),
                "tpause" | "umwait" => lacks(Lack::Instruction("waitpkg")),
                "mwaitx" => lacks(Lack::Instruction("mwaitx")),
                "wfet" => lacks(Lack::Instruction("wfxt")),
                name => skip(&format!("{name}: {unavailable}")),
            }
            None
        }
    }
}

/// The methods with waits of less than a second.
pub(crate) fn fine() -> impl Iterator<Item = &'static Method> {
    methods::all().filter(|method| method.unit != Unit::Second)
}

/// One wait, checked against the monotonic clock and the method's own one. Returns whether it had to be longer than asked.
#[track_caller]
pub(crate) fn check_wait(method: &Method, waiter: &mut dyn Waiter, asked_ns: i64) {
    let own = now_ns(method.clock);
    let from = now_ns(Clock::Monotonic);
    waiter.wait(from, asked_ns).unwrap_or_else(|e| panic!("{}: {e}", method.name));
    let elapsed = now_ns(Clock::Monotonic) - from;
    let own_elapsed = now_ns(method.clock) - own;
    assert!(own_elapsed >= asked_ns, "{} woke {} ns early on its clock", method.name, asked_ns - own_elapsed);
    // The wall clock may be set during the wait. The others only ever advance together.
    if !matches!(method.clock, Clock::Realtime | Clock::Tai) {
        assert!(elapsed >= asked_ns, "{} woke {} ns early", method.name, asked_ns - elapsed);
    }
}
