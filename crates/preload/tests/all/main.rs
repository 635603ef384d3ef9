//! The library in real programs.

mod company;
mod remedies;
mod rules;
mod support;
mod unchanged;
