//! Restores settings of the machine that outlive a process.
//!
//! A `Form` names the files of one kind of setting; [`StateDir`] is the journal's folder. A guard records the current
//! value in the journal before each write and restores it at its end. If the process dies, even by SIGKILL, the keeper
//! follows the journal. If both die, the next guard does.
//!
//! It refuses a journal folder that another user could write to, and a journal with an invalid line. It also refuses a second
//! simultaneous program.
//!
//! Layers: error, form < left, files, state < journal, keeper < put_back.

mod error;
pub(crate) mod files;
pub(crate) mod form;
pub(crate) mod journal;
pub(crate) mod keeper;
mod left;
mod put_back;
pub(crate) mod state;

pub use error::Error;
pub use form::Setting;
pub use left::NotRestored;
pub(crate) use put_back::{put_back, replay};
pub use state::{LockWait, StateDir};
