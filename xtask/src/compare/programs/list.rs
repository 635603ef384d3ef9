//! The programs. Their sources are in `xtask/programs`, which the scripts know as `$P`.

mod runtimes;
mod servers;
mod tools;

use super::program::Program;

/// All of them.
pub(super) fn programs() -> impl Iterator<Item = &'static Program> {
    [runtimes::PROGRAMS, tools::PROGRAMS, servers::PROGRAMS].into_iter().flatten()
}
