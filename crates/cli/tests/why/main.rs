//! `punctual why` with real programs.

mod own;
mod process;
mod program;
mod refusals;
mod support;
