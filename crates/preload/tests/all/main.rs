//! The library in real programs.

mod company;
mod observed;
mod remedies;
mod rules;
mod support;
mod unchanged;
