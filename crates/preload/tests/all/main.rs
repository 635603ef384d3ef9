//! The library in real programs.

mod conformance;
mod environment;
mod observed;
mod other_libraries;
mod remedies;
mod rules;
mod support;
mod unchanged;
