//! Conditions of a thread: policy, nice value, CPUs, locked memory, timer slack, C-states, CPU frequency.
//!
//! [`Conditions::apply`] changes the calling thread, its process or the machine, and [`Conditions::apply_to`] another thread. They return
//! a [`Guard`] and the refused conditions, each with its reason and what it needs. The guard knows the values in force, read back from the
//! kernel. Dropping it restores the previous state, even during unwinding. A [`ThreadState`] lets another process do that.
//!
//! Conditions are independent: a refused one is reported, and the others are applied. Each has its own file; other code
//! finds it through its line in [`CONDITIONS`].
//!
//! ```no_run
//! use punctual::{Applied, Conditions, Policy};
//!
//! let Applied { guard, refused } = Conditions::new().policy(Policy::Fifo(40)).lock_memory().apply();
//! for refused in &refused {
//!     eprintln!("{refused}");
//! }
//! // ... what has to be on time ...
//! drop(guard);
//! ```
//!
//! Layers: reason, surroundings, value < condition < report, set, privilege < the conditions < table, thread_state < guard.

mod condition;
mod cpu;
mod dma_latency;
mod frequency;
mod guard;
mod irqs_away;
mod lock_memory;
mod nice;
mod policy;
mod privilege;
mod reason;
mod report;
mod set;
mod slice;
mod surroundings;
mod table;
mod thread_state;
mod timer_slack;
mod value;

#[cfg(test)]
mod diagnoses;

pub use condition::{Condition, Scope};
pub use guard::{Applied, Guard, recover};
pub use report::{Lost, Refused};
pub use set::Conditions;
pub(crate) use surroundings::may_raise_limits;
pub use table::CONDITIONS;
pub use thread_state::ThreadState;
pub use value::{Frequency, Value};
