//! CPU frequency: reads its settings, changes them temporarily, and restores them exactly.
//!
//! A [`Cpufreq`] is a root of the file system (`/`, or a fixture tree) with a folder for the journal. It gives [`CpufreqPolicy`]s to read,
//! and a [`GovernorGuard`] that may change them. A [`Boost`] raises the speed around each activation of a periodic task. Dropping the guard
//! restores the settings, even during unwinding. If the process dies without unwinding, even by SIGKILL, a keeper process restores them. If
//! both die, the next guard (or `punctual governor restore`) follows the journal.
//!
//! Refused: governors that a policy does not offer, frequencies outside the hardware's range, and a second program with
//! a guard. Errors say what they lack ([`Error::needs`]).
//!
//! Layers: attribute < error < policy < system < threads < guard < permanent; lead, lever, work, guard < boost. Journal, keeper and lock are
//! [`crate::restore`]'s.
//!
//! ```no_run
//! use punctual::cpufreq::Cpufreq;
//! use punctual::restore::LockWait;
//!
//! # fn main() -> Result<(), punctual::cpufreq::Error> {
//! let mut guard = Cpufreq::system().guard(&[0, 1], LockWait::No)?;
//! guard.set_governor("performance")?;
//! // ... what has to be fast ...
//! for left in guard.restore() {
//!     eprintln!("{left}");
//! }
//! # Ok(())
//! # }
//! ```

mod attribute;
mod boost;
mod error;
mod guard;
mod policy;
mod system;
mod threads;
mod work;

pub use attribute::{Attribute, FREQUENCY, format_frequency, parse_frequency};
pub use boost::{Activation, Boost, Cost};
pub use error::Error;
pub use guard::{GovernorGuard, Restored};
pub use policy::{CpufreqPolicy, Lever};
pub use system::{Cpufreq, Energy, EnergyZone, IdleState};
pub use threads::{GovernorThread, Serves};
pub use work::Work;
