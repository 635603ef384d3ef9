//! `cyclic`: threads that wake up at regular intervals and record how late each wake-up was.

mod aside;
mod bell;
mod crew;
mod cycle;
mod gauge;
mod load;
mod lookout;
mod native;
mod plan;
mod rest;
mod start;
mod stretch;
mod turn;

pub use aside::Aside;
pub use bell::{Bell, Spike, Spikes, TraceMark};
pub use crew::{Crew, Member, NotStarted, Orders};
pub use gauge::{Gauge, KEPT, Keep, highest};
pub use load::Load;
pub use lookout::Lookout;
pub use native::{EXPERIMENT, run};
pub use plan::{Plan, Request, highest_priority};
pub use start::Start;
pub use turn::{Limits, Unit, Waiting};
