//! The families of experiments: subjects and benches. None of them knows another. Code that several need is in the
//! layers below.

pub mod boost;
pub mod calibrate;
pub mod cyclic;
pub mod ipc;
pub mod pace;
pub mod polls;
pub mod ramp;
pub mod switch;
pub mod wait;
pub mod yielding;
