//! The library in real programs.

mod observed;
mod other_libraries;
mod remedies;
mod rules;
mod support;
mod unchanged;
