//! Subjects that several families use: a way of waiting ([`wait`]), with the waits of a program itself (`user`), and a way of
//! giving up the CPU ([`yielding`]).

pub(crate) mod user;
pub mod wait;
pub mod yielding;
