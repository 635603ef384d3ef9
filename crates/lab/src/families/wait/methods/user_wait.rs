//! Instructions that wait in user mode: they make no system call, yet the core rests.

use punctual::counter::Counter;
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::user_wait::{Instruction, UserWait, Watched};

use super::waiters::Opened;
use crate::frame::Unavailable;
use crate::frame::progress::go_on;
use crate::ways::wait::{Kind, Method, Waiter};

const USER_WAIT: Method = Method { absolute: true, ..Method::unnamed(Kind::UserWait) };

pub(super) static METHODS: &[Method] = &[
    Method {
        name: "tpause",
        about: "rests the core until a time of its counter",
        call: "_tpause(0, deadline)",
        code: "_tpause(0, deadline_in_ticks);",
        needs: "CPU with WAITPKG",
        open: || open(Instruction::Tpause),
        ..USER_WAIT
    },
    Method {
        name: "umwait",
        about: "rests the core until a time of its counter or a write to watched memory",
        call: "_umonitor(line), _umwait(0, deadline)",
        code: "_umonitor(line); _umwait(0, deadline_in_ticks);",
        needs: "CPU with WAITPKG",
        open: || open(Instruction::Umwait),
        ..USER_WAIT
    },
    Method {
        name: "mwaitx",
        about: "rests the core for a time or until a write to watched memory",
        call: "_mm_monitorx(line, 0, 0), _mm_mwaitx(2, 0xf0, ticks)",
        code: "_mm_monitorx(line, 0, 0); _mm_mwaitx(2, 0xf0, ticks);",
        needs: "CPU with MONITORX",
        open: || open(Instruction::Mwaitx),
        ..USER_WAIT
    },
    Method {
        name: "wfet",
        about: "rests the core until a time of its counter or an event",
        call: "wfet(deadline)",
        code: "__asm__ volatile(\"wfet %0\" :: \"r\"(deadline_in_ticks));",
        needs: "64-bit Arm CPU with FEAT_WFxT",
        open: || open(Instruction::Wfet),
        ..USER_WAIT
    },
];

struct InUserMode {
    instruction: UserWait,
    counter: Counter,
    watched: Watched,
}

fn open(instruction: Instruction) -> Opened {
    let instruction = UserWait::open(instruction).map_err(|why| Unavailable { why: why.to_string(), remedy: None })?;
    let counter = Counter::calibrate().map_err(|why| Unavailable { why: why.to_string(), remedy: None })?;
    Ok(Box::new(InUserMode { instruction, counter, watched: Watched::default() }))
}

impl Waiter for InUserMode {
    #[inline]
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        let deadline = from_ns.saturating_add(asked_ns);
        loop {
            let ticks = self.counter.ticks();
            let remaining = deadline - now_ns(Clock::Monotonic);
            if remaining <= 0 {
                return Ok(());
            }
            // May end earlier: at an interrupt, or at the kernel's limit for one instruction.
            self.instruction.until(ticks.saturating_add(self.counter.ticks_of(remaining)), &self.watched);
            go_on("user wait")?;
        }
    }
}
