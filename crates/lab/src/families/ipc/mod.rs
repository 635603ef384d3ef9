//! `ipc`: how long a message takes from one process to another, and its cost for both.
//!
//! The input is a [`Plan`]. The [`Session`] receives a series per mechanism, size, mode, place, method of receiving
//! and variant of conditions. For a missing one it receives the reason. The quantity is `one_way`, or `round_trip`
//! in ping-pong, which is never halved.
//!
//! The measuring process receives. A child of it sends, or answers in ping-pong. Both ends are opened before the
//! fork, and names are removed at once, so that none remains. For objects that must stay longer see [`keeper`].

mod bench;
mod block;
mod control;
mod halt;
mod integrity;
pub mod keeper;
pub mod mechanism;
pub mod mechanisms;
mod message;
mod outcome;
mod peer;
pub mod place;
pub mod plan;
#[cfg(test)]
mod tests;
pub mod topology;
mod traffic;
mod trip;
mod waiter;
mod watcher;

use punctual_record::Experiment;

use crate::frame::{self, Error, Session, Unavailable};
pub use message::SHORTEST;
pub use plan::{Plan, Request};
pub use traffic::Mode;

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::IPC;

/// Runs the plan and enters its measurements in the session. Errors of messages or of the other process are
/// returned as text: the run has figures, but failed.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<Vec<String>, Error> {
    outcome::cores(&plan, session);
    frame::run(plan, session).map(|done| done.wrong)
}

/// Opens and closes a mechanism with the shortest message it carries, to check that it works here.
pub fn try_open(mechanism: &mechanism::Mechanism) -> Result<(), Unavailable> {
    let keeper = keeper::Keeper::start()?;
    let asked = mechanism::Asked {
        size: SHORTEST,
        depth: None,
        both_ways: true,
        receive: mechanism::Receive::Block,
        keeper: &keeper,
        halt: mechanism::Halt::default(),
    };
    (mechanism.open)(&asked).map(drop)
}
