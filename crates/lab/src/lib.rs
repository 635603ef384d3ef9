//! The experiments: they turn a plan into a run.
//!
//! Each family of experiments has the same shape. Its *subjects* (ways of doing a thing) are small constant items in
//! a list. Its *plan* is validated before anything is changed. Its *bench* performs a batch of one subject. The
//! `frame` runs them all.
//!
//! Each layer knows only those before it. `frame` is the first, then [`crowd`] (busy programs) and `speed` (CPU
//! frequency), then [`ways`] (a way of waiting or yielding). Then come the families, then the [`checkup`]. No
//! family knows another.
//!
//! Only this crate reads clocks to measure. It prints nothing: between measurements it reports its progress to an
//! [`Observer`].
#![forbid(unsafe_code)]

pub mod advise;
pub mod checkup;
pub mod crowd;
mod families;
mod frame;
pub mod paths;
pub mod program;
mod speed;
pub mod ways;

pub use families::*;
pub use frame::breaks::{Offset, continued};
pub use frame::{
    Amount, BadVariant, Error, Input, Observer, PlanError, Progress, Request, Session, Sight, Silent, Stop, Tracer,
    Variant, Watched, condition_set, one_cpu, sight,
};
pub use speed::Thread;
