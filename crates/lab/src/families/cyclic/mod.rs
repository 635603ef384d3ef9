//! `cyclic`: threads that wake up at regular intervals and record how late each wake-up was.

mod bell;
mod crew;
mod cycle;
mod gauge;
mod turn;

pub use bell::{Bell, Spike, Spikes, TraceMark};
pub use crew::{Crew, Member, NotStarted, Orders, Start};
pub use gauge::{Gauge, KEPT, Keep, highest};
pub use turn::{Limits, Unit, Waiting};
