//! Subjects that several families use: a way of waiting ([`wait`]), a way of giving up the CPU ([`yielding`]).

pub mod wait;
pub mod yielding;
