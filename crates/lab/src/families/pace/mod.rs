//! `pace`: how evenly events leave and arrive if a program paces them. Events are UDP datagrams, or ticks without a
//! network.
//!
//! The input is a [`Plan`]. The [`Session`] receives series per method of pacing and variant of conditions.
//! `lateness` is that of each departure relative to the ideal schedule. `period_jitter` is that of departures and of
//! arrivals, and `one_way` is latency. The metrics are the rate reached, the drift of departures, and the numbers of
//! datagrams not sent, lost or reordered. Departures are the kernel's own stamps if it provides them. Sending never
//! waits for room: a datagram without room is counted.
//!
//! For the loopback, a child process is the receiver. [`receive`] is a standalone receiver.

mod bench;
mod drift;
mod flow;
mod keep;
pub mod methods;
mod plan;
pub mod receive;
mod receiver;
mod stand;
mod sweep;
mod wire;

use punctual_record::{Experiment, Notice};

use crate::frame::{self, Error, Session};
use keep::Keep;
pub use plan::{Goal, MOST_BYTES_UNASKED, MOST_UNASKED, PacingMethod, PacingSession, Plan, Request, Target, Terms};
use sweep::Sweep;
pub use wire::{HEADER, Header, Mode, this_boot};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::PACE;

/// Runs the plan and enters its measurements in the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    match plan.asked.goal {
        Goal::Keep(rate) => {
            let by_fq = keep::bursts(&plan, rate);
            let done = frame::run(Keep { plan, rate }, session)?;
            // fq's effect on a rate matters if a method sent through it.
            if by_fq.into_iter().any(|cell| done.extras[cell].counts.sent > 0) {
                session.notice(Notice::Other { text: keep::BURSTS.into() });
            }
            Ok(())
        }
        Goal::Highest { from, to, within } => frame::run(Sweep { plan, from, to, within }, session).map(drop),
    }
}
