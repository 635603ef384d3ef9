//! The datagrams of `pace`: what is in one and how it is sent (`wire`), what becomes of a stream of them (`flow`), and a
//! standalone receiver ([`receive`]).
//!
//! Whoever paces hands each datagram over when it is due. What is sent and received is the same however that is done.

mod flow;
pub mod receive;
mod wire;

pub(crate) use flow::{MOST, Receiver};
pub(crate) use wire::Wire;
pub use wire::{HEADER, Header, Mode, this_boot};
