//! The library in real programs.

mod remedies;
mod rules;
mod support;
mod unchanged;
