//! The library in real programs.

mod remedies;
mod support;
mod unchanged;
