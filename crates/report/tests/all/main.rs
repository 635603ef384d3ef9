//! Runs in every form, compared with each other, and judged.
#![forbid(unsafe_code)]

mod browser;
mod calibrate;
mod calls;
mod causes;
mod common;
mod compare;
mod compared;
mod compared_causes;
mod contradictions;
mod cyclic;
mod document;
mod explained;
mod forms;
mod gate;
mod governors;
mod hostile;
mod interrupted;
mod ipc;
mod ipc_verdict;
mod lost;
mod mutated;
mod other_forms;
mod pace;
mod paths;
mod pictures;
mod power;
mod ramp;
mod records;
mod saved_forms;
mod screens;
mod text;
mod trials;
mod verdict;
mod wait;
mod yielding;
