//! CPU frequency: what governs it, changing that for a while, and giving it back exactly as it was found.
//!
//! In goes a [`Cpufreq`], which is a root of the file system (`/`, or a fixture tree) and a place for the journal; out come
//! [`Policy`]s to look at, a [`GovernorGuard`] that may change them, or a [`Boost`] that raises the speed around each activation of a periodic task. Nothing stays changed: the guard puts back what it
//! found when it is dropped, also while a panic unwinds; when the process dies without unwinding, SIGKILL included, a keeper process
//! notices and does the same; and should both be gone, the next guard (or `punctual governor restore`) follows the journal.
//!
//! It refuses governors that a policy does not offer, frequencies outside the hardware's range, and to work beside another
//! program that holds a guard. Errors tell what would help ([`Error::remedy`]).
//!
//! ```no_run
//! use punctual::cpufreq::{Cpufreq, Wait};
//!
//! # fn main() -> Result<(), punctual::cpufreq::Error> {
//! let mut guard = Cpufreq::system().guard(&[0, 1], Wait::No)?;
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
mod energy;
mod error;
mod files;
mod full_speed;
mod guard;
mod idle;
mod journal;
mod keeper;
mod lead;
mod lever;
mod permanent;
mod policy;
mod put_back;
mod raise;
mod state;
mod system;
mod threads;
mod work;

pub use attribute::{Attribute, Setting};
pub use boost::{Activation, Boost, Cost};
pub use energy::{Energy, EnergyZone};
pub use error::Error;
pub use guard::GovernorGuard;
pub use idle::IdleState;
pub use lever::Lever;
pub use permanent::Restored;
pub use policy::Policy;
pub use put_back::NotRestored;
pub use state::{StateDir, Wait};
pub use system::Cpufreq;
pub use threads::{GovernorThread, Serves};
pub use work::Work;
