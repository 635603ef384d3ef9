//! The experiments: a plan goes in, a run comes out.
//!
//! Each family of experiments has the same shape. Its *subjects* (ways of doing the thing) are small constant items on a
//! shelf; its *plan* is validated before anything is touched; its *runner* is written once and lets the subjects take
//! turns in rounds. What the families share is here: the [`Session`] that gathers one [`punctual_record::Run`], the
//! [`stage`] on which the clock runs and nothing else does, and the [`variant`]s of conditions put side by side.
//!
//! Only this crate reads clocks in anger. It prints nothing: it tells an [`Observer`], between measurements, how far it is.
#![forbid(unsafe_code)]

pub mod breaks;
pub mod calibrate;
pub mod checkup;
pub mod clock_cost;
pub mod crowd;
pub mod failure;
mod family;
pub mod governor;
mod hold;
pub mod ipc;
pub mod ledger;
pub mod left_out;
mod no_thread;
pub mod pace;
mod place;
pub mod polling;
pub mod rounds;
pub mod schedule;
pub mod session;
pub mod stage;
mod stop;
pub mod usage;
pub mod variant;
pub mod wait;
mod warden;
pub mod yielding;

pub use family::Unmet;
pub use place::Place;
pub use session::Session;
pub use stage::{Observer, Progress, Silent, Stop};
pub use variant::{BadVariant, Variant};
