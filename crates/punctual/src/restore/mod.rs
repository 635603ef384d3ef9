//! Restores settings of the machine that outlive a process.
//!
//! A `Form` names the files of one kind of setting; [`StateDir`] is the journal's folder. A guard records the current
//! value in the journal before each write and restores it at its end. If the process dies, even by SIGKILL, the keeper
//! follows the journal. If both die, the next guard does.
//!
//! It refuses a journal folder that another user could write to, and a journal with an invalid line. It also refuses a second
//! simultaneous program.
//!
//! Layers: error, form < files, state < journal, keeper.

mod error;
pub(crate) mod files;
pub(crate) mod form;
pub(crate) mod journal;
pub(crate) mod keeper;
pub(crate) mod state;

pub use error::Error;
pub use form::{NotRestored, Setting};
pub(crate) use journal::{put_back, replay};
pub use state::{LockWait, StateDir};
